//! HTTP Basic: the users, and the cache of their verified credentials.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use document::Problem;
use policy::model;

use crate::accounts::{Account, Accounts};
use crate::cache::{Cache, Lookup, TimedValue, Window};
use crate::limits::Limits;
use crate::{CachedSubject, HeapSize, Subject, UnixTime};

/// How far the clock may be set back without effect on cached Basic credentials. If it is set back
/// further, they must be verified again, so a clock that was fast for a while does not keep them
/// valid for longer. Chosen, not measured: usual corrections of the clock are far smaller.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// HTTP Basic: the users, and the credentials that have been verified.
pub(super) struct Basic<T> {
    pub(super) accounts: Accounts,
    pub(super) verify: bool,
    /// Verified credentials, by the keyed hash of user and password, or of the user alone where
    /// passwords are not checked.
    pub(super) credentials: Cache<Arc<CachedSubject<T>>>,
    /// Credentials that were verified under the previous policy against the same stored hashes.
    pub(super) carried: CarriedCredentials,
    lifetime: Duration,
}

/// Verified credentials of the previous policy, by keyed hash. They never change while the policy
/// is active, so they need no lock. At their first use, they are inserted into the cache, where use
/// renews them. Expired credentials are carried over, too: they show that the caller was verified
/// before, so its next check comes before others in the queue.
#[derive(Default)]
pub(super) struct CarriedCredentials(HashMap<u128, (Arc<Account>, Window)>);

impl<T: HeapSize> Basic<T> {
    pub(super) fn compile(
        settings: &model::Basic,
        limits: Limits,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let credentials = Cache::new(limits.basic_credentials, limits.basic_bytes);
        Self {
            accounts: Accounts::compile(settings, problems),
            verify: settings.verify,
            credentials: credentials.renewed_on_use(limits.basic_ttl),
            carried: CarriedCredentials::default(),
            lifetime: limits.basic_ttl,
        }
    }

    /// Carries over the credentials that `previous` has verified, of users whose stored hash is the
    /// same here. If they exceed the limits of the cache, those that are valid for longest are
    /// carried over.
    pub(super) fn carry_over(&mut self, previous: &Self, limits: Limits) {
        self.credentials.continue_evictions(&previous.credentials);
        if !self.verify || !previous.verify {
            return;
        }
        let mut carried = HashMap::new();
        for (key, (account, window)) in &previous.carried.0 {
            carried.extend(
                self.accounts
                    .find_unchanged(account)
                    .map(|account| (*key, (account.clone(), *window))),
            );
        }
        previous.credentials.for_each(|key, cached, window| {
            let account = previous.accounts.find_prefixed(&cached.subject.user);
            let account = account.and_then(|account| self.accounts.find_unchanged(account));
            carried.extend(account.map(|account| (key, (account.clone(), window))));
        });
        let max =
            limits.basic_credentials.min(limits.basic_bytes / CarriedCredentials::ENTRY_BYTES);
        if carried.len() > max {
            let mut entries: Vec<_> = carried.into_iter().collect();
            entries.sort_unstable_by_key(|(_, (_, window))| std::cmp::Reverse(window.until));
            carried = entries.into_iter().take(max).collect();
        }
        self.carried = CarriedCredentials(carried);
    }

    /// The user of credentials whose password another program checks, between the client and Envoy
    /// (`verify: false`). The policy need not have the user.
    pub(super) fn unverified(
        &self,
        key: u128,
        user: &str,
        now: UnixTime,
        attach: impl FnOnce(&Subject) -> T,
    ) -> TimedValue<Arc<CachedSubject<T>>> {
        self.credentials.find(key, now).valid().unwrap_or_else(|| {
            self.insert(key, &self.accounts.unverified_subject(user), now, attach)
        })
    }

    /// Caches credentials of this subject.
    pub(super) fn insert(
        &self,
        key: u128,
        subject: &Subject,
        now: UnixTime,
        attach: impl FnOnce(&Subject) -> T,
    ) -> TimedValue<Arc<CachedSubject<T>>> {
        let from = now.saturating_sub(CLOCK_TOLERANCE);
        let window = Window { from, until: now.saturating_add(self.lifetime) };
        self.credentials.insert_subject(key, subject, window, attach)
    }
}

impl CarriedCredentials {
    /// The most memory of an entry, in bytes: a hash table that has just grown has 16 slots for
    /// seven entries, fewer than 5/2 per entry.
    const ENTRY_BYTES: usize = (size_of::<(u128, (Arc<Account>, Window))>() + 1) * 5 / 2;

    pub(super) fn find(&self, key: u128, now: UnixTime) -> Lookup<&Arc<Account>> {
        match self.0.get(&key) {
            Some((account, window)) if window.contains(now) => Lookup::Valid(account),
            Some(_) => Lookup::Expired,
            None => Lookup::Missing,
        }
    }
}
