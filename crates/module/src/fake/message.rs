//! Headers and bodies of requests and responses in the fake host.

use std::cell::{Cell, RefCell};

use crate::abi::hooks;

/// A header. Each is freed when it is replaced.
pub(super) type Line = (Box<[u8]>, Box<[u8]>);

/// A request or a response.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub(super) headers: RefCell<Vec<Line>>,
    /// The part of its body that the hook for bodies is called with. A part without pieces does not
    /// exist.
    pub(super) received: RefCell<Pieces>,
    /// What was buffered before.
    pub(super) buffered: RefCell<Pieces>,
    /// Whether the part that the hook is called with is the buffered one.
    pub(super) passes_buffered: Cell<bool>,
    /// Whether the last part of a body is added to the buffered ones before the hook is called with
    /// it. What Envoy does depends on its version.
    pub(super) joins_last: Cell<bool>,
    /// What has gone on.
    pub(super) passed_on: RefCell<Vec<u8>>,
}

/// A part of a body. Each piece is freed when it is drained.
pub(super) type Pieces = Vec<Box<[u8]>>;

impl Message {
    pub(super) fn with(headers: &[(&[u8], &[u8])]) -> Self {
        Self {
            headers: RefCell::new(lines(headers)),
            joins_last: Cell::new(true),
            ..Self::default()
        }
    }

    /// A part of the body arrives: calls the hook, and does with the body what it says.
    pub(super) fn with_part(
        &self,
        part: &[u8],
        end_of_stream: bool,
        hook: impl FnOnce() -> u32,
    ) -> u32 {
        self.received.borrow_mut().push(part.into());
        if end_of_stream && self.joins_last.get() && !self.buffered.borrow().is_empty() {
            self.buffered.borrow_mut().append(&mut self.received.borrow_mut());
        }
        let status = hook();
        self.buffered.borrow_mut().append(&mut self.received.take());
        if status == hooks::CONTINUE {
            self.pass_on();
        }
        status
    }

    /// The body arrives: an earlier filter has buffered it. Calls the hook.
    pub(super) fn with_buffered(&self, pieces: &[&[u8]], hook: impl FnOnce() -> u32) -> u32 {
        for body in [&self.received, &self.buffered] {
            *body.borrow_mut() = pieces.iter().map(|piece| (*piece).into()).collect();
        }
        self.passes_buffered.set(true);
        let status = hook();
        self.passes_buffered.set(false);
        self.received.take();
        if status == hooks::CONTINUE {
            self.pass_on();
        }
        status
    }

    /// How many bytes are buffered.
    pub(super) fn buffered_size(&self) -> u64 {
        self.buffered.borrow().iter().map(|piece| piece.len() as u64).sum()
    }

    /// What is buffered goes on.
    pub(super) fn pass_on(&self) {
        self.passed_on.borrow_mut().extend(self.buffered.take().concat());
    }
}

pub(super) fn lines(headers: &[(&[u8], &[u8])]) -> Vec<Line> {
    headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
}

pub(super) fn copied(headers: &RefCell<Vec<Line>>) -> Vec<(Vec<u8>, Vec<u8>)> {
    headers.borrow().iter().map(|(name, value)| (name.to_vec(), value.to_vec())).collect()
}
