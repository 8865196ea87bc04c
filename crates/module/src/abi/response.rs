//! The hooks for responses. Nearly all responses go on unchanged. A response that a filter
//! [awaits](super::Stream::await_response) is buffered, and goes on with the body that the filter
//! gives it.

use std::ffi::c_void;

use super::Filter;
use super::callbacks;
use super::hooks::{CONTINUE, STOP, STOP_AND_BUFFER, contained, entering};
use super::message::{Message, Side};
use super::stream::{ResponsePhase, Slot};

/// The headers of a response have arrived.
pub(crate) unsafe extern "C" fn response_headers<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> u32 {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    unsafe { if_awaited::<F>(envoy, slot, |response| response.headers(end_of_stream)) }
}

/// A part of the body of a response has arrived.
pub(crate) unsafe extern "C" fn response_body<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> u32 {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    unsafe { if_awaited::<F>(envoy, slot, |response| response.body(end_of_stream)) }
}

/// The trailers of a response have arrived, so its body is complete.
pub(crate) unsafe extern "C" fn response_trailers<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
) -> u32 {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    unsafe { if_awaited::<F>(envoy, slot, |response| response.trailers()) }
}

/// Runs a hook of a response that the filter awaits; others go on. It may run inside a hook of the
/// request: when that hook lets the request go on, a later filter may answer it at once.
///
/// # Safety
/// `slot` is null, or `filter_new` returned it and the stream `envoy` has not ended.
unsafe fn if_awaited<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    run: impl FnOnce(&mut Response<'_, F>) -> u32,
) -> u32 {
    let pointer = slot.cast::<Slot<F>>();
    // SAFETY: says the caller.
    let is_awaited = unsafe { pointer.as_ref() }
        .is_some_and(|slot| slot.response.get() != ResponsePhase::Untouched);
    let Some(callbacks) = callbacks::loaded().filter(|_| is_awaited) else { return CONTINUE };
    // SAFETY: `envoy` is the stream of this hook, and the message is dropped with the hook.
    let message = unsafe { Message::new(envoy, callbacks, Side::Response) };
    // SAFETY: says the caller; it is not null.
    unsafe { entering(pointer, |slot| run_contained(Response { message, slot }, run)) }
}

/// Runs a hook. If it panics, the response fails.
fn run_contained<F: Filter>(
    mut response: Response<'_, F>,
    run: impl FnOnce(&mut Response<'_, F>) -> u32,
) -> u32 {
    contained(|| run(&mut response)).unwrap_or_else(|| {
        response.slot.response.set(ResponsePhase::Untouched);
        if !response.slot.destroyed.get() {
            response.fail(b"");
        }
        CONTINUE
    })
}

/// A response in a hook of its stream.
struct Response<'a, F: Filter> {
    message: Message,
    slot: &'a Slot<F>,
}

impl<F: Filter> Response<'_, F> {
    fn headers(&mut self, end_of_stream: bool) -> u32 {
        let ResponsePhase::Awaited(limit) = self.slot.response.get() else { return CONTINUE };
        self.slot.response.set(ResponsePhase::Untouched);
        if !self.is_successful() {
            return CONTINUE;
        }
        if end_of_stream {
            self.fail(b"");
            return CONTINUE;
        }
        // These headers describe the original body, so they are removed. `body` sets the new
        // length. If the response has trailers, it has no `content-length`.
        self.message.set_header(b"content-length", b"");
        self.message.set_header(b"etag", b"");
        self.message.raise_buffer_limit(limit);
        self.slot.response.set(ResponsePhase::Buffering);
        STOP
    }

    fn body(&mut self, end_of_stream: bool) -> u32 {
        if self.slot.response.get() != ResponsePhase::Buffering {
            return CONTINUE;
        }
        if !end_of_stream {
            return STOP_AND_BUFFER;
        }
        if let Some(length) = self.change() {
            self.message.set_header(b"content-length", length.to_string().as_bytes());
        }
        CONTINUE
    }

    fn trailers(&mut self) -> u32 {
        if self.slot.response.get() == ResponsePhase::Buffering {
            // In the hook for trailers, Envoy appends only to an existing body.
            if self.message.body_size() > 0 {
                self.change();
            } else {
                self.slot.response.set(ResponsePhase::Untouched);
                self.fail(b"");
            }
        }
        CONTINUE
    }

    /// Whether its status is 2xx.
    fn is_successful(&self) -> bool {
        let headers = self.message.headers();
        headers.iter().any(|(name, value)| name == b":status" && value.starts_with(b"2"))
    }

    /// Replaces the whole body by the filter's, and returns the new length. The response fails if
    /// the filter or Envoy could not change it. The result is `None` if the stream has ended
    /// meanwhile.
    fn change(&mut self) -> Option<usize> {
        self.slot.response.set(ResponsePhase::Untouched);
        let changed = contained(|| {
            // SAFETY: the filter is dropped after its last stream.
            let filter = unsafe { &*self.slot.filter };
            let mut copy = Vec::new();
            filter.response(&mut self.slot.state.borrow_mut(), self.message.body(&mut copy))
        });
        let (is_changed, body) = match changed {
            Some(Ok(body)) => (true, body),
            Some(Err(body)) => (false, body),
            None => (false, Vec::new()),
        };
        let is_replaced = self.message.replace_body(&body);
        if self.slot.destroyed.get() {
            return None;
        }
        let body = if is_replaced { &*body } else { &[] };
        if !is_changed || !is_replaced {
            self.fail(body);
        }
        Some(body.len())
    }

    /// Makes the response a 502 with this body, without headers that describe the original body.
    fn fail(&mut self, body: &[u8]) {
        let content_type: &[u8] = if body.is_empty() { b"" } else { b"application/json" };
        for (name, value) in [
            (&b":status"[..], &b"502"[..]),
            (b"content-type", content_type),
            (b"content-encoding", b""),
            (b"etag", b""),
        ] {
            self.message.set_header(name, value);
        }
    }
}
