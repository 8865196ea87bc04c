//! What to write instead of the keys and shapes that other systems use (OPA, Envoy, Istio, nginx, Spring Security,
//! Keycloak, IAM, Kubernetes, Elasticsearch).

/// What to write instead of a key that is unknown in `what`.
pub(crate) fn of_key(what: &str, key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    Some(match (what, &*key) {
        ("a policy", "apiversion" | "kind" | "metadata" | "spec") => {
            "a policy is not a Kubernetes resource: it starts with `version: 1`"
        }
        ("a policy", "default" | "default_action" | "action") => {
            "leave it out: what no rule allows is denied"
        }
        ("a policy", "allow" | "deny" | "rules" | "policies" | "permissions" | "statement" | "package") => {
            "rules belong to roles: write `roles: { NAME: { allow: [\"GET /people\"] } }`"
        }
        ("a policy" | "`identity`", "anonymous" | "anonymous_user" | "anyone" | "everyone" | "public") => {
            "rules for callers without credentials go under the role `anyone`"
        }
        ("a policy", "users" | "groups" | "basic" | "htpasswd") => "users are under `identity: { basic: … }`",
        ("a policy", "jwt" | "issuer" | "issuers" | "providers") => {
            "issuers are under `identity: { jwt: … }`"
        }
        ("a policy", "rolebindings" | "role_bindings" | "bindings" | "subjects" | "assignments") => {
            "write `grants: { ROLE: { users: […], groups: […] } }`"
        }
        ("a role", "rules" | "permissions" | "policies" | "can" | "paths") => {
            "write `allow: [\"GET /people\"]`"
        }
        ("a role", "inherits" | "parents" | "parent" | "includes" | "roles") => "did you mean `extends`?",
        ("a role", "users" | "groups" | "members") => {
            "a role does not name its users: write `grants: { ROLE: { users: […], groups: […] } }`"
        }
        ("a rule", "verbs" | "verb" | "method" | "actions" | "action") => "did you mean `methods`?",
        ("a rule", "resources" | "resource" | "path" | "url" | "urls" | "uri" | "prefix") => {
            "did you mean `paths`? `/people/**` is a prefix"
        }
        ("a rule", "effect" | "allow" | "deny") => {
            "leave it out: the list `allow` or `deny` that has the rule decides"
        }
        ("a grant", "roles" | "role") => "a role gets the rules of others by `extends`, under `roles`",
        ("a user", "hash" | "password_hash") => "did you mean `password`?",
        ("a user", "role" | "roles") => {
            "write `groups`, and grant the role to the group or the user under `grants`"
        }
        (
            "an entry of `jwt`",
            "jwks" | "jwks_uri" | "jwks_url" | "jwk_set_uri" | "jwksuri" | "remote_jwks",
        ) => "write `keys: { url: \"https://…\" }`",
        ("an entry of `jwt`", "algorithms" | "algorithm" | "alg") => {
            "leave it out: each key has its algorithm, and a token cannot choose another"
        }
        ("an entry of `jwt`", "iss") => "did you mean `issuer`?",
        ("an entry of `jwt`", "aud" | "client_id") => "did you mean `audiences`?",
        ("an entry of `jwt`", "leeway") => "did you mean `clock_skew`?",
        ("`claims`", "username" | "sub" | "principal" | "name") => "did you mean `user`?",
        ("`allow_response`", "headers" | "add_headers" | "request_headers") => "did you mean `set_headers`?",
        // The role files of a search cluster, where others write as in Elasticsearch.
        ("a role of the cluster", "cluster") => "did you mean `cluster_permissions`?",
        ("a role of the cluster", "indices" | "index") => "did you mean `index_permissions`?",
        ("a role of the cluster", "users" | "groups" | "members" | "backend_roles") => {
            "a role does not name its users: map it in `roles_mapping.yml`"
        }
        ("each of `index_permissions`", "names" | "indices" | "index" | "patterns") => {
            "did you mean `index_patterns`?"
        }
        ("each of `index_permissions`", "privileges" | "actions" | "permissions") => {
            "did you mean `allowed_actions`?"
        }
        ("each of `index_permissions`", "query") => "did you mean `dls`?",
        ("each of `index_permissions`", "field_security" | "fields") => "did you mean `fls`?",
        ("an action group", "actions" | "permissions" | "members") => "did you mean `allowed_actions`?",
        ("a role mapping", "groups" | "roles") => "did you mean `backend_roles`?",
        ("a user of the cluster", "password" | "password_hash") => "did you mean `hash`?",
        ("a user of the cluster", "roles" | "groups") => {
            "did you mean `backend_roles`, which `roles_mapping.yml` maps to roles, or `opendistro_security_roles`?"
        }
        ("`deny_response`", "status" | "code" | "status_code") => {
            "leave it out: the status is 401 or 403, and 400 for an invalid request"
        }
        _ => return None,
    })
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
