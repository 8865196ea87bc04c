//! The hooks for responses. Nearly all responses go on as they are; one that a filter [awaits](super::Stream::await_response) is
//! buffered, and goes on with the body that the filter gives it.

use std::ffi::c_void;

use smallvec::SmallVec;

use super::body::{Body, replace};
use super::callbacks::{self, Buffer, Callbacks, Pair};
use super::hooks::{CONTINUE, STOP, STOP_AND_BUFFER, contained, free};
use super::stream::{ResponsePhase, Slot};
use super::{Filter, Headers};

/// Which headers: those of the response.
const RESPONSE: u32 = 2;
/// Which body: the part that the hook for bodies is called with.
const RECEIVED: u32 = 2;
/// Which body: the part that was buffered before.
const BUFFERED: u32 = 3;

/// The headers of a response have arrived.
///
/// # Safety
/// As Envoy calls it, with what `filter_new` returned.
pub unsafe extern "C" fn response_headers<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> u32 {
    let begin = |response: &Response<'_, F>| {
        let ResponsePhase::Awaited(limit) = response.slot.response.get() else { return CONTINUE };
        if !response.is_ok() {
            response.slot.response.set(ResponsePhase::Untouched);
            return CONTINUE;
        }
        if end_of_stream {
            response.slot.response.set(ResponsePhase::Untouched);
            response.set_header(b":status", FAILED);
            return CONTINUE;
        }
        // That of another body. There is none beside trailers.
        response.set_header(b"content-length", b"");
        response.raise_buffer_limit(limit);
        response.slot.response.set(ResponsePhase::Buffering);
        STOP
    };
    // SAFETY: Envoy passes what `filter_new` returned, until it calls `filter_destroy`.
    unsafe { within(envoy, slot, begin) }
}

/// A part of the body of a response has arrived.
///
/// # Safety
/// As Envoy calls it, with what `filter_new` returned.
pub unsafe extern "C" fn response_body<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> u32 {
    let more = |response: &Response<'_, F>| {
        if response.slot.response.get() != ResponsePhase::Buffering {
            return CONTINUE;
        }
        if !end_of_stream {
            return STOP_AND_BUFFER;
        }
        let length = response.change();
        response.set_header(b"content-length", length.to_string().as_bytes());
        CONTINUE
    };
    // SAFETY: Envoy passes what `filter_new` returned, until it calls `filter_destroy`.
    unsafe { within(envoy, slot, more) }
}

/// The trailers of a response, which end its body.
///
/// # Safety
/// As Envoy calls it, with what `filter_new` returned.
pub unsafe extern "C" fn response_trailers<F: Filter>(envoy: *mut c_void, slot: *const c_void) -> u32 {
    let end = |response: &Response<'_, F>| {
        if response.slot.response.get() == ResponsePhase::Buffering {
            response.change();
        }
        CONTINUE
    };
    // SAFETY: Envoy passes what `filter_new` returned, until it calls `filter_destroy`.
    unsafe { within(envoy, slot, end) }
}

/// Runs a hook of a response. It may run within a hook of the request, because going on with a request may answer it at once.
///
/// # Safety
/// `slot` is null, or `filter_new` returned it and the stream `envoy` has not ended.
unsafe fn within<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    run: impl FnOnce(&Response<'_, F>) -> u32,
) -> u32 {
    let pointer = slot.cast::<Slot<F>>();
    // SAFETY: says the caller. The object is freed below, by the hook that this one runs in, or by `filter_destroy`.
    let Some(slot) = (unsafe { pointer.as_ref() }) else { return CONTINUE };
    if slot.response.get() == ResponsePhase::Untouched {
        return CONTINUE;
    }
    let Some(callbacks) = callbacks::loaded() else { return CONTINUE };
    let outer = slot.entered.replace(true);
    let status = run(&Response { envoy, callbacks, slot });
    slot.entered.set(outer);
    if slot.destroyed.get() && !outer {
        // SAFETY: Envoy has called `filter_destroy` meanwhile, which has left it to us.
        unsafe { free(pointer) };
    }
    status
}

/// A response in one of its hooks.
struct Response<'a, F: Filter> {
    envoy: *mut c_void,
    callbacks: &'static Callbacks,
    slot: &'a Slot<F>,
}

// In all of these: `envoy` is the stream of the hook we are in, and alive.
impl<F: Filter> Response<'_, F> {
    /// Whether its status is 200.
    fn is_ok(&self) -> bool {
        // SAFETY: `envoy` is alive.
        let count = unsafe { (self.callbacks.header_count)(self.envoy, RESPONSE) };
        let mut pairs: SmallVec<[Pair; 64]> = SmallVec::with_capacity(count);
        // SAFETY: there is room for the `count` lines that Envoy writes.
        if unsafe { (self.callbacks.headers)(self.envoy, RESPONSE, pairs.as_mut_ptr()) } {
            // SAFETY: it has written them all.
            unsafe { pairs.set_len(count) };
        }
        // SAFETY: nothing changes them before this function returns.
        let headers = unsafe { Headers::of(pairs) };
        headers.iter().any(|(name, value)| name == b":status" && value == b"200")
    }

    /// Sets a header. An empty value removes it.
    fn set_header(&self, name: &[u8], value: &[u8]) {
        let value = if value.is_empty() { Buffer::NULL } else { Buffer::of(value) };
        // SAFETY: `envoy` is alive; both are copied before the call returns.
        unsafe { (self.callbacks.set_header)(self.envoy, RESPONSE, Buffer::of(name), value) };
    }

    fn raise_buffer_limit(&self, limit: u64) {
        // SAFETY: `envoy` is alive.
        let now = unsafe { (self.callbacks.buffer_limit)(self.envoy) };
        // 0 is no limit.
        if now != 0 && now < limit {
            // SAFETY: the same.
            unsafe { (self.callbacks.set_buffer_limit)(self.envoy, limit) };
        }
    }

    /// Replaces the whole body by that of the filter, and returns its length. If there is none, the status is no longer 200.
    fn change(&self) -> usize {
        self.slot.response.set(ResponsePhase::Untouched);
        let changed = contained(|| {
            // SAFETY: the filter is dropped after its last stream.
            let filter = unsafe { &*self.slot.filter };
            let mut copy = Vec::new();
            // SAFETY: `envoy` is alive, and its body is changed only after `body` is gone.
            let body = unsafe { Body::read(self.callbacks, self.envoy, &[BUFFERED, RECEIVED]) };
            filter.response(&mut self.slot.state.borrow_mut(), body.bytes(&mut copy))
        });
        let (is_changed, body) = match changed {
            Some(Ok(body)) => (true, body),
            Some(Err(body)) => (false, body),
            None => (false, Vec::new()),
        };
        // SAFETY: `envoy` is alive, and nothing of its body is borrowed.
        let is_replaced = unsafe { replace(self.callbacks, self.envoy, &[BUFFERED, RECEIVED], &body) };
        if !is_changed || !is_replaced {
            self.set_header(b":status", FAILED);
        }
        if is_replaced { body.len() } else { 0 }
    }
}

/// The status in place of that of a response that the client must not take for the one to its request.
const FAILED: &[u8] = b"502";
