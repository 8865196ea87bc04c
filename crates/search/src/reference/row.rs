//! The names that a need is about, with what belongs to them.

use super::Reference;
use crate::inventory::{Inventory, Kind};
use crate::resolve::{Names, Unknown};

/// A name that a need is about.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) is_pattern: bool,
    /// Aliases and data streams that have this index.
    pub(super) parents: Vec<String>,
    /// Indices of this alias or data stream.
    pub(super) members: Vec<String>,
}

impl Reference<'_> {
    pub(super) fn rows(&self, names: &Names<'_>) -> Vec<Row> {
        let known = self.inventory.into_iter().flat_map(|inventory| {
            names.known.iter().map(|number| self.row(inventory.name(number))).collect::<Vec<_>>()
        });
        let unknown = names.unknown.iter().map(|unknown| Row {
            name: unknown.text().to_owned(),
            is_pattern: matches!(unknown, Unknown::Pattern(_)),
            parents: Vec::new(),
            members: Vec::new(),
        });
        known.chain(unknown).collect()
    }

    /// The aliases by which a request reaches the indices among these names.
    pub(super) fn replaced(&self, names: &Names<'_>) -> Vec<Row> {
        let inventory = self.inventory.into_iter();
        inventory.flat_map(|all| names.replaced.iter().map(|number| self.row(all.name(number)))).collect()
    }

    pub(super) fn row(&self, name: &str) -> Row {
        let mut row =
            Row { name: name.to_owned(), is_pattern: false, parents: Vec::new(), members: Vec::new() };
        let number = |inventory: &Inventory| inventory.number(name);
        if let Some((inventory, number)) =
            self.inventory.and_then(|inventory| Some((inventory, number(inventory)?)))
        {
            let related = inventory.related(number).iter().map(|other| inventory.name(*other).to_owned());
            match inventory.kind(number) {
                Some(Kind::OpenIndex | Kind::ClosedIndex) => row.parents = related.collect(),
                Some(Kind::Alias | Kind::DataStream) => row.members = related.collect(),
                None => {}
            }
        }
        row
    }
}

impl Row {
    /// The name and, for an alias or data stream, those of its indices.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(&self.members)
    }

    pub(super) fn copy(&self) -> Self {
        Self {
            name: self.name.clone(),
            is_pattern: self.is_pattern,
            parents: self.parents.clone(),
            members: self.members.clone(),
        }
    }
}
