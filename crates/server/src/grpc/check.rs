//! A `Check`: decode the message, authorize the request, encode the answer. Every failure becomes a
//! denial or a gRPC error, never an OK.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use authorizer::{Authorizer, Denied, Header, Limit, Outcome, Request, Scratch, Verdict};
use bytes::Bytes;
use envoy::CheckRequest;
use identity::{Certificate, Verification, VerificationResult};
use runtime::counters::{ErrorKind, ThreadCounters};
use runtime::{ActivePolicy, ClientNetwork, DecisionContext, Received, ThreadAuthorizer};
use smallvec::SmallVec;

use super::{proxyless, request_body};
use crate::checks::notices::Overload;

/// Credentials that must be verified before the request can be authorized, and the network of the
/// downstream client, by which the queues decide whose credentials are verified next.
#[derive(Debug)]
pub(crate) struct Unverified(pub(super) Verification, pub(super) ClientNetwork);

/// The answer to a message.
#[derive(Debug)]
pub(super) enum Answer {
    /// A verdict, encoded as the body of the gRPC answer.
    Verdict(Bytes),
    /// No verdict: the peer gets a gRPC error.
    Error(ErrorKind),
}

/// Why a message is answered without evaluating the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It exceeds a limit, so it is denied.
    Limit(Limit),
    /// It would have to wait, and too many others do, so it is denied.
    Overload(Overload),
    /// It cannot be processed, so the peer gets a gRPC error.
    Error(ErrorKind),
}

/// The call that a message came with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    /// When the message was complete or, if it never is, when its first part was read.
    pub(super) received: Received,
    /// Its `traceparent`; empty without one, and if no spans are recorded.
    pub(super) traceparent: &'a [u8],
}

/// Checks the messages of a worker.
pub(crate) struct Checker {
    thread: ThreadAuthorizer,
    encoder: RefCell<envoy::Encoder>,
    /// The header of a denial with its reason.
    explain_header: Option<Arc<str>>,
}

/// The header lines of a request. Up to 48, more than most requests have, are on the stack, which
/// saves an allocation per request; more go to the heap. Chosen, not measured: each takes 32 bytes
/// of the stack.
type HeaderLines<'a> = SmallVec<[Header<'a>; 48]>;

impl<'a> Call<'a> {
    fn context(
        self,
        authorizer: &'a Authorizer,
        request: &'a Request<'a>,
        decided_at: Instant,
    ) -> DecisionContext<'a> {
        let Self { received, traceparent } = self;
        DecisionContext {
            authorizer,
            request,
            client: request.client,
            received,
            decided_at,
            traceparent,
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
        Self {
            thread: ThreadAuthorizer::new(policy, counters),
            encoder: RefCell::default(),
            explain_header,
        }
    }

    /// Whether spans are recorded, which need the `traceparent` of a call.
    pub(super) fn joins_traces(&self) -> bool {
        self.thread.joins_traces()
    }

    /// Authorizes a message with the active snapshot. `result` is that of the verification that the
    /// message has waited for. If a reload has meanwhile removed the user or the permission, the
    /// request is denied, or its credentials must be verified again first.
    pub(crate) fn check(
        &self,
        message: &[u8],
        result: Option<&VerificationResult>,
        call: Call<'_>,
    ) -> Result<Answer, Box<Unverified>> {
        let checked = self.thread.with_snapshot(|authorizer, scratch| {
            self.authorize(message, authorizer, result, scratch, call)
        });
        checked.unwrap_or_else(|kind| Ok(self.error(kind)))
    }

    /// Verifies a token on this thread. To be called only when `token_queue` has admitted the
    /// request.
    ///
    /// # Errors
    /// If it panics.
    pub(super) fn verify(&self, verification: Verification) -> Result<VerificationResult, Failure> {
        self.thread.verify(verification).map_err(Failure::Error)
    }

    /// Answers a request without evaluating the policy. `message` is empty unless it was received
    /// as a whole.
    pub(super) fn fail(&self, failure: Failure, message: &[u8], call: Call<'_>) -> Answer {
        let limit = match failure {
            Failure::Error(kind) => return self.error(kind),
            Failure::Limit(limit) => limit,
            Failure::Overload(overload) => overload.into(),
        };
        let answer = self.thread.with_snapshot(|authorizer, scratch| {
            self.deny(limit, message, authorizer, scratch, call)
        });
        answer.unwrap_or_else(|kind| self.error(kind))
    }

    /// Records the latency of all verdicts since the last call, from `received` until now, and
    /// returns it; `None` if there were none. To be called when their answers have been passed to
    /// the transport.
    pub(super) fn record_latency(&self, received: Received) -> Option<Duration> {
        self.thread.record_latency(received, Instant::now())
    }

    /// Counts an error and returns it as the answer.
    fn error(&self, kind: ErrorKind) -> Answer {
        self.thread.counters().count_error(kind);
        Answer::Error(kind)
    }

