//! A question over HTTP and its answer: 200 if the request is allowed, never 200 otherwise.

use std::convert::Infallible;
use std::rc::Rc;
use std::task::{Context, Poll};

use authorizer::{Header, Request, Verdict};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use identity::VerificationResult;
use runtime::counters::ErrorKind;
use runtime::{DecisionContext, Received, Via};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::asker::Asker;
use super::profile::{Original, Profile};
use crate::checks::checker::{Call, Checker, Failure, Unverified};
use crate::checks::context::WorkerContext;
use crate::checks::notices::RefusedQuestion;
use crate::checks::wait::{self, WaitingCheck};

/// The answer to a question.
type Answer = Response<Full<Bytes>>;

/// Approximate bytes that a header line takes in memory beside its name and its value.
const LINE_OVERHEAD: usize = 64;

/// Answers a question.
pub(super) async fn answer(
    asker: Rc<Asker>,
    question: http::Request<Incoming>,
) -> Result<Answer, Infallible> {
    let received = Received::now();
    asker.registered.record_request(received.arrived);
    let (parts, body) = question.into_parts();
    let mut answer = if !asker.is_trusted {
        refuse(&asker, RefusedQuestion::Untrusted, UNTRUSTED)
    } else {
        match asker.forward_auth.original(&parts) {
            Err(error) => refuse(&asker, RefusedQuestion::Headers, &format!("{error}\n")),
            Ok(original) => decide(&asker, &parts, original, received).await,
        }
    };
    // The body is not read, so the connection ends. Otherwise the bytes after the body could be
    // taken for another question, and programs may disagree about where a body ends.
    if !asker.is_trusted || !body.is_end_stream() {
        answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(answer)
}

const UNTRUSTED: &str =
    "this address may not ask: the setting `http-trusted` has no network of it\n";

/// Answers a question that no policy decides, and reports it.
fn refuse(asker: &Asker, refused: RefusedQuestion, text: &str) -> Answer {
    asker.context.shared.refused_questions.report(refused, asker.peer, text.trim_end());
    let status = match refused {
        RefusedQuestion::Untrusted => StatusCode::FORBIDDEN,
        RefusedQuestion::Headers | RefusedQuestion::InvalidHttp => StatusCode::BAD_REQUEST,
    };
    plain(status, text.to_owned())
}

async fn decide(
    asker: &Asker,
    parts: &Parts,
    original: Original<'_>,
    received: Received,
) -> Answer {
    let context = &asker.context;
    let mut exchange = Exchange {
        context,
        profile: asker.forward_auth.profile,
        parts,
        original,
        received,
        answer: None,
    };
    if let Err(unverified) = exchange.check(None) {
        let deadline = Instant::from_std(received.arrived) + context.shared.options.request_timeout;
        let _pending = asker.registered.count_pending();
        let mut cancelled = CountCancelled(Some(&context.checker));
        let checked = match wait::reserve(context, &unverified, exchange.bytes()) {
            Err(overload) => Err(overload.into()),
            Ok(_reservation) => {
                wait::verify_and_check(context, &mut exchange, unverified, deadline).await
            }
        };
        cancelled.0 = None;
        if let Err(failure) = checked {
            exchange.fail(failure);
        }
    }
    let _ = context.checker.record_latency(exchange.received);
    // Always there: each way above sets it.
    exchange.answer.unwrap_or_else(|| error(&context.checker, ErrorKind::Internal))
}

/// A question that is being answered.
struct Exchange<'a> {
    context: &'a WorkerContext,
    profile: Profile,
    parts: &'a Parts,
    original: Original<'a>,
    received: Received,
    answer: Option<Answer>,
}

/// Counts a question whose peer has closed the connection before the answer: `hyper` then drops
/// the exchange.
struct CountCancelled<'a>(Option<&'a Checker>);

impl Drop for CountCancelled<'_> {
    fn drop(&mut self) {
        if let Some(checker) = self.0 {
            checker.count_error(ErrorKind::Cancelled);
        }
    }
}

/// The header lines of a request. Those of most requests fit on the stack.
type HeaderLines<'a> = SmallVec<[Header<'a>; 48]>;

