//! One `Check`: decode the message, authorize the request, encode the answer. Every failure becomes a denial or a
//! gRPC error, never an OK.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use authorizer::{Authorizer, Header, Limit, Outcome, Request, Scratch, Verdict};
use bytes::Bytes;
use envoy::CheckRequest;
use identity::{Verification, Verified};
use smallvec::SmallVec;

use super::client_network::ClientNetwork;
use super::counters::{self, ErrorKind};
use super::decision::{self, DecisionSink, Logged};

/// Authorizes requests with the active snapshot, and passes decisions to a sink.
#[derive(Clone)]
pub struct CheckService {
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    decisions: Option<Arc<dyn DecisionSink>>,
    readiness: Option<Arc<dyn Readiness>>,
}

/// What health checks depend on besides the active policy.
pub trait Readiness: fmt::Debug + Send + Sync {
    /// Whether there are the keys that `keys-needed` requires, or were once. It is called on a request thread, so it must
    /// not block for long.
    fn has_had_keys(&self) -> bool;
}

/// The snapshot (policy, keys and caches) that is active while a request is answered. A guard of `arc_swap` and not an
/// `Arc`, whose reference count all workers would write to for each request.
type Snapshot = Guard<Option<Arc<Authorizer>>>;

/// The result of checking a message.
#[derive(Debug)]
pub(super) enum CheckResult {
    /// The message is answered.
    Answered(Answer),
    /// The credentials must be verified first; the attempt uses the quota of this client network.
    Pending(Verification, ClientNetwork),
}

/// The answer to a message.
#[derive(Debug)]
pub(super) enum Answer {
    /// A verdict, encoded as the body of the gRPC answer.
    Verdict(Bytes),
    /// No verdict: the gRPC client gets an error.
    Error(ErrorKind),
}

/// Why a message is not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It exceeds a limit, so it is denied.
    Limit(Limit),
    /// It cannot be processed, so the gRPC client gets an error.
    Error(ErrorKind),
}

/// When a request was received, by the wall clock and the monotonic clock: when its message was complete or, if it never
/// is, when its first part was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Wall-clock time since the Unix epoch: for the validity of tokens and for the decision log.
    pub(super) time: Duration,
    /// Monotonic: for the latency.
    pub(super) at: Instant,
}

/// Checks the requests of one worker thread, with reusable buffers and its own counters.
pub(super) struct Checker {
    service: CheckService,
    counters: Arc<counters::Worker>,
    scratch: RefCell<Scratch>,
    encoder: RefCell<envoy::Encoder>,
    /// Number of verdicts that have not been handed over for writing yet.
    answers: Cell<u64>,
}

/// Maximum size of an answer that allows a request, in bytes. The answer stays in memory until the client reads it. A
/// client hardly influences its size: the headers to set are those of the policy, with the caller's user name, roles and
/// claims, and at most sixteen of those to remove come from the request. Envoy accepts 60 KiB of headers by default.
const MAX_ANSWER: usize = 64 << 10;

/// The header lines of a request. Up to 48, more than most requests have, are on the stack, which saves an allocation
/// per request; more go to the heap. Chosen, not measured: each takes 32 bytes of the stack.
type HeaderLines<'a> = SmallVec<[Header<'a>; 48]>;

impl CheckService {
    /// Authorizes each request with the snapshot that `snapshot` holds when it is answered. While it holds `None`, every
    /// check is an error.
    #[must_use]
    pub fn new(snapshot: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { snapshot, decisions: None, readiness: None }
    }

    /// Reports `NOT_SERVING` in health checks as long as `readiness` says so.
    #[must_use]
    pub fn with_readiness(self, readiness: Arc<dyn Readiness>) -> Self {
        Self { readiness: Some(readiness), ..self }
    }

    /// Passes every decision to `sink`.
    #[must_use]
    pub fn with_decisions(self, sink: Arc<dyn DecisionSink>) -> Self {
        Self { decisions: Some(sink), ..self }
    }

