//! The generated contents of the cluster: others with each set of roles.

use fastrand::Rng;
use search::InventoryBuilder;
use serde_json::{Value, json};

use crate::node::Node;
use crate::world::{INDICES, KEPT, done};

/// Indices that may exist.
pub(crate) const OPEN: [&str; 6] = ["gen-a", "gen-b", "logs-gen", ".gen", "team-gen", "secret-gen"];
/// The same, closed: a search finds nothing in it.
const CLOSED: &str = "old-gen";
/// Aliases that may exist.
pub(crate) const ALIASES: [&str; 4] = ["al-gen", "al-logs", "gen-al", ".al-gen"];
const STREAM: &str = "stream-gen";
const BACKING: &str = ".ds-stream-gen-000001";

/// Indices, aliases, and whether there is another data stream.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    /// With whether it is hidden.
    indices: Vec<(String, bool)>,
    has_closed: bool,
    aliases: Vec<(String, Vec<String>)>,
    has_stream: bool,
}

impl Contents {
    pub(crate) fn generate(random: &mut Rng) -> Self {
        let mut contents =
            Self { has_closed: random.bool(), has_stream: random.bool(), ..Self::default() };
        for name in OPEN {
            if random.bool() {
                contents.indices.push((name.to_owned(), random.u8(..5) == 0));
            }
        }
        for alias in ALIASES {
            if random.u8(..3) == 0 {
                continue;
            }
            let indices =
                INDICES.iter().copied().chain(contents.indices.iter().map(|(name, _)| &**name));
            let mut indices: Vec<&str> = indices.collect();
            random.shuffle(&mut indices);
            let members = indices.into_iter().take(random.usize(1..=3)).map(ToOwned::to_owned);
            contents.aliases.push((alias.to_owned(), members.collect()));
        }
        contents
    }

    pub(crate) fn from_record(record: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let entries = |key: &str| record[key].as_object().into_iter().flatten();
        let members = |value: &Value| value.as_array().into_iter().flatten().map(text).collect();
        Self {
            indices: entries("indices")
                .map(|(name, hidden)| (name.clone(), *hidden == true))
                .collect(),
            has_closed: record["closed"] == true,
            aliases: entries("aliases").map(|(name, list)| (name.clone(), members(list))).collect(),
            has_stream: record["stream"] == true,
        }
    }

    pub(crate) fn record(&self) -> Value {
        let indices: Value =
            self.indices.iter().map(|(name, hidden)| (name.clone(), json!(hidden))).collect();
        let aliases: Value =
            self.aliases.iter().map(|(name, list)| (name.clone(), json!(list))).collect();
        json!({ "indices": indices, "closed": self.has_closed, "aliases": aliases, "stream": self.has_stream })
    }

    pub(crate) fn add_to(&self, inventory: &mut InventoryBuilder) {
        for (name, is_hidden) in &self.indices {
            inventory.index(name, true, *is_hidden);
        }
        if self.has_closed {
            inventory.index(CLOSED, false, false);
        }
        if self.has_stream {
            inventory.index(BACKING, true, false).data_stream(STREAM, [BACKING]);
        }
        for (alias, members) in &self.aliases {
            inventory.alias(alias, members.iter().map(|name| &**name));
        }
    }

    /// Makes a node contain this in place of what it had from another set of roles.
    pub(crate) fn create(&self, node: &mut Node) {
        let list = |names: &[&str]| names.join(",");
        let remove =
            json!({ "remove": { "indices": INDICES, "aliases": ALIASES, "must_exist": false } });
        // Without any of them, a node answers 404.
        node.administer("POST", "/_aliases", &json!({ "actions": [remove] }).to_string());
        node.administer("DELETE", &format!("/_data_stream/{STREAM}"), "");
        // Requests may have created indices with the names of aliases.
        let all = format!("/{},{},{CLOSED}?ignore_unavailable=true", list(&OPEN), list(&ALIASES));
        done(node.administer("DELETE", &all, ""));
        let mut documents = String::new();
        let closed = self.has_closed.then_some((CLOSED, false));
        for (name, is_hidden) in
            self.indices.iter().map(|(name, hidden)| (&**name, *hidden)).chain(closed)
        {
            let settings = json!({ "settings": { "index.requests.cache.enable": false, "index.hidden": is_hidden } });
            done(node.administer(
                "PUT",
                &format!("/{name}?wait_for_active_shards=0"),
                &settings.to_string(),
            ));
            for id in KEPT {
                let lines = [
                    json!({ "index": { "_index": name, "_id": id } }),
                    json!({ "f": name, "id": id }),
                ];
                documents += &lines.map(|line| format!("{line}\n")).concat();
            }
        }
        if !documents.is_empty() {
            done(node.administer("POST", "/_bulk?refresh=true", &documents));
        }
        if self.has_closed {
            done(node.administer("POST", &format!("/{CLOSED}/_close"), ""));
        }
        if self.has_stream {
            done(node.administer("PUT", &format!("/_data_stream/{STREAM}"), ""));
        }
        let aliases = self.aliases.iter();
        let actions: Vec<Value> = aliases
            .map(|(alias, members)| json!({ "add": { "indices": members, "alias": alias } }))
            .collect();
        if !actions.is_empty() {
            done(node.administer("POST", "/_aliases", &json!({ "actions": actions }).to_string()));
        }
    }

    /// Names that are not there, so that a request may have created them as indices.
    pub(crate) fn absent(&self) -> Vec<&'static str> {
        let has = |name: &str| self.indices.iter().any(|(one, _)| one == name);
        let is_alias = |name: &str| self.aliases.iter().any(|(one, _)| one == name);
        let indices = OPEN.into_iter().filter(|name| !has(name));
        indices.chain(ALIASES.into_iter().filter(|name| !is_alias(name))).collect()
    }
}
