//! Verification of credentials apart from the request, so that the calling crate decides when and on which thread it
//! runs.

use std::fmt;

use crate::basic::{PasswordCheck, PasswordChecked};
use crate::jwt::{TokenCheck, TokenChecked};

/// Credentials that have to be verified before their subject is known. Hashing a password takes milliseconds, so it
/// must not run on a thread that serves requests. Verifying a token takes microseconds (HS512) to hundreds of
/// microseconds (ES512; November 2026; `make bench BENCH=identity`), so a thread that serves requests may run one, but
/// not many in a row.
///
/// The credentials in it are overwritten when it is dropped.
pub struct Verification(pub(crate) Check);

pub(crate) enum Check {
    Password(PasswordCheck),
    Token(TokenCheck),
}

/// What a [`Verification`] costs.
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
pub struct Verified(pub(crate) Checked);

#[derive(Clone)]
pub(crate) enum Checked {
    Password(PasswordChecked),
    Token(TokenChecked),
}

impl Verification {
    /// What it verifies.
    #[must_use]
    pub fn kind(&self) -> VerificationKind {
        match self.0 {
            Check::Password(_) => VerificationKind::Password,
            Check::Token(_) => VerificationKind::Token,
        }
    }

    /// The memory that it takes while it waits, in bytes, credentials included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let held = match &self.0 {
            Check::Password(check) => check.heap_size(),
            Check::Token(check) => check.heap_size(),
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
            Check::Password(check) => check.verified_before(),
            Check::Token(_) => false,
        }
    }

    /// Equal for equal passwords under the same stored hash, so that equal verifications can be run once. For a token it
    /// does not depend on the keys: the result of one policy may not count under another. Depends on a secret of this
    /// process.
    #[must_use]
    pub fn key(&self) -> u128 {
        match &self.0 {
            Check::Password(check) => check.key(),
            Check::Token(check) => check.hash(),
        }
    }

    /// Runs it. Never run a password on a thread that serves requests. It takes as long for a user that does not exist
    /// as for one that does.
    #[must_use]
    pub fn run(self) -> Verified {
        Verified(match self.0 {
            Check::Password(check) => Checked::Password(check.run()),
            Check::Token(check) => Checked::Token(check.run()),
        })
    }
}

impl Verified {
    /// The cache key of the credentials.
    pub(crate) fn credentials(&self) -> u128 {
        match &self.0 {
            Checked::Password(checked) => checked.credentials,
            Checked::Token(checked) => checked.hash,
        }
    }
}

impl fmt::Debug for Verification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verification({:?}, …)", self.kind())
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verified(…)")
    }
}
