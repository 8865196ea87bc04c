//! The roles and action groups that every OpenSearch has, whatever its files say ("static" ones).

/// A built-in role.
pub(crate) struct BuiltinRole {
    pub(crate) name: &'static str,
    pub(crate) cluster: &'static [&'static str],
    /// Index patterns and what is allowed on them.
    pub(crate) indices: &'static [(&'static [&'static str], &'static [&'static str])],
    /// Tenant patterns and what is allowed in them.
    pub(crate) tenants: &'static [(&'static [&'static str], &'static [&'static str])],
}

const fn role(
    name: &'static str,
    cluster: &'static [&'static str],
    indices: &'static [(&'static [&'static str], &'static [&'static str])],
) -> BuiltinRole {
    BuiltinRole { name, cluster, indices, tenants: &[] }
}

/// The role of those who use Dashboards.
pub(crate) const KIBANA_USER: &str = "kibana_user";

pub(crate) const ROLES: &[BuiltinRole] = &[
    BuiltinRole {
        tenants: &[(&["*"], &["kibana_all_write"])],
        ..role("all_access", &["*"], &[(&["*"], &["*"])])
    },
    role("readall", &["cluster_composite_ops_ro"], &[(&["*"], &["read"])]),
    role("readall_and_monitor", &["cluster_composite_ops_ro", "cluster_monitor"], &[(&["*"], &["read"])]),
    role("own_index", &["cluster_composite_ops"], &[(&["${user_name}"], &["indices_all"])]),
    role(
        "manage_snapshots",
        &["manage_snapshots"],
        &[(&["*"], &["indices:admin/create", "indices:data/write/index"])],
    ),
    role(
        "logstash",
        &[
            "cluster_composite_ops",
            "cluster_monitor",
            "cluster:admin/ingest/pipeline/get",
            "cluster:admin/ingest/pipeline/put",
            "indices:admin/template/get",
            "indices:admin/template/put",
        ],
        &[(&["logstash-*", "ecs-logstash-*", "*beat*"], &["create_index", "crud"])],
    ),
    // What it may do in the global tenant depends on the other roles of its holder: see `TenantAccess::of_roles`.
    role(
        KIBANA_USER,
        &["cluster_composite_ops"],
        &[
            (
                &[
                    ".kibana",
                    ".kibana-6",
                    ".kibana_*",
                    ".opensearch_dashboards",
                    ".opensearch_dashboards-6",
                    ".opensearch_dashboards_*",
                ],
                &["delete", "index", "manage", "read"],
            ),
            (&[".tasks", ".management-beats", "*:.tasks", "*:.management-beats"], &["indices_all"]),
        ],
    ),
    role(
        "kibana_server",
        &[
            "cluster_composite_ops",
            "cluster_monitor",
            "manage_point_in_time",
            "indices:admin/index_template*",
            "indices:admin/template*",
            "indices:data/read/scroll*",
        ],
        &[
            (
                &[
                    ".kibana",
                    ".kibana-6",
                    ".kibana_*",
                    ".opensearch_dashboards",
                    ".opensearch_dashboards-6",
                    ".opensearch_dashboards_*",
                    ".tasks",
                    ".management-beats*",
                ],
                &["indices_all"],
            ),
            (&["*"], &["indices:admin/aliases*"]),
        ],
    ),
];

/// Whether every cluster has this role.
#[must_use]
pub fn is_builtin_role(name: &str) -> bool {
    ROLES.iter().any(|role| role.name == name)
}

/// Names of action groups, and their members: actions, patterns of actions, and other groups.
pub(crate) const ACTION_GROUPS: &[(&str, &[&str])] = &[
    ("unlimited", &["*"]),
    // Of the cluster.
    ("cluster_all", &["cluster:*"]),
    ("cluster_monitor", &["cluster:monitor/*"]),
    (
        "cluster_composite_ops",
        &[
            "cluster_composite_ops_ro",
            "indices:admin/aliases*",
            "indices:data/write/bulk",
            "indices:data/write/reindex",
        ],
    ),
    (
        "cluster_composite_ops_ro",
        &[
            "indices:admin/aliases/exists*",
            "indices:admin/aliases/get*",
            "indices:admin/resolve/index",
            "indices:data/read/mget",
            "indices:data/read/msearch",
            "indices:data/read/mtv",
            "indices:data/read/scroll",
        ],
    ),
    (
        "cluster_manage_index_templates",
        &["cluster:admin/component_template/*", "indices:admin/index_template/*", "indices:admin/template/*"],
    ),
    ("cluster_manage_pipelines", &["cluster:admin/ingest/pipeline/*"]),
    ("manage_snapshots", &["cluster:admin/repository/*", "cluster:admin/snapshot/*"]),
    // Of indices.
    ("indices_all", &["indices:*"]),
    ("indices_monitor", &["indices:monitor/*"]),
    ("manage", &["indices:admin/*", "indices:monitor/*"]),
    ("manage_aliases", &["indices:admin/aliases*"]),
    ("manage_data_streams", &["indices:admin/data_stream/*", "indices:monitor/data_stream/stats"]),
    (
        "manage_point_in_time",
        &[
            "indices:data/read/point_in_time/create",
            "indices:data/read/point_in_time/delete",
            "indices:data/read/point_in_time/readall",
            "indices:data/read/search",
            "indices:monitor/point_in_time/segments",
        ],
    ),
    ("create_index", &["indices:admin/create", "indices:admin/mapping/put"]),
    ("data_access", &["crud", "indices:data/*"]),
    ("crud", &["read", "write"]),
    ("read", &["indices:admin/mappings/fields/get*", "indices:admin/resolve/index", "indices:data/read*"]),
    ("write", &["indices:admin/mapping/put", "indices:data/write*"]),
    ("get", &["indices:data/read/get*", "indices:data/read/mget*"]),
    (
        "search",
        &[
            "indices:admin/resolve/index",
            "indices:data/read/msearch*",
            "indices:data/read/search*",
            "suggest",
        ],
    ),
    ("suggest", &["indices:data/read/suggest*"]),
    (
        "index",
        &[
            "indices:admin/mapping/put",
            "indices:data/write/bulk*",
            "indices:data/write/index*",
            "indices:data/write/update*",
        ],
    ),
    ("delete", &["indices:data/write/delete*"]),
    // Of OpenSearch Dashboards.
    ("kibana_all_read", &["kibana:saved_objects/*/read"]),
    ("kibana_all_write", &["kibana:saved_objects/*/write"]),
];

#[cfg(test)]
mod tests;
