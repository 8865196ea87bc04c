//! Credentials that are carried over from the previous policy: their passwords need not be hashed again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::UnixTime;
use crate::basic::{Account, Accounts};
use crate::cache::{Lookup, Window};

/// Verified credentials, by keyed hash. They never change once the policy is active, so they need no lock. Credentials
/// that are found here are inserted into the cache, where use renews them. Expired ones are carried over too: they show
/// that the caller was verified before, so its next check comes before others in the queue.
#[derive(Default)]
pub(super) struct Carried(HashMap<u128, (Arc<Account>, Window)>);

impl Carried {
    /// The most memory that one entry takes, in bytes: a hash table that has just grown has 16 slots for seven entries.
    pub(super) const ENTRY_BYTES: usize = (size_of::<(u128, (Arc<Account>, Window))>() + 1) * 5 / 2;

    pub(super) fn find(&self, key: u128, now: UnixTime) -> Lookup<&Arc<Account>> {
        match self.0.get(&key) {
            Some((account, window)) if window.contains(now) => Lookup::Valid(account),
            Some(_) => Lookup::Expired,
            None => Lookup::Missing,
        }
    }

    /// The entries whose users have the same stored hash in `accounts`.
    pub(super) fn with_unchanged_accounts(&self, accounts: &Accounts) -> Self {
        let unchanged = |account: &Arc<Account>| accounts.unchanged(account).cloned();
        Self(
            self.0
                .iter()
                .filter_map(|(key, (account, window))| Some((*key, (unchanged(account)?, *window))))
                .collect(),
        )
    }

    pub(super) fn insert(&mut self, key: u128, account: &Arc<Account>, window: Window) {
        self.0.insert(key, (Arc::clone(account), window));
    }

    /// Keeps at most `limit` entries: those that are valid for longest.
    pub(super) fn limit(&mut self, limit: usize) {
        if self.0.len() <= limit {
            return;
        }
        let mut all: Vec<_> = self.0.drain().collect();
        all.sort_unstable_by_key(|(_, (_, window))| std::cmp::Reverse(window.until));
        self.0 = all.into_iter().take(limit).collect();
    }
}
