//! The active policy with the buffers and counters of a worker thread.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authorizer::{Authorizer, Reason, Scratch, Verdict};
use identity::{Verification, VerificationResult};

use crate::active_policy::ActivePolicy;
use crate::counters::{ErrorKind, ThreadCounters};
use crate::record::{self, DecisionContext, Received, Via};
use crate::threads::catch;

/// Authorizes the requests of a thread. It counts verdicts, and offers them to the decision log
/// and the shadow policy. Its caller counts errors.
pub struct ThreadAuthorizer {
    policy: ActivePolicy,
    counters: Arc<ThreadCounters>,
    scratch: RefCell<Scratch>,
    /// How many verdicts were recorded since the last call of `record_latency`.
    without_latency: Cell<u64>,
}

impl ThreadAuthorizer {
    /// Authorizes requests with `policy`.
    #[must_use]
    pub fn new(policy: ActivePolicy, counters: Arc<ThreadCounters>) -> Self {
        Self { policy, counters, scratch: RefCell::default(), without_latency: Cell::new(0) }
    }

    /// The counters of this thread.
    pub fn counters(&self) -> &ThreadCounters {
        &self.counters
    }

    /// Runs `answer` with the active snapshot: the policy and its keys, as they are now. A panic is
    /// an error of this request only.
    pub fn with_snapshot<R>(
        &self,
        answer: impl FnOnce(&Authorizer, &mut Scratch) -> Result<R, ErrorKind>,
    ) -> Result<R, ErrorKind> {
        let snapshot = self.policy.load();
        let authorizer = snapshot.as_deref().ok_or(ErrorKind::NotReady)?;
        let answered = catch("a check", || answer(authorizer, &mut self.scratch.borrow_mut()));
        answered.unwrap_or_else(|_| {
            // The panic may have left the buffers half changed.
            self.scratch.take();
            Err(ErrorKind::Internal)
        })
    }

    /// Verifies a token on this thread.
    pub fn verify(&self, verification: Verification) -> Result<VerificationResult, ErrorKind> {
        self.counters.count_verified_token();
        catch("verifying a token", || verification.run()).map_err(|_| ErrorKind::Internal)
    }

    /// Whether the decision log or a span may show this verdict.
    pub fn logs(&self, verdict: &Verdict<'_>) -> bool {
        let allowed = matches!(verdict, Verdict::Allowed(_));
        self.joins_traces()
            || self.policy.decisions.as_ref().is_some_and(|sink| sink.wants(allowed))
    }

    /// Whether a shadow policy also decides. Its decision may depend on parts of a request that the
    /// active policy does not read.
    pub fn has_shadow(&self) -> bool {
        self.policy.shadow.is_some()
    }

    /// Whether spans are recorded. A span needs the `traceparent` of the call with which the proxy
    /// asked for the decision.
    pub fn joins_traces(&self) -> bool {
        self.policy.tracing.is_some()
    }

    /// Counts a verdict, and offers it to the shadow policy and the decision log.
    ///
    /// An AuthZEN question names its subject, and has no credentials: none are counted. It is not
    /// offered to the shadow policy, which could not map the question to a request as the active
    /// policy did.
    pub fn record(&self, verdict: &Verdict<'_>, context: DecisionContext<'_>) {
        let has_credentials = context.via != Via::Authzen;
        if let Some(shadow) = self.policy.shadow.as_deref().filter(|_| has_credentials) {
            shadow.offer(verdict, &context);
        }
        if let Some(sink) = self.policy.decisions.as_deref() {
            sink.offer(verdict, &context);
        }
        let subject = match verdict {
            Verdict::Allowed(allowed) => {
                self.counters.count_allowed();
                allowed.subject
            }
            Verdict::Denied(denied) => {
                self.counters.count_denied(denied.reason.name());
                if has_credentials && matches!(denied.reason, Reason::InvalidCredentials(_)) {
                    let DecisionContext { authorizer, request, .. } = context;
                    let reason = Some(denied.reason);
                    let scheme = record::scheme_of(authorizer, request, reason, denied.subject);
                    self.counters.count_invalid_credentials(scheme, denied.reason.name());
                }
                denied.subject
            }
        };
        if let Some(subject) = subject.filter(|_| has_credentials) {
            self.counters.count_valid_credentials(subject);
        }
        self.without_latency.set(self.without_latency.get() + 1);
    }

    /// Records and returns the latency of all verdicts since the last call. Call it when their
    /// answers are passed to the transport: a batch is written at once, so all its answers have the
    /// same latency.
    pub fn record_latency(&self, received: Received, answered: Instant) -> Option<Duration> {
        let answers = self.without_latency.take();
        (answers > 0).then(|| {
            if let Ok(mut scratch) = self.scratch.try_borrow_mut() {
                let lookups = scratch.take_cache_lookups();
                lookups.into_iter().for_each(|lookups| self.counters.count_lookups(lookups));
            }
            let latency = answered.saturating_duration_since(received.arrived);
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
