//! How often something was used, by how many callers, and when last.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use identity::UnixTime;

use super::LoggedAccess;

/// The maximum number of different callers that are counted for a rule or a grant.
const MAX_CALLERS: usize = 10_000;
/// The maximum of all of them: a log of a million users must not take all memory.
const MAX_ALL_CALLERS: usize = 4_000_000;
/// The lowest share of a sample that is believed.
const MIN_SHARE: f64 = 1e-6;

/// Tells callers apart, and counts how many are kept.
#[derive(Default)]
pub(super) struct Callers {
    /// With a secret of this process: nobody can choose names with the same hash.
    hasher: RandomState,
    kept: usize,
}

#[derive(Default)]
pub(super) struct Usage {
    pub(super) count: f64,
    /// Whether a line stands for several decisions.
    pub(super) is_estimated: bool,
    pub(super) last: Option<UnixTime>,
    callers: HashSet<u64>,
    /// Whether there may be more callers than are kept.
    pub(super) has_more_callers: bool,
}

impl Usage {
    pub(super) fn add(&mut self, line: &LoggedAccess<'_>, callers: &mut Callers) {
        let weight = weight(line.sampled);
        self.count += weight;
        self.is_estimated |= weight > 1.0;
        self.last = self.last.max(line.time);
        if line.is_user_masked && line.user.is_none() {
            self.has_more_callers = true;
            return;
        }
        let caller = callers.hasher.hash_one((line.user, line.source));
        if self.callers.contains(&caller) {
            return;
        }
        if self.callers.len() < MAX_CALLERS && callers.kept < MAX_ALL_CALLERS {
            callers.kept += 1;
            self.callers.insert(caller);
        } else {
            self.has_more_callers = true;
        }
    }

    pub(super) const fn is_used(&self) -> bool {
        self.count > 0.0
    }

    pub(super) fn callers(&self) -> usize {
        self.callers.len()
    }
}

/// How many decisions a line stands for.
pub(super) fn weight(sampled: Option<f64>) -> f64 {
    match sampled {
        Some(share) if share > 0.0 && share < 1.0 => 1.0 / share.max(MIN_SHARE),
        Some(_) | None => 1.0,
    }
}
