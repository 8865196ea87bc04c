//! The counters of a shadow policy.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::decided::Difference;
use crate::status::Status;

/// How the decisions of a shadow policy compare with those of the active one.
#[derive(Debug)]
pub struct ShadowStats {
    /// The status of the shadow policy and its keys.
    pub status: Arc<Status>,
    /// The number of requests by [`Difference`].
    compared: [AtomicU64; Self::RESULTS.len()],
    dropped: AtomicU64,
}

impl ShadowStats {
    /// The names of all results.
    pub const RESULTS: [&'static str; 7] = Difference::NAMES;

    /// Zeros.
    #[must_use]
    pub fn new(status: Arc<Status>) -> Self {
        Self { status, compared: Default::default(), dropped: AtomicU64::default() }
    }

    /// The number of requests by result. Each result is listed.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.compared.iter().map(|count| count.load(Ordering::Relaxed));
        Self::RESULTS.into_iter().zip(counts)
    }

    /// The number of requests that were not compared because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, difference: Difference) {
        if let Some(count) = self.compared.get(difference as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}
