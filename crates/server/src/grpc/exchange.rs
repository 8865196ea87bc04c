//! One HTTP/2 stream: a gRPC call and its answer. It is answered at once if possible, without a task and its
//! allocation. If the rest of its message is missing, its connection looks for it after each read (see `unfinished`), for up to
//! `GRACE`. It gets a task of its own after that. It gets one at once if its connection already continues as many as it may, if it must be
//! answered before the end of `GRACE`, or if its credentials must be verified.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use authorizer::Limit;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use identity::{Verification, VerificationKind, VerificationResult};
use runtime::counters::ErrorKind;
use runtime::hashing::NotHashed;
use runtime::{ClientNetwork, Received};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::check::{Answer, Call, CheckResult, Failure};
use super::context::ExchangeContext;
use super::message::{Held, Incoming, Limits};
use super::overload::Overload;
use super::registry::{PendingGuard, RegisteredConnection};
use super::respond::{self, StreamState};
use super::verifications::HeldVerification;
use super::wrong_protocol::{Peer, WrongProtocol};

/// An answer is due this long before the timeout of the peer, or a quarter of the timeout if that is less: of Envoy's
/// default timeout, 200 ms, 150 ms remain. When the timeout expires, Envoy treats the check
/// as an error, on which an Envoy with `failure_mode_allow` lets the request through. So a denial must arrive earlier,
/// even when Envoy and this process share a busy machine.
const MAX_MARGIN: Duration = Duration::from_secs(1);
/// How long the rest of a message may take before its check counts among those that wait. Head and message often arrive in two
/// reads, a moment apart. Such a check must not be denied because slow peers have taken all places. Chosen, not measured: far
/// longer than that moment on a busy machine, and less than Envoy's default timeout, 200 ms.
pub(super) const GRACE: Duration = Duration::from_millis(100);

/// Envoy names the span of its call to rolegate here, in the metadata of the call. A `traceparent` among the headers in the
/// `CheckRequest` is the one that the client sent.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// The longest one that counts, in bytes: a check that waits keeps it. Today's has 55; a later version may have more.
const MAX_TRACEPARENT: usize = 256;

/// A stream that was opened by the peer.
pub(super) type Stream = (Request<RecvStream>, SendResponse<Bytes>);

/// What became of a stream that was accepted.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once; a box would be an allocation")]
pub(super) enum Accepted {
    /// It is answered, or will be by a task of its own.
    Done(StreamState),
    /// The rest of its message has not arrived.
    Receiving(Receiving),
}

/// Accepts a stream: answers it now, or returns it if its message is not complete, or spawns a task that answers it.
pub(super) fn accept(
    context: &Rc<ExchangeContext>,
    registered: &RegisteredConnection,
    peer: Peer,
    (request, mut respond): Stream,
    received: Received,
    cx: &mut Context<'_>,
) -> Accepted {
    // A failed send means that the peer has reset the stream: nothing is left to do.
    if let Some(status) = not_grpc(&request) {
        context.wrong_protocols.notice(WrongProtocol::NotGrpc, peer, None);
        return Accepted::Done(StreamState::of(respond::plain(&mut respond, status)));
    }
    if request.uri().path() != envoy::CHECK_PATH {
        if !context.other_services.serves(request.uri().path()) {
            let method = Some(request.uri().path());
            context.wrong_protocols.notice(WrongProtocol::UnknownMethod, peer, method);
        }
        return Accepted::Done(context.other_services.accept(request, respond, cx));
    }
    let (head, body) = request.into_parts();
    let mut incoming = Incoming::new(body);
    // The rest can arrive only while the connection is polled, which then looks for it.
    let message = incoming.poll(&context.limits, &mut Context::from_waker(Waker::noop()));
    let traceparent = if context.checker.joins_traces() { head.headers.get(TRACEPARENT) } else { None };
    let traceparent = traceparent.filter(|value| value.len() <= MAX_TRACEPARENT).cloned();
    let mut exchange =
        Exchange { context: Rc::clone(context), peer, respond, received, traceparent, deadline: None };
    match message {
        Poll::Ready(Ok(message)) => {
            if let Some(unverified) = exchange.check(&message) {
                incoming.release();
                exchange.deadline = Some(deadline(context, &head.headers));
                let guard = registered.count_pending();
                spawn_local(async move {
                    exchange.verify(message, unverified).await;
                    drop(guard);
                });
            }
        }
        Poll::Ready(Err(failure)) => {
            exchange.fail(failure, &[]);
            if failure == Failure::Error(ErrorKind::Cancelled) {
                return Accepted::Done(StreamState::Reset);
            }
        }
        Poll::Pending => {
            if let Err(overload) = incoming.wait(&context.limits) {
                exchange.fail(overload.into(), &[]);
                return Accepted::Done(StreamState::NotReset);
            }
            exchange.deadline = Some(deadline(context, &head.headers));
            let (guard, until) = (registered.count_pending(), Instant::now() + GRACE);
            return Accepted::Receiving(Receiving { exchange, incoming, guard, until });
        }
    }
    Accepted::Done(StreamState::NotReset)
}

