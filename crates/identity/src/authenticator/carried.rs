//! Who had signed in under the policy before, and need not hash again.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Time;
use crate::basic::{Account, Accounts};
use crate::cache::{Lookup, Window};

/// Verified credentials by keyed hash. It never changes once the policy is active, so it needs no lock; whoever is
/// found goes to the cache and is renewed there, as any use renews. Entries that have expired are carried over too: their
/// callers were verified before.
#[derive(Default)]
pub(super) struct Carried(HashMap<u128, (Arc<Account>, Window)>);

impl Carried {
    /// What one entry takes at most, in bytes: a table that has just grown has 16 places for seven entries.
    pub(super) const ENTRY_BYTES: usize = (size_of::<(u128, (Arc<Account>, Window))>() + 1) * 5 / 2;

    pub(super) fn find(&self, key: u128, now: Time) -> Lookup<&Arc<Account>> {
        match self.0.get(&key) {
            Some((account, window)) if window.holds(now) => Lookup::Valid(account),
            Some(_) => Lookup::Expired,
            None => Lookup::Missing,
        }
    }

    /// Those whose hash is the same there.
    pub(super) fn still(&self, accounts: &Accounts) -> Self {
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

    /// Keeps at most so many, those that hold longest.
    pub(super) fn limit(&mut self, limit: usize) {
        if self.0.len() <= limit {
            return;
        }
        let mut all: Vec<_> = self.0.drain().collect();
        all.sort_unstable_by_key(|(_, (_, window))| std::cmp::Reverse(window.until));
        self.0 = all.into_iter().take(limit).collect();
    }
}