    /// Caches verified credentials in the active snapshot. Returns whether they are valid under its policy.
    pub(super) fn cache_verified(&self, verified: &Verified) -> bool {
        let now = Received::now().time;
        self.snapshot.load().as_ref().is_some_and(|authorizer| authorizer.cache_verified(verified, now))
    }

    /// Whether a policy is active, and there were enough keys once.
    pub(super) fn is_ready(&self) -> bool {
        self.snapshot.load().is_some()
            && self.readiness.as_ref().is_none_or(|readiness| readiness.has_had_keys())
    }
}

impl From<Limit> for Failure {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

impl From<ErrorKind> for Failure {
    fn from(kind: ErrorKind) -> Self {
        Self::Error(kind)
    }
}

impl Received {
    /// The current time, by both clocks.
    #[expect(clippy::disallowed_methods, reason = "the server is where the clock is read")]
    pub(super) fn now() -> Self {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self { time: time.unwrap_or_default(), at: Instant::now() }
    }
}

impl Checker {
    pub(super) fn new(service: CheckService, counters: Arc<counters::Worker>) -> Self {
        Self {
            service,
            counters,
            scratch: RefCell::default(),
            encoder: RefCell::default(),
            answers: Cell::new(0),
        }
    }

    /// Authorizes a message with the active snapshot. `verified` is the result of the verification that the message has
    /// waited for. If a reload has meanwhile removed the user or the permission, the request is denied.
    pub(super) fn check(
        &self,
        message: &[u8],
        verified: Option<&Verified>,
        received: Received,
    ) -> CheckResult {
        let authorize = |authorizer: &Authorizer, scratch: &mut Scratch| {
            self.authorize(message, authorizer, verified, scratch, received)
        };
        self.guarded(authorize).unwrap_or_else(|kind| CheckResult::Answered(self.error(kind)))
    }

    /// Verifies a token on this thread. To be called in the turn of the request only, see `token_queue`.
    ///
    /// # Errors
    /// If it panics.
    pub(super) fn verify(&self, verification: Verification) -> Result<Verified, Failure> {
        self.counters.token_verified();
        catch_unwind(AssertUnwindSafe(|| verification.run())).map_err(|_| ErrorKind::Panicked.into())
    }

    /// Answers a request that is not evaluated. `message` is what has been received of it, possibly nothing.
    pub(super) fn fail(&self, failure: Failure, message: &[u8], received: Received) -> Answer {
        let answer = match failure {
            Failure::Error(kind) => Err(kind),
            Failure::Limit(limit) => {
                self.guarded(|authorizer, scratch| self.deny(limit, message, authorizer, scratch, received))
            }
        };
        answer.unwrap_or_else(|kind| self.error(kind))
    }

    /// Runs `answer` with the active snapshot. A panic in it becomes an error of this request, so that a bug does not
    /// end the worker and its other requests.
    fn guarded<R>(
        &self,
        answer: impl FnOnce(&Authorizer, &mut Scratch) -> Result<R, ErrorKind>,
    ) -> Result<R, ErrorKind> {
        let snapshot: Snapshot = self.service.snapshot.load();
        let authorizer = snapshot.as_deref().ok_or(ErrorKind::NotReady)?;
        catch_unwind(AssertUnwindSafe(|| answer(authorizer, &mut self.scratch.borrow_mut()))).unwrap_or_else(
            |_| {
                // The panic may have left the buffers half changed.
                self.scratch.take();
                Err(ErrorKind::Panicked)
            },
        )
    }

    /// Records that all verdicts so far have been handed over for writing. The answers of a batch leave in one write, so
    /// the clock is read once for all of them.
    pub(super) fn handed_over(&self, received: Received) {
        let answers = self.answers.take();
        if answers > 0 {
            self.counters.handed_over(received.at.elapsed(), answers);
        }
    }

    /// Counts an error and returns it as the answer.
    fn error(&self, kind: ErrorKind) -> Answer {
        self.counters.error(kind);
        Answer::Error(kind)
    }

