//! The fixed contents of the cluster, and generated roles and mappings.

use std::sync::Arc;

use document::MapFiles;
use fastrand::Rng;
use search::config::{EvaluationType, SecurityConfig};
use search::{EvaluationSettings, Inventory, InventoryBuilder};
use serde_json::{Map, Value, json};

use crate::contents::{self, Contents};
use crate::node::Node;

/// How many roles there are, `r0` and so on, and backend roles of the same names.
pub(crate) const ROLES: usize = 12;

pub(crate) const INDICES: [&str; 11] = [
    "logs-a",
    "logs-b",
    "logs-c",
    "logs-2026.01",
    "secret",
    "secret-b",
    "public",
    "team-user",
    "team-other",
    ".dotted",
    // Its use needs a privilege on a tenant, too.
    ".kibana",
];
/// The indices that have documents, and are open.
pub(crate) fn has_documents(index: &str) -> bool {
    INDICES.contains(&index) || index == HIDDEN || contents::OPEN.contains(&index)
}

/// The ids of documents that each index has always. Requests write others.
pub(crate) const KEPT: [&str; 2] = ["1", "kept"];
const CLOSED: &str = "logs-old";
const HIDDEN: &str = "hidden-x";
const ALIASES: [(&str, &[&str]); 4] = [
    ("all-logs", &["logs-a", "logs-b"]),
    ("mix", &["logs-c", "secret"]),
    ("pub", &["public"]),
    ("logs-now", &["logs-a"]),
];
/// An alias of this index. The inventory does not know that it is hidden.
const HIDDEN_ALIAS: (&str, &str) = ("hid-al", "secret-b");
const STREAM: &str = "stream-app";
const BACKING: &str = ".ds-stream-app-000001";

const PATTERNS: [&str; 29] = [
    "*",
    "*",
    "logs-*",
    "logs-*",
    "logs-a",
    "logs-b",
    "secret",
    "secret*",
    "public",
    "all-logs",
    "mix",
    "pub*",
    "stream-*",
    "stream-app",
    "team-${user.name}",
    "*-b",
    "/logs-[ab]/",
    "l?gs-c",
    ".ds-*",
    "new-*",
    "hidden-*",
    ".*",
    ".kibana*",
    "gen-*",
    "*gen",
    "al-*",
    "al-gen",
    "/.*-?gen/",
    "*-${user.name}",
];
const ACTIONS: [&str; 34] = [
    "*",
    "read",
    "read",
    "write",
    "crud",
    "index",
    "get",
    "search",
    "indices_all",
    "manage",
    "indices_monitor",
    "create_index",
    "manage_aliases",
    "delete",
    "data_access",
    "indices:data/read*",
    "indices:data/read/search",
    "indices:data/read/search*",
    "indices:data/read/get",
    "indices:data/read/mget*",
    "indices:data/read/tv",
    "indices:data/read/mtv*",
    "indices:data/write/bulk*",
    "indices:data/write/index",
    "indices:data/write/*",
    "indices:data/write/delete*",
    "indices:data/write/update*",
    "indices:admin/mapping/put",
    "indices:admin/create",
    "indices:admin/get",
    "indices:admin/*",
    "indices:monitor/*",
    "indices:admin/mappings/get*",
    "indices:admin/aliases*",
];
const CLUSTER: [&str; 14] = [
    "cluster_composite_ops",
    "cluster_composite_ops",
    "cluster_composite_ops_ro",
    "cluster_all",
    "cluster_monitor",
    "indices:data/write/bulk",
    "indices:data/read/mget",
    "indices:data/read/msearch*",
    "indices:data/read/mtv",
    "indices:data/read/scroll*",
    "indices:data/write/reindex",
    "cluster:monitor/*",
    "cluster:monitor/health",
    "*",
];

const TENANTS: [&str; 4] = ["kibana_all_read", "kibana_all_read", "kibana_all_write", "*"];

/// Roles, who has them, and what is decided with them.
pub(crate) struct World {
    pub(crate) roles: Value,
    mappings: Value,
    contents: Contents,
    /// `do_not_fail_on_forbidden`.
    pub(crate) reduces: bool,
    pub(crate) config: Arc<SecurityConfig>,
    pub(crate) settings: EvaluationSettings,
    pub(crate) inventory: Inventory,
}

