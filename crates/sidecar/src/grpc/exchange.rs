//! One stream: a request and its answer. It is answered at once if possible, or in a task of its own if it has to
//! wait for the rest of the message or for a password hash.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use authorizer::Limit;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, Request, StatusCode};
use identity::{PasswordCheck, PasswordChecked};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep_until};

use super::check::{CheckResult, Failure, Received};
use super::counters::ErrorKind;
use super::hashing::{NotHashed, Source};
use super::message::Incoming;
use super::registry::Connected;
use super::respond;
use super::worker::Worker;

/// Upper bound of the margin between the deadline of an answer and the caller's timeout; the margin is a quarter of
/// the timeout if that is less. When the timeout expires, Envoy treats the check as an error, which
/// `failure_mode_allow` lets pass. So a denial must arrive earlier, even when Envoy and this process share a busy
/// machine. Of Envoy's default timeout, 200 ms, 150 ms remain.
const MAX_MARGIN: Duration = Duration::from_secs(1);

/// Whether the client has already reset the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamState {
    Open,
    Reset,
}

impl StreamState {
    /// The state after sending an answer at once, which fails only if the stream has been reset.
    pub(super) fn of(sent: Result<(), h2::Error>) -> Self {
        if sent.is_ok() { Self::Open } else { Self::Reset }
    }
}

/// Accepts a stream: answers it now, or spawns a task that answers it.
pub(super) fn take(
    worker: &Rc<Worker>,
    connected: &Connected,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    received: Received,
    cx: &mut Context<'_>,
) -> StreamState {
    // A failed send means that the caller has closed the stream: nothing is left to do.
    if let Some(refusal) = not_grpc(&request) {
        return StreamState::of(respond::plain(&mut respond, refusal));
    }
    if request.uri().path() != envoy::CHECK_PATH {
        return worker.others.take(request, respond, cx);
    }
    let (head, body) = request.into_parts();
    let mut incoming = Incoming::new(body, worker.limits.clone());
    let arrived = incoming.poll(cx);
    let mut exchange = Exchange { worker: Rc::clone(worker), respond, received, deadline: None };
    match arrived {
        Poll::Ready(Ok(message)) => {
            if let Some(unhashed) = exchange.check(&message) {
                incoming.release();
                exchange.deadline = Some(deadline(worker, &head.headers));
                let pending = connected.pending();
                spawn_local(async move {
                    exchange.hash(message, unhashed).await;
                    drop(pending);
                });
            }
        }
        Poll::Ready(Err(failure)) => {
            exchange.fail(failure, &[]);
            if failure == Failure::Error(ErrorKind::Cancelled) {
                return StreamState::Reset;
            }
        }
        Poll::Pending => {
            if let Err(limit) = incoming.wait() {
                exchange.fail(limit.into(), &[]);
                return StreamState::Open;
            }
            exchange.deadline = Some(deadline(worker, &head.headers));
            let pending = connected.pending();
            spawn_local(async move {
                exchange.receive(incoming).await;
                drop(pending);
            });
        }
    }
    StreamState::Open
}

struct Exchange {
    worker: Rc<Worker>,
    respond: SendResponse<Bytes>,
    received: Received,
    deadline: Option<Instant>,
}

/// A password that must be hashed before the request can be authorized, and the source that it counts against.
struct Unhashed(PasswordCheck, Source);

impl Exchange {
    /// Waits for the rest of the message, and for a password hash if one is needed.
    async fn receive(mut self, mut incoming: Incoming) {
        let rest = poll_fn(|cx| incoming.poll(cx));
        let message = tokio::select! {
            message = rest => message,
            () = expiry(self.deadline) => Err(Limit::Deadline.into()),
        };
        match message {
            Err(failure) => self.fail(failure, &[]),
            Ok(message) => {
                self.received = Received::now();
                if let Some(unhashed) = self.check(&message) {
                    incoming.release();
                    self.hash(message, unhashed).await;
                    return;
                }
            }
        }
        self.worker.checker.handed_over(self.received);
    }

