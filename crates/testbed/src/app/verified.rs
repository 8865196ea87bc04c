//! How an application verifies the identity header: with a library for JSON Web Tokens and the keys
//! that rolegate serves.

use http::HeaderMap;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{DecodingKey, Validation, decode, decode_header};
use serde_json::Value;

use crate::process::Failed;

/// The keys and the audience of an application.
#[derive(Debug)]
pub(crate) struct Trusted {
    keys: JwkSet,
    audience: String,
}

/// Why an identity header is not accepted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("it has not exactly one `x-identity`")]
    NotOne,
    #[error("`x-identity` is not ASCII")]
    NotAscii,
    #[error("`x-identity` is not valid: {0}")]
    Invalid(#[from] jsonwebtoken::errors::Error),
}

impl Trusted {
    pub(crate) fn new(keys: &str, audience: &str) -> Result<Self, Failed> {
        let keys =
            serde_json::from_str(keys).map_err(|error| Failed::new("keys", error.to_string()))?;
        Ok(Self { keys, audience: audience.to_owned() })
    }

    /// The claims of the identity header of a request. A real application would tell the client
    /// nothing about an error.
    pub(crate) fn verify(&self, headers: &HeaderMap) -> Result<Value, Refused> {
        let mut values = headers.get_all("x-identity").iter();
        let (Some(token), None) = (values.next(), values.next()) else {
            return Err(Refused::NotOne);
        };
        Ok(self.claims(token.to_str().map_err(|_| Refused::NotAscii)?)?)
    }

    fn claims(&self, token: &str) -> jsonwebtoken::errors::Result<Value> {
        let header = decode_header(token)?;
        let unknown =
            || jsonwebtoken::errors::Error::from(jsonwebtoken::errors::ErrorKind::InvalidKeyFormat);
        let key = header.kid.as_deref().and_then(|id| self.keys.find(id)).ok_or_else(unknown)?;
        // The key determines the algorithm, not the token.
        let algorithm = key.common.key_algorithm.and_then(|name| name.to_string().parse().ok());
        let mut validation = Validation::new(algorithm.ok_or_else(unknown)?);
        validation.set_audience(&[&self.audience]);
        validation.set_required_spec_claims(&["exp", "aud", "sub"]);
        validation.leeway = 0;
        Ok(decode(token, &DecodingKey::from_jwk(key)?, &validation)?.claims)
    }
}
