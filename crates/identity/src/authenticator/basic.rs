//! HTTP Basic: who the users are, and which of their credentials have been verified.

use std::sync::Arc;
use std::time::Duration;

use policy::model;
use policy::problem::Problem;

use super::carried::Carried;
use super::known::known;
use crate::basic::{Account, Accounts};
use crate::cache::{Cache, Lookup, Window};
use crate::limits::Limits;
use crate::local_cache::Found;
use crate::memory::Names;
use crate::{HeapSize, Known, Subject, Time};

/// HTTP Basic: the users, and the credentials that have been verified.
pub(super) struct Basic<T> {
    pub(super) accounts: Accounts,
    pub(super) verify: bool,
    /// Verified credentials, by the keyed hash of user and password, or of the user alone where passwords are not
    /// checked.
    credentials: Cache<SignedIn<T>>,
    /// Credentials that the previous policy verified against the same hashes.
    pub(super) carried: Carried,
    /// How long a thread may use an entry without telling `credentials`. A quarter of an entry's lifetime, after which
    /// a use renews it: so a caller who keeps calling is renewed.
    keep_for: Duration,
}

/// A cache entry: a subject whose credentials were verified.
struct SignedIn<T> {
    known: Arc<Known<T>>,
    /// The account that they were verified against; `None` where passwords are not checked.
    account: Option<Arc<Account>>,
}

impl<T: HeapSize> Basic<T> {
    pub(super) fn compile(settings: &model::Basic, limits: Limits, problems: &mut Vec<Problem>) -> Self {
        let accounts = Accounts::compile(settings, problems);
        let credentials = Cache::new(limits.credentials, limits.credential_bytes);
        let credentials = credentials.renewed_on_use(limits.credentials_for);
        let keep_for = limits.credentials_for / 4;
        Self { accounts, verify: settings.verify, credentials, carried: Carried::default(), keep_for }
    }

    /// The credentials verified here whose users have the same stored hash in `accounts`.
    pub(super) fn carry(&self, accounts: &Accounts, limits: Limits) -> Carried {
        let mut carried = self.carried.still(accounts);
        self.credentials.for_each(|key, signed_in, window| {
            if let Some(account) = signed_in.account.as_ref().and_then(|account| accounts.unchanged(account))
            {
                carried.insert(key, account, window);
            }
        });
        carried.limit(limits.credentials.min(limits.credential_bytes / Carried::ENTRY_BYTES));
        carried
    }

    pub(super) fn find(&self, key: u128, now: Time) -> Lookup<Found<T>> {
        let keep_for = self.keep_for;
        self.credentials.find(key, now, |signed_in, window, bytes| Found {
            known: Arc::clone(&signed_in.known),
            window,
            bytes,
            keep_for,
        })
    }

    pub(super) fn remember(
        &self,
        key: u128,
        account: &Arc<Account>,
        window: Window,
        attach: impl FnOnce(&Subject) -> T,
    ) -> Found<T> {
        self.insert(key, known(&account.subject, attach), Some(Arc::clone(account)), window)
    }

    /// Caches verified credentials. `account` is what they were verified against.
    pub(super) fn insert(
        &self,
        key: u128,
        known: Arc<Known<T>>,
        account: Option<Arc<Account>>,
        window: Window,
    ) -> Found<T> {
        // Where passwords are not checked, the caller chooses the name.
        let bytes = known.bytes(if account.is_some() { Names::OfPolicy } else { Names::OfCaller });
        self.credentials.insert(key, SignedIn { known: Arc::clone(&known), account }, window, bytes);
        Found { known, window, bytes, keep_for: self.keep_for }
    }
}
