//! The policy of the people, with Basic and with tokens: what whole checks are measured with.

use std::path::Path;
use std::sync::Arc;

use policy::problem::Problem;
use policy::{Loaded, MapFiles};

use crate::signer::{AUDIENCE, ISSUER};

/// `policies/people`, as it stands there.
pub const BASIC: &str = include_str!("../../policies/people/policy.yaml");

/// The same roles, for callers who come with a token of [`crate::signer`]; its keys are in `jwks.json`.
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

/// Loads a policy with its keys beside it.
///
/// # Errors
/// Every problem of it.
pub fn load(policy: &str, jwks: &str) -> Result<Arc<Loaded>, Vec<Problem>> {
    let files = MapFiles::of("policy.yaml", policy).and("jwks.json", jwks);
    policy::load(&files, Path::new("policy.yaml")).map(Arc::new)
}
