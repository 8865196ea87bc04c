//! A password to verify: what a hashing thread needs, and the result.

use std::sync::Arc;

use zeroize::Zeroizing;

use super::account::Account;
use super::credentials::Credentials;
use crate::keyed_hasher::KeyedHasher;
use crate::memory::allocated;
use crate::password::Stored;

/// A password to hash and compare. The password is overwritten when this is dropped.
pub(crate) struct PendingPassword {
    account: Arc<Account>,
    /// False if `account` is the decoy of a user that does not exist.
    exists: bool,
    /// The user name in the credentials. It is copied for a user that exists too, so that both cost the same.
    user: Box<str>,
    password: Zeroizing<Vec<u8>>,
    /// The key of the credentials in the cache: the keyed hash of user and password.
    cache_key: u128,
    /// The key of this verification: equal for equal credentials under the same stored hash.
    key: u128,
    verified_before: bool,
}

/// The result of a [`PendingPassword`].
#[derive(Clone)]
pub(crate) struct PasswordResult {
    pub(crate) account: Arc<Account>,
    /// False if `account` is the decoy of a user that did not exist.
    pub(crate) exists: bool,
    pub(crate) user: Box<str>,
    /// Whether the password is right. Never true where `exists` is false.
    pub(crate) right: bool,
    /// The cache key of the credentials.
    pub(crate) cache_key: u128,
}

impl PendingPassword {
    /// `cache_key` is the keyed hash of user and password.
    pub(super) fn new(
        account: Arc<Account>,
        exists: bool,
        credentials: &Credentials,
        cache_key: u128,
        hasher: &KeyedHasher,
    ) -> Self {
        let hash_text = account.hash_text.as_ref().map_or("", |secret| &secret.0);
        let key = hasher.hash_pair(&cache_key.to_le_bytes(), hash_text.as_bytes());
        let password = Zeroizing::new(credentials.password().to_vec());
        let user = credentials.user().into();
        Self { account, exists, user, password, cache_key, key, verified_before: false }
    }

    /// The same, with [`PendingPassword::verified_before`] set to this.
    pub(crate) fn with_verified_before(self, verified_before: bool) -> Self {
        Self { verified_before, ..self }
    }

    pub(crate) fn heap_size(&self) -> usize {
        allocated(self.user.len()) + allocated(self.password.capacity())
    }

    pub(crate) fn verified_before(&self) -> bool {
        self.verified_before
    }

    pub(crate) fn key(&self) -> u128 {
        self.key
    }

    /// Hashes the password: it takes milliseconds, and as long for a user that does not exist.
    pub(crate) fn run(self) -> PasswordResult {
        let Self { account, exists, user, password, cache_key, .. } = self;
        let matches = account.stored.as_ref().is_some_and(|stored: &Stored| stored.matches(&password));
        PasswordResult { right: matches & exists, account, exists, user, cache_key }
    }
}
