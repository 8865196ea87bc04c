//! Verification of credentials apart from the request, so that the calling crate decides when and on which thread it
//! runs.

use std::fmt;

use crate::basic::{PasswordResult, PendingPassword};
use crate::jwt::{PendingToken, TokenResult};

/// Credentials that have to be verified before their subject is known. Hashing a password takes milliseconds, so it
/// must not run on a thread that serves requests. Verifying a token takes microseconds (HS512) to hundreds of
/// microseconds (ES512; November 2026; `make bench BENCH=identity`), so a thread that serves requests may run one, but
/// not many in a row.
///
/// The credentials in it are overwritten when it is dropped.
pub struct Verification(pub(crate) Pending);

pub(crate) enum Pending {
    Password(PendingPassword),
    Token(PendingToken),
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
/// [`Authenticator`](crate::Authenticator) of the policy that is active then: it may have another hash or other keys.
#[derive(Clone)]
pub struct VerificationResult(pub(crate) CredentialsResult);

#[derive(Clone)]
pub(crate) enum CredentialsResult {
    Password(PasswordResult),
    Token(TokenResult),
}

impl Verification {
    /// What it verifies.
    #[must_use]
    pub fn kind(&self) -> VerificationKind {
        match self.0 {
            Pending::Password(_) => VerificationKind::Password,
            Pending::Token(_) => VerificationKind::Token,
        }
    }

    /// The memory that it takes while it waits, in bytes, credentials included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = match &self.0 {
            Pending::Password(pending) => pending.heap_size(),
            Pending::Token(pending) => pending.heap_size(),
        };
        size_of::<Self>() + held
    }

    /// Whether the same credentials were verified before in this process against the same stored hash, but too long ago
    /// to count now. Never true for a token.
    ///
    /// Queues let such a verification go first, because nobody without valid credentials can cause one: so a flood of
    /// wrong passwords does not delay users who were verified before. It can be false for credentials that were
    /// verified, because the cache is bounded. It is only a hint: the credentials must still be verified.
    #[must_use]
    pub fn verified_before(&self) -> bool {
        match &self.0 {
            Pending::Password(pending) => pending.verified_before(),
            Pending::Token(_) => false,
        }
    }

    /// Equal for equal passwords under the same stored hash, so that equal verifications can be run once. For a token it
    /// does not depend on the keys: the result of one policy may not count under another. Depends on a secret of this
    /// process.
    #[must_use]
    pub fn key(&self) -> u128 {
        match &self.0 {
            Pending::Password(pending) => pending.key(),
            Pending::Token(pending) => pending.hash(),
        }
    }

    /// Runs it. Never run a password on a thread that serves requests. It takes as long for a user that does not exist
    /// as for one that does.
    #[must_use]
    pub fn run(self) -> VerificationResult {
        VerificationResult(match self.0 {
            Pending::Password(pending) => CredentialsResult::Password(pending.run()),
            Pending::Token(pending) => CredentialsResult::Token(pending.run()),
        })
    }
}

impl VerificationResult {
    /// The cache key of the credentials.
    pub(crate) fn cache_key(&self) -> u128 {
        match &self.0 {
            CredentialsResult::Password(result) => result.cache_key,
            CredentialsResult::Token(result) => result.hash,
        }
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
