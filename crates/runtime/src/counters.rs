//! Counters. Each worker thread has its own, so that no two write to the same cache line.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod histogram;
mod thread;

pub use histogram::{Distribution, Recorder};
pub use identity::{CacheLookups, CacheSize};
pub use thread::ThreadCounters;

/// Why a check got an error instead of a verdict. Over gRPC an error is a status other than OK,
/// over HTTP an error status such as 500, and inside Envoy a 503.
///
/// A client of Envoy can cause no error but [`ErrorKind::Cancelled`], if Envoy no longer waits for
/// the answer. Its invalid requests are denied instead ([`authorizer::Limit`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// No policy is active.
    NotReady,
    /// The message is neither a `CheckRequest` of an HTTP request nor a question of AuthZEN.
    Malformed,
    /// The gRPC framing is wrong: the message is cut short, or there are several.
    Framing,
    /// The message is compressed.
    Compressed,
    /// The verdict cannot be encoded as headers. Inside Envoy also: the request must wait for a
    /// verification, but cannot be paused.
    Unanswerable,
    /// A bug: a panic while this request was processed, or an event of Envoy that should not be
    /// possible.
    Internal,
    /// The client that asked for the check gave up before the answer.
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
        Self::Internal,
        Self::Cancelled,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReady => "not_ready",
            Self::Malformed => "malformed",
            Self::Framing => "framing",
            Self::Compressed => "compressed",
            Self::Unanswerable => "unanswerable",
            Self::Internal => "internal",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The result of valid credentials, in [`Totals::credentials`].
pub const VALID: &str = "valid";

/// The counters of the decisions, summed over all worker threads.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Checks that were allowed.
    pub allowed: u64,
    /// Checks that were denied, by the name of the reason. Only reasons that occurred are listed.
    pub denied: Vec<(&'static str, u64)>,
    /// Checks that got an error, by kind. Every kind is listed.
    pub errors: Vec<(ErrorKind, u64)>,
    /// Requests with credentials: the scheme, the result and the count. The result is [`VALID`] or
    /// the name of the reason why the credentials are not valid.
    pub credentials: Vec<(&'static str, &'static str, u64)>,
    /// Lookups in the credential caches, by result.
    pub lookups: CacheLookups,
    /// Tokens verified. A cached token is not verified again.
    pub tokens_verified: u64,
    /// Time from a complete request until its answer is passed to the transport, inside Envoy until
    /// the decision. It includes the wait for a verification.
    pub check: Distribution,
    /// Time to authorize a decoded request, without the wait for a verification. Inside Envoy it
    /// includes reading the headers.
    pub evaluation: Distribution,
}

impl Totals {
    /// Sums up the counters of all worker threads.
    #[must_use]
    pub fn sum<'w>(threads: impl Iterator<Item = &'w ThreadCounters>) -> Self {
        let mut totals =
            Self { errors: ErrorKind::ALL.map(|kind| (kind, 0)).into(), ..Self::default() };
        threads.for_each(|thread| thread.add_to(&mut totals));
        totals
    }

    /// Adds the counters of another thread.
    pub fn add(&mut self, thread: &ThreadCounters) {
        thread.add_to(self);
    }
}

/// A number that a single thread writes and any thread reads. A load and a store suffice, so an
/// update needs no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Adds 1.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Subtracts 1.
    pub fn decrement(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    /// The current value.
    pub fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
