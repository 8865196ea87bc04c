//! The last denials, for the person on call. Kept only with `--console`.
//!
//! A worker thread puts a copy of a denial into a bounded list. It never waits: if another thread
//! holds the list, or too many denials came in this second, the denial is counted and not kept.
//! When the list is full, the oldest denial of the most frequent reason is removed, so that a flood
//! does not push out the denials with other reasons.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::record::DecisionRecord;

/// The maximum number of denials that are kept.
pub const MAX_DENIALS: usize = 100;
/// The maximum number of denials that are kept per second, so that a flood of them costs little.
const MAX_PER_SECOND: u32 = 50;
/// The maximum number of groups, and of roles, that are kept of a denial.
const MAX_NAMES: usize = 20;

/// A denied request with the fields of a line of the decision log, cut and masked. A `String` that
/// does not apply is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "docs/operations.md explains the fields")]
pub struct Denial {
    pub time: Duration,
    pub reason: &'static str,
    pub detail: String,
    pub rule: Option<String>,
    pub user: Option<String>,
    pub attempted_user: Option<String>,
    pub issuer: Option<String>,
    /// The first groups.
    pub groups: Vec<String>,
    /// The first roles.
    pub roles: Vec<String>,
    pub method: String,
    pub host: String,
    /// The path as received, with the `query` of the line.
    pub path: String,
    pub inexact: bool,
    pub client: String,
    pub request_id: String,
    pub x_request_id: String,
}

/// The last denials.
#[derive(Debug, Default)]
pub struct RecentDenials {
    list: Mutex<List>,
    not_kept: AtomicU64,
}

#[derive(Debug, Default)]
struct List {
    /// The oldest first.
    denials: VecDeque<Denial>,
    /// The last second with a denial.
    second: u64,
    /// How many denials came in that second.
    in_second: u32,
}

impl RecentDenials {
    /// The denials that are kept, the newest first.
    pub fn newest_first(&self) -> Vec<Denial> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.denials.iter().rev().cloned().collect()
    }

    /// How many denials were not kept, because too many came at once.
    pub fn not_kept(&self) -> u64 {
        self.not_kept.load(Ordering::Relaxed)
    }

    /// Whether to keep a denial of this time. If not, counts it as not kept.
    pub(crate) fn admit(&self, time: Duration) -> bool {
        self.try_list().is_some_and(|mut list| list.admit(time)) || self.count_not_kept()
    }

    /// Keeps a denial, or counts it as not kept.
    pub(crate) fn keep(&self, denial: Denial) {
        match self.try_list() {
            Some(mut list) => list.push(denial),
            None => _ = self.count_not_kept(),
        }
    }

    /// `None` while another thread uses the list: a worker thread does not wait.
    fn try_list(&self) -> Option<MutexGuard<'_, List>> {
        match self.list.try_lock() {
            Ok(list) => Some(list),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn count_not_kept(&self) -> bool {
        self.not_kept.fetch_add(1, Ordering::Relaxed);
        false
    }
}

impl Denial {
    pub(crate) fn new(record: &DecisionRecord<'_>) -> Self {
        let path = if record.raw_path.is_empty() { &record.path } else { &record.raw_path };
        let separator = if record.query.is_empty() { "" } else { "?" };
        Self {
            time: record.time,
            reason: record.reason.unwrap_or_default(),
            detail: record.detail.to_string(),
            rule: non_empty(record.rule),
            user: non_empty(&record.user),
            attempted_user: non_empty(&record.attempted_user),
            issuer: non_empty(record.issuer),
            groups: names(&record.groups),
            roles: names(&record.roles),
            method: record.method.to_string(),
            host: record.host.to_string(),
            path: format!("{path}{separator}{}", record.query),
            inexact: record.inexact,
            client: record.client.to_string(),
            request_id: record.request_id.to_string(),
            x_request_id: record.x_request_id.to_string(),
        }
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().take(MAX_NAMES).map(ToString::to_string).collect()
}

impl List {
    /// Counts a denial, and returns whether it may be kept. It is counted in its second, or in
    /// `self.second` if that is later.
    fn admit(&mut self, time: Duration) -> bool {
        if self.second < time.as_secs() {
            (self.second, self.in_second) = (time.as_secs(), 0);
        }
        self.in_second = self.in_second.saturating_add(1);
        self.in_second <= MAX_PER_SECOND
    }

    fn push(&mut self, denial: Denial) {
        if self.denials.len() >= MAX_DENIALS {
            self.make_room();
        }
        self.denials.push_back(denial);
    }

    /// Removes the oldest denial of the reason that has the most.
    fn make_room(&mut self) {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.denials.iter().for_each(|denial| *counts.entry(denial.reason).or_default() += 1);
        let most = counts.into_iter().max_by_key(|(_, count)| *count).map(|(reason, _)| reason);
        let oldest = self.denials.iter().position(|denial| Some(denial.reason) == most);
        self.denials.remove(oldest.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(reason: &'static str, path: &str) -> Denial {
        Denial { reason, path: path.to_owned(), ..Denial::default() }
    }

    #[test]
    fn a_flood_of_one_reason_does_not_push_out_the_others() {
        let mut list = List::default();
        list.push(denial("not_allowed", "/rare"));
        (0..10 * MAX_DENIALS)
            .for_each(|number| list.push(denial("bad_password", &number.to_string())));
        assert_eq!(list.denials.len(), MAX_DENIALS);
        assert_eq!(list.denials.front().unwrap().path, "/rare");
        assert_eq!(list.denials.back().unwrap().path, "999");
    }

    #[test]
    fn a_second_has_a_bounded_number_of_denials() {
        let mut list = List::default();
        let taken = (0..1000).filter(|_| list.admit(Duration::from_secs(7))).count();
        assert_eq!(taken, MAX_PER_SECOND as usize);
        assert!(list.admit(Duration::from_secs(8)));
    }
}
