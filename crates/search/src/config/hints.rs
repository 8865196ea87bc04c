//! Hints for keys of role files: others write them as in Elasticsearch.

use document::{Hints, KeyHint};

/// The hints for the files of a search cluster.
pub(super) const HINTS: Hints = Hints { key: key_hint, ..Hints::NONE };

fn key_hint(mapping: &str, key: &str) -> Option<KeyHint> {
    let key = key.to_ascii_lowercase();
    Some(match (mapping, &*key) {
        ("a role of the cluster", "cluster") => KeyHint::key("cluster_permissions"),
        ("a role of the cluster", "indices" | "index") => KeyHint::key("index_permissions"),
        ("a role of the cluster", "users" | "groups" | "members" | "backend_roles") => {
            KeyHint::advice("a role does not name its users: map it in `roles_mapping.yml`")
        }
        ("each of `index_permissions`", "names" | "indices" | "index" | "patterns") => {
            KeyHint::key("index_patterns")
        }
        ("each of `index_permissions`", "privileges" | "actions" | "permissions") => {
            KeyHint::key("allowed_actions")
        }
        ("each of `index_permissions`", "query") => KeyHint::key("dls"),
        ("each of `index_permissions`", "field_security" | "fields") => KeyHint::key("fls"),
        ("an action group", "actions" | "permissions" | "members") => KeyHint::key("allowed_actions"),
        ("a role mapping", "groups" | "roles") => KeyHint::key("backend_roles"),
        ("a user of the cluster", "password" | "password_hash") => KeyHint::key("hash"),
        ("a user of the cluster", "roles" | "groups") => KeyHint::key_as(
            "backend_roles",
            "did you mean `backend_roles`, which `roles_mapping.yml` maps to roles, or `opendistro_security_roles`?",
        ),
        _ => return None,
    })
}
