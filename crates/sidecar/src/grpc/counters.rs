//! What happened, counted. Each worker counts for itself, so that no two threads write one cache line per request;
//! whoever asks sums up.

mod cells;
mod histogram;

pub(super) use cells::Worker;
pub use histogram::Distribution;

/// Why a check got a gRPC error in place of a verdict. Never an OK.
///
/// A client behind the proxy can cause only [`ErrorKind::Cancelled`], where nobody waits for the answer; all else that it
/// can cause is a denial ([`authorizer::Limit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// There is no active policy.
    NotReady,
    /// The message is not a `CheckRequest` of an HTTP request.
    Malformed,
    /// The gRPC framing is wrong: cut short, or more than one message.
    Framing,
    /// The message is compressed.
    Compressed,
    /// The verdict cannot be put into headers.
    Unanswerable,
    /// A bug: the thread panicked over this request.
    Panicked,
    /// The caller gave up before the answer.
    Cancelled,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NotReady,
        Self::Malformed,
        Self::Framing,
        Self::Compressed,
        Self::Unanswerable,
        Self::Panicked,
        Self::Cancelled,
    ];

    /// Its name in metrics and logs.
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

/// The sums over all workers, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Checks that were allowed.
    pub allowed: u64,
    /// Checks that were denied, by the name of the reason; only reasons that occurred.
    pub denied: Vec<(&'static str, u64)>,
    /// Checks that got a gRPC error, by kind; every kind is there.
    pub errors: Vec<(ErrorKind, u64)>,
    /// Checks that wait for the rest of their message or for a password's hash.
    pub in_flight: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Idle connections closed to make room for others.
    pub connections_evicted: u64,
    /// Connections closed at once: there were too many, and none of them was idle.
    pub connections_rejected: u64,
    /// Failed accepts (no file descriptors left, say).
    pub accept_errors: u64,
    /// The password hashing.
    pub hashing: HashingTotals,
    /// From a complete message to its answer handed over for writing. Answers that leave in one write have the same
    /// time, and one that was waited for (a password's hash) has the waiting in it.
    pub handler: Distribution,
    /// From a decoded request to its verdict, without waiting.
    pub evaluation: Distribution,
}

/// The hashing pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct HashingTotals {
    /// Checks waiting for a thread.
    pub queued: u64,
    /// Hashes computed since the start.
    pub done: u64,
    /// Checks that shared the hash of an equal one.
    pub shared: u64,
    /// Checks denied with 503 because the queue was full of others that come first.
    pub rejected: u64,
    /// Checks that left the queue because nobody waited for them any more.
    pub abandoned: u64,
    /// Hashes that nobody waited for any more when they were finished.
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
