//! The last denials, for the person on call. Kept only where it is asked for (`--console`).
//!
//! A worker thread puts a copy of a denial into a bounded list. It never waits: if another thread
//! holds the list at that moment, or many denials came in this second already, the denial is
//! counted and not kept. When the list is full, the reason that has the most denials in it loses
//! its oldest one, so that a flood of one kind does not push out the others.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::decisions::line::Line;

/// The maximum number of denials that are kept.
pub const MAX_DENIALS: usize = 100;
/// The maximum number of denials that are kept per second, so that a flood of them costs little.
const MAX_PER_SECOND: u32 = 50;
const MAX_NAMES: usize = 20;

/// A denied request, as a line of the decision log has it: cut, and with the same masks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Denial {
    /// When the request was received, as time since the Unix epoch.
    pub time: Duration,
    /// The name of the reason.
    pub reason: &'static str,
    /// More about the reason; may be empty.
    pub detail: String,
    /// The rule that decided, if one did.
    pub rule: Option<String>,
    /// The user, if known and not left out by a mask.
    pub user: Option<String>,
    /// Who invalid credentials claim to be.
    pub attempted_user: Option<String>,
    /// The issuer of the caller's token.
    pub issuer: Option<String>,
    /// The caller's groups: the first ones.
    pub groups: Vec<String>,
    /// The caller's roles, from its token: the first ones.
    pub roles: Vec<String>,
    /// The method.
    pub method: String,
    /// The host, as received.
    pub host: String,
    /// The path as received. Of its query, it has what decides about a request to a search cluster.
    pub path: String,
    /// Whether a mask replaced a part, or a value is cut: the request cannot be repeated exactly.
    pub inexact: bool,
    /// The client's address; may be empty.
    pub client: String,
    /// The proxy's request ID, which the body of a denial has; may be empty.
    pub request_id: String,
    /// The `x-request-id` header; may be empty.
    pub x_request_id: String,
    /// The revision of the policy that decided.
    pub policy: String,
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
    /// The last second in which one came, and how many did.
    second: u64,
    taken: u32,
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

    /// Whether a denial at this time is to be kept. If not, it is counted.
    pub(crate) fn admit(&self, time: Duration) -> bool {
        self.try_list().is_some_and(|mut list| list.takes(time)) || self.leave_out()
    }

    pub(crate) fn keep(&self, denial: Denial) {
        match self.try_list() {
            Some(mut list) => list.push(denial),
            None => _ = self.leave_out(),
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

    fn leave_out(&self) -> bool {
        self.not_kept.fetch_add(1, Ordering::Relaxed);
        false
    }
}

impl Denial {
    pub(crate) fn new(line: &Line<'_>) -> Self {
        let names =
            |names: &[&str]| names.iter().take(MAX_NAMES).map(ToString::to_string).collect();
        let path = line.raw_path.unwrap_or(line.path);
        let query = if line.query.is_empty() { String::new() } else { format!("?{}", line.query) };
        Self {
            time: line.time,
            reason: line.reason.unwrap_or_default(),
            detail: line.detail.unwrap_or_default().to_owned(),
            rule: line.rule.map(str::to_owned),
            user: line.user.map(str::to_owned),
            attempted_user: line.attempted_user.map(str::to_owned),
            issuer: line.issuer.map(str::to_owned),
            groups: names(&line.groups),
            roles: names(&line.roles),
            method: line.method.to_owned(),
            host: line.host.to_owned(),
            path: format!("{path}{query}"),
            inexact: line.inexact,
            client: line.client.to_owned(),
            request_id: line.request_id.to_owned(),
            x_request_id: line.x_request_id.to_owned(),
            policy: line.policy.to_owned(),
        }
    }
}

impl List {
    /// Whether one more is taken in the second of this time. A denial that has waited counts now.
    fn takes(&mut self, time: Duration) -> bool {
        if self.second < time.as_secs() {
            (self.second, self.taken) = (time.as_secs(), 0);
        }
        self.taken = self.taken.saturating_add(1);
        self.taken <= MAX_PER_SECOND
    }

    fn push(&mut self, denial: Denial) {
        if self.denials.len() >= MAX_DENIALS {
            self.remove_one();
        }
        self.denials.push_back(denial);
    }

    /// Removes the oldest denial of the reason that has the most.
    fn remove_one(&mut self) {
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
        let taken = (0..1000).filter(|_| list.takes(Duration::from_secs(7))).count();
        assert_eq!(taken, MAX_PER_SECOND as usize);
        assert!(list.takes(Duration::from_secs(8)));
    }
}
