//! What to write instead of the keys and shapes that other systems use (OPA, Envoy, Istio, nginx, Spring Security,
//! Keycloak, IAM, Kubernetes, Elasticsearch).

use std::fmt::{self, Display, Formatter};

use Hint::{Advice, Key, KeyAs};

/// What to write instead of an unknown key.
pub(crate) enum Hint {
    /// This key.
    Key(&'static str),
    /// This key, in the way that the text shows.
    KeyAs(&'static str, &'static str),
    /// No key in its place.
    Advice(&'static str),
}

/// What to write instead of a key that is unknown in `what`.
pub(crate) fn of_key(what: &str, key: &str) -> Option<Hint> {
    let key = key.to_ascii_lowercase();
    Some(match (what, &*key) {
        ("a policy", "apiversion" | "kind" | "metadata" | "spec") => {
            KeyAs("version", "a policy is not a Kubernetes resource: it starts with `version: 1`")
        }
        ("a policy", "default" | "default_action" | "action") => {
            Advice("leave it out: what no rule allows is denied")
        }
        ("a policy", "allow" | "deny" | "rules" | "policies" | "permissions" | "statement" | "package") => {
            KeyAs("roles", "rules belong to roles: write `roles: { NAME: { allow: [\"GET /people\"] } }`")
        }
        ("a policy" | "`identity`", "anonymous" | "anonymous_user" | "anyone" | "everyone" | "public") => {
            Advice("rules for callers without credentials go under the role `anyone`")
        }
        ("a policy", "users" | "groups" | "basic" | "htpasswd") => {
            KeyAs("identity", "users are under `identity: { basic: … }`")
        }
        ("a policy", "jwt" | "issuer" | "issuers" | "providers") => {
            KeyAs("identity", "issuers are under `identity: { jwt: … }`")
        }
        ("a policy", "rolebindings" | "role_bindings" | "bindings" | "subjects" | "assignments") => {
            KeyAs("grants", "write `grants: { ROLE: { users: […], groups: […] } }`")
        }
        ("a role", "rules" | "permissions" | "policies" | "can" | "paths") => {
            KeyAs("allow", "write `allow: [\"GET /people\"]`")
        }
        ("a role", "inherits" | "parents" | "parent" | "includes" | "roles") => Key("extends"),
        ("a role", "users" | "groups" | "members") => {
            Advice("a role does not name its users: write `grants: { ROLE: { users: […], groups: […] } }`")
        }
        ("a rule", "verbs" | "verb" | "method" | "actions" | "action") => Key("methods"),
        ("a rule", "resources" | "resource" | "path" | "url" | "urls" | "uri" | "prefix") => {
            KeyAs("paths", "did you mean `paths`? `/people/**` is a prefix")
        }
        ("a rule", "effect" | "allow" | "deny") => {
            Advice("leave it out: the list `allow` or `deny` that has the rule decides")
        }
        ("a grant", "roles" | "role") => {
            Advice("a role gets the rules of others by `extends`, under `roles`")
        }
        ("a user", "hash" | "password_hash") => Key("password"),
        ("a user", "role" | "roles") => {
            Advice("write `groups`, and grant the role to the group or the user under `grants`")
        }
        (
            "an entry of `jwt`",
            "jwks" | "jwks_uri" | "jwks_url" | "jwk_set_uri" | "jwksuri" | "remote_jwks",
        ) => KeyAs("keys", "write `keys: { url: \"https://…\" }`"),
        ("an entry of `jwt`", "algorithms" | "algorithm" | "alg") => {
            Advice("leave it out: each key has its algorithm, and a token cannot choose another")
        }
        ("an entry of `jwt`", "iss") => Key("issuer"),
        ("an entry of `jwt`", "aud" | "client_id") => Key("audiences"),
        ("an entry of `jwt`", "leeway") => Key("clock_skew"),
        ("`claims`", "username" | "sub" | "principal" | "name") => Key("user"),
        ("`allow_response`", "headers" | "add_headers" | "request_headers") => Key("set_headers"),
        // The role files of a search cluster, where others write as in Elasticsearch.
        ("a role of the cluster", "cluster") => Key("cluster_permissions"),
        ("a role of the cluster", "indices" | "index") => Key("index_permissions"),
        ("a role of the cluster", "users" | "groups" | "members" | "backend_roles") => {
            Advice("a role does not name its users: map it in `roles_mapping.yml`")
        }
        ("each of `index_permissions`", "names" | "indices" | "index" | "patterns") => Key("index_patterns"),
        ("each of `index_permissions`", "privileges" | "actions" | "permissions") => Key("allowed_actions"),
        ("each of `index_permissions`", "query") => Key("dls"),
        ("each of `index_permissions`", "field_security" | "fields") => Key("fls"),
        ("an action group", "actions" | "permissions" | "members") => Key("allowed_actions"),
        ("a role mapping", "groups" | "roles") => Key("backend_roles"),
        ("a user of the cluster", "password" | "password_hash") => Key("hash"),
        ("a user of the cluster", "roles" | "groups") => KeyAs(
            "backend_roles",
            "did you mean `backend_roles`, which `roles_mapping.yml` maps to roles, or `opendistro_security_roles`?",
        ),
        ("`deny_response`", "status" | "code" | "status_code") => {
            Advice("leave it out: the status is 401 or 403, and 400 for an invalid request")
        }
        _ => return None,
    })
}

impl Hint {
    /// The key to write.
    pub(crate) fn key(&self) -> Option<&'static str> {
        match self {
            Key(key) | KeyAs(key, _) => Some(key),
            Advice(_) => None,
        }
    }
}

impl Display for Hint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Key(key) => write!(f, "did you mean `{key}`?"),
            KeyAs(_, text) | Advice(text) => f.write_str(text),
        }
    }
}

/// How to write `what`, which must be `expected` (such as a list) and is not.
pub(crate) fn of_shape(what: &str, expected: &str) -> Option<&'static str> {
    Some(match what {
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
