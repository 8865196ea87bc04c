//! The header of a token (RFC 7515, 4): what it may say, and what it may not.

use serde_json::{Map, Value};

use crate::CredentialsError;
use crate::jwks::Algorithm;

/// Parameters that no token may have: those that bring a key or point to one (RFC 8725, 3.10), those that are to be
/// understood (`crit`, RFC 7515, 4.1.11: we understand none), and those of an encrypted or compressed one.
const REFUSED: [&str; 7] = ["jwk", "jku", "x5u", "x5c", "crit", "zip", "enc"];

/// A header that may be used to look for a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
    typ: Option<String>,
}

impl Header {
    pub(super) fn read(members: &Map<String, Value>) -> Result<Self, CredentialsError> {
        let unencoded = members.get("b64").is_some_and(|encoded| *encoded != Value::Bool(true));
        if unencoded || REFUSED.iter().any(|name| members.contains_key(*name)) {
            return Err(CredentialsError::UnsafeHeader);
        }
        let name = text(members, "alg")?.ok_or(CredentialsError::MalformedToken)?;
        let algorithm = Algorithm::named(&name).ok_or(CredentialsError::UnsupportedAlgorithm)?;
        Ok(Self { algorithm, kid: text(members, "kid")?, typ: text(members, "typ")? })
    }

    /// Whether it has this `typ`: without regard to case, and `application/` may be left out (RFC 7515, 4.1.9).
    pub(super) fn is_of_type(&self, required: &str) -> bool {
        self.typ.as_deref().is_some_and(|typ| subtype(typ).eq_ignore_ascii_case(subtype(required)))
    }
}

/// A media type without `application/`. One with another slash keeps it (RFC 7515, 4.1.9).
fn subtype(typ: &str) -> &str {
    match typ.split_once('/') {
        Some((first, rest)) if first.eq_ignore_ascii_case("application") && !rest.contains('/') => rest,
        _ => typ,
    }
}

fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, CredentialsError> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(CredentialsError::MalformedToken),
    }
}
