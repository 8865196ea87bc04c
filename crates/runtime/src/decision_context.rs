//! What is counted, logged and compared with a verdict: the request, when it came, and what decided it.

use std::time::{Duration, Instant};

use authorizer::{Authorizer, Request};

use crate::clock;

/// When a request was received, by the wall clock and the monotonic clock: when it was complete or, if it never is, when
/// its first part was read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Wall-clock time since the Unix epoch, of the end of the wait if it had to wait: for the validity of tokens.
    pub time: Duration,
    /// Monotonic: for the latency.
    pub at: Instant,
    /// The same, or the end of the wait if it had to wait.
    pub started: Instant,
}

/// What [`ThreadAuthorizer::record`](crate::ThreadAuthorizer::record) needs besides the verdict.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    /// What authorized it.
    pub authorizer: &'a Authorizer,
    /// The request.
    pub request: &'a Request<'a>,
    /// The client's address, as text; empty if it is not known.
    pub client: &'a [u8],
    /// When it was received.
    pub received: Received,
    /// When it was decided.
    pub decided_at: Instant,
    /// The `traceparent` of the proxy's own call, if it made one: its span is the parent of that of the decision. Else empty.
    pub traceparent: &'a [u8],
}

impl Received {
    /// The current time, by both clocks.
    #[must_use]
    pub fn now() -> Self {
        let at = Instant::now();
        Self { time: clock::now(), at, started: at }
    }

    /// Wall-clock time of its arrival since the Unix epoch: for the decision log and spans.
    #[must_use]
    pub fn arrival(self) -> Duration {
        self.time.saturating_sub(self.started.saturating_duration_since(self.at))
    }

    /// The same, decided now, after it waited: credentials and dates must be valid at the decision, however long a client makes
    /// the wait. The latency still counts from its arrival.
    #[must_use]
    pub fn waited(self) -> Self {
        Self { time: clock::now(), started: Instant::now(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrival_of_a_request_is_before_its_wait() {
        let (at, wait) = (Instant::now(), Duration::from_secs(3));
        let received = Received { time: Duration::from_secs(100), at, started: at + wait };
        assert_eq!(received.arrival(), Duration::from_secs(97));
    }
}
