//! What a worker thread authorizes requests with: the active policy, its own buffers and its own counters.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use authorizer::{Authorizer, Scratch, Verdict};
use identity::{Verification, VerificationResult};

use crate::active_policy::ActivePolicy;
use crate::counters::{ErrorKind, ThreadCounters};
use crate::decision_context::{DecisionContext, Received};
use crate::record::{self, Logged};

/// Authorizes the requests of one thread. It turns a panic into an error, counts verdicts, and offers them to the decision log and
/// to the shadow policy. Errors, which it returns, are counted by its caller.
pub struct ThreadAuthorizer {
    policy: ActivePolicy,
    counters: Arc<ThreadCounters>,
    scratch: RefCell<Scratch>,
    /// Number of verdicts since the last call of `record_latency`.
    without_latency: Cell<u64>,
}

impl ThreadAuthorizer {
    /// Authorizes requests with `policy`.
    #[must_use]
    pub fn new(policy: ActivePolicy, counters: Arc<ThreadCounters>) -> Self {
        Self { policy, counters, scratch: RefCell::default(), without_latency: Cell::new(0) }
    }

    /// The counters of this thread.
    #[must_use]
    pub fn counters(&self) -> &ThreadCounters {
        &self.counters
    }

    /// Runs `answer` with the active snapshot. A panic in it becomes an error of this request, so that a bug does not
    /// end the thread and its other requests.
    ///
    /// # Errors
    /// If no policy is active, if `answer` panics, or if it returns an error.
    pub fn with_snapshot<R>(
        &self,
        answer: impl FnOnce(&Authorizer, &mut Scratch) -> Result<R, ErrorKind>,
    ) -> Result<R, ErrorKind> {
        let snapshot = self.policy.load();
        let authorizer = snapshot.as_deref().ok_or(ErrorKind::NotReady)?;
        catch_unwind(AssertUnwindSafe(|| answer(authorizer, &mut self.scratch.borrow_mut()))).unwrap_or_else(
            |_| {
                // The panic may have left the buffers half changed.
                self.scratch.take();
                Err(ErrorKind::Internal)
            },
        )
    }

    /// Verifies a token on this thread.
    ///
    /// # Errors
    /// If it panics.
    pub fn verify(&self, verification: Verification) -> Result<VerificationResult, ErrorKind> {
        self.counters.token_verified();
        catch_unwind(AssertUnwindSafe(|| verification.run())).map_err(|_| ErrorKind::Internal)
    }

    /// Whether the decision log takes verdicts like this one.
    #[must_use]
    pub fn logs(&self, verdict: &Verdict<'_>) -> bool {
        self.policy.sink(matches!(verdict, Verdict::Allowed(_))).is_some()
    }

    /// Counts a verdict, and offers it to the shadow policy and the decision log.
    pub fn record(&self, verdict: &Verdict<'_>, context: DecisionContext<'_>) {
        if let Some(shadow) = self.policy.shadow() {
            shadow.offer(verdict, &context);
        }
        if let Some(sink) = self.policy.sink(matches!(verdict, Verdict::Allowed(_))) {
            let DecisionContext { authorizer, request, client, received, decided_at } = context;
            let duration = decided_at.saturating_duration_since(received.at);
            record::offer(
                sink,
                verdict,
                authorizer,
                Logged { request, client, time: received.time, duration },
            );
        }
        match verdict {
            Verdict::Allowed(_) => self.counters.allowed(),
            Verdict::Denied(denied) => self.counters.denied(denied.reason.name()),
        }
        self.without_latency.set(self.without_latency.get() + 1);
    }

    /// Records the latency of all verdicts since the last call, from `received` until now, and returns it; `None` if there
    /// were none. To be called when their answers are passed to the transport. Those of a batch leave in one write, so the
    /// clock is read once for all of them.
    pub fn record_latency(&self, received: Received) -> Option<Duration> {
        let answers = self.without_latency.take();
        (answers > 0).then(|| {
            let latency = received.at.elapsed();
            self.counters.record_latency(latency, answers);
            latency
        })
    }
}

impl fmt::Debug for ThreadAuthorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadAuthorizer").field("policy", &self.policy).finish_non_exhaustive()
    }
}