impl World {
    pub(crate) fn generate(random: &mut Rng) -> Self {
        let mut roles = Map::new();
        let mut some = |from: &[&str], most: usize| -> Vec<String> {
            (0..random.usize(1..=most))
                .map(|_| from[random.usize(..from.len())].to_owned())
                .collect()
        };
        for number in 0..ROLES {
            let permissions: Vec<Value> = (0..1 + number % 3)
                .map(
                    |_| json!({ "index_patterns": some(&PATTERNS, 2), "allowed_actions": some(&ACTIONS, 3) }),
                )
                .collect();
            let cluster = if number % 4 == 0 { Vec::new() } else { some(&CLUSTER, 3) };
            let tenants: Vec<Value> = match number % 4 {
                1 => {
                    vec![json!({ "tenant_patterns": ["*"], "allowed_actions": some(&TENANTS, 1) })]
                }
                2 => vec![
                    json!({ "tenant_patterns": ["global_tenant"], "allowed_actions": some(&TENANTS, 1) }),
                ],
                _ => Vec::new(),
            };
            let role = json!({
                "cluster_permissions": cluster,
                "index_permissions": permissions,
                "tenant_permissions": tenants,
            });
            roles.insert(format!("r{number}"), role);
        }
        let reduces = random.bool();
        Self::new(roles.into(), reduces, generate_mappings(random), Contents::generate(random))
    }

    /// Each role for the backend role of the same name.
    pub(crate) fn with_roles(roles: Value, reduces: bool) -> Self {
        let names = (0..ROLES).map(|number| format!("r{number}"));
        let mappings =
            names.map(|name| (name.clone(), json!({ "backend_roles": [name] }))).collect();
        Self::new(roles, reduces, mappings, Contents::default())
    }

    /// The world that [`World::record`] has recorded.
    pub(crate) fn from_record(record: &Value) -> Self {
        let contents = Contents::from_record(&record["contents"]);
        Self::new(
            record["roles"].clone(),
            record["reduces"] == true,
            record["mappings"].clone(),
            contents,
        )
    }

    pub(crate) fn record(&self) -> Value {
        json!({
            "roles": self.roles,
            "reduces": self.reduces,
            "mappings": self.mappings,
            "contents": self.contents.record(),
        })
    }

    fn new(roles: Value, reduces: bool, mappings: Value, contents: Contents) -> Self {
        let files = MapFiles::new("roles.yml", with_meta("roles", &roles))
            .and("roles_mapping.yml", with_meta("rolesmapping", &mappings));
        let loaded = SecurityConfig::load(&files, "".as_ref()).expect("valid roles");
        let settings = EvaluationSettings {
            evaluation: EvaluationType::Legacy,
            do_not_fail_on_forbidden: reduces,
            ..EvaluationSettings::default()
        };
        let inventory = inventory(&contents);
        Self {
            roles,
            mappings,
            contents,
            reduces,
            config: Arc::new(loaded.config),
            settings,
            inventory,
        }
    }

    /// The files of the cluster's configuration, by name.
    pub(crate) fn files(&self) -> [(&'static str, String); 3] {
        let config =
            json!({ "config": { "dynamic": { "do_not_fail_on_forbidden": self.reduces } } });
        [
            ("roles.yml", with_meta("roles", &self.roles)),
            ("roles_mapping.yml", with_meta("rolesmapping", &self.mappings)),
            ("config.yml", with_meta("config", &config)),
        ]
    }

    /// Makes these roles the active ones of a node.
    pub(crate) fn activate(&self, node: &mut Node) {
        let (_, text) = node.administer("GET", "/_plugins/_security/api/securityconfig", "");
        let mut config: Value = serde_json::from_str(&text).expect("JSON");
        config["config"]["dynamic"]["do_not_fail_on_forbidden"] = self.reduces.into();
        let config = config["config"].to_string();
        done(node.administer("PUT", "/_plugins/_security/api/securityconfig/config", &config));
        let roles = self.roles.as_object().expect("roles").iter();
        let changes: Vec<Value> = roles
            .map(|(name, role)| json!({ "op": "add", "path": format!("/{name}"), "value": role }))
            .collect();
        done(node.administer(
            "PATCH",
            "/_plugins/_security/api/roles",
            &json!(changes).to_string(),
        ));
        let changes: Vec<Value> = self
            .mappings
            .as_object()
            .expect("mappings")
            .iter()
            .map(|(name, mapping)| json!({ "op": "add", "path": format!("/{name}"), "value": mapping }))
            .collect();
        done(node.administer(
            "PATCH",
            "/_plugins/_security/api/rolesmapping",
            &json!(changes).to_string(),
        ));
    }
}

/// Creates what the cluster contains.
pub(crate) fn create(node: &mut Node) {
    node.administer("DELETE", "/_data_stream/*", "");
    // The index of the plugin stays. A node without the plugin has none, and refuses to leave it
    // out.
    if node.administer("DELETE", "/*,-.opendistro_security?expand_wildcards=all", "").0 == 404 {
        done(node.administer("DELETE", "/*?expand_wildcards=all", ""));
    }
    let template = json!({ "index_patterns": ["stream-*"], "data_stream": {} });
    done(node.administer("PUT", "/_index_template/streams", &template.to_string()));
    done(node.administer("PUT", &format!("/_data_stream/{STREAM}"), ""));
    let hidden = json!({ "settings": { "index.hidden": true } });
    done(node.administer("PUT", &format!("/{HIDDEN}"), &hidden.to_string()));
    for index in INDICES.iter().chain([&CLOSED, &HIDDEN]) {
        if *index != HIDDEN {
            // A node that has kept a result may give it to others: an empty one, if the plugin had
            // filtered all.
            let settings = json!({ "settings": { "index.requests.cache.enable": false } });
            done(node.administer("PUT", &format!("/{index}"), &settings.to_string()));
        }
        for id in KEPT {
            let document = json!({ "f": index, "id": id }).to_string();
            done(node.administer("PUT", &format!("/{index}/_doc/{id}?refresh=true"), &document));
        }
    }
    for (alias, members) in ALIASES {
        let action = json!({ "actions": [{ "add": { "indices": members, "alias": alias } }] });
        done(node.administer("POST", "/_aliases", &action.to_string()));
    }
    let (alias, index) = HIDDEN_ALIAS;
    let action =
        json!({ "actions": [{ "add": { "index": index, "alias": alias, "is_hidden": true } }] });
    done(node.administer("POST", "/_aliases", &action.to_string()));
    done(node.administer("POST", &format!("/{CLOSED}/_close"), ""));
}

impl World {
    /// Makes a node contain what belongs to these roles.
    pub(crate) fn fill(&self, node: &mut Node) {
        self.contents.create(node);
    }

