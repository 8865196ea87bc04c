//! Wakes a paused request from any thread.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::callbacks::Callbacks;

/// Schedules [`Filter::scheduled`](super::Filter::scheduled) for a request. Any thread may use
/// and drop it. Once its request has ended it does nothing.
#[derive(Clone)]
pub struct Scheduler {
    /// `None` once the stream has ended: its end takes the object away under this lock. `commit`
    /// holds the lock while Envoy queues an event, because Envoy's object uses the event loop of
    /// the worker. Envoy ends all streams before it stops its workers, so no event loop is used
    /// after that.
    object: Arc<Mutex<Option<Object>>>,
}

impl Scheduler {
    /// A scheduler for the stream `envoy`; `None` if Envoy gives none.
    ///
    /// # Safety
    /// A hook of this stream is running.
    pub(super) unsafe fn new(callbacks: &'static Callbacks, envoy: *mut c_void) -> Option<Self> {
        // SAFETY: `envoy` is alive, says the caller.
        let object = NonNull::new(unsafe { (callbacks.scheduler_new)(envoy) })?;
        Some(Self { object: Arc::new(Mutex::new(Some(Object { object, callbacks }))) })
    }

    /// Has [`Filter::scheduled`](super::Filter::scheduled) called with `event`, on the worker
    /// thread of the request. Returns false if the request has ended. Events of a request that is
    /// no longer paused are ignored.
    pub fn commit(&self, event: u64) -> bool {
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Object { object, callbacks }) = &*object else { return false };
        // SAFETY: the object is ours until `Object` is dropped, and the lock keeps the stream from
        // ending meanwhile. Envoy allows this call on any thread.
        unsafe { (callbacks.scheduler_commit)(object.as_ptr(), event) };
        true
    }

    /// Ends the scheduler, because its stream ends.
    pub(super) fn close(&self) {
        self.object.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

/// Envoy's scheduler object. Dropping it deletes it.
struct Object {
    object: NonNull<c_void>,
    callbacks: &'static Callbacks,
}

// SAFETY: any thread may commit an event to the object, or delete it. Only both at the same time is
// forbidden, and the lock prevents that.
unsafe impl Send for Object {}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: it is ours, and deleted once.
        unsafe { (self.callbacks.scheduler_delete)(self.object.as_ptr()) };
    }
}
