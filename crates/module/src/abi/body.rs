//! Bodies of requests and of responses.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use smallvec::SmallVec;

use super::callbacks::{Buffer, Callbacks};

/// The pieces of a body that need no allocation.
const PIECES: usize = 8;

/// A body, in the pieces in which Envoy has it.
pub struct Body<'a> {
    pieces: SmallVec<[Buffer; PIECES]>,
    stream: PhantomData<&'a ()>,
}

impl<'a> Body<'a> {
    /// No bytes.
    pub(super) fn none() -> Self {
        Self { pieces: SmallVec::new(), stream: PhantomData }
    }

    /// The body that is in these parts, as far as it has arrived.
    ///
    /// # Safety
    /// `envoy` is the stream of the hook that we are in, and its body is not changed as long as `'a`.
    pub(super) unsafe fn read(
        callbacks: &Callbacks,
        envoy: *mut c_void,
        parts: impl Iterator<Item = u32>,
    ) -> Self {
        let Self { mut pieces, stream } = Self::none();
        for part in parts {
            // SAFETY: says the caller.
            let count = unsafe { (callbacks.body_pieces)(envoy, part) };
            if count == 0 {
                continue;
            }
            let start = pieces.len();
            pieces.resize(start + count, Buffer::NULL);
            let room = pieces.get_mut(start..).unwrap_or_default().as_mut_ptr();
            // SAFETY: there is room for the `count` pieces that Envoy writes.
            let written = unsafe { (callbacks.body)(envoy, part, room) };
            if !written {
                pieces.truncate(start);
            }
        }
        Self { pieces, stream }
    }

    /// Its bytes in a row. Only those of several pieces are copied, into `copy`.
    pub fn bytes<'b>(&self, copy: &'b mut Vec<u8>) -> &'b [u8]
    where
        'a: 'b,
    {
        let mut pieces = self.pieces.iter().filter(|piece| piece.length > 0).map(|piece| {
            // SAFETY: Envoy keeps the pieces until the hook returns or a setter is called. Both end the borrow `'a` of the
            // stream.
            let bytes: &'a [u8] = unsafe { piece.bytes() };
            bytes
        });
        let first = pieces.next().unwrap_or_default();
        let Some(second) = pieces.next() else { return first };
        copy.clear();
        copy.extend_from_slice(first);
        copy.extend_from_slice(second);
        pieces.for_each(|piece| copy.extend_from_slice(piece));
        copy
    }
}

impl fmt::Debug for Body<'_> {
    /// Without the bytes, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("pieces", &self.pieces.len()).finish()
    }
}
