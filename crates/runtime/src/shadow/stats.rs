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
    compared: [AtomicU64; Difference::ALL.len()],
    errors: AtomicU64,
    dropped: AtomicU64,
}

impl ShadowStats {
    /// The names of all results.
    pub const RESULTS: [&'static str; 7] = [
        Difference::Same.name(),
        Difference::WouldAllow.name(),
        Difference::WouldDeny.name(),
        Difference::OtherRule.name(),
        Difference::UnknownCaller.name(),
        Difference::NotCompared.name(),
        "error",
    ];

    /// Zeros.
    #[must_use]
    pub fn new(status: Arc<Status>) -> Self {
        let compared = Default::default();
        let [errors, dropped] = Default::default();
        Self { status, compared, errors, dropped }
    }

    /// The number of requests by result. Each result is listed.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.compared.iter().chain([&self.errors]);
        Self::RESULTS.into_iter().zip(counts.map(|count| count.load(Ordering::Relaxed)))
    }

    /// The number of requests that were not compared because the queue was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(super) fn compared(&self, difference: Difference) {
        let counts = Difference::ALL.into_iter().zip(&self.compared);
        counts.filter(|(each, _)| *each == difference).for_each(|(_, count)| add_one(count));
    }

    pub(super) fn error(&self) {
        add_one(&self.errors);
    }

    pub(super) fn drop_one(&self) {
        add_one(&self.dropped);
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}
