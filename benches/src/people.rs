//! The people policy with Basic and with tokens, for benchmarks of whole checks.

use serde_json::json;
use testbed::tokens::{AUDIENCE, ISSUER, Signer, now};

/// The unmodified policy of `policies/people`.
pub const BASIC: &str = include_str!("../../policies/people/policy.yaml");

/// The same roles, for callers with a token of [`testbed::tokens::Signer`], whose keys are in
/// `jwks.json`.
#[must_use]
pub fn with_tokens() -> String {
    format!(
        "version: 1\n\
         identity:\n\
         \x20 jwt:\n\
         \x20   - issuer: {ISSUER}\n\
         \x20     audiences: [{AUDIENCE}]\n\
         \x20     keys: {{ file: jwks.json }}\n\
         \x20     claims: {{ user: preferred_username, roles: /realm_access/roles }}\n\
         roles:\n\
         \x20 guest: {{ allow: [\"GET /people\"] }}\n\
         \x20 admin: {{ extends: [guest], allow: [\"POST /people\"] }}\n\
         allow_response:\n\
         \x20 set_headers: {{ x-user: \"{{user}}\", x-roles: \"{{roles}}\" }}\n"
    )
}

/// A token for a guest, valid for a day, which is longer than any experiment.
#[must_use]
pub fn token(signer: &Signer) -> String {
    let claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "preferred_username": "alice", "realm_access": { "roles": ["guest"] },
        "iat": now(), "exp": now() + 86_400,
    });
    signer.sign(&json!({ "alg": "ES256", "kid": "ES256" }), &claims)
}

/// One of these policies without the header that names the caller's roles: with the user only.
#[must_use]
pub fn without_roles(policy: &str) -> String {
    policy.replace(", x-roles: \"{roles}\"", "")
}

#[cfg(test)]
mod tests {
    use super::{BASIC, with_tokens, without_roles};

    #[test]
    fn only_the_user_is_left() {
        for policy in [BASIC, &with_tokens()] {
            assert!(
                without_roles(policy).contains("set_headers: { x-user: \"{user}\" }"),
                "{policy}"
            );
        }
    }
}
