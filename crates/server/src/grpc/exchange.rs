//! An HTTP/2 stream: a gRPC call and its answer. It is answered at once if possible, without a task
//! and its allocation. If a part of its message is missing, its connection polls for the rest, for
//! [`GRACE`]. It gets a task after that, or if its credentials must be verified.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use identity::VerificationResult;
use runtime::counters::ErrorKind;
use runtime::{Received, Via};
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::check::{self, Answer};
use super::message::{GRACE, Incoming};
use super::respond;
use crate::checks::checker::{Call, Failure, Unverified};
use crate::checks::context::WorkerContext;
use crate::checks::notices::{Peer, WrongProtocol};
use crate::checks::registry::{PendingGuard, RegisteredConnection};
use crate::checks::wait::{self, WaitingCheck};

/// An answer is due this long before the timeout of the peer, or a quarter of the timeout if that
/// is less: of Envoy's default timeout, 200 ms, 150 ms remain. When the timeout expires, Envoy
/// treats the check as an error, on which an Envoy with `failure_mode_allow` lets the request
/// through. So a denial must arrive earlier, even when Envoy and this process share a busy machine.
const MAX_MARGIN: Duration = Duration::from_secs(1);
/// The metadata of the call in which Envoy names its span. A `traceparent` among the headers in the
/// `CheckRequest` comes from the client.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Maximum length of a `traceparent` in bytes, because a check that waits keeps it. Version 00 has
/// 55 bytes.
const MAX_TRACEPARENT: usize = 256;

/// A stream that was opened by the peer.
pub(super) type Stream = (Request<RecvStream>, SendResponse<Bytes>);

/// Accepts a stream: answers it now, spawns a task that does, or returns it if the rest of its
/// message is missing.
///
/// # Errors
/// If the peer has reset the stream.
pub(super) fn accept(
    context: &Rc<WorkerContext>,
    registered: &RegisteredConnection,
    peer: Peer,
    (request, mut respond): Stream,
    received: Received,
) -> Result<Option<Receiving>, h2::Error> {
    let shared = &context.shared;
    if let Some(status) = not_grpc(&request) {
        shared.wrong_protocols.report(WrongProtocol::NotGrpc, peer, None);
        return respond::plain(&mut respond, status).map(|()| None);
    }
    let path = request.uri().path();
    if path != envoy::CHECK_PATH {
        if !shared.other_services.serves(path) {
            shared.wrong_protocols.report(WrongProtocol::UnknownMethod, peer, Some(path));
        }
        return shared.other_services.accept(request, respond).map(|()| None);
    }
    let (head, body) = request.into_parts();
    let mut incoming = Incoming::new(body);
    // No waker is needed: the rest of the message arrives while the connection is polled, and the
    // connection then polls the message again.
    let message = incoming.poll(&shared.limits, &mut Context::from_waker(Waker::noop()));
    let traceparent =
        if context.checker.joins_traces() { head.headers.get(TRACEPARENT) } else { None };
    let traceparent = traceparent.filter(|value| value.len() <= MAX_TRACEPARENT).cloned();
    let context = Rc::clone(context);
    let mut exchange = Exchange { context, peer, respond, received, traceparent };
    match message {
        Poll::Ready(Ok(message)) => {
            if let Err(unverified) = exchange.check(&message, None) {
                incoming.release();
                let deadline = deadline(&exchange.context, &head.headers);
                spawn_local(exchange.verify(
                    message,
                    unverified,
                    deadline,
                    registered.count_pending(),
                ));
            }
        }
        Poll::Ready(Err(failure)) => {
            exchange.fail(failure, &[]);
            // `fail` has counted an error. The caller also counts a reset if this returns an error.
            if failure == Failure::Error(ErrorKind::Cancelled) {
                return Err(Reason::CANCEL.into());
            }
        }
        Poll::Pending => {
            let deadline = deadline(&exchange.context, &head.headers);
            let (pending, until) = (registered.count_pending(), Instant::now() + GRACE);
            return Ok(Some(Receiving { exchange, incoming, deadline, pending, until }));
        }
    }
    Ok(None)
}

