//! Verification of credentials apart from the request, so that the calling crate decides when and
//! on which thread it runs.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use policy::KeyUrl;
use zeroize::Zeroizing;

use crate::accounts::{Account, PasswordResult};
use crate::jwt::{self, Issuer, MalformedAnswer, VerifiedToken};
use crate::memory::allocated;
use crate::{CredentialsError, UnixTime};

/// Credentials that have to be verified before their subject is known. Hashing a password takes
/// milliseconds, so it must not run on a thread that serves requests. Verifying a token takes
/// microseconds (HS512) to hundreds of microseconds (ES512), as measured in November 2026 with
/// `make bench BENCH=identity`. A thread that serves requests may verify a token, but not many in a
/// row. Otherwise a flood of wrong signatures would delay its other requests.
///
/// Its credentials are overwritten when it is dropped.
pub struct Verification {
    pub(crate) credentials: PendingCredentials,
    /// The cache key of the credentials: the keyed hash of user and password, or of the token.
    pub(crate) cache_key: u128,
    /// See [`Verification::job_key`].
    pub(crate) job_key: u128,
    pub(crate) verified_before: bool,
}

pub(crate) enum PendingCredentials {
    Password {
        /// The account of the user. If the user does not exist, a decoy with another name.
        account: Arc<Account>,
        /// The user name in the credentials.
        user: Box<str>,
        password: Zeroizing<Vec<u8>>,
    },
    Token {
        token: Zeroizing<Box<[u8]>>,
        issuers: Arc<[Issuer]>,
        now: UnixTime,
    },
    Opaque {
        token: Zeroizing<Box<str>>,
        issuers: Arc<[Issuer]>,
        /// The index of the issuer that is asked about it.
        issuer: usize,
    },
}

/// The question to an issuer about a token (RFC 7662, 2.1).
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// Where it is asked, with the credentials for that.
    pub url: &'a KeyUrl,
    /// The token.
    pub token: &'a str,
}

/// How long an invalid token is not asked about again. This is short because the token may become
/// active: a client may use a token before its issuer has written it everywhere.
const REFUSED: Duration = Duration::from_secs(5);

/// The kind of a [`Verification`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerificationKind {
    /// A password: milliseconds.
    Password,
    /// A token: less than a millisecond.
    Token,
    /// An opaque token: as long as its issuer takes to answer. See [`Verification::question`].
    Introspection,
}

/// The result of a [`Verification`]. The [`Authenticator`](crate::Authenticator) that gets it
/// decides whether the credentials are valid. That may be one of a later policy, with another hash
/// or other keys.
#[derive(Clone)]
pub struct VerificationResult {
    pub(crate) credentials: CredentialsResult,
    pub(crate) cache_key: u128,
}

#[derive(Clone)]
pub(crate) enum CredentialsResult {
    Password(PasswordResult),
    Token {
        result: Result<Arc<VerifiedToken>, CredentialsError>,
        /// The issuers whose keys and settings verified it. For other issuers the result is void.
        issuers: Arc<[Issuer]>,
        /// If it is invalid, until when its issuer is not asked again.
        refused_until: Option<UnixTime>,
    },
}

impl Verification {
    /// What it verifies.
    #[must_use]
    pub fn kind(&self) -> VerificationKind {
        match self.credentials {
            PendingCredentials::Password { .. } => VerificationKind::Password,
            PendingCredentials::Token { .. } => VerificationKind::Token,
            PendingCredentials::Opaque { .. } => VerificationKind::Introspection,
        }
    }

    /// The question to its issuer, if its token is opaque. The answer is for
    /// [`Verification::answered`].
    #[must_use]
    pub fn question(&self) -> Option<Question<'_>> {
        let PendingCredentials::Opaque { token, issuers, issuer } = &self.credentials else {
            return None;
        };
        let introspection = issuers.get(*issuer)?.introspection()?;
        Some(Question { url: &introspection.url, token })
    }

    /// The result, from the answer to its [question](Self::question). The answer arrived at `now`.
    ///
    /// # Errors
    /// If the answer says nothing about the token, or nothing was asked.
    pub fn answered(
        self,
        answer: &[u8],
        now: UnixTime,
    ) -> Result<VerificationResult, MalformedAnswer> {
        let PendingCredentials::Opaque { issuers, issuer, .. } = self.credentials else {
            return Err(MalformedAnswer);
        };
        let issuer = issuers.get(issuer).ok_or(MalformedAnswer)?;
        let result = issuer.read_answer(answer, now)?.map(Arc::new);
        let refused_until = Some(now.saturating_add(REFUSED));
        let credentials = CredentialsResult::Token { result, issuers, refused_until };
        Ok(VerificationResult { credentials, cache_key: self.cache_key })
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
                PendingCredentials::Opaque { token, .. } => allocated(token.len()),
            }
    }

    /// Whether the same credentials were valid before, but so long ago that they have expired in
    /// the cache. For a password, this process verified it against the same stored hash. For an
    /// opaque token, its issuer said that it was active. Never true for a JWT, nor for credentials
    /// that the cache has evicted.
    ///
    /// Queues let such a verification go first: nobody can cause it without valid credentials, so a
    /// flood of wrong passwords does not delay users who were verified before.
    #[must_use]
    pub fn verified_before(&self) -> bool {
        self.verified_before
    }

    /// Equal for equal tokens, and for equal passwords under the same stored hash, so that equal
    /// verifications can be run once. Depends on a secret of this process.
    #[must_use]
    pub fn job_key(&self) -> u128 {
        self.job_key
    }

    /// Runs it. It takes as long for a user that does not exist as for one that does. For an opaque
    /// token, the result is always invalid: only its issuer can verify it, see
    /// [`Verification::question`].
    #[must_use]
    pub fn run(self) -> VerificationResult {
        let credentials = match self.credentials {
            PendingCredentials::Password { account, user, password } => {
                let matches =
                    account.stored.as_ref().is_some_and(|stored| stored.matches(&password));
                CredentialsResult::Password(PasswordResult { account, user, matches })
            }
            PendingCredentials::Token { token, issuers, now } => {
                let result = jwt::verify(&issuers, &token, now).map(Arc::new);
                CredentialsResult::Token { result, issuers, refused_until: None }
            }
            PendingCredentials::Opaque { issuers, .. } => {
                let result = Err(CredentialsError::NotIntrospected);
                CredentialsResult::Token { result, issuers, refused_until: None }
            }
        };
        VerificationResult { credentials, cache_key: self.cache_key }
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
