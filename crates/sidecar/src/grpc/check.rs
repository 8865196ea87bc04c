//! One `Check`: read, authorize, answer. Whatever goes wrong is an error, and no error is an OK.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use authorizer::{Authorizer, Header, Limit, Outcome, Request, Scratch, Verdict};
use bytes::Bytes;
use envoy::CheckRequest;
use identity::{PasswordCheck, PasswordChecked};
use smallvec::SmallVec;

use super::counters::{self, ErrorKind};
use super::decision::{self, DecisionSink};
use super::hashing::Source;

/// What authorizes requests: the active snapshot, and the sink of decisions.
#[derive(Clone)]
pub struct CheckService {
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    decisions: Option<Arc<dyn DecisionSink>>,
}

/// The snapshot that is active when an answer is made.
type Snapshot = Guard<Option<Arc<Authorizer>>>;

/// What came of judging a message.
#[derive(Debug)]
pub(super) enum CheckResult {
    /// The body of the gRPC answer: a verdict.
    Answer(Bytes),
    /// A password must be hashed first, which counts for this source.
    Pending(PasswordCheck, Source),
    /// No verdict.
    Error(ErrorKind),
}

/// Why a request is not evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It exceeds a limit, which is a denial.
    Limit(Limit),
    /// An error.
    Error(ErrorKind),
}

/// When a request was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    /// Since the Unix epoch.
    pub(super) time: Duration,
    pub(super) at: Instant,
}

/// The one thread's way of judging: buffers to use again, and counters.
pub(super) struct Checker {
    service: CheckService,
    counters: Arc<counters::Worker>,
    scratch: Cell<Scratch>,
    /// Verdicts that have not been handed over yet.
    answers: Cell<u64>,
}

/// The longest answer that allows a request, in bytes. Until the client reads it, it waits in memory.
const MAX_ANSWER: usize = 64 << 10;

/// Room for the header lines of most requests without an allocation.
type Lines<'a> = SmallVec<[Header<'a>; 48]>;

impl CheckService {
    /// Judges by whatever is published in `snapshot`; while that is `None`, every check is an error.
    #[must_use]
    pub fn new(snapshot: Arc<ArcSwapOption<Authorizer>>) -> Self {
        Self { snapshot, decisions: None }
    }

    /// Tells `sink` of every decision.
    #[must_use]
    pub fn with_decisions(self, sink: Arc<dyn DecisionSink>) -> Self {
        Self { decisions: Some(sink), ..self }
    }

    /// Remembers a hash by the active policy. Returns whether the password was right.
    pub(super) fn remember(&self, checked: &PasswordChecked) -> bool {
        let now = Received::now().time;
        self.snapshot.load().as_ref().is_some_and(|authorizer| authorizer.remember(checked, now))
    }

    /// Whether there is a active policy.
    pub(super) fn is_ready(&self) -> bool {
        self.snapshot.load().is_some()
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
    /// Now.
    #[expect(clippy::disallowed_methods, reason = "the server is where the clock is read")]
    pub(super) fn now() -> Self {
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Self { time: time.unwrap_or_default(), at: Instant::now() }
    }
}

impl Checker {
    pub(super) fn new(service: CheckService, counters: Arc<counters::Worker>) -> Self {
        Self { service, counters, scratch: Cell::default(), answers: Cell::new(0) }
    }

    /// Authorizes a message by the snapshot that is active now. With `checked` it is one whose password has been hashed
    /// meanwhile; a caller or a grant that a reload has removed by now is denied.
    pub(super) fn check(
        &self,
        message: &[u8],
        checked: Option<PasswordChecked>,
        received: Received,
    ) -> CheckResult {
        self.guarded(|authorizer, scratch| self.authorize(message, authorizer, checked, scratch, received))
    }

    /// Answers a request that is not evaluated; what has been received of its message may be empty.
    pub(super) fn fail(&self, failure: Failure, message: &[u8], received: Received) -> CheckResult {
        match failure {
            Failure::Error(kind) => self.error(kind),
            Failure::Limit(limit) => {
                self.guarded(|authorizer, scratch| self.deny(limit, message, authorizer, scratch, received))
            }
        }
    }