/// A request whose message has not arrived as a whole.
pub(super) struct Receiving {
    exchange: Exchange,
    incoming: Incoming,
    deadline: Instant,
    pending: PendingGuard,
    /// When the rest of the message has taken [`GRACE`].
    pub(super) until: Instant,
}

impl Receiving {
    /// Whether its answer is due only after [`GRACE`].
    pub(super) fn may_wait(&self) -> bool {
        self.deadline > self.until
    }

    /// The message, or why there will be none. To be called each time the connection has read,
    /// because no task is woken.
    pub(super) fn poll(&mut self) -> Poll<Result<Bytes, Failure>> {
        let limits = &self.exchange.context.shared.limits;
        self.incoming.poll(limits, &mut Context::from_waker(Waker::noop()))
    }

    /// Answers the request: now, or in a task if its credentials must be verified.
    pub(super) fn answer(self, message: Result<Bytes, Failure>, received: Received) {
        let Self { mut exchange, mut incoming, deadline, pending, .. } = self;
        match message {
            Err(failure) => {
                // The latency of this answer counts from the first part of its message, that of the
                // answers before it from `received`. So theirs is recorded first.
                let _ = exchange.context.checker.record_latency(received);
                exchange.fail(failure, &[]);
                let _ = exchange.context.checker.record_latency(exchange.received);
            }
            Ok(message) => {
                exchange.received = received;
                if let Err(unverified) = exchange.check(&message, None) {
                    incoming.release();
                    spawn_local(exchange.verify(message, unverified, deadline, pending));
                }
            }
        }
    }

    /// Waits for the rest of the message in a task.
    pub(super) fn spawn(self) {
        let Self { exchange, incoming, deadline, pending, until } = self;
        spawn_local(exchange.receive(incoming, until, deadline, pending));
    }
}

struct Exchange {
    context: Rc<WorkerContext>,
    peer: Peer,
    respond: SendResponse<Bytes>,
    received: Received,
    /// The `traceparent` of the call, if spans are recorded.
    traceparent: Option<HeaderValue>,
}

impl Exchange {
    /// Waits for the rest of the message, and for the verification of its credentials if it is
    /// needed.
    async fn receive(
        mut self,
        mut incoming: Incoming,
        grace: Instant,
        deadline: Instant,
        pending: PendingGuard,
    ) {
        match incoming.receive(&self.context.shared.limits, grace, deadline).await {
            Err(failure) => self.fail(failure, &[]),
            Ok(message) => {
                // Latency counts from the complete message: how fast a peer sends is not ours to
                // measure.
                self.received = Received::now();
                if let Err(unverified) = self.check(&message, None) {
                    incoming.release();
                    // Boxed, so that the tasks of unfinished messages, of which there can be many,
                    // are small.
                    return Box::pin(self.verify(message, unverified, deadline, pending)).await;
                }
            }
        }
        let _ = self.context.checker.record_latency(self.received);
    }

    /// Waits until the credentials are verified, then authorizes and answers.
    async fn verify(
        mut self,
        message: Bytes,
        unverified: Box<Unverified>,
        deadline: Instant,
        _pending: PendingGuard,
    ) {
        let context = Rc::clone(&self.context);
        match wait::reserve(&context, &unverified, message.len()) {
            Err(overload) => self.fail(overload.into(), &message),
            Ok(_reservation) => {
                // Copied, because `message` keeps alive the buffer that `h2` has read into, which
                // is larger than most messages.
                let copy = message.to_vec();
                drop(message);
                let mut waiting = Waiting { exchange: &mut self, message: &copy };
                if let Err(failure) =
                    wait::verify_and_check(&context, &mut waiting, unverified, deadline).await
                {
                    self.fail(failure, &copy);
                }
            }
        }
        let _ = context.checker.record_latency(self.received);
    }

