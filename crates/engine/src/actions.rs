//! Actions and their ids.

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use policy::ids::{Id, IdVec};

use crate::ids::ActionId;
use crate::interner::Interner;
use crate::prefix::Prefix;

/// Up to this many actions are compared one by one, which costs less than a hash. Chosen, not measured: most policies
/// name fewer HTTP methods.
const FEW: usize = 8;

/// The actions that the policy names.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    names: Interner<ActionId>,
    /// The first actions.
    few: IdVec<ActionId, Prefix>,
    seed: RandomState,
    /// All other short actions.
    short: HashTable<(Prefix, ActionId)>,
}

impl Actions {
    /// The id of this action. A new action is added.
    pub(crate) fn add(&mut self, action: &[u8]) -> ActionId {
        let next = self.names.next_id();
        let id = self.names.add(action);
        let prefix = Prefix::new(action);
        if id == next && self.few.next_id() == id && self.few.len() < FEW {
            self.few.push(prefix);
        } else if id == next && prefix.is_whole() {
            let Self { short, seed, .. } = self;
            let hash = prefix.hash(action, seed);
            short.insert_unique(hash, (prefix, id), |(other, _)| other.hash(&[], seed));
        }
        id
    }

    /// The id of this action, or [`ActionId::UNKNOWN`].
    ///
    /// An action of up to sixteen bytes, such as every HTTP method, is compared as two integers. A policy seldom names
    /// more than [`FEW`], and then nothing is hashed.
    pub(crate) fn find(&self, action: &[u8]) -> ActionId {
        let prefix = Prefix::new(action);
        if !prefix.is_whole() {
            return self.names.find(action).unwrap_or(ActionId::UNKNOWN);
        }
        let few = self.few.iter().position(|known| *known == prefix).map(ActionId::from_index);
        few.or_else(|| self.find_hashed(prefix)).unwrap_or(ActionId::UNKNOWN)
    }

    fn find_hashed(&self, prefix: Prefix) -> Option<ActionId> {
        let found = self.short.find(prefix.hash(&[], &self.seed), |(other, _)| *other == prefix);
        found.map(|(_, id)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_of_any_length_are_found() {
        let mut actions = Actions::default();
        let names = ["GET", "", "indices:data/read/search", "indices:data/read/scroll", "sixteen-letters!"];
        let many = (0..100).map(|number| format!("action-{number}"));
        let names: Vec<String> = names.map(str::to_owned).into_iter().chain(many).collect();
        for (id, name) in (0..).map(ActionId).zip(&names) {
            assert_eq!(actions.add(name.as_bytes()), id);
            assert_eq!(actions.add(name.as_bytes()), id);
        }
        for (id, name) in (0..).map(ActionId).zip(&names) {
            assert_eq!(actions.find(name.as_bytes()), id);
        }
        for other in
            ["get", "GETX", "G", "indices:data/read/searcH", "indices:data/Read/search", "sixteen-letters!!"]
        {
            assert_eq!(actions.find(other.as_bytes()), ActionId::UNKNOWN, "{other}");
        }
    }
}
