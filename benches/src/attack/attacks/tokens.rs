//! Well-formed tokens with wrong signatures, as many as the attacker can send.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::json;
use testbed::tokens::{AUDIENCE, ISSUER, Signer, now};

use super::Scene;
use super::requests::again_and_again;
use crate::attack::calls;

/// The algorithm that most issuers use.
const ALGORITHM: &str = "RS256";

/// The policy with an issuer, whose keys are in [`key_set`].
pub(crate) fn policy(people: &str) -> String {
    let issuer = format!(
        "  jwt: [{{ issuer: \"{ISSUER}\", audiences: [{AUDIENCE}], keys: {{ file: jwks.json }}, claims: {{ user: sub }} }}]"
    );
    people.replacen("identity:\n", &format!("identity:\n{issuer}\n"), 1)
}

/// The keys of the issuer.
pub(crate) fn key_set() -> String {
    static ISSUER: LazyLock<Signer> = LazyLock::new(Signer::default);
    json!({ "keys": [ISSUER.jwk(ALGORITHM)] }).to_string()
}

/// Four clients, each with 32 calls under way. Wrong tokens are never cached, so a few are as good
/// as many.
pub(crate) fn wrong_signatures(scene: &Scene) -> String {
    let other = Signer::default();
    let message = |_| {
        let token = other.bearer(ALGORITHM, now());
        calls::message("198.51.100.1", "/people", Some(&token))
    };
    let messages: Vec<Bytes> = (0..64).map(message).collect();
    again_and_again(scene, 4, 32, move |number| {
        let place = usize::try_from(number).unwrap_or_default() % messages.len();
        messages.get(place).cloned().unwrap_or_default()
    })
}