/// A request whose message has not arrived as a whole.
pub(super) struct Receiving {
    exchange: Exchange,
    incoming: Incoming,
    guard: PendingGuard,
    /// When the rest of the message has taken [`GRACE`].
    until: Instant,
}

impl Receiving {
    /// Whether it may wait for [`GRACE`] without a timer of its own.
    pub(super) fn may_wait(&self) -> bool {
        self.exchange.deadline.is_some_and(|deadline| deadline > self.until)
    }

    pub(super) fn until(&self) -> Instant {
        self.until
    }

    /// The message, or why there will be none, once it is known. Nothing is woken: to be called when the connection has read.
    pub(super) fn poll(&mut self) -> Option<Result<Bytes, Failure>> {
        let mut cx = Context::from_waker(Waker::noop());
        match self.incoming.poll(&self.exchange.context.limits, &mut cx) {
            Poll::Ready(message) => Some(message),
            Poll::Pending => None,
        }
    }

    /// Answers it, at once or, if its credentials must be verified, in a task of its own. The latency of
    /// a complete message counts from `received`, that of a failed one from its first part.
    pub(super) fn answer(self, message: Result<Bytes, Failure>, received: Received) {
        let Self { mut exchange, mut incoming, guard, .. } = self;
        match message {
            Err(failure) => {
                // First the latency of the verdicts before it in this batch (see `connection`), which counts from `received`; then its
                // own, which counts from its first part.
                let _ = exchange.context.checker.record_latency(received);
                exchange.fail(failure, &[]);
                let _ = exchange.context.checker.record_latency(exchange.received);
            }
            Ok(message) => {
                exchange.received = received;
                if let Some(unverified) = exchange.check(&message) {
                    incoming.release();
                    spawn_local(async move {
                        exchange.verify(message, unverified).await;
                        drop(guard);
                    });
                }
            }
        }
    }

    /// Waits for the rest in a task of its own.
    pub(super) fn spawn(self) {
        let Self { exchange, incoming, guard, until } = self;
        spawn_local(async move {
            exchange.receive(incoming, until).await;
            drop(guard);
        });
    }
}

struct Exchange {
    context: Rc<ExchangeContext>,
    peer: Peer,
    respond: SendResponse<Bytes>,
    received: Received,
    /// The `traceparent` of the call, if it matters.
    traceparent: Option<HeaderValue>,
    deadline: Option<Instant>,
}

/// Credentials that must be verified before the request can be authorized, and the network of the downstream client, by
/// which the queues decide whose credentials are verified next.
struct Unverified(Verification, ClientNetwork);

impl Exchange {
    /// Waits for the rest of the message, and for the verification of its credentials if one is needed.
    async fn receive(mut self, mut incoming: Incoming, until: Instant) {
        let message = tokio::select! {
            message = rest_of(&mut incoming, &self.context.limits, until) => message,
            () = expiry(self.deadline) => Err(Limit::Deadline.into()),
        };
        match message {
            Err(failure) => self.fail(failure, &[]),
            Ok(message) => {
                // Latency counts from the complete message: how fast a peer sends is not ours to measure.
                self.received = Received::now();
                if let Some(unverified) = self.check(&message) {
                    incoming.release();
                    self.verify(message, unverified).await;
                    return;
                }
            }
        }
        let _ = self.context.checker.record_latency(self.received);
    }

    /// Authorizes and answers, unless credentials must be verified first; returns those.
    fn check(&mut self, message: &[u8]) -> Option<Unverified> {
        self.check_with_result(message, None)
    }

    fn check_with_result(
        &mut self,
        message: &[u8],
        result: Option<&VerificationResult>,
    ) -> Option<Unverified> {
        match self.context.checker.check(message, result, self.call()) {
            CheckResult::Answered(answer) => {
                self.answer(answer);
                None
            }
            CheckResult::Pending(verification, network) => Some(Unverified(verification, network)),
        }
    }

    /// Waits until the credentials are verified, then authorizes and answers.
    async fn verify(mut self, message: Bytes, unverified: Unverified) {
        let bytes = message.len().saturating_add(unverified.0.bytes());
        match self.hold(&unverified, bytes) {
            Err(overload) => self.fail(overload.into(), &message),
            Ok(_held) => {
                // Copied, because `message` keeps alive the buffer that `h2` has read into, which is larger than most messages.
                let copy = message.to_vec();
                drop(message);
                if let Err(failure) = self.verify_and_check(&copy, unverified).await {
                    self.fail(failure, &copy);
                }
            }
        }
        let _ = self.context.checker.record_latency(self.received);
    }

