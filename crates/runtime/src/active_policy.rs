//! The policy that is active, as all worker threads see it.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use authorizer::Authorizer;
use identity::VerificationResult;

use crate::clock;
use crate::record::DecisionSink;
use crate::shadow::Shadow;
use crate::status::Status;
use crate::trace_context::Tracing;

/// The active snapshot (policy, keys and caches), and where decisions go. Cheap to clone.
#[derive(Clone)]
pub struct ActivePolicy {
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    pub(crate) decisions: Option<Arc<dyn DecisionSink>>,
    /// Knows whether everything that must be fetched has been loaded.
    pub(crate) status: Option<Arc<Status>>,
    pub(crate) shadow: Option<Arc<Shadow>>,
    /// Which decisions have a recorded span; `None` if traces are not used.
    pub(crate) tracing: Option<Tracing>,
}

impl ActivePolicy {
    /// Each check uses the current snapshot in `snapshot`; if it is empty, each check is an error.
    #[must_use]
    pub fn new(snapshot: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { snapshot, decisions: None, status: None, shadow: None, tracing: None }
    }

    /// Passes every decision to `sink`.
    #[must_use]
    pub fn with_decisions(self, sink: Arc<dyn DecisionSink>) -> Self {
        Self { tracing: sink.tracing(), decisions: Some(sink), ..self }
    }

    /// Caches verified credentials. Returns whether they are valid under the active policy.
    pub fn cache_result(&self, result: &VerificationResult) -> bool {
        self.load().as_ref().is_some_and(|authorizer| authorizer.cache_result(result, clock::now()))
    }

    /// The active snapshot, for reports. A worker thread calls `load` instead, which does not write
    /// to the reference count.
    pub fn snapshot(&self) -> Option<Arc<Authorizer>> {
        self.snapshot.load_full()
    }

    /// Whether a policy is active, and everything that must be fetched has been loaded.
    pub fn is_ready(&self) -> bool {
        self.load().is_some() && self.status.as_ref().is_none_or(|status| status.was_complete())
    }

    /// The active snapshot, for a worker thread. It is a guard: with an `Arc`, all worker threads
    /// would write to the same reference count.
    pub(crate) fn load(&self) -> Guard<Option<Arc<Authorizer>>> {
        self.snapshot.load()
    }
}

impl fmt::Debug for ActivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivePolicy")
            .field("decisions", &self.decisions.is_some())
            .finish_non_exhaustive()
    }
}
