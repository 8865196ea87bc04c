//! Keys and shapes of other systems (OPA, Envoy, Istio, Keycloak, Kubernetes), and what to write in their place.

use document::{Hints, KeyHint};

/// The hints for policies.
pub(crate) const HINTS: Hints = Hints { key: key_hint, shape: shape_hint };

/// The mapping, the keys of other systems, the key that they mean here, and the help where that key alone is not enough.
type Row = (&'static str, &'static [&'static str], Option<&'static str>, &'static str);

const KEYS: &[Row] = &[
    (
        "a policy",
        &["apiversion", "kind", "metadata", "spec"],
        Some("version"),
        "a policy is not a Kubernetes resource: it starts with `version: 1`",
    ),
    (
        "a policy",
        &["default", "default_action", "action"],
        None,
        "leave it out: what no rule allows is denied",
    ),
    (
        "a policy",
        &["allow", "deny", "rules", "policies", "permissions", "package"],
        Some("roles"),
        "rules belong to roles: write `roles: { NAME: { allow: [\"GET /people\"] } }`",
    ),
    (
        "a policy",
        &["anonymous", "anyone", "everyone", "public"],
        None,
        "rules for callers without credentials go under the role `anyone`",
    ),
    (
        "a policy",
        &["users", "basic", "jwt", "issuers", "providers"],
        Some("identity"),
        "callers are under `identity: { basic: …, jwt: … }`",
    ),
    (
        "a policy",
        &["rolebindings", "role_bindings", "bindings"],
        Some("grants"),
        "write `grants: { ROLE: { users: […], groups: […] } }`",
    ),
    ("a role", &["rules", "permissions", "paths"], Some("allow"), "write `allow: [\"GET /people\"]`"),
    ("a role", &["inherits", "parents", "includes"], Some("extends"), ""),
    (
        "a role",
        &["users", "groups", "members"],
        None,
        "a role does not name its users: write `grants: { ROLE: { users: […], groups: […] } }`",
    ),
    ("a rule", &["verbs", "method"], Some("methods"), ""),
    (
        "a rule",
        &["resources", "path", "url", "uri", "prefix"],
        Some("paths"),
        "did you mean `paths`? `/people/**` is a prefix",
    ),
    ("a user", &["hash"], Some("password"), ""),
    ("a user", &["role", "roles"], None, "grant roles under `grants`, to the user or to its `groups`"),
    (
        "an entry of `jwt`",
        &["jwks", "jwks_uri", "remote_jwks"],
        Some("keys"),
        "write `keys: { url: \"https://…\" }`",
    ),
    (
        "an entry of `jwt`",
        &["algorithms"],
        None,
        "leave it out: each key has its algorithm, and a token cannot choose another",
    ),
    ("an entry of `jwt`", &["iss"], Some("issuer"), ""),
    ("an entry of `jwt`", &["aud"], Some("audiences"), ""),
    ("`claims`", &["username", "sub"], Some("user"), ""),
    ("`allow_response`", &["headers"], Some("set_headers"), ""),
];

fn key_hint(mapping: &str, key: &str) -> Option<KeyHint> {
    let key = key.to_ascii_lowercase();
    let rows = KEYS.iter().filter(|(of, keys, ..)| *of == mapping && keys.contains(&&*key));
    let (_, _, meant, help) = *rows.into_iter().next()?;
    Some(match meant {
        Some(meant) if help.is_empty() => KeyHint::key(meant),
        Some(meant) => KeyHint::key_as(meant, help),
        None => KeyHint::advice(help),
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
        "a user" => "write `{ password: \"…\" }` with a hash",
        "a rule" => "write it as text, such as `GET /people`",
        "the value of a header" => "quote a text that starts with `{` or `[`",
        _ => return None,
    })
}
