//! What a policy knows of subjects and resources of AuthZEN: what searches list, and properties.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The subjects and resources of the file `entities`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entities {
    /// Subjects.
    pub subjects: EntitiesByType,
    /// Resources.
    pub resources: EntitiesByType,
}

/// Entities, by `type`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntitiesByType(pub BTreeMap<Arc<str>, EntitiesById>);

/// The properties of entities of a type, by `id`.
pub type EntitiesById = BTreeMap<Arc<str>, Map<String, Value>>;

impl EntitiesByType {
    /// The properties of an entity; `None` if it is not in the file.
    #[must_use]
    pub fn properties(&self, kind: &str, id: &str) -> Option<&Map<String, Value>> {
        self.0.get(kind)?.get(id)
    }

    /// The `id`s of all entities of a type, sorted.
    pub fn ids(&self, kind: &str) -> impl Iterator<Item = &str> {
        self.0.get(kind).into_iter().flat_map(BTreeMap::keys).map(|id| &**id)
    }
}
