//! The built-in roles and action groups contain what those of OpenSearch's security plugin (3.4)
//! contain.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use document::Reader;

use super::{ActionGroups, BUILTIN, IndexPattern, read_builtin};

/// Whole contents of groups, with those of the groups in them.
const GROUPS: [(&str, &str); 26] = [
    ("unlimited", "*"),
    ("cluster_all", "cluster:*"),
    ("cluster_monitor", "cluster:monitor/*"),
    ("cluster_composite_ops", COMPOSITE),
    ("cluster_composite_ops_ro", COMPOSITE_READ),
    (
        "cluster_manage_index_templates",
        "cluster:admin/component_template/* indices:admin/index_template/* indices:admin/template/*",
    ),
    ("cluster_manage_pipelines", "cluster:admin/ingest/pipeline/*"),
    ("manage_snapshots", "cluster:admin/repository/* cluster:admin/snapshot/*"),
    ("indices_all", "indices:*"),
    ("indices_monitor", "indices:monitor/*"),
    ("manage", "indices:admin/* indices:monitor/*"),
    ("manage_aliases", "indices:admin/aliases*"),
    ("manage_data_streams", "indices:admin/data_stream/* indices:monitor/data_stream/stats"),
    ("manage_point_in_time", POINT_IN_TIME),
    ("create_index", "indices:admin/create indices:admin/mapping/put"),
    (
        "data_access",
        "indices:admin/mapping/put indices:admin/mappings/fields/get* indices:admin/resolve/index indices:data/* \
         indices:data/read* indices:data/write*",
    ),
    ("crud", CRUD),
    ("read", READ),
    ("write", "indices:admin/mapping/put indices:data/write*"),
    ("get", "indices:data/read/get* indices:data/read/mget*"),
    (
        "search",
        "indices:admin/resolve/index indices:data/read/msearch* indices:data/read/search* indices:data/read/suggest*",
    ),
    ("suggest", "indices:data/read/suggest*"),
    (
        "index",
        "indices:admin/mapping/put indices:data/write/bulk* indices:data/write/index* indices:data/write/update*",
    ),
    ("delete", "indices:data/write/delete*"),
    ("kibana_all_read", "kibana:saved_objects/*/read"),
    ("kibana_all_write", "kibana:saved_objects/*/write"),
];

const COMPOSITE: &str = "indices:admin/aliases* indices:admin/aliases/exists* indices:admin/aliases/get* \
     indices:admin/resolve/index indices:data/read/mget indices:data/read/msearch indices:data/read/mtv \
     indices:data/read/scroll indices:data/write/bulk indices:data/write/reindex";
const COMPOSITE_READ: &str = "indices:admin/aliases/exists* indices:admin/aliases/get* indices:admin/resolve/index \
     indices:data/read/mget indices:data/read/msearch indices:data/read/mtv indices:data/read/scroll";
const POINT_IN_TIME: &str = "indices:data/read/point_in_time/create indices:data/read/point_in_time/delete \
     indices:data/read/point_in_time/readall indices:data/read/search indices:monitor/point_in_time/segments";
const READ: &str =
    "indices:admin/mappings/fields/get* indices:admin/resolve/index indices:data/read*";
const CRUD: &str = "indices:admin/mapping/put indices:admin/mappings/fields/get* indices:admin/resolve/index \
     indices:data/read* indices:data/write*";

