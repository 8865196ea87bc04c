//! Wakes a paused request from any thread.

use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::callbacks::Callbacks;

/// Schedules [`Filter::scheduled`](super::Filter::scheduled) for one request. It may be used and dropped on any thread,
/// and outlive its request: then it does nothing.
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
}

struct Shared {
    /// Envoy's object, until the stream ends. The lock is held while Envoy queues an event. Envoy's object has a reference to
    /// the event loop of the worker, which must not be used once Envoy has stopped its workers; each stream ends before
    /// that, and its end takes the object away under the same lock.
    object: Mutex<Option<Owned>>,
}

impl Scheduler {
    /// A scheduler for the stream `envoy`; `None` if Envoy gives none.
    ///
    /// # Safety
    /// We are in a hook of this stream.
    pub(super) unsafe fn new(callbacks: &'static Callbacks, envoy: *mut c_void) -> Option<Self> {
        // SAFETY: `envoy` is alive, says the caller.
        let object = NonNull::new(unsafe { (callbacks.scheduler_new)(envoy) })?;
        let object = Mutex::new(Some(Owned { object, callbacks }));
        Some(Self { shared: Arc::new(Shared { object }) })
    }

    /// Has [`Filter::scheduled`](super::Filter::scheduled) called with `event`, on the worker thread of the request.
    /// Returns false if the request has ended. May be called several times: later events of a request that is no longer
    /// paused are ignored.
    pub fn commit(&self, event: u64) -> bool {
        let object = self.shared.object.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(owned) = &*object else { return false };
        // SAFETY: the object is ours until `Owned` is dropped, and the lock keeps the stream from ending meanwhile. Envoy
        // allows this call on any thread.
        unsafe { (owned.callbacks.scheduler_commit)(owned.object.as_ptr(), event) };
        true
    }

    /// Ends it, with its stream.
    pub(super) fn close(&self) {
        self.shared.object.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

/// Envoy's scheduler object. Dropping it deletes it.
struct Owned {
    object: NonNull<c_void>,
    callbacks: &'static Callbacks,
}

// SAFETY: Envoy allows any thread to commit and to delete the object, if not at the same time: it is behind a lock.
unsafe impl Send for Owned {}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: it is ours, and deleted once.
        unsafe { (self.callbacks.scheduler_delete)(self.object.as_ptr()) };
    }
}
