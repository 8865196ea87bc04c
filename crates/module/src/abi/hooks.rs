//! The hooks that Envoy calls, for a type of filter. `exports.rs` gives them the names that Envoy
//! looks for.
//!
//! Envoy calls `config_new`, `config_destroy` and the hooks for routes on its main thread, all
//! others on the worker thread of the stream. It passes the pointers that `config_new`, `route_new`
//! and `filter_new` returned, until it calls the hook that destroys them, and keeps bytes until the
//! hook returns. The hooks are `unsafe` because they rely on this.
//!
//! No panic leaves a hook. Undecided requests are not forwarded: a hook that Envoy calls in a wrong
//! order stops the request.

use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::{c_char, c_void};
use std::mem;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::ptr;

use super::callbacks::{self, Buffer, Callbacks};
use super::message::{Message, Side};
use super::setup::Setup;
use super::stream::{Handled, Phase, Slot, Stream, Tagged};
use super::{Filter, Level, Reply, log};

/// Results of the hooks for headers, bodies and trailers: goes on.
pub const CONTINUE: u32 = 0;
/// For headers and trailers: stops.
pub const STOP: u32 = 1;
/// For bodies: stops, and buffers them. Envoy answers 413 if a body is larger than the buffers.
pub const STOP_AND_BUFFER: u32 = 1;
/// For bodies: stops, and lets no more in than fits the buffers.
pub const STOP_AND_WATERMARK: u32 = 2;

/// Envoy has loaded the library. Returns the version of the interface; null, with which Envoy
/// rejects the module, if this Envoy lacks a callback.
pub(crate) extern "C" fn program_init() -> *const c_char {
    let Some(version) = callbacks::load() else { return ptr::null() };
    panic::set_hook(Box::new(report));
    version.as_ptr()
}

/// Logs where a panic happened, without its message: `unwrap`, indexing and the like print the
/// value that they failed on, which may be a secret.
fn report(panic: &PanicHookInfo<'_>) {
    let place = runtime::threads::record_place(panic);
    log(Level::Error, format!("rolegate panicked at {place}: this is a bug"));
}

/// Calls `run`. Returns `None` if it panics.
pub(super) fn contained<T>(run: impl FnOnce() -> T) -> Option<T> {
    match panic::catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => Some(result),
        Err(payload) => {
            // Dropping a payload may panic too. Then the second payload is leaked.
            if let Err(second) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                mem::forget(second);
            }
            None
        }
    }
}

/// Calls `new`, and leaks the result. Returns null if there is none, or if `new` panics.
fn created<T>(new: impl FnOnce() -> Option<T>) -> *const c_void {
    let created = contained(|| new().map(Box::new)).flatten();
    created.map_or(ptr::null(), |created| Box::into_raw(created).cast_const().cast())
}

/// Creates a filter from its configuration, on the main thread.
pub(crate) unsafe extern "C" fn config_new<F: Filter>(
    envoy: *mut c_void,
    name: Buffer,
    config: Buffer,
) -> *const c_void {
    let Some(callbacks) = callbacks::loaded() else { return ptr::null() };
    // SAFETY: Envoy keeps both until we return.
    let name = unsafe { name.bytes() };
    // SAFETY: the same.
    let config = unsafe { config.bytes() };
    // SAFETY: `envoy` is this configuration, and `F::new` cannot keep a `Setup<'_>`.
    let mut setup = unsafe { Setup::new(callbacks, envoy) };
    created(|| F::new(name, config, &mut setup))
}

/// Drops the object of a filter configuration. Each stream of Envoy keeps it alive, so Envoy calls
/// this once, after the last `filter_destroy`.
pub(crate) unsafe extern "C" fn config_destroy<F: Filter>(filter: *const c_void) {
    // SAFETY: `config_new` has leaked it as this type, and nobody uses it any more.
    unsafe { free(filter.cast::<F>()) };
}

/// Creates the configuration of a route, on the main thread.
pub(crate) unsafe extern "C" fn route_new<F: Filter>(
    name: Buffer,
    config: Buffer,
) -> *const c_void {
    let Some(callbacks) = callbacks::loaded() else { return ptr::null() };
    // SAFETY: Envoy keeps both until we return.
    let name = unsafe { name.bytes() };
    // SAFETY: the same.
    let config = unsafe { config.bytes() };
    // SAFETY: it takes nothing, and this is Envoy's main thread.
    let validating = unsafe { (callbacks.validating)() };
    created(|| F::route(name, config, validating).map(Tagged::new))
}

