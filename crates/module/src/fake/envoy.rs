//! Envoy's object for a stream in the fake host.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use super::message::{Line, Message, Pieces};
use super::{Metrics, Sent};

/// How many bytes of a body are buffered at most, as by default
/// (`per_connection_buffer_limit_bytes`).
pub(super) const BUFFER_LIMIT: u64 = 1 << 20;

/// Envoy's object for a stream. Callbacks get a pointer to it.
#[derive(Debug)]
pub(super) struct Envoy {
    pub(super) request: Message,
    pub(super) response: Message,
    pub(super) attributes: RefCell<BTreeMap<u32, Box<[u8]>>>,
    pub(super) metadata: RefCell<BTreeMap<String, String>>,
    pub(super) metrics: Rc<Metrics>,
    pub(super) route: Cell<*const c_void>,
    pub(super) sent: RefCell<Option<Sent>>,
    pub(super) resumed: Cell<u32>,
    pub(super) buffer_limit: Cell<u64>,
    /// Whether it has stopped to read the request, because its buffers are full.
    pub(super) is_full: Cell<bool>,
    /// Whether headers cannot be set.
    pub(super) is_frozen: Cell<bool>,
    /// How many lines of headers it says that there are, if not as many as there are.
    pub(super) header_count: Cell<Option<usize>>,
    /// What schedulers have committed, and whether the stream is there to receive it.
    pub(super) events: Arc<Mutex<Events>>,
    /// Whether sending a response and going on end the stream at once, as they do in Envoy outside
    /// the hooks for headers.
    pub(super) ends_at_once: Cell<bool>,
    /// Whether the module's object is destroyed only after the hook in which the stream ends, as by
    /// Envoy since 1.40.
    pub(super) destroys_later: Cell<bool>,
    /// The module's object; null once the stream has ended.
    pub(super) slot: Cell<*const c_void>,
    /// The module's object of a stream that has ended, until it is destroyed.
    pub(super) ended_slot: Cell<*const c_void>,
    pub(super) destroy: unsafe extern "C" fn(*const c_void),
}

/// The events of a stream, and how many schedulers it has that were not deleted.
#[derive(Debug, Default)]
pub(super) struct Events {
    pub(super) queue: Vec<u64>,
    pub(super) after_the_end: usize,
    pub(super) ended: bool,
    pub(super) schedulers: usize,
}

/// Which headers and which part of the body: those of the response, and its part that was buffered
/// before.
pub(super) const RESPONSE: u32 = 2;
pub(super) const RESPONSE_BUFFERED: u32 = 3;
/// The part of the request's body that was buffered before.
pub(super) const BUFFERED: u32 = 1;

impl Envoy {
    pub(super) fn headers(&self, which: u32) -> &RefCell<Vec<Line>> {
        if which == RESPONSE { &self.response.headers } else { &self.request.headers }
    }

    pub(super) fn body(&self, which: u32) -> &RefCell<Pieces> {
        match which {
            RESPONSE => &self.response.received,
            RESPONSE_BUFFERED => &self.response.buffered,
            BUFFERED => &self.request.buffered,
            _ => &self.request.received,
        }
    }

    /// Whether more of a body is buffered than the limit.
    pub(super) fn is_over_limit(&self, message: &Message) -> bool {
        let limit = self.buffer_limit.get();
        limit != 0 && message.buffered_size() > limit
    }

    pub(super) fn end(&self) {
        let slot = self.slot.replace(ptr::null());
        if self.destroys_later.get() && !slot.is_null() {
            for message in [&self.request, &self.response] {
                message.headers.take();
                message.received.take();
                message.buffered.take();
            }
            self.ended_slot.set(slot);
        } else {
            self.destroy(slot);
        }
    }

    /// Runs a hook. Then the module's object is destroyed, if the stream has ended meanwhile.
    pub(super) fn within<T>(&self, hook: impl FnOnce() -> T) -> T {
        let result = hook();
        self.destroy(self.ended_slot.replace(ptr::null()));
        result
    }

    pub(super) fn destroy(&self, slot: *const c_void) {
        if !slot.is_null() {
            // SAFETY: the hook for new streams has returned it, and it is passed to this one once.
            unsafe { (self.destroy)(slot) };
            self.events.lock().unwrap().ended = true;
        }
    }

    /// Whether the stream has ended, and the filter has not heard of it.
    pub(super) fn has_ended_unheard(&self) -> bool {
        !self.ended_slot.get().is_null()
    }
}

pub(super) fn object(envoy: &Envoy) -> *mut c_void {
    ptr::from_ref(envoy).cast_mut().cast()
}
