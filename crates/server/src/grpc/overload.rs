//! Checks that cannot wait, because too many others do. Each is denied at once with 503.
//!
//! It is a denial and not a gRPC error, so that no Envoy lets a request pass because of it, not even one with
//! `failure_mode_allow: true` (S8 in SECURITY.md). Callers whose credentials are cached wait for the rest of a
//! message at most, to which verifications always leave half of the memory.

use authorizer::Limit;

use super::notices::Notices;

/// The limit that keeps a check from waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Overload {
    /// The number of checks that wait.
    WaitingChecks,
    /// The memory that waiting checks take.
    Memory,
    /// What the checks of one client network may take whose credentials are verified.
    ClientNetwork,
    /// The number of passwords that wait to be hashed.
    HashQueue,
    /// The number of tokens that wait to be verified.
    TokenQueue,
}

/// The overloads of all workers.
#[derive(Debug)]
pub(super) struct Overloads(Notices<Overload>);

impl Overload {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::WaitingChecks, Self::Memory, Self::ClientNetwork, Self::HashQueue, Self::TokenQueue];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WaitingChecks => "waiting_checks",
            Self::Memory => "memory",
            Self::ClientNetwork => "client_network",
            Self::HashQueue => "hash_queue",
            Self::TokenQueue => "token_queue",
        }
    }

    /// What to do.
    const fn advice(self) -> &'static str {
        match self {
            Self::WaitingChecks => {
                "checks are denied with 503: `--max-waiting-checks` others wait. Does a peer begin messages and not end them, or do \
                 clients try credentials? Limit their rate in Envoy, or add instances"
            }
            Self::Memory => {
                "checks are denied with 503: those that wait take all memory that they may (half of it, if their credentials are being \
                 verified). Does a peer begin messages and not end them, or do clients of many networks try credentials in large \
                 requests? Limit their rate in Envoy. If Envoy sends large bodies, add instances"
            }
            Self::ClientNetwork => {
                "checks are denied with 503: too many of one client network wait until their credentials are verified. Does a \
                 client guess passwords? Limit its rate in Envoy. All clients of a proxy in front of Envoy are one network"
            }
            Self::HashQueue => {
                "checks are denied with 503: more passwords arrive than are hashed. Does a client guess passwords? Limit its \
                 rate in Envoy, or raise `--hash-threads` or the number of instances"
            }
            Self::TokenQueue => {
                "checks are denied with 503: more new tokens arrive than are verified. Does a client send invalid ones? \
                 Limit its rate in Envoy, or add cores or instances"
            }
        }
    }
}

impl From<Overload> for Limit {
    fn from(_: Overload) -> Self {
        Self::Capacity
    }
}

impl Overloads {
    pub(super) fn new() -> Self {
        Self(Notices::new(&Overload::ALL))
    }

    /// Counts a check that was denied, and logs it unless that was done a short time ago.
    pub(super) fn notice(&self, overload: Overload) {
        if self.0.notice(overload) {
            tracing::warn!(limit = overload.name(), "{}", overload.advice());
        }
    }

    /// The number of checks denied because of each limit.
    pub(super) fn counts(&self) -> Vec<(Overload, u64)> {
        self.0.counts()
    }
}