    /// Authorizes and answers, unless a password must be hashed first; returns that password.
    fn check(&mut self, message: &[u8]) -> Option<Unhashed> {
        match self.worker.checker.check(message, None, self.received) {
            CheckResult::Pending(check, source) => return Some(Unhashed(check, source)),
            result @ (CheckResult::Answer(_) | CheckResult::Error(_)) => self.answer(result),
        }
        None
    }

    /// Waits until a password is hashed, then authorizes and answers.
    async fn hash(mut self, message: Bytes, mut unhashed: Unhashed) {
        // Copied, because `message` keeps alive the buffer that `h2` has read into, which is larger than most
        // messages.
        let message = Bytes::copy_from_slice(&message);
        let held = self.worker.limits.budget.hold(message.len().saturating_add(unhashed.0.bytes()));
        if let Err(limit) = held {
            self.fail(limit.into(), &message);
        } else {
            // Repeated only if a reload has replaced the stored hash in the meantime.
            loop {
                match self.hashed(unhashed).await {
                    Err(failure) => break self.fail(failure, &message),
                    Ok(checked) => match self.worker.checker.check(&message, Some(checked), self.received) {
                        CheckResult::Pending(check, source) => unhashed = Unhashed(check, source),
                        result @ (CheckResult::Answer(_) | CheckResult::Error(_)) => {
                            break self.answer(result);
                        }
                    },
                }
            }
        }
        self.worker.checker.handed_over(self.received);
    }

    async fn hashed(&mut self, Unhashed(check, source): Unhashed) -> Result<PasswordChecked, Failure> {
        let mut wait = self.worker.hashing.submit(check, source);
        let deadline = self.deadline;
        tokio::select! {
            hashed = wait.hashed() => hashed.map_err(Failure::from),
            () = expiry(deadline) => Err(Limit::Deadline.into()),
            _ = poll_fn(|cx| self.respond.poll_reset(cx)) => Err(ErrorKind::Cancelled.into()),
        }
    }

    fn answer(&mut self, result: CheckResult) {
        let sent = match result {
            CheckResult::Answer(message) => respond::message(&mut self.respond, message),
            CheckResult::Error(kind) => respond::error(&mut self.respond, kind),
            // The callers handle `Pending` themselves. If one came here, it would have no verdict, which is an error.
            CheckResult::Pending(..) => respond::error(&mut self.respond, ErrorKind::Panicked),
        };
        // A failed send means that the caller has closed the stream: nothing is left to do.
        drop(sent);
    }

    fn fail(&mut self, failure: Failure, message: &[u8]) {
        let failed = self.worker.checker.fail(failure, message, self.received);
        self.answer(failed);
    }
}

impl From<NotHashed> for Failure {
    fn from(reason: NotHashed) -> Self {
        match reason {
            NotHashed::Displaced => Limit::Capacity.into(),
            NotHashed::Panicked => ErrorKind::Panicked.into(),
        }
    }
}

async fn expiry(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// The HTTP status for a request that is not gRPC ("gRPC over HTTP2": 415 for another content type).
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

/// When a request must be answered: before the caller's `grpc-timeout` expires, and at the latest after
/// `read_timeout`.
fn deadline(worker: &Worker, headers: &HeaderMap) -> Instant {
    let asked = headers.get("grpc-timeout").and_then(|value| timeout(value.as_bytes()));
    let asked = asked.map(|asked| asked - MAX_MARGIN.min(asked / 4));
    Instant::now() + asked.map_or(worker.options.read_timeout, |asked| asked.min(worker.options.read_timeout))
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
    fn reads_a_timeout_as_grpc_writes_it() {
        assert_eq!(timeout(b"200m"), Some(Duration::from_millis(200)));
        assert_eq!(timeout(b"1S"), Some(Duration::from_secs(1)));
        assert_eq!(timeout(b"99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        for bad in [&b""[..], b"m", b"1", b"1x", b"-1m", b"1 m", b"123456789m"] {
            assert_eq!(timeout(bad), None, "{bad:?}");
        }
    }
}
