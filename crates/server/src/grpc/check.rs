//! A `Check`: decode the message, authorize the request, encode the answer. Every failure becomes a
//! denial or a gRPC error, never an OK.

use authorizer::{Authorizer, Header, Limit, Request, Scratch, Verdict};
use bytes::Bytes;
use envoy::CheckRequest;
use identity::{Certificate, VerificationResult};
use runtime::DecisionContext;
use runtime::counters::ErrorKind;
use smallvec::SmallVec;

use super::{proxyless, request_body};
use crate::checks::checker::{Call, Failure, Unverified};
use crate::checks::context::WorkerContext;

/// The answer to a message.
#[derive(Debug)]
pub(super) enum Answer {
    /// A verdict, encoded as the body of the gRPC answer.
    Verdict(Bytes),
    /// No verdict: the peer gets a gRPC error.
    Error(ErrorKind),
}

/// The header lines of a request. Most requests have fewer than 48. Up to 48 lines stay on the
/// stack, which saves an allocation per request; a longer list goes to the heap. The number is
/// chosen, not measured: each line takes 32 bytes of the stack.
type HeaderLines<'a> = SmallVec<[Header<'a>; 48]>;

/// Authorizes a message with the active snapshot. `result` is the result of the verification, if
/// the message has waited for one.
pub(super) fn check(
    context: &WorkerContext,
    message: &[u8],
    result: Option<&VerificationResult>,
    call: Call<'_>,
) -> Result<Answer, Box<Unverified>> {
    let checked = context.checker.with_snapshot(|authorizer, scratch| {
        authorize(context, message, (authorizer, scratch), result, call)
    });
    checked.unwrap_or_else(|kind| Ok(error(context, kind)))
}

/// Answers a request without evaluating the policy. `message` is empty unless it was received as a
/// whole.
pub(super) fn fail(
    context: &WorkerContext,
    failure: Failure,
    message: &[u8],
    call: Call<'_>,
) -> Answer {
    let limit = match failure {
        Failure::Error(kind) => return error(context, kind),
        Failure::Limit(limit) => limit,
        Failure::Overload(overload) => overload.into(),
    };
    let answer = context.checker.with_snapshot(|authorizer, scratch| {
        deny(context, limit, message, (authorizer, scratch), call)
    });
    answer.unwrap_or_else(|kind| error(context, kind))
}

/// Counts an error and returns it as the answer.
fn error(context: &WorkerContext, kind: ErrorKind) -> Answer {
    context.checker.count_error(kind);
    Answer::Error(kind)
}

fn authorize(
    context: &WorkerContext,
    message: &[u8],
    (authorizer, scratch): (&Authorizer, &mut Scratch),
    result: Option<&VerificationResult>,
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
        sets_headers_only: false,
        question: None,
        claimed_user: None,
        body: request_body::whole_body(&decoded, &headers),
    };
    let (checker, snapshot) = (&context.checker, (authorizer, scratch));
    if decoded.too_many_headers {
        let denied =
            checker.deny(snapshot, &request, Limit::HeaderLines, call, |verdict, decision| {
                encode(context, verdict, decision)
            });
        return denied.map(Ok);
    }
    checker.authorize(snapshot, &request, result, call, |verdict, decision| {
        encode(context, verdict, decision)
    })
}

/// Denies a request that exceeds a limit. `message`, unless it is empty, is decoded for the
/// decision log.
fn deny(
    context: &WorkerContext,
    limit: Limit,
    message: &[u8],
    snapshot: (&Authorizer, &mut Scratch),
    call: Call<'_>,
) -> Result<Answer, ErrorKind> {
    // The headers that the decision log shows, and the content type, on which the form of the
    // answer depends. Only the first line of each name is kept, so the list stays short.
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
    context.checker.deny(snapshot, &request, limit, call, |verdict, decision| {
        encode(context, verdict, decision)
    })
}

fn encode(
    context: &WorkerContext,
    verdict: &Verdict<'_>,
    decision: &DecisionContext<'_>,
) -> Result<Answer, ErrorKind> {
    let mut encoder = context.encoder.borrow_mut();
    encoder.describe(metadata(verdict, decision.authorizer).into_iter());
    let encoded = match verdict {
        Verdict::Allowed(allowed) => {
            for (key, value) in allowed.metadata() {
                crate::add_metadata(encoder.metadata(), key, value);
            }
            encoder.allowed(allowed.set(), allowed.remove())
        }
        Verdict::Denied(denied) => {
            let headers: SmallVec<[_; 8]> =
                context.checker.denial_headers(denied, decision.request.is_grpc()).collect();
            let headers = headers.iter().map(|(name, value)| (*name, &**value));
            encoder.denied(denied.reason.status(), headers, denied.body)
        }
    };
    encoded.map(|message| Answer::Verdict(message.into())).map_err(|_| ErrorKind::Unanswerable)
}

/// The certificate of the client, if Envoy sends it (`include_peer_certificate`). Otherwise only
/// the name in `source.principal`; the certificate may have more names.
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
