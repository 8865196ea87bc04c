//! Help for authors who know other systems (OPA, Envoy, Istio, Keycloak, Kubernetes). A hint is for
//! a key that these systems use, or for a value of the wrong type.

use document::{Hints, KeyHint};

/// The hints for policies.
pub(crate) const HINTS: Hints = Hints { keys: KEYS, wrong_types: WRONG_TYPES };

/// Each hint has the mapping, the keys of other systems, the policy's key with this meaning, and
/// the help.
const KEYS: &[KeyHint] = &[
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
        &["users", "basic", "api_keys", "certificates", "jwt", "issuers", "providers"],
        Some("identity"),
        "callers are under `identity: { basic: …, jwt: … }`",
    ),
    (
        "a policy",
        &["rolebindings", "role_bindings", "bindings"],
        Some("grants"),
        "write `grants: { ROLE: { users: […], groups: […] } }`",
    ),
    (
        "a role",
        &["rules", "permissions", "paths"],
        Some("allow"),
        "write `allow: [\"GET /people\"]`",
    ),
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
    ("a rule", &["service", "rpc"], Some("grpc"), "write `grpc: shop.Orders/Cancel`"),
    ("a user", &["hash"], Some("password"), ""),
    (
        "a user",
        &["role", "roles"],
        None,
        "grant roles under `grants`, to the user or to its `groups`",
    ),
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
    ("`introspection`", &["client", "client_id", "client_secret"], Some("credentials_file"), ""),
    ("`introspection`", &["cache", "ttl", "cache_ttl"], Some("max_cache"), ""),
    ("an entry of `jwt`", &["aud"], Some("audiences"), ""),
    ("`claims`", &["username", "sub"], Some("user"), ""),
    ("a policy", CONDITIONS, None, "a condition is `when` of a rule, a role or a grant"),
    ("a role", CONDITIONS, Some("when"), AS_CONDITION),
    ("a rule", CONDITIONS, Some("when"), AS_CONDITION),
    ("a grant", CONDITIONS, Some("when"), AS_CONDITION),
    (
        "a policy",
        &["rate_limit", "rate_limits", "cors"],
        None,
        "Envoy has filters for this: see docs/can-it.md",
    ),
    ("`identity`", &["api_key", "apikeys"], Some("api_keys"), ""),
    ("`api_keys`", &["keys", "keys_file", "users_file"], Some("file"), "write `file: keys.yaml`"),
    ("a key", &["hash"], Some("sha256"), ""),
    (
        "a key",
        &["key", "secret", "password", "value"],
        Some("sha256"),
        "write only its hash: `rolegate new-api-key` adds a new key",
    ),
    ("a key", &["name", "username"], Some("user"), ""),
    (
        "a key",
        &["role", "roles"],
        None,
        "grant roles under `grants` of the policy, to the user or to its `groups`",
    ),
    ("a key", &["exp", "expiry", "expires_at", "not_after"], Some("expires"), ""),
    (
        "`identity`",
        &["introspection"],
        None,
        "write it in the entry of its issuer, under `jwt`, in place of `keys`",
    ),
    (
        "`identity`",
        &["oauth2"],
        None,
        "callers have passwords, API keys, certificates or JWTs: docs/can-it.md says what to do \
         about others",
    ),
    (
        "`identity`",
        &["cookie", "cookies", "from_cookies", "from_headers", "token_header", "tokens_from"],
        Some("token_from"),
        "write `token_from: [{ header: authorization }, { cookie: session }]`",
    ),
    ("an entry of `token_from`", &["name"], None, "write `header: NAME` or `cookie: NAME`"),
    (
        "an entry of `token_from`",
        &["query", "param", "parameter"],
        None,
        "leave it out: URLs are logged, so a token in one is not safe (RFC 6750, section 5.3)",
    ),
    (
        "`identity`",
        &["mtls", "certificate", "client_certificates", "xfcc", "spiffe"],
        Some("certificates"),
        "write `certificates: { from: peer, users: { \"spiffe://example.org/ns/{ns}/sa/{sa}\": \
         \"{ns}/{sa}\" } }`",
    ),
    (
        "`identity`",
        &["both", "require_both", "actor"],
        Some("combine"),
        "write `combine: both`: a certificate and other credentials are required together",
    ),
    ("`certificates`", &["proxies", "trusted"], Some("trusted_proxies"), ""),
    ("`certificates`", &["source"], Some("from"), ""),
    ("`certificates`", &["names", "subjects", "sans"], Some("users"), ""),
    ("`allow_response`", &["headers"], Some("set_headers"), ""),
    ("`allow_response`", &["dynamic_metadata"], Some("metadata"), ""),
];

/// Keys that other systems use for conditions.
const CONDITIONS: &[&str] = &[
    "when",
    "if",
    "condition",
    "conditions",
    "headers",
    "query",
    "claims",
    "ip",
    "ips",
    "cidr",
    "client",
    "source_ip",
    "remote_ip",
    "time",
    "hours",
];

const AS_CONDITION: &str = "write it as a condition, such as \
    `when: request.time.getHours('Europe/Berlin') < 18`; policies/README.md#conditions has more";

/// Each hint has the value, the type that it must have, and the help.
const WRONG_TYPES: &[(&str, &str, &str)] = &[
    ("`roles`", "a mapping", "write `NAME: { allow: [\"GET /people\"] }`"),
    ("a role", "a mapping", "write `{ allow: [\"GET /people\"] }`"),
    ("`grants`", "a mapping", "write `ROLE: { users: […] }`"),
    ("a grant", "a mapping", "write `{ users: […] }` or `{ groups: […] }`"),
    ("`users`", "a mapping", "write `NAME: { password: \"…\" }`, each without `-`"),
    ("`keys`", "a mapping", "write `{ url: \"https://…\" }` or `{ file: jwks.json }`"),
    (
        "`certificates`",
        "a mapping",
        "write `{ from: peer, users: { \"dns:api.example.com\": api } }`",
    ),
    (
        "`users` of `certificates`",
        "a mapping",
        "write `\"dns:api.example.com\": api`, each without `-`",
    ),
    (
        "`groups` of `certificates`",
        "a mapping",
        "write `\"dns:api.example.com\": [clients]`, each without `-`",
    ),
    ("an entry of `token_from`", "a mapping", "write `{ header: NAME }` or `{ cookie: NAME }`"),
    ("`introspection`", "a mapping", "write `{ url: \"https://…\", credentials_file: client }`"),
    ("`api_keys`", "a mapping", "write `{ header: x-api-key, file: keys.yaml }`"),
    ("a key", "a mapping", "write `{ sha256: \"…\", user: NAME }`"),
    ("the keys", "a mapping", "write `ID: { sha256: \"…\", user: NAME }`, each without `-`"),
    ("a user", "a mapping", "write `{ password: \"…\" }` with a hash"),
    (
        "`grpc`",
        "text",
        "write a rule for each gRPC method, or `shop.Orders/*` for all of a service",
    ),
    ("a rule", "text", "write it as text, such as `GET /people`"),
    ("the value of a header", "text", "quote a text that starts with `{` or `[`"),
];
