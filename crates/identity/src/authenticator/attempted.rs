//! What invalid credentials say, for logs: whoever is on call must know whose credentials are not valid, and why.

use serde_json::Value;

use crate::authorization::{self, Scheme};
use crate::basic::Credentials;
use crate::jwt;
use crate::names::is_name;
use crate::{CredentialsError, UnixTime};

use super::Authenticator;

/// What invalid credentials say. Nothing of it is verified: whoever sends a request can put any name into it. For the
/// operator and never for the client. It has no part of a password or of a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempted {
    /// The user name, with the prefix of its source. No control characters.
    pub user: Option<String>,
    /// The issuer of a token, even if the policy does not configure it. No control characters.
    pub issuer: Option<String>,
    /// What in the credentials led to the error, for example "`aud` is `account`, expected `shop`". No control characters.
    pub detail: Option<String>,
}

impl<T> Authenticator<T> {
    /// What the credentials in an `Authorization` header say, which are invalid because of this error. Only methods that
    /// the policy configures are read: the user name of others may be a secret, such as an API key.
    #[must_use]
    pub fn attempted(&self, authorization: &[u8], error: CredentialsError, now: UnixTime) -> Attempted {
        match (authorization::parse(authorization), &self.basic) {
            (Scheme::Basic(encoded), Some(basic)) => match Credentials::decode(encoded) {
                Ok(credentials) => {
                    let user = basic.accounts.user_name(credentials.user()).to_string();
                    Attempted { user: Some(user), ..Attempted::default() }
                }
                Err(malformed) => Attempted { detail: Some(malformed.to_string()), ..Attempted::default() },
            },
            (Scheme::Bearer(token), _) if !self.issuers.is_empty() => self.attempted_token(token, error, now),
            (Scheme::Basic(_) | Scheme::Bearer(_) | Scheme::Other, _) => Attempted::default(),
        }
    }

    /// Where a token, which is malformed because its roles or groups are, probably has them: for people who explain a request.
    #[must_use]
    pub fn roles_elsewhere(&self, authorization: &[u8]) -> Option<String> {
        let Scheme::Bearer(token) = authorization::parse(authorization) else { return None };
        let claims = jwt::Unverified::decode(token).payload.ok()?;
        let issuer = jwt::find_issuer(&self.issuers, claims.get("iss")).ok()?;
        jwt::elsewhere(&claims, &issuer.settings)
    }

    /// What is malformed in these claims, which are not of a verified token: for people who test a policy.
    #[must_use]
    pub fn malformed_claim(&self, claims: &Value) -> Option<String> {
        let mut claims = claims.as_object()?.clone();
        // Those of a case need no times.
        claims.entry("exp").or_insert_with(|| 0.into());
        let issuer = jwt::find_issuer(&self.issuers, claims.get("iss")).ok()?;
        Some(jwt::malformed_claim(&claims, &issuer.settings))
    }

    fn attempted_token(&self, text: &[u8], error: CredentialsError, now: UnixTime) -> Attempted {
        let token = jwt::Unverified::decode(text);
        let detail = jwt::detail(&token, &self.issuers, error, now);
        let Ok(claims) = token.payload else { return Attempted { detail, ..Attempted::default() } };
        let issuer = jwt::find_issuer(&self.issuers, claims.get("iss")).ok();
        let user = issuer.and_then(|issuer| jwt::user(&claims, &issuer.settings));
        let issuer = claims.get("iss").and_then(Value::as_str).filter(|issuer| is_name(issuer));
        Attempted { user: user.map(|user| user.to_string()), issuer: issuer.map(str::to_owned), detail }
    }
}
