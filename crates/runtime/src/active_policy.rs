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
    decisions: Option<Arc<dyn DecisionSink>>,
    status: Option<Arc<Status>>,
    shadow: Option<Arc<Shadow>>,
    tracing: Option<Tracing>,
}

impl ActivePolicy {
    /// Authorizes each request with the snapshot that `snapshot` holds when it is answered. While it holds `None`, every
    /// check is an error.
    #[must_use]
    pub fn new(snapshot: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { snapshot, decisions: None, status: None, shadow: None, tracing: None }
    }

    /// Passes every decision to `sink`.
    #[must_use]
    pub fn with_decisions(self, sink: Arc<dyn DecisionSink>) -> Self {
        Self { tracing: sink.tracing(), decisions: Some(sink), ..self }
    }

    /// Is not ready without what `status` requires to be fetched.
    #[must_use]
    pub fn with_status(self, status: Arc<Status>) -> Self {
        Self { status: Some(status), ..self }
    }

    /// Passes every decision to a shadow policy.
    #[must_use]
    pub(crate) fn with_shadow(self, shadow: Shadow) -> Self {
        Self { shadow: Some(Arc::new(shadow)), ..self }
    }

    /// Caches verified credentials in the active snapshot. Returns whether they are valid under its policy.
    #[must_use]
    pub fn cache_result(&self, result: &VerificationResult) -> bool {
        self.load().as_ref().is_some_and(|authorizer| authorizer.cache_result(result, clock::now()))
    }

    /// The snapshot that is active now, for reports: a worker thread that held it would share its reference count.
    #[must_use]
    pub fn snapshot(&self) -> Option<Arc<Authorizer>> {
        self.snapshot.load_full()
    }

    /// Whether a policy is active, and what `keys-needed` and `inventory-needed` require has been fetched at least once.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.load().is_some() && self.status.as_ref().is_none_or(|status| status.was_complete())
    }

    /// The snapshot that is active now. A guard and not an `Arc`, whose reference count all worker threads would write
    /// to for each request.
    pub(crate) fn load(&self) -> Guard<Option<Arc<Authorizer>>> {
        self.snapshot.load()
    }

    /// The shadow policy, if there is one.
    pub(crate) fn shadow(&self) -> Option<&Shadow> {
        self.shadow.as_deref()
    }

    /// Whether decisions are part of traces.
    pub(crate) fn tracing(&self) -> Option<Tracing> {
        self.tracing
    }

    /// Where decisions go, if they go anywhere.
    pub(crate) fn decisions(&self) -> Option<&dyn DecisionSink> {
        self.decisions.as_deref()
    }
}

impl fmt::Debug for ActivePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivePolicy").field("decisions", &self.decisions.is_some()).finish_non_exhaustive()
    }
}
