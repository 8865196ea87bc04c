//! HTTP Basic: the users, and the cache of their verified credentials.

use std::sync::Arc;
use std::time::Duration;

use document::Problem;
use policy::model;

use super::cached_subject::cached_subject;
use super::carried::Carried;
use crate::basic::{Account, Accounts};
use crate::cache::{Cache, CacheSize, Lookup, Window};
use crate::limits::Limits;
use crate::local_cache::Found;
use crate::memory::Names;
use crate::{CachedSubject, HeapSize, Subject, UnixTime};

/// HTTP Basic: the users, and the credentials that have been verified.
pub(super) struct Basic<T> {
    pub(super) accounts: Accounts,
    pub(super) verify: bool,
    /// Verified credentials, by the keyed hash of user and password, or of the user alone where passwords are not
    /// checked.
    credentials: Cache<CachedCredentials<T>>,
    /// Credentials that were verified under the previous policy against the same stored hashes.
    pub(super) carried: Carried,
    /// How long a thread may use an entry of its own cache without a look-up in `credentials`. A quarter of an entry's
    /// lifetime: after that, a look-up renews the entry, so a caller who keeps calling does not expire.
    max_local_age: Duration,
}

/// A cache entry: a subject whose credentials were verified.
struct CachedCredentials<T> {
    subject: Arc<CachedSubject<T>>,
    /// The account that they were verified against; `None` where passwords are not checked.
    account: Option<Arc<Account>>,
}

impl<T: HeapSize> Basic<T> {
    pub(super) fn compile(settings: &model::Basic, limits: Limits, problems: &mut Vec<Problem>) -> Self {
        let accounts = Accounts::compile(settings, problems);
        let credentials = Cache::new(limits.basic_credentials, limits.basic_bytes);
        let credentials = credentials.renewed_on_use(limits.basic_ttl);
        let max_local_age = limits.basic_ttl / 4;
        Self { accounts, verify: settings.verify, credentials, carried: Carried::default(), max_local_age }
    }

    /// The credentials verified here whose users have the same stored hash in `accounts`.
    pub(super) fn carry(&self, accounts: &Accounts, limits: Limits) -> Carried {
        let mut carried = self.carried.with_unchanged_accounts(accounts);
        self.credentials.for_each(|key, cached, window| {
            if let Some(account) = cached.account.as_ref().and_then(|account| accounts.unchanged(account)) {
                carried.insert(key, account, window);
            }
        });
        carried.limit(limits.basic_credentials.min(limits.basic_bytes / Carried::ENTRY_BYTES));
        carried
    }

    /// The number and the memory of the cached credentials.
    pub(super) fn cache_size(&self) -> CacheSize {
        self.credentials.size()
    }

    /// The same; `None` where it would have to wait.
    pub(super) fn try_cache_size(&self) -> Option<CacheSize> {
        self.credentials.try_size()
    }

    /// Counts evictions from the number of `previous` on.
    pub(super) fn continue_count(&self, previous: &Self) {
        self.credentials.continue_count(&previous.credentials);
    }

    pub(super) fn find(&self, key: u128, now: UnixTime) -> Lookup<Found<T>> {
        let max_local_age = self.max_local_age;
        self.credentials.find(key, now, |cached, window, bytes| Found {
            cached: Arc::clone(&cached.subject),
            window,
            bytes,
            max_local_age,
        })
    }

    /// Caches credentials that were verified against this account.
    pub(super) fn insert_account(
        &self,
        key: u128,
        account: &Arc<Account>,
        window: Window,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Found<T> {
        self.insert(key, cached_subject(&account.subject, attach), Some(Arc::clone(account)), window)
    }

    /// Caches credentials. `account` is what they were verified against; `None` where passwords are not checked.
    pub(super) fn insert(
        &self,
        key: u128,
        cached: Arc<CachedSubject<T>>,
        account: Option<Arc<Account>>,
        window: Window,
    ) -> Found<T> {
        // Without a password check, the name comes from the caller, and the policy need not have it.
        let bytes =
            cached.bytes(if account.is_some() { Names::OwnedByPolicy } else { Names::OwnedBySubject });
        self.credentials.insert(
            key,
            CachedCredentials { subject: Arc::clone(&cached), account },
            window,
            bytes,
        );
        Found { cached, window, bytes, max_local_age: self.max_local_age }
    }
}