/// Drops the configuration of a route.
pub(crate) unsafe extern "C" fn route_destroy<F: Filter>(route: *const c_void) {
    // SAFETY: `route_new` has leaked it as this type, and nobody uses it any more.
    unsafe { free(route.cast::<Tagged<F::Route>>()) };
}

/// A stream begins. Null if there is a panic: Envoy 1.40 then answers with 500; earlier versions
/// call the hooks with null, which stop the request.
pub(crate) unsafe extern "C" fn filter_new<F: Filter>(
    filter: *const c_void,
    _envoy: *mut c_void,
) -> *const c_void {
    created(|| {
        Some(Slot::<F> {
            filter: filter.cast(),
            state: RefCell::default(),
            phase: Cell::new(Phase::New),
            entered: Cell::new(false),
            destroyed: Cell::new(false),
            complete: Cell::new(false),
            response: Cell::default(),
            has_body: Cell::new(false),
            scheduler: OnceCell::new(),
        })
    })
}

/// A stream has ended. Envoy before 1.40 may call this within another hook of the stream. Then that
/// hook frees the object of the stream when it returns.
///
/// Envoy 1.40 calls this only after the other hook. In the rest of that hook the ended stream has
/// neither headers nor body, and ignores changes.
pub(crate) unsafe extern "C" fn filter_destroy<F: Filter>(slot: *const c_void) {
    let pointer = slot.cast::<Slot<F>>();
    // SAFETY: `filter_new` has leaked it, and it is freed below or by the hook that has entered it.
    let Some(slot) = (unsafe { pointer.as_ref() }) else { return };
    if let Some(scheduler) = slot.scheduler.get() {
        scheduler.close();
    }
    slot.destroyed.set(true);
    if !slot.entered.get() {
        // SAFETY: no other hook uses it, and Envoy calls this once.
        unsafe { free(pointer) };
    }
}

/// Frees an object that `created` has leaked.
///
/// # Safety
/// It is null, or `created` returned it as this type and nobody uses it any more.
pub(super) unsafe fn free<T>(created: *const T) {
    if created.is_null() {
        return;
    }
    // SAFETY: says the caller.
    let created = unsafe { Box::from_raw(created.cast_mut()) };
    contained(|| drop(created));
}

/// Decides about a request.
pub(crate) unsafe extern "C" fn request_headers<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> u32 {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    match unsafe { within::<F>(envoy, slot, |hook| hook.request_headers(end_of_stream)) } {
        Phase::Allowed => CONTINUE,
        // Envoy goes on calling the hook for bodies. After `StopAllIteration` it would not, and
        // `resume` would pass the headers on before the body has arrived.
        Phase::Paused | Phase::Buffering | Phase::New | Phase::Replied => STOP,
    }
}

/// Goes on with a paused request.
pub(crate) unsafe extern "C" fn scheduled<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    event: u64,
) {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    unsafe { within::<F>(envoy, slot, |hook| hook.scheduled(event)) };
}

/// A part of the body. It is passed on if the request was allowed, and kept if the request may
/// still be allowed.
pub(crate) unsafe extern "C" fn request_body<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> u32 {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    match unsafe { body_part::<F>(envoy, slot, end_of_stream) } {
        Phase::Allowed => CONTINUE,
        Phase::Buffering => STOP_AND_BUFFER,
        Phase::New | Phase::Paused | Phase::Replied => STOP_AND_WATERMARK,
    }
}

/// The trailers, which end the body.
pub(crate) unsafe extern "C" fn request_trailers<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
) -> u32 {
    // SAFETY: `filter_new` returned the slot, and the stream has not ended.
    match unsafe { body_part::<F>(envoy, slot, true) } {
        Phase::Allowed => CONTINUE,
        Phase::New | Phase::Paused | Phase::Buffering | Phase::Replied => STOP,
    }
}

/// A part of the body, or the trailers. Returns the phase of the request after it.
///
/// # Safety
/// As [`within`].
unsafe fn body_part<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    end_of_stream: bool,
) -> Phase {
    // SAFETY: says the caller.
    if unsafe { slot.cast::<Slot<F>>().as_ref() }
        .is_some_and(|slot| slot.phase.get() == Phase::Allowed)
    {
        return Phase::Allowed;
    }
    // SAFETY: says the caller.
    unsafe { within::<F>(envoy, slot, |hook| hook.body_part(end_of_stream)) }
}

