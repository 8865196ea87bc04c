//! A password to be hashed, and one that was: what goes to the hashing pool and what comes back.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::{Account, Credentials};
use crate::keyed_hasher::KeyedHasher;
use crate::memory::allocated;
use crate::password::Stored;

/// A password that must be hashed. The password is overwritten when this is dropped.
pub struct PasswordCheck {
    account: Arc<Account>,
    /// False where `account` only stands in for a user that does not exist.
    known: bool,
    /// The user as the caller gave it. It is copied for a user that exists too: both must cost the same.
    user: Box<str>,
    password: Zeroizing<Vec<u8>>,
    credentials: u128,
    key: u128,
    verified_before: bool,
}

/// A password that was hashed: whether it was right.
#[derive(Clone)]
pub struct PasswordChecked {
    pub(crate) account: Arc<Account>,
    /// False where `account` only stood in for a user that did not exist.
    pub(crate) known: bool,
    pub(crate) user: Box<str>,
    /// Never true where `known` is false.
    pub(crate) right: bool,
    /// What the cache knows these credentials by.
    pub(crate) credentials: u128,
}

impl PasswordCheck {
    /// `sealed` is the keyed hash of user and password.
    pub(super) fn new(
        account: Arc<Account>,
        known: bool,
        credentials: &Credentials,
        sealed: u128,
        hasher: &KeyedHasher,
    ) -> Self {
        let written = account.written.as_ref().map_or("", |secret| &secret.0);
        let key = hasher.pair(&sealed.to_le_bytes(), written.as_bytes());
        let password = Zeroizing::new(credentials.password().to_vec());
        let user = credentials.user().into();
        Self { account, known, user, password, credentials: sealed, key, verified_before: false }
    }

    /// The same check, of credentials that were verified before or not.
    pub(crate) fn with_verified_before(self, verified_before: bool) -> Self {
        Self { verified_before, ..self }
    }

    /// The bytes that it takes while it waits, with the user and the password as the caller gave them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + allocated(self.user.len()) + allocated(self.password.capacity())
    }

    /// Whether the same user, password and stored hash were verified before in this process, but not recently enough.
    ///
    /// Such a check goes ahead of others in the queue: a flood of wrong passwords cannot produce one. It is not always
    /// true where it could be, as what was verified is remembered within bounds. The same may be verified again at any
    /// time, so this says nothing about the password now.
    #[must_use]
    pub fn verified_before(&self) -> bool {
        self.verified_before
    }

    /// Equal for equal user, password and stored hash, and secret to this process: to run equal checks once.
    #[must_use]
    pub fn key(&self) -> u128 {
        self.key
    }

    /// Hashes: takes milliseconds, so never on a request thread. It takes as long for a user that does not exist.
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
