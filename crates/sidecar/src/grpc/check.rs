//! One `Check`: read, judge, answer. Whatever goes wrong is an error, and no error is an OK.

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::{ArcSwapOption, Guard};
use authorizer::{Authorizer, Header, Outcome, Request, Scratch, Verdict};
use bytes::Bytes;
use envoy::CheckRequest;
use identity::{PasswordCheck, PasswordChecked};
use smallvec::SmallVec;

use super::counters::{self, ErrorKind};
use super::decision::{self, DecisionSink};

/// What judges requests: the snapshot in force, and who is told of decisions.
#[derive(Clone)]
pub struct CheckService {
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    decisions: Option<Arc<dyn DecisionSink>>,
}

/// The snapshot that a request is judged by, from its start to its end.
pub(super) type Snapshot = Guard<Option<Arc<Authorizer>>>;

/// What came of judging a message.
#[derive(Debug)]
pub(super) enum Judged {
    /// The body of the gRPC answer: a verdict.
    Answer(Bytes),
    /// A password must be hashed first.
    Pending(PasswordCheck),
    /// No verdict.
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
pub(super) struct Judge {
    service: CheckService,
    counters: Arc<counters::Worker>,
    scratch: Cell<Scratch>,
    /// Verdicts that have not been handed over yet.
    answers: Cell<u64>,
}

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

    /// Whether there is a policy in force.
    pub(super) fn is_ready(&self) -> bool {
        self.snapshot.load().is_some()
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

impl Judge {
    pub(super) fn new(service: CheckService, counters: Arc<counters::Worker>) -> Self {
        Self { service, counters, scratch: Cell::default(), answers: Cell::new(0) }
    }

    /// The snapshot in force now.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.service.snapshot.load()
    }

    /// Judges a message by the snapshot. With `checked` it is one whose password has been hashed.
    pub(super) fn judge(
        &self,
        message: &[u8],
        snapshot: &Snapshot,
        checked: Option<PasswordChecked>,
        received: Received,
    ) -> Judged {
        let Some(authorizer) = snapshot.as_deref() else { return self.error(ErrorKind::NotReady) };
        let mut scratch = self.scratch.take();
        // After a panic the scratch is lost, and the next request finds a new one.
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let judged = self.check(message, authorizer, checked, &mut scratch, received);
            (judged, scratch)
        }));
        match judged {
            Ok((judged, scratch)) => {
                self.scratch.set(scratch);
                judged.unwrap_or_else(|kind| self.error(kind))
            }
            Err(_) => self.error(ErrorKind::Panicked),
        }
    }

    /// Takes note that all that was judged has been handed over for writing. Answers leave together, so a batch of them
    /// costs one look at the clock.
    pub(super) fn handed_over(&self, received: Received) {
        let answers = self.answers.take();
        if answers > 0 {
            self.counters.handed_over(received.at.elapsed(), answers);
        }
    }

    /// Counts an error.
    pub(super) fn error(&self, kind: ErrorKind) -> Judged {
        self.counters.error(kind);
        Judged::Error(kind)
    }

    fn check(
        &self,
        message: &[u8],
        authorizer: &Authorizer,
        checked: Option<PasswordChecked>,
        scratch: &mut Scratch,
        received: Received,
    ) -> Result<Judged, ErrorKind> {
        let mut headers = Lines::new();
        let read = CheckRequest::decode(message, |line| {
            headers.push(Header { name: line.name, value: line.value });
        })
        .map_err(|_| ErrorKind::Malformed)?;
        let request = Request {
            method: read.method,
            host: read.host.as_bytes(),
            path: read.path,
            headers: &headers,
            id: read.id.as_bytes(),
        };
        let begun = Instant::now();
        let outcome = match checked {
            _ if read.too_many_headers => {
                Outcome::Decided(authorizer.refuse_too_many_headers(&request, scratch))
            }
            Some(checked) => Outcome::Decided(authorizer.resume(&request, checked, scratch, received.time)),
            None => authorizer.check(&request, scratch, received.time),
        };
        match outcome {
            Outcome::Pending(check) => Ok(Judged::Pending(check)),
            Outcome::Decided(verdict) => {
                let ended = Instant::now();
                let answer = encode(&verdict).map_err(|_| ErrorKind::Unanswerable)?;
                self.counters.evaluated(ended.saturating_duration_since(begun));
                self.note(&verdict, &request, authorizer, received, ended);
                Ok(Judged::Answer(answer.into()))
            }
        }
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
            Verdict::Refused(refused) => self.counters.refused(refused.reason.name()),
        }
        self.answers.set(self.answers.get() + 1);
    }
}

fn encode(verdict: &Verdict<'_>) -> Result<Vec<u8>, envoy::EncodeError> {
    match verdict {
        Verdict::Allowed(allowed) => envoy::response::allowed(allowed.set(), allowed.remove()),
        Verdict::Refused(refused) => {
            let headers = refused.headers.iter().map(|header| (header.name, &*header.value));
            envoy::response::denied(refused.reason.status(), headers, refused.body)
        }
    }
}

impl fmt::Debug for CheckService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckService").field("decisions", &self.decisions.is_some()).finish_non_exhaustive()
    }
}
