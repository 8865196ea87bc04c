//! The operations that are the same for requests and responses.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;

use smallvec::SmallVec;

use super::callbacks::{Buffer, Callbacks, Pair};

/// A request or a response, in a hook of its stream.
///
/// Its methods return bytes that Envoy owns. These are borrowed from it, because changing headers
/// or body frees them.
pub(super) struct Message {
    pub(super) envoy: *mut c_void,
    pub(super) callbacks: &'static Callbacks,
    side: Side,
}

/// Which of the two messages of a stream. The value is Envoy's number for the headers of the
/// message. It is also that of the part of the body that Envoy passes to the running hook. The part
/// that was buffered before has the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Side {
    Request = 0,
    Response = 2,
}

// In each method, `envoy` is alive: the caller of `new` promises it.
impl Message {
    /// The request or the response of a stream.
    ///
    /// # Safety
    /// `envoy` is the stream of the running hook, and the result is used neither after the hook nor
    /// once the stream may have ended.
    pub(super) unsafe fn new(
        envoy: *mut c_void,
        callbacks: &'static Callbacks,
        side: Side,
    ) -> Self {
        Self { envoy, callbacks, side }
    }

    /// Reads all headers in their order.
    pub(super) fn read_headers<'m>(&'m self, headers: &mut Headers<'m>) {
        let pairs = &mut headers.pairs;
        pairs.clear();
        // SAFETY: `envoy` is alive.
        let count = unsafe { (self.callbacks.header_count)(self.envoy, self.side as u32) };
        pairs.reserve(count);
        // SAFETY: there is room for the `count` lines that Envoy writes.
        if unsafe { (self.callbacks.headers)(self.envoy, self.side as u32, pairs.as_mut_ptr()) } {
            // SAFETY: it has written them all.
            unsafe { pairs.set_len(count) };
        }
    }

    /// As [`Self::read_headers`], but returns them: it copies their 2 KiB.
    pub(super) fn headers(&self) -> Headers<'_> {
        let mut headers = Headers::default();
        self.read_headers(&mut headers);
        headers
    }

    /// Replaces all lines of the header `name`. Without a value it removes them. Returns whether
    /// Envoy did so.
    pub(super) fn set_header(&mut self, name: &[u8], value: &[u8]) -> bool {
        let value = if value.is_empty() { Buffer::NULL } else { Buffer::new(value) };
        // SAFETY: `envoy` is alive; both are copied before the call returns. A null value removes
        // the lines.
        unsafe {
            (self.callbacks.set_header)(self.envoy, self.side as u32, Buffer::new(name), value)
        }
    }

    /// How many bytes of the body have arrived.
    pub(super) fn body_size(&self) -> usize {
        self.parts().map(|part| self.part_size(part)).sum()
    }

    fn part_size(&self, part: u32) -> usize {
        // SAFETY: `envoy` is alive.
        unsafe { (self.callbacks.body_size)(self.envoy, part) }
    }

    /// The body, as far as it has arrived. It is copied, into `copy`, only if it is in several
    /// pieces.
    pub(super) fn body<'b>(&'b self, copy: &'b mut Vec<u8>) -> &'b [u8] {
        let mut pieces: SmallVec<[Buffer; 8]> = SmallVec::new();
        for part in self.parts() {
            // SAFETY: `envoy` is alive.
            let count = unsafe { (self.callbacks.body_pieces)(self.envoy, part) };
            if count == 0 {
                continue;
            }
            let start = pieces.len();
            pieces.resize(start + count, Buffer::NULL);
            let room = pieces.get_mut(start..).unwrap_or_default().as_mut_ptr();
            // SAFETY: there is room for the `count` pieces that Envoy writes.
            if !unsafe { (self.callbacks.body)(self.envoy, part, room) } {
                pieces.truncate(start);
            }
        }
        let mut pieces = pieces.iter().filter(|piece| piece.length > 0).map(|piece| {
            // SAFETY: Envoy keeps the pieces until the hook returns or a setter is called. Both end
            // the borrow `'b`.
            let bytes: &'b [u8] = unsafe { piece.bytes() };
            bytes
        });
        let start = pieces.next().unwrap_or_default();
        let Some(second) = pieces.next() else { return start };
        copy.clear();
        [start, second].into_iter().chain(pieces).for_each(|piece| copy.extend_from_slice(piece));
        copy
    }

    /// Replaces the body, which has arrived as a whole. If it returns false, the body is now empty.
    pub(super) fn replace_body(&mut self, body: &[u8]) -> bool {
        for part in self.parts() {
            let size = self.part_size(part);
            if size > 0 {
                // SAFETY: `envoy` is alive, and borrowed bytes of the body borrow `self`.
                unsafe { (self.callbacks.drain_body)(self.envoy, part, size) };
            }
        }
        // Without this, Envoy may end the stream in `append_body`, with 413 or 500, because the
        // body exceeds the buffer limit.
        self.raise_buffer_limit(u64::try_from(body.len()).unwrap_or(u64::MAX));
        let (buffered, bytes) = (self.side as u32 + 1, Buffer::new(body));
        // The body is added to the buffered part, which comes first. If nothing was buffered
        // before, Envoy creates that part.
        // SAFETY: `envoy` is alive; the bytes are copied before the call returns.
        body.is_empty() || unsafe { (self.callbacks.append_body)(self.envoy, buffered, bytes) }
    }

    /// Raises Envoy's buffer limit to this many bytes, if it is lower.
    pub(super) fn raise_buffer_limit(&mut self, limit: u64) {
        // SAFETY: `envoy` is alive.
        let now = unsafe { (self.callbacks.buffer_limit)(self.envoy) };
        // 0 means that there is no limit.
        if now != 0 && now < limit {
            // SAFETY: the same.
            unsafe { (self.callbacks.set_buffer_limit)(self.envoy, limit) };
        }
    }

    /// The numbers of the parts of the body: first the buffered part, then the received part. If an
    /// earlier filter has buffered the body and passes it on as a whole, both parts are the same
    /// bytes. Then it gives only the buffered part.
    fn parts(&self) -> impl Iterator<Item = u32> + use<> {
        let is_body_buffered = match self.side {
            Side::Request => self.callbacks.is_request_body_buffered,
            Side::Response => self.callbacks.is_response_body_buffered,
        };
        // SAFETY: `envoy` is alive.
        let is_received_buffered = unsafe { is_body_buffered(self.envoy) };
        let received = self.side as u32;
        std::iter::once(received + 1).chain((!is_received_buffered).then_some(received))
    }
}

/// The number of header lines that need no allocation.
const INLINE: usize = 64;

/// The headers of a request or a response: names in lower case, and values. A function that is
/// called for each request fills it instead of returning it, which would copy its 2 KiB.
#[derive(Default)]
pub struct Headers<'a> {
    pairs: SmallVec<[Pair; INLINE]>,
    stream: PhantomData<&'a ()>,
}

impl<'a> Headers<'a> {
    /// Each line.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])> + '_ {
        self.pairs.iter().map(|pair| {
            // SAFETY: Envoy keeps names and values until the hook returns or a setter is called.
            // Both end the borrow `'a` of the stream.
            let name = unsafe { pair.key.bytes() };
            // SAFETY: the same.
            let value = unsafe { pair.value.bytes() };
            (name, value)
        })
    }
}

impl fmt::Debug for Headers<'_> {
    /// Without the values, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Headers").field("lines", &self.pairs.len()).finish()
    }
}
