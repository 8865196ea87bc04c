//! Callers whose credentials another policy has verified: who they are under this one. Their credentials are not needed.

use crate::authorization::{self, Scheme};
use crate::jwt;
use crate::{CredentialsError, HeapSize, Subject, UnixTime};

use super::Authenticator;

impl<T: HeapSize> Authenticator<T> {
    /// The subject of the Basic user with this name, which has no prefix, once its password was verified elsewhere.
    ///
    /// # Errors
    /// If no password of a user with this name is valid here.
    pub fn basic_user_verified_elsewhere(&self, name: &str) -> Result<Subject, CredentialsError> {
        let basic = self.basic.as_ref().ok_or(CredentialsError::UnsupportedScheme)?;
        if !basic.verify {
            return Ok(basic.accounts.unverified_subject(name));
        }
        let account = basic.accounts.named(name).filter(|account| account.stored.is_some());
        account.map(|account| account.subject.clone()).ok_or(CredentialsError::BadPassword)
    }

    /// The subject of a token whose signature was verified elsewhere, by its [`signed_part`]. Everything but the signature
    /// and the key is checked.
    ///
    /// # Errors
    /// If a token with this header and these claims is not valid here, whatever its signature.
    pub fn token_verified_elsewhere(
        &self,
        signed_part: &[u8],
        now: UnixTime,
    ) -> Result<Subject, CredentialsError> {
        if self.issuers.is_empty() {
            return Err(CredentialsError::UnsupportedScheme);
        }
        let (header, payload) = jwt::parse_signed(signed_part)?;
        let issuer = jwt::find_issuer(&self.issuers, payload.get("iss"))?;
        issuer.accept_verified((header, payload), now)
    }
}

/// Header and payload of the token in the value of an `Authorization` header, without its signature. So they are no
/// credentials.
#[must_use]
pub fn signed_part(authorization: &[u8]) -> Option<&[u8]> {
    match authorization::parse(authorization) {
        Scheme::Bearer(token) => token.get(..token.iter().rposition(|byte| *byte == b'.')?),
        Scheme::Basic(_) | Scheme::Other => None,
    }
}
