//! A password check: what goes to the hashing pool, and what comes back.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::{Account, Credentials};
use crate::keyed_hasher::KeyedHasher;
use crate::memory::allocated;
use crate::password::Stored;

/// A password to hash and compare. The password is overwritten when this is dropped.
pub struct PasswordCheck {
    account: Arc<Account>,
    /// False if `account` is the decoy of a user that does not exist.
    known: bool,
    /// The user name in the credentials. It is copied for a user that exists too, so that both cost the same.
    user: Box<str>,
    password: Zeroizing<Vec<u8>>,
    credentials: u128,
    key: u128,
    verified_before: bool,
}

/// The result of a [`PasswordCheck`].
#[derive(Clone)]
pub struct PasswordChecked {
    pub(crate) account: Arc<Account>,
    /// False if `account` is the decoy of a user that did not exist.
    pub(crate) known: bool,
    pub(crate) user: Box<str>,
    /// Whether the password is right. Never true where `known` is false.
    pub(crate) right: bool,
    /// The cache key of the credentials.
    pub(crate) credentials: u128,
}

impl PasswordCheck {
    /// `credentials_hash` is the keyed hash of user and password.
    pub(super) fn new(
        account: Arc<Account>,
        known: bool,
        credentials: &Credentials,
        credentials_hash: u128,
        hasher: &KeyedHasher,
    ) -> Self {
        let written = account.written.as_ref().map_or("", |secret| &secret.0);
        let key = hasher.pair(&credentials_hash.to_le_bytes(), written.as_bytes());
        let password = Zeroizing::new(credentials.password().to_vec());
        let user = credentials.user().into();
        Self { account, known, user, password, credentials: credentials_hash, key, verified_before: false }
    }

    /// The same check, with [`PasswordCheck::verified_before`] set to this.
    pub(crate) fn with_verified_before(self, verified_before: bool) -> Self {
        Self { verified_before, ..self }
    }

    /// The memory that it takes while it waits, in bytes, with the user and the password.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + allocated(self.user.len()) + allocated(self.password.capacity())
    }

    /// Whether the same user, password and stored hash were verified before in this process, but too long ago to count
    /// now.
    ///
    /// Such a check goes ahead of others in the queue: a flood of wrong passwords cannot produce one. This can be false
    /// for credentials that were verified, because the cache is bounded. It describes the moment when the check was
    /// created, and does not replace running it.
    #[must_use]
    pub fn verified_before(&self) -> bool {
        self.verified_before
    }

    /// Equal for equal user, password and stored hash, so that equal checks can be run once. Depends on a secret of
    /// this process.
    #[must_use]
    pub fn key(&self) -> u128 {
        self.key
    }

    /// Hashes the password. It takes milliseconds, so never call it on a request thread. It takes as long for a user
    /// that does not exist.
    #[must_use]
    pub fn run(self) -> PasswordChecked {
        let Self { account, known, user, password, credentials, .. } = self;
        let matches = account.stored.as_ref().is_some_and(|stored: &Stored| stored.matches(&password));
        PasswordChecked { right: matches & known, account, known, user, credentials }
    }
}

impl fmt::Debug for PasswordCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordCheck(…)")
    }
}

impl fmt::Debug for PasswordChecked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordChecked(…)")
    }
}
