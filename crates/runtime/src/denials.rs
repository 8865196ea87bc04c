//! The last denials, for the person on call. Kept only where it is asked for (`--console`).
//!
//! A worker thread copies the fields of a denial and puts the copy into a bounded list. It never waits: if another thread
//! holds the list at that moment, or many denials came in this second already, the denial is counted and not kept. When the
//! list is full, the reason that has the most denials in it loses its oldest one, so that a flood of one kind does not
//! push out the others.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use crate::decisions::{Masks, cut};
use crate::record::{DecisionRecord, DecisionSink};
use crate::trace_context::Tracing;

/// The maximum number of denials that are kept.
pub const MAX_DENIALS: usize = 100;
/// The maximum number of denials that are taken per second, so that a flood of them costs little.
const MAX_PER_SECOND: u32 = 50;
/// Maximum bytes of a value. Longer ones are cut.
const LONGEST: usize = 256;
/// Maximum number of names in a list.
const MAX_NAMES: usize = 20;

/// A denied request. It holds what a line of the decision log holds, with the same masks.
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

/// Where the denials come from: takes decisions, and passes them on to the decision log, if there is one.
pub(crate) struct DenialSink {
    pub(crate) recent: Arc<RecentDenials>,
    pub(crate) masks: Arc<Masks>,
    pub(crate) log: Option<Arc<dyn DecisionSink>>,
}

#[derive(Debug, Default)]
struct List {
    /// The oldest first.
    denials: VecDeque<Denial>,
    by_reason: BTreeMap<&'static str, usize>,
    /// The last second in which one came, and how many did.
    second: u64,
    taken: u32,
}

impl RecentDenials {
    /// The denials that are kept, the newest first.
    #[must_use]
    pub fn newest_first(&self) -> Vec<Denial> {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.denials.iter().rev().cloned().collect()
    }

    /// How many denials were not kept, because too many came at once.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept.load(Ordering::Relaxed)
    }

    fn keep(&self, record: &DecisionRecord<'_>, masks: &Masks) {
        let mut list = match self.list.try_lock() {
            Ok(list) => list,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.leave_out(),
        };
        if list.takes(record.time) {
            list.push(copy(record, masks));
        } else {
            self.leave_out();
        }
    }

    fn leave_out(&self) {
        self.not_kept.fetch_add(1, Ordering::Relaxed);
    }
}

fn copy(record: &DecisionRecord<'_>, masks: &Masks) -> Denial {
    let masked = masks.of(record);
    let mut inexact = record.replaced || masked.any;
    let mut short = |text: &str| {
        inexact |= text.len() > LONGEST;
        cut(text, LONGEST).to_owned()
    };
    let path = if masked.raw_path.is_empty() { &*masked.path } else { masked.raw_path };
    let path = match masked.query {
        "" => path.to_owned(),
        query => format!("{path}?{query}"),
    };
    let (method, host, path) = (short(record.method), short(record.host), short(&path));
    let user = masked.user.as_deref().map(&mut short);
    let attempted_user = masked.attempted_user.as_deref().map(&mut short);
    let issuer = record.subject.and_then(|subject| subject.issuer.as_deref()).map(&mut short);
    let mut names = |names: &[Arc<str>]| -> Vec<String> {
        names.iter().take(MAX_NAMES).map(|name| short(name)).collect()
    };
    let (groups, roles) =
        record.subject.map(|known| (names(&known.groups), names(&known.roles))).unwrap_or_default();
    let detail = record.attempted.detail.as_deref().unwrap_or(record.cluster_detail);
    Denial {
        time: record.time,
        reason: record.reason.unwrap_or_default(),
        detail: cut(detail, LONGEST).to_owned(),
        rule: record.rule.map(|rule| cut(rule, LONGEST).to_owned()),
        user,
        attempted_user,
        issuer,
        groups,
        roles,
        method,
        host,
        path,
        inexact,
        client: cut(record.client, LONGEST).to_owned(),
        request_id: cut(record.request_id, LONGEST).to_owned(),
        x_request_id: cut(record.x_request_id, LONGEST).to_owned(),
        policy: record.revision.policy.to_string(),
    }
}

impl DecisionSink for DenialSink {
    fn wants(&self, allowed: bool) -> bool {
        !allowed || self.log.as_ref().is_some_and(|log| log.wants(allowed))
    }

    fn tracing(&self) -> Option<Tracing> {
        self.log.as_ref().and_then(|log| log.tracing())
    }

    fn offer(&self, record: &DecisionRecord<'_>) {
        if !record.allowed {
            self.recent.keep(record, &self.masks);
        }
        // It may not want the line, but the span.
        if let Some(log) = &self.log {
            log.offer(record);
        }
    }
}

impl List {
    /// Whether one more is taken in the second of this time. One that has waited has an earlier time, and counts now.
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
        *self.by_reason.entry(denial.reason).or_default() += 1;
        self.denials.push_back(denial);
    }

    /// Removes the oldest denial of the reason that has the most.
    fn remove_one(&mut self) {
        let most = self.by_reason.iter().max_by_key(|(_, count)| **count).map(|(reason, _)| *reason);
        let place = self.denials.iter().position(|denial| Some(denial.reason) == most).unwrap_or(0);
        let removed = self.denials.remove(place);
        if let Some(count) = removed.and_then(|removed| self.by_reason.get_mut(removed.reason)) {
            *count -= 1;
        }
    }
}

impl fmt::Debug for DenialSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenialSink").field("recent", &self.recent).finish_non_exhaustive()
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
        (0..10 * MAX_DENIALS).for_each(|number| list.push(denial("bad_password", &number.to_string())));
        assert_eq!(list.denials.len(), MAX_DENIALS);
        assert_eq!(list.denials.front().unwrap().path, "/rare");
        assert_eq!(list.denials.back().unwrap().path, "999");
        assert_eq!(list.by_reason, BTreeMap::from([("bad_password", MAX_DENIALS - 1), ("not_allowed", 1)]));
    }

    #[test]
    fn a_second_has_a_bounded_number_of_denials() {
        let mut list = List::default();
        let taken = (0..1000).filter(|_| list.takes(Duration::from_secs(7))).count();
        assert_eq!(taken, MAX_PER_SECOND as usize);
        assert!(list.takes(Duration::from_secs(8)));
    }
}