/// Runs a hook of a stream that may end meanwhile. Returns the phase of the request after it.
///
/// # Safety
/// `slot` is null, or `filter_new` returned it and the stream `envoy` has not ended.
unsafe fn within<F: Filter>(
    envoy: *mut c_void,
    slot: *const c_void,
    run: impl FnOnce(&RunningHook<'_, F>) -> Phase,
) -> Phase {
    let pointer = slot.cast::<Slot<F>>();
    let Some(callbacks) = callbacks::loaded() else { return Phase::Replied };
    // SAFETY: the stream has not ended, so the slot is not freed. If a hook has entered it, that
    // hook frees it, but only after this call.
    match unsafe { pointer.as_ref() } {
        // SAFETY: the stream has not ended, and this is the outermost hook.
        Some(slot) if !slot.entered.get() => unsafe {
            entering(pointer, |slot| {
                let phase = run(&RunningHook { envoy, callbacks, slot });
                slot.phase.set(phase);
                phase
            })
        },
        Some(_) | None => Phase::Replied,
    }
}

/// Runs a hook with the object of its stream, and frees the object if the stream has ended
/// meanwhile, unless this hook runs within another hook.
///
/// # Safety
/// `filter_new` returned the object, and the stream had not ended when the outermost hook began.
pub(super) unsafe fn entering<F: Filter, T>(
    pointer: *const Slot<F>,
    run: impl FnOnce(&Slot<F>) -> T,
) -> T {
    // SAFETY: says the caller. The object is freed below, or by `filter_destroy` if no hook has
    // entered it.
    let slot = unsafe { &*pointer };
    let outer = slot.entered.replace(true);
    let result = run(slot);
    slot.entered.set(outer);
    if slot.destroyed.get() && !outer {
        // SAFETY: Envoy has called `filter_destroy` meanwhile, which has left it to us.
        unsafe { free(pointer) };
    }
    result
}

/// A running hook of a request.
struct RunningHook<'a, F: Filter> {
    envoy: *mut c_void,
    callbacks: &'static Callbacks,
    slot: &'a Slot<F>,
}

impl<F: Filter> RunningHook<'_, F> {
    fn request_headers(&self, end_of_stream: bool) -> Phase {
        if self.slot.phase.get() != Phase::New {
            return self.deny();
        }
        self.slot.complete.set(end_of_stream);
        self.call(F::request_headers)
    }

    fn scheduled(&self, event: u64) -> Phase {
        let before = self.slot.phase.get();
        if before != Phase::Paused {
            // An event of a request that has been decided meanwhile.
            return before;
        }
        let after = self.call(|filter, state, stream| filter.scheduled(state, stream, event));
        self.slot.phase.set(after);
        if after == Phase::Allowed {
            // SAFETY: the stream is alive: the filter has not replied. It may end within this call,
            // and is not used after it.
            unsafe { (self.callbacks.resume)(self.envoy) };
        }
        after
    }

    fn body_part(&self, end_of_stream: bool) -> Phase {
        let before = self.slot.phase.get();
        self.slot.has_body.set(true);
        // Nothing may follow the end: Envoy would forward bytes that were not decided about.
        if self.slot.complete.replace(end_of_stream) && before != Phase::New {
            return self.deny();
        }
        match before {
            Phase::Buffering => self.call(F::request_body),
            Phase::New | Phase::Paused | Phase::Allowed | Phase::Replied => before,
        }
    }

    /// Calls a method of the filter. If it panics the request is denied.
    fn call(&self, method: impl FnOnce(&F, &mut F::State, Stream<'_, F>) -> Handled) -> Phase {
        // SAFETY: the filter is dropped after its last stream.
        let filter = unsafe { &*self.slot.filter };
        let handled =
            contained(|| method(filter, &mut self.slot.state.borrow_mut(), self.stream()));
        if let Some(Handled(phase)) = handled {
            return phase;
        }
        if self.slot.phase.get() == Phase::Replied {
            return Phase::Replied;
        }
        let reply = contained(|| filter.panicked(&self.stream()));
        self.stream().reply(&reply.unwrap_or(Reply::FAILURE)).0
    }

    /// Denies the request, unless it has been answered. It no longer waits for anything.
    fn deny(&self) -> Phase {
        if self.slot.phase.get() == Phase::Replied {
            return Phase::Replied;
        }
        contained(|| drop(self.slot.state.take()));
        self.stream().reply(&Reply::FAILURE).0
    }

    fn stream(&self) -> Stream<'_, F> {
        // SAFETY: `envoy` is the stream of this hook. A `Stream` cannot leave it, and each method
        // that may end the stream uses it up.
        let message = unsafe { Message::new(self.envoy, self.callbacks, Side::Request) };
        Stream { message, slot: self.slot }
    }
}