    /// Runs what makes an answer, with the snapshot that is active now; a panic in it is an error.
    fn guarded(
        &self,
        answer: impl FnOnce(&Authorizer, &mut Scratch) -> Result<CheckResult, ErrorKind>,
    ) -> CheckResult {
        let snapshot: Snapshot = self.service.snapshot.load();
        let Some(authorizer) = snapshot.as_deref() else { return self.error(ErrorKind::NotReady) };
        let mut scratch = self.scratch.take();
        // After a panic the scratch is lost, and the next request finds a new one.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = answer(authorizer, &mut scratch);
            (result, scratch)
        }));
        match result {
            Ok((result, scratch)) => {
                self.scratch.set(scratch);
                result.unwrap_or_else(|kind| self.error(kind))
            }
            Err(_) => self.error(ErrorKind::Panicked),
        }
    }

    /// Takes note that all that was checked has been handed over for writing. Answers leave together, so a batch of them
    /// costs one look at the clock.
    pub(super) fn handed_over(&self, received: Received) {
        let answers = self.answers.take();
        if answers > 0 {
            self.counters.handed_over(received.at.elapsed(), answers);
        }
    }

    /// Counts an error.
    pub(super) fn error(&self, kind: ErrorKind) -> CheckResult {
        self.counters.error(kind);
        CheckResult::Error(kind)
    }

    fn authorize(
        &self,
        message: &[u8],
        authorizer: &Authorizer,
        checked: Option<PasswordChecked>,
        scratch: &mut Scratch,
        received: Received,
    ) -> Result<CheckResult, ErrorKind> {
        let mut headers = Lines::new();
        let read = CheckRequest::decode(message, |line| {
            headers.push(Header { name: line.name, value: line.value });
        })
        .map_err(|_| ErrorKind::Malformed)?;
        let request =
            Request { method: read.method, host: read.host, path: read.path, headers: &headers, id: read.id };
        let begun = Instant::now();
        let outcome = match checked {
            _ if read.too_many_headers => {
                Outcome::Decided(authorizer.deny_over_limit(&request, Limit::HeaderLines, scratch))
            }
            Some(checked) => authorizer.resume(&request, checked, scratch, received.time),
            None => authorizer.check(&request, scratch, received.time),
        };
        match outcome {
            Outcome::Pending(check) => Ok(CheckResult::Pending(check, Source::of(read.source_ip()))),
            Outcome::Decided(verdict) => {
                let ended = Instant::now();
                let answer = encode(&verdict).map_err(|_| ErrorKind::Unanswerable)?;
                // What is removed are headers of the request, so a client can make that long.
                if answer.len() > MAX_ANSWER && matches!(verdict, Verdict::Allowed(_)) {
                    return self.deny(Limit::HeaderLines, message, authorizer, scratch, received);
                }
                self.counters.evaluated(ended.saturating_duration_since(begun));
                self.note(&verdict, &request, authorizer, received, ended);
                Ok(CheckResult::Answer(answer.into()))
            }
        }
    }

    /// Denies a request that exceeds a limit. What is known of it goes to the decision log.
    fn deny(
        &self,
        limit: Limit,
        message: &[u8],
        authorizer: &Authorizer,
        scratch: &mut Scratch,
        received: Received,
    ) -> Result<CheckResult, ErrorKind> {
        let read = CheckRequest::decode(message, |_| ()).unwrap_or_default();
        let request =
            Request { method: read.method, host: read.host, path: read.path, headers: &[], id: read.id };
        let verdict = authorizer.deny_over_limit(&request, limit, scratch);
        let answer = encode(&verdict).map_err(|_| ErrorKind::Unanswerable)?;
        self.note(&verdict, &request, authorizer, received, Instant::now());
        Ok(CheckResult::Answer(answer.into()))
    }

    /// Counts a verdict, and offers it to the decision log.
    fn note(
        &self,
        verdict: &Verdict<'_>,
        request: &Request<'_>,
        authorizer: &Authorizer,
        received: Received,
        ended: Instant,
    ) {
        if let Some(sink) = &self.service.decisions {
            let duration = ended.saturating_duration_since(received.at);
            decision::offer(&**sink, verdict, request, authorizer.revision(), received.time, duration);
        }
        match verdict {
            Verdict::Allowed(_) => self.counters.allowed(),
            Verdict::Denied(denied) => self.counters.denied(denied.reason.name()),
        }
        self.answers.set(self.answers.get() + 1);
    }
}

fn encode(verdict: &Verdict<'_>) -> Result<Vec<u8>, envoy::EncodeError> {
    match verdict {
        Verdict::Allowed(allowed) => envoy::response::allowed(allowed.set(), allowed.remove()),
        Verdict::Denied(denied) => {
            let headers = denied.headers.iter().map(|header| (header.name, &*header.value));
            envoy::response::denied(denied.reason.status(), headers, denied.body)
        }
    }
}

impl fmt::Debug for CheckService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckService").field("decisions", &self.decisions.is_some()).finish_non_exhaustive()
    }
}