    /// Authorizes and answers, unless credentials must be verified first.
    fn check(
        &mut self,
        message: &[u8],
        result: Option<&VerificationResult>,
    ) -> Result<(), Box<Unverified>> {
        let answer = check::check(&self.context, message, result, self.call())?;
        self.answer(answer);
        Ok(())
    }

    fn call(&self) -> Call<'_> {
        let traceparent = self.traceparent.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        Call { received: self.received, traceparent, via: Via::Grpc }
    }

    fn answer(&mut self, answer: Answer) {
        let sent = match answer {
            Answer::Verdict(message) => respond::message(&mut self.respond, message),
            Answer::Error(kind) => {
                if kind == ErrorKind::Malformed {
                    self.context.shared.wrong_protocols.report(
                        WrongProtocol::NotCheckRequest,
                        self.peer,
                        None,
                    );
                }
                respond::error(&mut self.respond, kind)
            }
        };
        // A failed send means that the peer has reset the stream: nothing is left to do.
        drop(sent);
    }

    /// Answers a request without evaluating the policy.
    fn fail(&mut self, failure: Failure, message: &[u8]) {
        if let Failure::Overload(overload) = failure {
            self.context.shared.overloads.report(overload);
        }
        let answer = check::fail(&self.context, failure, message, self.call());
        self.answer(answer);
    }
}

/// An exchange whose credentials are being verified, with its message.
struct Waiting<'a> {
    exchange: &'a mut Exchange,
    message: &'a [u8],
}

impl WaitingCheck for Waiting<'_> {
    fn check(&mut self, result: Option<&VerificationResult>) -> Result<(), Box<Unverified>> {
        self.exchange.check(self.message, result)
    }

    fn resume(&mut self) {
        self.exchange.received = self.exchange.received.resumed_now();
    }

    fn poll_cancelled(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.exchange.respond.poll_reset(cx).map(drop)
    }
}

/// The HTTP status for a request that is not gRPC; `None` if it is. The specification "gRPC over
/// HTTP2" asks for 415 if the content type is another.
fn not_grpc(request: &Request<RecvStream>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content = request.headers().get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let subtype = content.and_then(|content| content.strip_prefix(b"application/grpc"));
    match subtype.map(<[u8]>::first) {
        Some(None | Some(b'+' | b';')) => None,
        Some(Some(_)) | None => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// When a request must be answered: before the peer's `grpc-timeout` expires, and at the latest
/// after `Options::request_timeout`, by default 10 seconds.
fn deadline(context: &WorkerContext, headers: &HeaderMap) -> Instant {
    let requested = headers.get("grpc-timeout").and_then(|value| timeout(value.as_bytes()));
    let requested = requested.map(|timeout| timeout - MAX_MARGIN.min(timeout / 4));
    let limit = context.shared.options.request_timeout;
    Instant::now() + requested.map_or(limit, |timeout| timeout.min(limit))
}

/// Parses a `grpc-timeout`: at most eight digits and a unit. A value that cannot be parsed is
/// ignored.
fn timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.is_empty() || digits.len() > 8 {
        return None;
    }
    let number = digits.iter().try_fold(0_u64, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0'))
    })?;
    match unit {
        b'H' => Some(Duration::from_secs(number * 3600)),
        b'M' => Some(Duration::from_secs(number * 60)),
        b'S' => Some(Duration::from_secs(number)),
        b'm' => Some(Duration::from_millis(number)),
        b'u' => Some(Duration::from_micros(number)),
        b'n' => Some(Duration::from_nanos(number)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grpc_timeout_is_parsed() {
        assert_eq!(timeout(b"200m"), Some(Duration::from_millis(200)));
        assert_eq!(timeout(b"1S"), Some(Duration::from_secs(1)));
        assert_eq!(timeout(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in [&b""[..], b"m", b"1", b"1x", b"-1m", b"1 m", b"123456789m"] {
            assert_eq!(timeout(bad), None, "{bad:?}");
        }
    }
}
