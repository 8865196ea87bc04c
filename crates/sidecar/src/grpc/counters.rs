//! Counters. Each worker has its own, so that no two threads write to the same cache line for each request. Readers
//! add them up.

mod counter;
mod histogram;
mod worker;

use super::wrong_protocol::WrongProtocol;
pub use histogram::Distribution;
pub(super) use worker::Worker;

/// Why a check got a gRPC error instead of a verdict. None of these is answered with OK.
///
/// An HTTP client of Envoy can cause only [`ErrorKind::Cancelled`], where Envoy no longer waits for the answer.
/// Everything else that it can cause is a denial ([`authorizer::Limit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No policy is active.
    NotReady,
    /// The message is not a `CheckRequest` of an HTTP request.
    Malformed,
    /// The gRPC framing is wrong: the message is cut short, or there is more than one.
    Framing,
    /// The message is compressed.
    Compressed,
    /// The verdict cannot be encoded as headers.
    Unanswerable,
    /// A bug: the code panicked on this request.
    Panicked,
    /// The gRPC client gave up before the answer.
    Cancelled,
}

impl ErrorKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::NotReady,
        Self::Malformed,
        Self::Framing,
        Self::Compressed,
        Self::Unanswerable,
        Self::Panicked,
        Self::Cancelled,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::Malformed => "malformed",
            Self::Framing => "framing",
            Self::Compressed => "compressed",
            Self::Unanswerable => "unanswerable",
            Self::Panicked => "panicked",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The counters, summed over all workers at one moment.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Checks that were allowed.
    pub allowed: u64,
    /// Checks that were denied, by the name of the reason. Only reasons that occurred are listed.
    pub denied: Vec<(&'static str, u64)>,
    /// Checks that got a gRPC error, by kind. Every kind is listed.
    pub errors: Vec<(ErrorKind, u64)>,
    /// Tokens verified: each once, while it is cached.
    pub tokens_verified: u64,
    /// Checks that wait for the rest of their message, or until their credentials are verified.
    pub in_flight: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Idle connections closed to make room for others.
    pub connections_evicted: u64,
    /// New connections closed at once, because the limit was reached and no connection was idle.
    pub connections_rejected: u64,
    /// Failed accepts, for example because no file descriptors are left.
    pub accept_errors: u64,
    /// Connections and requests in another protocol than ext_authz over gRPC, by what it was. Each is listed.
    pub wrong_protocols: Vec<(WrongProtocol, u64)>,
    /// Counters of password hashing.
    pub hashing: HashingTotals,
    /// Time from a complete message until its answer is handed over for writing. Answers that leave in one write have
    /// the same time; if a check waited until its credentials were verified, the wait is included.
    pub handler: Distribution,
    /// Time from a decoded request to its verdict, without waiting.
    pub evaluation: Distribution,
}

/// Counters of the hashing threads.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashingTotals {
    /// Checks that wait for a thread.
    pub queued: u64,
    /// Hashes computed since the start.
    pub done: u64,
    /// Checks that used the hash of an equal check.
    pub shared: u64,
    /// Checks denied with 503, because the queue was full of checks that take precedence.
    pub rejected: u64,
    /// Checks removed from the queue, because the gRPC client had cancelled all requests that waited for them.
    pub abandoned: u64,
    /// Hashes finished after the gRPC client had cancelled all requests that waited for them.
    pub unawaited: u64,
}

impl Totals {
    /// Sums up the workers' counters.
    pub(super) fn sum<'w>(workers: impl Iterator<Item = &'w Worker>) -> Self {
        let mut totals = Self { errors: ErrorKind::ALL.map(|kind| (kind, 0)).into(), ..Self::default() };
        workers.for_each(|worker| worker.add_to(&mut totals));
        totals
    }
}