    fn authorize(
        &self,
        message: &[u8],
        authorizer: &Authorizer,
        verified: Option<&Verified>,
        scratch: &mut Scratch,
        received: Received,
    ) -> Result<CheckResult, ErrorKind> {
        let mut headers = HeaderLines::new();
        let decoded = CheckRequest::decode(message, |line| {
            headers.push(Header { name: line.name, value: line.value });
        })
        .map_err(|_| ErrorKind::Malformed)?;
        let request = Request {
            method: decoded.method,
            host: decoded.host,
            path: decoded.path,
            headers: &headers,
            id: decoded.id,
        };
        let started = Instant::now();
        let outcome = if decoded.too_many_headers {
            Outcome::Decided(authorizer.deny_over_limit(&request, Limit::HeaderLines, scratch))
        } else {
            authorizer.check(&request, verified, scratch, received.time)
        };
        match outcome {
            Outcome::Pending(verification) => {
                Ok(CheckResult::Pending(verification, ClientNetwork::of(decoded.source_ip())))
            }
            Outcome::Decided(verdict) => {
                let ended = Instant::now();
                let answer = self.encode(&verdict).map_err(|_| ErrorKind::Unanswerable)?;
                // Claims of a token may be long.
                if answer.len() > MAX_ANSWER && matches!(verdict, Verdict::Allowed(_)) {
                    let denied = self.deny(Limit::HeaderLines, message, authorizer, scratch, received);
                    return denied.map(CheckResult::Answered);
                }
                self.counters.evaluated(ended.saturating_duration_since(started));
                self.record(&verdict, &request, decoded.source_ip(), authorizer, received, ended);
                Ok(CheckResult::Answered(Answer::Verdict(answer.into())))
            }
        }
    }

    /// Denies a request that exceeds a limit. The part of it that can be decoded goes to the decision log.
    fn deny(
        &self,
        limit: Limit,
        message: &[u8],
        authorizer: &Authorizer,
        scratch: &mut Scratch,
        received: Received,
    ) -> Result<Answer, ErrorKind> {
        let mut logged = None;
        let decoded = CheckRequest::decode(message, |line| {
            if decision::is_logged(line.name) {
                logged.get_or_insert(Header { name: line.name, value: line.value });
            }
        })
        .unwrap_or_default();
        let headers = logged.as_slice();
        let request = Request {
            method: decoded.method,
            host: decoded.host,
            path: decoded.path,
            headers,
            id: decoded.id,
        };
        let verdict = authorizer.deny_over_limit(&request, limit, scratch);
        let answer = self.encode(&verdict).map_err(|_| ErrorKind::Unanswerable)?;
        self.record(&verdict, &request, decoded.source_ip(), authorizer, received, Instant::now());
        Ok(Answer::Verdict(answer.into()))
    }

    fn encode(&self, verdict: &Verdict<'_>) -> Result<Vec<u8>, envoy::EncodeError> {
        let mut encoder = self.encoder.borrow_mut();
        match verdict {
            Verdict::Allowed(allowed) => encoder.allowed(allowed.set(), allowed.remove()),
            Verdict::Denied(denied) => {
                let headers = denied.headers.iter().map(|header| (header.name, &*header.value));
                encoder.denied(denied.reason.status(), headers, denied.body)
            }
        }
    }

    /// Counts a verdict, and offers it to the decision log.
    fn record(
        &self,
        verdict: &Verdict<'_>,
        request: &Request<'_>,
        client: &[u8],
        authorizer: &Authorizer,
        received: Received,
        ended: Instant,
    ) {
        if let Some(sink) = &self.service.decisions
            && sink.wants(matches!(verdict, Verdict::Allowed(_)))
        {
            let duration = ended.saturating_duration_since(received.at);
            let logged = Logged { request, client, time: received.time, duration };
            decision::offer(&**sink, verdict, authorizer, logged);
        }
        match verdict {
            Verdict::Allowed(_) => self.counters.allowed(),
            Verdict::Denied(denied) => self.counters.denied(denied.reason.name()),
        }
        self.answers.set(self.answers.get() + 1);
    }
}

impl fmt::Debug for CheckService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckService").field("decisions", &self.decisions.is_some()).finish_non_exhaustive()
    }
}
