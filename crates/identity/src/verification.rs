//! Verification of credentials apart from the request, so that the calling crate decides when and
//! on which thread it runs.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::basic::{Account, PasswordResult};
use crate::jwt::{self, Issuer, VerifiedToken};
use crate::memory::allocated;
use crate::{CredentialsError, UnixTime};

/// Credentials that have to be verified before their subject is known. Hashing a password takes
/// milliseconds, so it must not run on a thread that serves requests. Verifying a token takes
/// microseconds (HS512) to hundreds of microseconds (ES512; November 2026; `make bench
/// BENCH=identity`), and the whole check of a caller whose credentials are cached about one: a
/// thread that serves requests may run one, but not many in a row. If tokens were verified as they
/// arrive, a flood of wrong signatures would delay all other requests of the thread.
///
/// The credentials in it are overwritten when it is dropped.
pub struct Verification {
    pub(crate) credentials: PendingCredentials,
    /// The key of the credentials in the cache: the keyed hash of user and password, or of the
    /// token.
    pub(crate) cache_key: u128,
    pub(crate) key: u128,
    pub(crate) verified_before: bool,
}

pub(crate) enum PendingCredentials {
    Password {
        account: Arc<Account>,
        /// False if `account` is the decoy of a user that does not exist.
        exists: bool,
        /// The user name in the credentials. It is copied for a user that exists too, so that both
        /// cost the same.
        user: Box<str>,
        password: Zeroizing<Vec<u8>>,
    },
    Token {
        token: Zeroizing<Box<[u8]>>,
        issuers: Arc<[Issuer]>,
        now: UnixTime,
    },
}

/// What a [`Verification`] verifies, and how long that takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationKind {
    /// A password: milliseconds.
    Password,
    /// A token: less than a millisecond.
    Token,
}

/// The result of a [`Verification`]. Whether it makes the credentials valid is decided by the
/// [`Authenticator`](crate::Authenticator) of the policy that is active then: it may have another
/// hash or other keys.
#[derive(Clone)]
pub struct VerificationResult {
    pub(crate) result: CredentialsResult,
    /// The cache key of the credentials.
    pub(crate) cache_key: u128,
}

#[derive(Clone)]
pub(crate) enum CredentialsResult {
    Password(PasswordResult),
    Token {
        result: Result<Arc<VerifiedToken>, CredentialsError>,
        /// The issuers by whose keys and settings it was verified. Under others it does not count.
        issuers: Arc<[Issuer]>,
    },
}

impl Verification {
    /// What it verifies.
    #[must_use]
    pub fn kind(&self) -> VerificationKind {
        match self.credentials {
            PendingCredentials::Password { .. } => VerificationKind::Password,
            PendingCredentials::Token { .. } => VerificationKind::Token,
        }
    }

    /// The memory that it takes while it waits, in bytes, credentials included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match &self.credentials {
                PendingCredentials::Password { user, password, .. } => {
                    allocated(user.len()) + allocated(password.capacity())
                }
                PendingCredentials::Token { token, .. } => allocated(token.len()),
            }
    }

    /// Whether the same credentials were verified before in this process against the same stored
    /// hash, but too long ago to count now. Never true for a token.
    ///
    /// Queues let such a verification go first, because nobody without valid credentials can cause
    /// one: so a flood of wrong passwords does not delay users who were verified before. It can be
    /// false for credentials that were verified, because the cache is bounded. It is only a hint:
    /// the credentials must still be verified.
    #[must_use]
    pub fn verified_before(&self) -> bool {
        self.verified_before
    }

    /// Equal for equal passwords under the same stored hash, so that equal verifications can be run
    /// once. For a token it does not depend on the keys: the result of one policy may not count
    /// under another. Depends on a secret of this process.
    #[must_use]
    pub fn key(&self) -> u128 {
        self.key
    }

    /// Runs it. Never run a password on a thread that serves requests. It takes as long for a user
    /// that does not exist as for one that does.
    #[must_use]
    pub fn run(self) -> VerificationResult {
        let result = match self.credentials {
            PendingCredentials::Password { account, exists, user, password } => {
                let matches = account.stored.as_ref().is_some_and(|stored| stored.matches(&password));
                CredentialsResult::Password(PasswordResult { right: matches & exists, account, exists, user })
            }
            PendingCredentials::Token { token, issuers, now } => {
                let result = jwt::verify(&issuers, &token, now).map(Arc::new);
                CredentialsResult::Token { result, issuers }
            }
        };
        VerificationResult { result, cache_key: self.cache_key }
    }
}

impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verification({:?}, …)", self.kind())
    }
}

impl fmt::Debug for VerificationResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("VerificationResult(…)")
    }
}
