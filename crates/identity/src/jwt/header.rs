//! The header of a token (RFC 7515, 4): its algorithm, key id and type, and the parameters that make it invalid.

use serde_json::{Map, Value};

use crate::CredentialsError;
use crate::jwks::Algorithm;

/// Parameters that no token may have: those that bring a key or point to one (RFC 8725, 3.10), `crit`, which lists
/// extensions that must be understood (RFC 7515, 4.1.11: none is supported), and those of encrypted or compressed
/// tokens.
pub(super) const REJECTED: [&str; 7] = ["jwk", "jku", "x5u", "x5c", "crit", "zip", "enc"];

/// A header without unsafe parameters, with which a key may be selected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) algorithm: Algorithm,
    pub(crate) kid: Option<String>,
    typ: Option<String>,
}

impl Header {
    pub(super) fn parse(members: &Map<String, Value>) -> Result<Self, CredentialsError> {
        let unencoded = members.get("b64").is_some_and(|encoded| *encoded != Value::Bool(true));
        if unencoded || REJECTED.iter().any(|name| members.contains_key(*name)) {
            return Err(CredentialsError::UnsafeHeader);
        }
        let name = text(members, "alg")?.ok_or(CredentialsError::MalformedToken)?;
        let algorithm = Algorithm::from_name(&name).ok_or(CredentialsError::UnsupportedAlgorithm)?;
        Ok(Self { algorithm, kid: text(members, "kid")?, typ: text(members, "typ")? })
    }

    /// Whether the token has this `typ`. Case does not count, and `application/` may be left out (RFC 7515, 4.1.9).
    pub(super) fn is_of_type(&self, required: &str) -> bool {
        self.typ.as_deref().is_some_and(|typ| subtype(typ).eq_ignore_ascii_case(subtype(required)))
    }
}

/// A media type without `application/`, which is kept where another slash follows (RFC 7515, 4.1.9).
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