    /// Removes the indices that a request created.
    pub(crate) fn remove_new(&self, node: &mut Node) {
        let mut names = self.contents.absent();
        names.push("new-*");
        done(node.administer(
            "DELETE",
            &format!("/{}?ignore_unavailable=true", names.join(",")),
            "",
        ));
    }

    /// Removes the indices and the documents that requests created.
    pub(crate) fn restore(&self, node: &mut Node) {
        self.remove_new(node);
        let all = "/*,-.opendistro_security";
        let options = "ignore_unavailable=true&expand_wildcards=open,hidden";
        done(node.administer("POST", &format!("{all}/_refresh?{options}"), ""));
        let others = json!({ "query": { "bool": { "must_not": { "ids": { "values": KEPT } } } } });
        let delete = format!("{all}/_delete_by_query?refresh=true&conflicts=proceed&{options}");
        done(node.administer("POST", &delete, &others.to_string()));
    }
}

fn inventory(contents: &Contents) -> Inventory {
    let mut inventory = InventoryBuilder::default();
    for index in INDICES {
        inventory.index(index, true, false);
    }
    inventory.index(CLOSED, false, false).index(HIDDEN, true, true).index(BACKING, true, false);
    for (alias, members) in ALIASES {
        inventory.alias(alias, members.iter().copied());
    }
    inventory.alias(HIDDEN_ALIAS.0, [HIDDEN_ALIAS.1]);
    inventory.data_stream(STREAM, [BACKING]);
    contents.add_to(&mut inventory);
    inventory.build()
}

/// Role mappings: by a backend role, by all of several backend roles, or by names of users.
fn generate_mappings(random: &mut Rng) -> Value {
    let mut mappings = Map::new();
    for number in 0..ROLES {
        let name = format!("r{number}");
        let other = format!("r{}", random.usize(..ROLES));
        let mapping = match random.u8(..12) {
            0 => json!({ "backend_roles": [name, other] }),
            1 => json!({ "and_backend_roles": [name, other] }),
            2 => json!({ "backend_roles": [], "users": ["user"] }),
            3 => json!({ "backend_roles": [name], "users": ["oth*"] }),
            4 => json!({ "backend_roles": [format!("{name}*")] }),
            5 => {
                json!({ "backend_roles": [name], "and_backend_roles": [other, "r1"], "users": ["a.b"] })
            }
            6 => json!({ "users": ["/us.r/"] }),
            _ => json!({ "backend_roles": [name] }),
        };
        mappings.insert(name, mapping);
    }
    mappings.into()
}

fn with_meta(kind: &str, entries: &Value) -> String {
    let mut all = entries.clone();
    all["_meta"] = json!({ "type": kind, "config_version": 2 });
    all.to_string()
}

pub(crate) fn done((status, text): (u16, String)) {
    assert!(status < 300, "{status} {text}");
}