/// The members of these actions and groups, without the names of the groups.
fn contents(members: &[&str]) -> String {
    let groups = &BUILTIN.action_groups;
    let members: Vec<Arc<str>> = members.iter().map(|member| (*member).into()).collect();
    let actions = groups.resolve(&members).into_iter().filter(|name| !groups.contains(name));
    actions.map(|action| &**action).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_26_groups_contain_these_actions() {
    assert_eq!(BUILTIN.action_groups.names().count(), 26);
    for (group, actions) in GROUPS {
        assert!(BUILTIN.action_groups.contains(group), "{group}");
        assert_eq!(contents(&[group]), actions, "{group}");
    }
}

#[test]
fn a_builtin_group_has_the_members_of_its_groups() {
    let crud = [Arc::from("crud")];
    let resolved = BUILTIN.action_groups.resolve(&crud);
    for action in ["crud", "read", "write", "indices:data/read*", "indices:data/write*"] {
        assert!(resolved.contains(&Arc::from(action)), "{action}");
    }
}

#[test]
fn a_builtin_group_replaces_one_of_its_name() {
    let read: Arc<str> = "read".into();
    let mut groups = ActionGroups::new([(read.clone(), vec!["*".into()])].into());
    groups.extend(&BUILTIN.action_groups);
    assert!(!groups.resolve(&[read]).contains(&Arc::from("*")));
}

/// The name of a role, its actions on the cluster, and for each list of patterns its actions on
/// indices.
type RoleHas = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

/// The permissions of each role on the cluster, then its patterns of indices, each with its
/// permissions. Names of groups stand for their contents.
const ROLES_HAVE: [RoleHas; 8] = [
    ("all_access", "*", &[("*", "*")]),
    ("readall", "cluster_composite_ops_ro", &[("*", "read")]),
    ("readall_and_monitor", "cluster_composite_ops_ro cluster_monitor", &[("*", "read")]),
    ("own_index", "cluster_composite_ops", &[("${user_name}", "indices_all")]),
    (
        "manage_snapshots",
        "manage_snapshots",
        &[("*", "indices:admin/create indices:data/write/index")],
    ),
    (
        "logstash",
        "cluster:admin/ingest/pipeline/get cluster:admin/ingest/pipeline/put cluster_composite_ops \
         cluster_monitor indices:admin/template/get indices:admin/template/put",
        &[("logstash-* ecs-logstash-* *beat*", "create_index crud")],
    ),
    (
        "kibana_user",
        "cluster_composite_ops",
        &[
            (SAVED_OBJECTS, "delete index manage read"),
            (".tasks .management-beats *:.tasks *:.management-beats", "indices_all"),
        ],
    ),
    (
        "kibana_server",
        "cluster_composite_ops cluster_monitor indices:admin/index_template* indices:admin/template* \
         indices:data/read/scroll* manage_point_in_time",
        &[
            (SAVED_OBJECTS, "indices_all"),
            (".tasks .management-beats*", "indices_all"),
            ("*", "indices:admin/aliases*"),
        ],
    ),
];
const SAVED_OBJECTS: &str = ".kibana .kibana-6 .kibana_* .opensearch_dashboards .opensearch_dashboards-6 .opensearch_dashboards_*";

/// Pairs of a pattern and what is permitted on it: how they are put together does not matter.
fn on_each_pattern<'a>(
    permissions: impl Iterator<Item = (Vec<&'a str>, Vec<&'a str>)>,
) -> BTreeMap<&'a str, String> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (patterns, actions) in permissions {
        for pattern in patterns {
            all.entry(pattern).or_default().extend(&actions);
        }
    }
    all.into_iter().map(|(pattern, actions)| (pattern, contents(&actions))).collect()
}

fn text(pattern: &IndexPattern) -> &str {
    match pattern {
        IndexPattern::Static(pattern) => pattern.text(),
        IndexPattern::Template(template) => template.text(),
    }
}

fn texts(list: &[Arc<str>]) -> Vec<&str> {
    list.iter().map(|text| &**text).collect()
}

#[test]
fn the_8_roles_have_these_permissions() {
    assert_eq!(BUILTIN.roles.len(), ROLES_HAVE.len());
    for (name, cluster, indices) in ROLES_HAVE {
        let role = BUILTIN.roles.get(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(
            contents(&texts(&role.cluster_permissions)),
            contents(&words(cluster)),
            "{name}"
        );
        let ours = role.index_permissions.iter().map(|permission| {
            assert!(permission.document_query.is_none() && permission.fields.is_empty(), "{name}");
            (permission.patterns.iter().map(text).collect(), texts(&permission.allowed_actions))
        });
        let theirs = indices.iter().map(|(patterns, actions)| (words(patterns), words(actions)));
        assert_eq!(on_each_pattern(ours), on_each_pattern(theirs), "{name}");
        let tenants = role.tenant_permissions.iter();
        let tenants = tenants
            .map(|permission| (texts(&permission.patterns), texts(&permission.allowed_actions)));
        let expected = (name == "all_access").then(|| (vec!["*"], vec!["kibana_all_write"]));
        assert!(tenants.eq(expected), "{name}");
    }
}

#[test]
fn the_file_has_no_problem() {
    let mut reader = Reader::new(Path::new("builtin.yml").into());
    read_builtin(&mut reader, include_bytes!("../builtin.yml"));
    assert!(reader.finish().is_empty());
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}
