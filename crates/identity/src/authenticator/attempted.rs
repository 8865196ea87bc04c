//! Who credentials claim to be, for logs: whoever is on call must know whose credentials are not valid.

use serde_json::Value;

use crate::authorization::{self, Scheme};
use crate::basic::Credentials;
use crate::jwt;
use crate::names::is_name;

use super::Authenticator;

/// Who credentials claim to be. Nothing of it is verified: whoever sends a request can put any name into it. Never the
/// password, and nothing else of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempted {
    /// The user name, with the prefix of its source. No control characters.
    pub user: Option<String>,
    /// The issuer of a token, even if the policy does not configure it. No control characters.
    pub issuer: Option<String>,
}

impl<T> Authenticator<T> {
    /// Who the credentials in an `Authorization` header claim to be. Only methods that the policy configures are read: the
    /// user name of others may be a secret, such as an API key.
    #[must_use]
    pub fn attempted(&self, authorization: &[u8]) -> Attempted {
        match (authorization::parse(authorization), &self.basic) {
            (Scheme::Basic(encoded), Some(basic)) => {
                let credentials = Credentials::decode(encoded).ok();
                let user = credentials.map(|credentials| basic.accounts.user_name(credentials.user()));
                let user = user.map(|user| user.to_string());
                Attempted { user, issuer: None }
            }
            (Scheme::Bearer(token), _) if !self.issuers.is_empty() => self.attempted_token(token),
            (Scheme::Basic(_) | Scheme::Bearer(_) | Scheme::Other, _) => Attempted::default(),
        }
    }

    fn attempted_token(&self, token: &[u8]) -> Attempted {
        let Ok(claims) = jwt::Unverified::decode(token).payload else { return Attempted::default() };
        let issuer = jwt::find_issuer(&self.issuers, claims.get("iss")).ok();
        let user = issuer.and_then(|issuer| jwt::user(&claims, &issuer.settings));
        let issuer = claims.get("iss").and_then(Value::as_str).filter(|issuer| is_name(issuer));
        Attempted { user: user.map(|user| user.to_string()), issuer: issuer.map(str::to_owned) }
    }
}
