//! Reads an inventory from the answer to `GET /_resolve/index/*?expand_wildcards=all`.

use serde::Deserialize;
use serde::de::Error as _;

use super::{Inventory, InventoryBuilder};

/// The answer. Fields that are not read are ignored, as later versions may add some.
#[derive(Deserialize)]
struct Resolved {
    indices: Vec<ResolvedIndex>,
    #[serde(default)]
    aliases: Vec<ResolvedAlias>,
    #[serde(default)]
    data_streams: Vec<ResolvedStream>,
}

#[derive(Deserialize)]
struct ResolvedIndex {
    name: String,
    attributes: Vec<String>,
}

#[derive(Deserialize)]
struct ResolvedAlias {
    name: String,
    indices: Vec<String>,
}

#[derive(Deserialize)]
struct ResolvedStream {
    name: String,
    backing_indices: Backing,
}

/// A node writes a list with a single index as a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Backing {
    Single(String),
    List(Vec<String>),
}

impl Inventory {
    /// Reads the answer. It does not say which aliases and data streams are hidden, so all are
    /// taken for visible: a pattern then stands for no less than in the cluster. An account that
    /// may not see an index may still see its alias: the index is then [unlisted](Self::unlisted).
    ///
    /// # Errors
    /// If it is another answer. Also if an alias or data stream has the name of an index, or if
    /// one of its members is another alias or data stream.
    pub fn from_resolved(json: &[u8]) -> Result<Self, serde_json::Error> {
        let resolved: Resolved = serde_json::from_slice(json)?;
        let mut builder = InventoryBuilder::default();
        for index in &resolved.indices {
            let mut attributes = index.attributes.iter().map(String::as_str);
            let is_open = !attributes.clone().any(|attribute| attribute == "closed");
            builder.index(&index.name, is_open, attributes.any(|attribute| attribute == "hidden"));
        }
        for alias in &resolved.aliases {
            builder.alias(&alias.name, &alias.indices);
        }
        for stream in &resolved.data_streams {
            let backing = match &stream.backing_indices {
                Backing::Single(index) => std::slice::from_ref(index),
                Backing::List(indices) => indices,
            };
            builder.data_stream(&stream.name, backing);
        }
        match builder.contradiction() {
            None => Ok(builder.build()),
            Some(name) => Err(serde_json::Error::custom(format_args!(
                "the alias or data stream `{name}` has the name of an index, \
                 or another alias or data stream as a member"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn an_answer_of_a_cluster_is_read() {
        let json = br#"{ "indices": [
            { "name": ".ds-app-1", "attributes": ["open", "hidden"], "data_stream": "app" },
            { "name": "logs-1", "aliases": ["logs"], "attributes": ["open"] },
            { "name": "old", "attributes": ["closed"], "other": 1 } ],
          "aliases": [{ "name": "logs", "indices": ["logs-1"] }],
          "data_streams": [{ "name": "app", "backing_indices": ".ds-app-1", "timestamp_field": "@timestamp" }] }"#;
        let inventory = Inventory::from_resolved(json).unwrap();
        let kind = |name| inventory.id(name).and_then(|id| inventory.kind(id));
        assert_eq!(kind("old"), Some(Kind::ClosedIndex));
        assert_eq!(kind("logs"), Some(Kind::Alias));
        assert_eq!(kind("app"), Some(Kind::DataStream));
        let backing = inventory.id(".ds-app-1").unwrap();
        assert!(inventory.hidden.contains(backing));
        assert_eq!(inventory.related(inventory.id("app").unwrap()), [backing]);
    }

    #[test]
    fn another_answer_is_an_error() {
        for json in [
            &b"{}"[..],
            b"[]",
            b"",
            br#"{"error":"x","status":403}"#,
            br#"{"indices":[{"name":"a"}]}"#,
        ] {
            assert!(Inventory::from_resolved(json).is_err(), "{}", String::from_utf8_lossy(json));
        }
    }

    /// The indices of such an alias are not known.
    #[test]
    fn an_alias_of_an_alias_is_an_error() {
        let read = |aliases: &str| {
            let indices = r#"[{"name":"a","attributes":["open"]}]"#;
            Inventory::from_resolved(
                format!(r#"{{"indices":{indices},"aliases":[{aliases}]}}"#).as_bytes(),
            )
        };
        assert!(read(r#"{"name":"b","indices":["a","c"]},{"name":"d","indices":["a"]}"#).is_ok());
        for aliases in [
            r#"{"name":"b","indices":["a"]},{"name":"d","indices":["b"]}"#,
            r#"{"name":"a","indices":["c"]}"#,
        ] {
            let error = read(aliases).unwrap_err().to_string();
            assert!(
                error.contains("another alias or data stream as a member"),
                "{aliases}: {error}"
            );
        }
    }
}
