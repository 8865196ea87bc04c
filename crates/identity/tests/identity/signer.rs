//! Tokens of one issuer, whose keys are made once a run.

use std::sync::LazyLock;

use serde_json::{Value, json};
use testbed::tokens::Signer;
pub(crate) use testbed::tokens::{ALGORITHMS as ALL, encode};

use crate::settings::{AUDIENCE, ISSUER, NOW};

static SIGNER: LazyLock<Signer> = LazyLock::new(Signer::default);

/// The public key of an algorithm (the secret one, for HS*), with `alg` and the algorithm's name as
/// `kid`.
pub(crate) fn jwk(algorithm: &str) -> Value {
    SIGNER.jwk(algorithm)
}

pub(crate) fn set(keys: &[Value]) -> Value {
    json!({ "keys": keys })
}

/// A signature by the key of an algorithm.
pub(crate) fn sign(algorithm: &str, message: &[u8]) -> Vec<u8> {
    SIGNER.signature(algorithm, message)
}

/// Claims that are fine at [`NOW`].
pub(crate) fn claims() -> Value {
    json!({ "iss": ISSUER, "aud": AUDIENCE, "sub": "carol", "exp": NOW + 300, "iat": NOW, "groups": ["staff"] })
}

/// Claims that are fine but for this one; `None` removes it.
pub(crate) fn claims_with(name: &str, value: Option<Value>) -> Value {
    let mut claims = claims();
    match value {
        Some(value) => claims[name] = value,
        None => drop(claims.as_object_mut().unwrap().remove(name)),
    }
    claims
}

/// A header that is fine.
pub(crate) fn header(algorithm: &str) -> Value {
    json!({ "alg": algorithm, "kid": algorithm, "typ": "JWT" })
}

/// A good token.
pub(crate) fn token(algorithm: &str) -> String {
    signed(algorithm, &header(algorithm), &claims())
}

/// A token with this header and these claims, signed by the key of this algorithm.
pub(crate) fn signed(algorithm: &str, header: &Value, claims: &Value) -> String {
    signed_text(algorithm, &header.to_string(), &claims.to_string())
}

/// A token of these texts, signed.
pub(crate) fn signed_text(algorithm: &str, header: &str, claims: &str) -> String {
    SIGNER.signed(algorithm, header, claims)
}

pub(crate) fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// The modulus of the RSA key.
pub(crate) fn modulus() -> Vec<u8> {
    SIGNER.modulus()
}

/// The RSA public key in DER: what a confused verifier would take as a secret.
pub(crate) fn rsa_key() -> Vec<u8> {
    SIGNER.rsa_key()
}