impl Exchange<'_> {
    /// The memory of the question, approximately.
    fn bytes(&self) -> usize {
        let lines = self.parts.headers.iter();
        let lines = lines.map(|(name, value)| name.as_str().len() + value.len() + LINE_OVERHEAD);
        lines.sum::<usize>() + self.parts.uri.path().len()
    }

    /// Answers without evaluating the policy.
    fn fail(&mut self, failure: Failure) {
        let checker = &self.context.checker;
        let limit = match failure {
            Failure::Error(kind) => {
                self.answer = Some(error(checker, kind));
                return;
            }
            Failure::Limit(limit) => limit,
            Failure::Overload(overload) => {
                self.context.shared.overloads.report(overload);
                overload.into()
            }
        };
        let lines = self.lines();
        let request = self.request(&lines);
        let answer = checker.with_snapshot(|authorizer, scratch| {
            checker.deny(
                (authorizer, scratch),
                &request,
                limit,
                self.call(),
                |verdict, decision| encode(checker, verdict, decision),
            )
        });
        let answer = answer.unwrap_or_else(|kind| error(checker, kind));
        drop(lines);
        self.answer = Some(answer);
    }

    /// The headers of the client: those of the question, without the headers that the proxy adds.
    fn lines(&self) -> HeaderLines<'_> {
        let lines = self.parts.headers.iter().filter(|(name, _)| !self.profile.owns(name));
        lines
            .map(|(name, value)| Header { name: name.as_str().as_bytes(), value: value.as_bytes() })
            .collect()
    }

    fn request<'r>(&self, headers: &'r [Header<'r>]) -> Request<'r>
    where
        Self: 'r,
    {
        let Original { method, host, path, client } = self.original;
        // Without a peer and a certificate. The proxy has no header of its own for them, and a
        // header that a client can send as well proves nothing.
        Request {
            method,
            host,
            path,
            headers,
            client,
            sets_headers_only: true,
            ..Request::default()
        }
    }

    fn call(&self) -> Call<'static> {
        Call { received: self.received, traceparent: &[], via: Via::Http }
    }
}

impl WaitingCheck for Exchange<'_> {
    fn check(&mut self, result: Option<&VerificationResult>) -> Result<(), Box<Unverified>> {
        let checker = &self.context.checker;
        let lines = self.lines();
        let request = self.request(&lines);
        let checked = checker.with_snapshot(|authorizer, scratch| {
            checker.authorize(
                (authorizer, scratch),
                &request,
                result,
                self.call(),
                |verdict, decision| encode(checker, verdict, decision),
            )
        });
        let answer = match checked {
            Ok(checked) => checked?,
            Err(kind) => error(checker, kind),
        };
        drop(lines);
        self.answer = Some(answer);
        Ok(())
    }

    fn resume(&mut self) {
        self.received = self.received.resumed_now();
    }

    /// Never: the exchange is dropped when the peer gives up.
    fn poll_cancelled(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// The answer with a verdict. An allowed request gets every header that the policy may set: a
/// header without a value is empty, so that a proxy that copies it always replaces what a client
/// has sent.
fn encode(
    checker: &Checker,
    verdict: &Verdict<'_>,
    decision: &DecisionContext<'_>,
) -> Result<Answer, ErrorKind> {
    let mut headers = HeaderMap::new();
    let body = match verdict {
        Verdict::Allowed(allowed) => {
            for (name, value) in allowed.set() {
                append(&mut headers, name, value)?;
            }
            for name in allowed.without_value() {
                append(&mut headers, name, "")?;
            }
            Bytes::new()
        }
        Verdict::Denied(denied) => {
            for (name, value) in checker.denial_headers(denied, decision.request.is_grpc()) {
                append(&mut headers, name, &value)?;
            }
            Bytes::copy_from_slice(denied.body.as_bytes())
        }
    };
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() =
        StatusCode::from_u16(verdict.status()).map_err(|_| ErrorKind::Unanswerable)?;
    *answer.headers_mut() = headers;
    Ok(answer)
}

fn append(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ErrorKind> {
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| ErrorKind::Unanswerable)?;
    let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|_| ErrorKind::Unanswerable)?;
    headers.append(name, value);
    Ok(())
}

/// The answer to a question that got no verdict, counted.
fn error(checker: &Checker, kind: ErrorKind) -> Answer {
    checker.count_error(kind);
    let status = match kind {
        ErrorKind::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        ErrorKind::Malformed
        | ErrorKind::Framing
        | ErrorKind::Compressed
        | ErrorKind::Unanswerable
        | ErrorKind::Internal
        | ErrorKind::Cancelled => StatusCode::INTERNAL_SERVER_ERROR,
    };
    plain(status, format!("error: {}\n", kind.name()))
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(text)));
    *answer.status_mut() = status;
    let plain_text = HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(CONTENT_TYPE, plain_text);
    answer
}