    fn authorize(
        &self,
        message: &[u8],
        authorizer: &Authorizer,
        result: Option<&VerificationResult>,
        scratch: &mut Scratch,
        call: Call<'_>,
    ) -> Result<Result<Answer, Box<Unverified>>, ErrorKind> {
        let mut headers = HeaderLines::new();
        let decoded = CheckRequest::decode(message, |line| {
            headers.push(Header { name: line.name, value: line.value });
        })
        .map_err(|_| ErrorKind::Malformed)?;
        if proxyless::lacks_content_type(&decoded, &headers) {
            headers.push(proxyless::CONTENT_TYPE);
        }
        let request = Request {
            method: decoded.method,
            host: proxyless::host(&decoded, &headers, authorizer),
            path: decoded.path,
            headers: &headers,
            id: decoded.id,
            client: decoded.source_ip(),
            peer: decoded.source_ip(),
            certificate: certificate(&decoded),
            can_change_bodies: false,
            body: request_body::whole_body(&decoded, &headers),
        };
        let (started, now) = (Instant::now(), call.received.resumed_time);
        let outcome = if decoded.too_many_headers {
            Outcome::Decided(authorizer.deny_over_limit(&request, Limit::HeaderLines, scratch))
        } else {
            authorizer.check(&request, result, scratch, now)
        };
        match outcome {
            Outcome::Pending(verification) => {
                let network = ClientNetwork::from_address(decoded.source_ip());
                Ok(Err(Box::new(Unverified(verification, network))))
            }
            Outcome::Decided(verdict) => {
                let ended = Instant::now();
                let answer = self.answer(&verdict, call.context(authorizer, &request, ended))?;
                self.thread.counters().record_evaluation(ended.saturating_duration_since(started));
                Ok(Ok(answer))
            }
        }
    }

    /// Denies a request that exceeds a limit. `message`, unless it is empty, is decoded for the
    /// decision log.
    fn deny(
        &self,
        limit: Limit,
        message: &[u8],
        authorizer: &Authorizer,
        scratch: &mut Scratch,
        call: Call<'_>,
    ) -> Result<Answer, ErrorKind> {
        // The first line of each name, so that repeated names do not grow it. The form of the answer
        // depends on the content type.
        let mut logged: Vec<Header<'_>> = Vec::new();
        let decoded = CheckRequest::decode(message, |line| {
            if (runtime::is_logged(line.name)
                || line.name.eq_ignore_ascii_case(proxyless::CONTENT_TYPE.name))
                && !logged.iter().any(|header| header.name.eq_ignore_ascii_case(line.name))
            {
                logged.push(Header { name: line.name, value: line.value });
            }
        })
        .unwrap_or_default();
        let request = Request {
            method: decoded.method,
            host: decoded.host,
            path: decoded.path,
            headers: &logged,
            id: decoded.id,
            client: decoded.source_ip(),
            ..Request::default()
        };
        let verdict = authorizer.deny_over_limit(&request, limit, scratch);
        self.answer(&verdict, call.context(authorizer, &request, Instant::now()))
    }

    /// Encodes a verdict, and counts and logs it.
    fn answer(
        &self,
        verdict: &Verdict<'_>,
        context: DecisionContext<'_>,
    ) -> Result<Answer, ErrorKind> {
        let answer = self.encode(verdict, &context).map_err(|_| ErrorKind::Unanswerable)?;
        self.thread.record(verdict, context);
        Ok(Answer::Verdict(answer.into()))
    }

    fn encode(
        &self,
        verdict: &Verdict<'_>,
        context: &DecisionContext<'_>,
    ) -> Result<Vec<u8>, envoy::EncodeError> {
        let mut encoder = self.encoder.borrow_mut();
        encoder.describe(metadata(verdict, context.authorizer).into_iter());
        match verdict {
            Verdict::Allowed(allowed) => {
                for (key, value) in allowed.metadata() {
                    crate::add_metadata(encoder.metadata(), key, value);
                }
                encoder.allowed(allowed.set(), allowed.remove())
            }
            Verdict::Denied(denied) => {
                let headers = denied.headers.iter().map(|header| (header.name, &*header.value));
                let explained =
                    self.explain_header.as_deref().map(|name| (name, explanation(denied)));
                let explained = explained.iter().map(|(name, value)| (*name, &**value));
                // Envoy keeps it, and derives it from the HTTP status only where it is missing.
                let status = context.request.is_grpc().then(|| denied.reason.grpc_status());
                let status = status.map(|status| ("grpc-status", status));
                let headers = headers.chain(explained).chain(status);
                encoder.denied(denied.reason.status(), headers, denied.body)
            }
        }
    }
}

/// The certificate of the client: whole if Envoy sends it (`include_peer_certificate`), since it
/// may have more names than the one in `source.principal`.
fn certificate<'a>(decoded: &CheckRequest<'a>) -> Option<Certificate<'a>> {
    match (decoded.certificate, decoded.principal) {
        (b"", b"") => None,
        (b"", principal) => Some(Certificate::Principal(principal)),
        (certificate, _) => Some(Certificate::Pem(certificate)),
    }
}

/// The dynamic metadata of every verdict. The module sets the same, if its setting `metadata` is on
/// (`describe` in `module/src/owned_verdict.rs`).
fn metadata<'v>(verdict: &Verdict<'v>, authorizer: &'v Authorizer) -> [(&'static str, &'v str); 5] {
    let (decision, reason, rule, subject) = match verdict {
        Verdict::Allowed(allowed) => ("allowed", "", allowed.rule, allowed.subject),
        Verdict::Denied(denied) => {
            ("denied", denied.reason.name(), denied.rule.unwrap_or_default(), denied.subject)
        }
    };
    [
        ("decision", decision),
        ("reason", reason),
        ("rule", rule),
        ("user", subject.map(|subject| &*subject.user).unwrap_or_default()),
        ("revision", &authorizer.revision().policy),
    ]
}

/// Why a request is denied: the reason, and the rule that matched if a header can carry its name.
fn explanation<'v>(denied: &Denied<'v>) -> Cow<'v, str> {
    let name = denied.reason.name();
    match denied.rule {
        Some(rule) if rule.bytes().all(|byte| matches!(byte, b' '..=b'~')) => {
            Cow::Owned(format!("{name}; rule={rule}"))
        }
        Some(_) | None => Cow::Borrowed(name),
    }
}
