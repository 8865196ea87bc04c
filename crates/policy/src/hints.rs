//! What to write instead of the keys and shapes that other systems use (OPA, Envoy, Istio, nginx, Spring Security,
//! Keycloak, IAM, Kubernetes, Elasticsearch).

use document::{Hints, KeyHint};

use crate::levels;

/// The hints for policies.
pub(crate) const HINTS: Hints = Hints { key: key_hint, place: levels::help, shape: shape_hint };

fn key_hint(mapping: &str, key: &str) -> Option<KeyHint> {
    let key = key.to_ascii_lowercase();
    Some(match (mapping, &*key) {
        ("a policy", "apiversion" | "kind" | "metadata" | "spec") => {
            KeyHint::key_as("version", "a policy is not a Kubernetes resource: it starts with `version: 1`")
        }
        ("a policy", "default" | "default_action" | "action") => {
            KeyHint::advice("leave it out: what no rule allows is denied")
        }
        ("a policy", "allow" | "deny" | "rules" | "policies" | "permissions" | "statement" | "package") => {
            KeyHint::key_as(
                "roles",
                "rules belong to roles: write `roles: { NAME: { allow: [\"GET /people\"] } }`",
            )
        }
        ("a policy" | "`identity`", "anonymous" | "anonymous_user" | "anyone" | "everyone" | "public") => {
            KeyHint::advice("rules for callers without credentials go under the role `anyone`")
        }
        ("a policy", "users" | "groups" | "basic" | "htpasswd") => {
            KeyHint::key_as("identity", "users are under `identity: { basic: … }`")
        }
        ("a policy", "jwt" | "issuer" | "issuers" | "providers") => {
            KeyHint::key_as("identity", "issuers are under `identity: { jwt: … }`")
        }
        ("a policy", "rolebindings" | "role_bindings" | "bindings" | "subjects" | "assignments") => {
            KeyHint::key_as("grants", "write `grants: { ROLE: { users: […], groups: […] } }`")
        }
        ("a role", "rules" | "permissions" | "policies" | "can" | "paths") => {
            KeyHint::key_as("allow", "write `allow: [\"GET /people\"]`")
        }
        ("a role", "inherits" | "parents" | "parent" | "includes" | "roles") => KeyHint::key("extends"),
        ("a role", "users" | "groups" | "members") => KeyHint::advice(
            "a role does not name its users: write `grants: { ROLE: { users: […], groups: […] } }`",
        ),
        ("a rule", "verbs" | "verb" | "method" | "actions" | "action") => KeyHint::key("methods"),
        ("a rule", "resources" | "resource" | "path" | "url" | "urls" | "uri" | "prefix") => {
            KeyHint::key_as("paths", "did you mean `paths`? `/people/**` is a prefix")
        }
        ("a rule", "effect" | "allow" | "deny") => {
            KeyHint::advice("leave it out: the list `allow` or `deny` that has the rule decides")
        }
        ("a grant", "roles" | "role") => {
            KeyHint::advice("a role gets the rules of others by `extends`, under `roles`")
        }
        ("a user", "hash" | "password_hash") => KeyHint::key("password"),
        ("a user", "role" | "roles") => {
            KeyHint::advice("write `groups`, and grant the role to the group or the user under `grants`")
        }
        (
            "an entry of `jwt`",
            "jwks" | "jwks_uri" | "jwks_url" | "jwk_set_uri" | "jwksuri" | "remote_jwks",
        ) => KeyHint::key_as("keys", "write `keys: { url: \"https://…\" }`"),
        ("an entry of `jwt`", "algorithms" | "algorithm" | "alg") => {
            KeyHint::advice("leave it out: each key has its algorithm, and a token cannot choose another")
        }
        ("an entry of `jwt`", "iss") => KeyHint::key("issuer"),
        ("an entry of `jwt`", "aud" | "client_id") => KeyHint::key("audiences"),
        ("an entry of `jwt`", "leeway") => KeyHint::key("clock_skew"),
        ("`claims`", "username" | "sub" | "principal" | "name") => KeyHint::key("user"),
        ("`allow_response`", "headers" | "add_headers" | "request_headers") => KeyHint::key("set_headers"),
        ("`deny_response`", "status" | "code" | "status_code") => {
            KeyHint::advice("leave it out: the status is 401 or 403, and 400 for an invalid request")
        }
        _ => return None,
    })
}

fn shape_hint(value: &str, expected: &str) -> Option<&'static str> {
    Some(match value {
        "`users`" if expected == "a list" => return None,
        "`roles`" if expected == "a mapping" => "write `NAME: { allow: [\"GET /people\"] }`",
        "a role" => "write `{ allow: [\"GET /people\"] }`",
        "`grants`" => "write `ROLE: { users: […] }`",
        "a grant" => "write `{ users: […] }` or `{ groups: […] }`",
        "`users`" => "write `NAME: { password: \"…\" }`, each without `-`",
        "`keys`" => "write `{ url: \"https://…\" }` or `{ file: jwks.json }`",
        "`jwt`" => "write `- issuer: …`, one entry for each issuer",
        "a rule" => "write it as text, such as `GET /people`",
        "the value of a header" => "quote a text that starts with `{` or `[`",
        _ => return None,
    })
}