    /// What a check holds whose credentials are to be verified.
    fn hold(
        &self,
        Unverified(verification, network): &Unverified,
        bytes: usize,
    ) -> Result<(Option<HeldVerification>, Held), Overload> {
        let Limits { budget, verifications, .. } = &self.context.limits;
        let share = verifications.share_of(verification.verified_before(), *network, bytes)?;
        Ok((share, budget.hold(bytes)?))
    }

    async fn verify_and_check(&mut self, message: &[u8], unverified: Unverified) -> Result<(), Failure> {
        let mut next = Some(unverified);
        // Repeated only if a reload came in between (for a password: one that changed its stored hash).
        while let Some(Unverified(verification, network)) = next {
            next = match verification.kind() {
                VerificationKind::Password => {
                    let mut wait = self.context.hashing.submit(verification, network);
                    let hashed = async { wait.hashed().await.map_err(not_hashed) };
                    let result = self.in_time(hashed).await?;
                    self.received = self.received.waited();
                    self.check_with_result(message, Some(&result))
                }
                VerificationKind::Token => {
                    let admission = self.context.token_queue.enqueue(network)?;
                    self.in_time(async { admission.await.map_err(|_| Overload::TokenQueue.into()) }).await?;
                    self.received = self.received.waited();
                    // Another request with the same token may have been admitted earlier, so that the token is cached
                    // now.
                    match self.check(message) {
                        Some(Unverified(verification, _)) => {
                            let result = self.context.checker.verify(verification)?;
                            self.check_with_result(message, Some(&result))
                        }
                        None => None,
                    }
                }
            };
        }
        Ok(())
    }

    /// The result of `wait`, unless the deadline passes or the peer gives up before it is there.
    async fn in_time<T>(&mut self, wait: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let deadline = self.deadline;
        tokio::select! {
            result = wait => result,
            () = expiry(deadline) => Err(Limit::Deadline.into()),
            _ = poll_fn(|cx| self.respond.poll_reset(cx)) => Err(ErrorKind::Cancelled.into()),
        }
    }

    fn call(&self) -> Call<'_> {
        let traceparent = self.traceparent.as_ref().map(HeaderValue::as_bytes).unwrap_or_default();
        Call { received: self.received, traceparent }
    }

    fn answer(&mut self, answer: Answer) {
        let sent = match answer {
            Answer::Verdict(message) => respond::message(&mut self.respond, message),
            Answer::Error(kind) => {
                if kind == ErrorKind::Malformed {
                    self.context.wrong_protocols.notice(WrongProtocol::NotCheckRequest, self.peer, None);
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
            self.context.overloads.notice(overload);
        }
        let answer = self.context.checker.fail(failure, message, self.call());
        self.answer(answer);
    }
}

/// The message, once it has arrived as a whole. It takes a place among those that wait only after `until`.
async fn rest_of(incoming: &mut Incoming, limits: &Limits, until: Instant) -> Result<Bytes, Failure> {
    if let Ok(message) = timeout_at(until, poll_fn(|cx| incoming.poll(limits, cx))).await {
        return message;
    }
    incoming.take_place()?;
    poll_fn(|cx| incoming.poll(limits, cx)).await
}

fn not_hashed(reason: NotHashed) -> Failure {
    match reason {
        NotHashed::Displaced => Overload::HashQueue.into(),
        NotHashed::Failed => ErrorKind::Internal.into(),
    }
}

async fn expiry(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The HTTP status for a request that is not gRPC; `None` if it is. The specification "gRPC over HTTP2" asks for 415 if
/// the content type is another one.
fn not_grpc(request: &Request<RecvStream>) -> Option<StatusCode> {
    if request.method() != Method::POST {
        return Some(StatusCode::METHOD_NOT_ALLOWED);
    }
    let content = request.headers().get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    let rest = content.and_then(|content| content.strip_prefix(b"application/grpc"));
    match rest.map(<[u8]>::first) {
        Some(None | Some(b'+' | b';')) => None,
        Some(Some(_)) | None => Some(StatusCode::UNSUPPORTED_MEDIA_TYPE),
    }
}

/// When a request must be answered: before the peer's `grpc-timeout` expires, and at the latest after
/// `Options::request_timeout`, 10 seconds.
fn deadline(context: &ExchangeContext, headers: &HeaderMap) -> Instant {
    let requested = headers.get("grpc-timeout").and_then(|value| timeout(value.as_bytes()));
    let requested = requested.map(|timeout| timeout - MAX_MARGIN.min(timeout / 4));
    let limit = context.options.request_timeout;
    Instant::now() + requested.map_or(limit, |timeout| timeout.min(limit))
}

/// Parses a `grpc-timeout`: at most eight digits and a unit. A value that cannot be parsed is ignored.
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
