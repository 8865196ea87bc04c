//! Authorizes the requests of a worker, whatever protocol they come by. Every failure becomes a
//! denial or an error, never an OK.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authorizer::{Authorizer, Denied, Limit, Outcome, Request, Scratch, Verdict};
use identity::{Verification, VerificationResult};
use runtime::counters::{ErrorKind, ThreadCounters};
use runtime::{ActivePolicy, ClientNetwork, DecisionContext, Received, ThreadAuthorizer, Via};

use super::notices::Overload;

/// Credentials that must be verified before the request can be authorized, and the network of the
/// downstream client. The queues serve these networks in turn.
#[derive(Debug)]
pub(crate) struct Unverified(pub(crate) Verification, pub(crate) ClientNetwork);

/// Why a request is answered without evaluating the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The request exceeds a limit, so it is denied.
    Limit(Limit),
    /// The request would have to wait, but too many others wait already, so it is denied.
    Overload(Overload),
    /// The request cannot be processed, so the peer gets an error.
    Error(ErrorKind),
}

/// The circumstances of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// When the request was complete. For a request that is denied before it is complete, this is
    /// when its first part was read.
    pub(crate) received: Received,
    /// The `traceparent` of the proxy's own call. Empty if the call has none, or if no spans are
    /// recorded.
    pub(crate) traceparent: &'a [u8],
    pub(crate) via: Via,
}

/// Authorizes the requests of a worker.
pub(crate) struct Checker {
    thread: ThreadAuthorizer,
    /// The name of the response header that tells why a request is denied; `None` for no header.
    explain_header: Option<Arc<str>>,
}

impl<'a> Call<'a> {
    fn context(
        self,
        authorizer: &'a Authorizer,
        request: &'a Request<'a>,
        decided_at: Instant,
    ) -> DecisionContext<'a> {
        let Self { received, traceparent, via } = self;
        DecisionContext {
            authorizer,
            request,
            client: request.client,
            received,
            decided_at,
            traceparent,
            via,
        }
    }
}

impl From<Limit> for Failure {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

impl From<Overload> for Failure {
    fn from(overload: Overload) -> Self {
        Self::Overload(overload)
    }
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Self {
        Self::Error(kind)
    }
}

impl Checker {
    pub(crate) fn new(
        policy: ActivePolicy,
        counters: Arc<ThreadCounters>,
        explain_header: Option<Arc<str>>,
    ) -> Self {
        Self { thread: ThreadAuthorizer::new(policy, counters), explain_header }
    }

    /// Whether spans are recorded. If so, [`Call::traceparent`] is needed.
    pub(crate) fn joins_traces(&self) -> bool {
        self.thread.joins_traces()
    }

    /// Runs `answer` with the active snapshot.
    ///
    /// # Errors
    /// If no policy is active, or if `answer` fails or panics.
    pub(crate) fn with_snapshot<R>(
        &self,
        answer: impl FnOnce(&Authorizer, &mut Scratch) -> Result<R, ErrorKind>,
    ) -> Result<R, ErrorKind> {
        self.thread.with_snapshot(answer)
    }

    /// Verifies a token on this thread. To be called only when `token_queue` has admitted the
    /// request.
    ///
    /// # Errors
    /// If the verification panics.
    pub(crate) fn verify(&self, verification: Verification) -> Result<VerificationResult, Failure> {
        self.thread.verify(verification).map_err(Failure::Error)
    }

    /// Authorizes a request. Returns its answer, or the credentials that must be verified first.
    ///
    /// `result` is the result of the verification, if the request has waited for one. A reload
    /// during the wait may have removed the user or the permission. Then the request is denied, or
    /// its credentials must be verified again.
    ///
    /// # Errors
    /// If `encode` fails. Then the request is not counted as decided.
    pub(crate) fn authorize<A>(
        &self,
        (authorizer, scratch): (&Authorizer, &mut Scratch),
        request: &Request<'_>,
        result: Option<&VerificationResult>,
        call: Call<'_>,
        encode: impl FnOnce(&Verdict<'_>, &DecisionContext<'_>) -> Result<A, ErrorKind>,
    ) -> Result<Result<A, Box<Unverified>>, ErrorKind> {
        let started = Instant::now();
        match authorizer.check(request, result, scratch, call.received.resumed_time) {
            Outcome::Pending(verification) => {
                let network = ClientNetwork::from_address(request.client);
                Ok(Err(Box::new(Unverified(verification, network))))
            }
            Outcome::Decided(verdict) => {
                let ended = Instant::now();
                let context = call.context(authorizer, request, ended);
                let answer = self.answer(&verdict, context, encode)?;
                self.thread.counters().record_evaluation(ended.saturating_duration_since(started));
                Ok(Ok(answer))
            }
        }
    }

    /// Denies a request that exceeds a limit.
    ///
    /// # Errors
    /// If `encode` fails.
    pub(crate) fn deny<A>(
        &self,
        (authorizer, scratch): (&Authorizer, &mut Scratch),
        request: &Request<'_>,
        limit: Limit,
        call: Call<'_>,
        encode: impl FnOnce(&Verdict<'_>, &DecisionContext<'_>) -> Result<A, ErrorKind>,
    ) -> Result<A, ErrorKind> {
        let verdict = authorizer.deny_over_limit(request, limit, scratch);
        self.answer(&verdict, call.context(authorizer, request, Instant::now()), encode)
    }

    /// Encodes a verdict, then counts and logs it.
    fn answer<A>(
        &self,
        verdict: &Verdict<'_>,
        context: DecisionContext<'_>,
        encode: impl FnOnce(&Verdict<'_>, &DecisionContext<'_>) -> Result<A, ErrorKind>,
    ) -> Result<A, ErrorKind> {
        let answer = encode(verdict, &context)?;
        self.thread.record(verdict, context);
        Ok(answer)
    }

    /// Records the latency of all verdicts since the last call, from `received` until now, and
    /// returns it; `None` if there were none. To be called when their answers have been passed to
    /// the transport.
    pub(crate) fn record_latency(&self, received: Received) -> Option<Duration> {
        self.thread.record_latency(received, Instant::now())
    }

    pub(crate) fn count_error(&self, kind: ErrorKind) {
        self.thread.counters().count_error(kind);
    }

    /// The headers of the answer to a denied request. `is_grpc`: the request is a gRPC call.
    pub(crate) fn denial_headers<'v>(
        &'v self,
        denied: &'v Denied<'_>,
        is_grpc: bool,
    ) -> impl Iterator<Item = (&'v str, Cow<'v, str>)> + use<'v> {
        let headers =
            denied.headers.iter().map(|header| (header.name, Cow::Borrowed(&*header.value)));
        let explained = self.explain_header.as_deref().map(|name| (name, explanation(denied)));
        // Envoy keeps this header. Without it, Envoy would derive `grpc-status` from the HTTP
        // status.
        let status = is_grpc.then(|| ("grpc-status", Cow::Borrowed(denied.reason.grpc_status())));
        headers.chain(explained).chain(status)
    }
}

/// Why a request is denied: the reason, and the rule that matched if a header can carry its name.
fn explanation<'v>(denied: &'v Denied<'_>) -> Cow<'v, str> {
    let name = denied.reason.name();
    match denied.rule {
        Some(rule) if rule.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
            Cow::Owned(format!("{name}; rule={rule}"))
        }
        Some(_) | None => Cow::Borrowed(name),
    }
}
