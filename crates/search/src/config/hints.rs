//! Hints for keys of role files: others write them as in Elasticsearch.

use document::{Hints, KeyHint};

/// The hints for the files of a search cluster.
pub(super) const HINTS: Hints = Hints { keys: KEYS, shapes: &[] };

const KEYS: &[KeyHint] = &[
    ("a role of the cluster", &["cluster"], Some("cluster_permissions"), ""),
    ("a role of the cluster", &["indices", "index"], Some("index_permissions"), ""),
    (
        "a role of the cluster",
        &["users", "groups", "members", "backend_roles"],
        None,
        "a role does not name its users: map it in `roles_mapping.yml`",
    ),
    (
        "each of `index_permissions`",
        &["names", "indices", "index", "patterns"],
        Some("index_patterns"),
        "",
    ),
    (
        "each of `index_permissions`",
        &["privileges", "actions", "permissions"],
        Some("allowed_actions"),
        "",
    ),
    ("each of `index_permissions`", &["query"], Some("dls"), ""),
    ("each of `index_permissions`", &["field_security", "fields"], Some("fls"), ""),
    ("an action group", &["actions", "permissions", "members"], Some("allowed_actions"), ""),
    ("a role mapping", &["groups", "roles"], Some("backend_roles"), ""),
    ("a user of the cluster", &["password", "password_hash"], Some("hash"), ""),
    (
        "a user of the cluster",
        &["roles", "groups"],
        Some("backend_roles"),
        "did you mean `backend_roles`, which `roles_mapping.yml` maps to roles, or `opendistro_security_roles`?",
    ),
];
