//! Verification of credentials apart from the request, so that the caller of this crate decides when and on which
//! thread it runs.

use std::fmt;

use crate::basic::{PasswordCheck, PasswordChecked};
use crate::jwt::{TokenCheck, TokenChecked};

/// Credentials that have to be verified before their subject is known. Hashing a password takes milliseconds, so it
/// must not run on a thread that serves requests. Verifying a token takes tens of microseconds, so a thread that serves
/// requests must not run many in a row.
///
/// Credentials that it holds are overwritten when it is dropped.
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
    /// A token: tens of microseconds.
    Token,
}

/// The result of a [`Verification`]. Whether it counts depends on the policy: only the
/// [`Authenticator`](crate::Authenticator) can say, and it may be one of a newer policy.
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

    /// The memory that it takes while it waits, in bytes, with the credentials.
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
    /// Such a verification goes ahead of others in the queue: a flood of wrong passwords cannot produce one. This can
    /// be false for credentials that were verified, because the cache is bounded. It describes the moment when the
    /// verification was created, and does not replace running it.
    #[must_use]
    pub fn verified_before(&self) -> bool {
        match &self.0 {
            Check::Password(check) => check.verified_before(),
            Check::Token(_) => false,
        }
    }

    /// Equal for equal credentials under the same stored hash or the same keys, so that equal verifications can be run
    /// once. Depends on a secret of this process.
    #[must_use]
    pub fn key(&self) -> u128 {
        match &self.0 {
            Check::Password(check) => check.key(),
            Check::Token(check) => check.key(),
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
