//! From an action to its number.

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::names::Names;
use crate::rows::UNKNOWN_ACTION;
use crate::word::Word;

/// The actions that the policy names.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    names: Names,
    short: HashTable<(Word, u32)>,
    seed: RandomState,
}

impl Actions {
    /// The number of this action, which is added if it is new.
    pub(crate) fn add(&mut self, action: &[u8]) -> u32 {
        let number = self.names.add(action);
        let word = Word::new(action);
        if word.is_whole() && self.find(action) == UNKNOWN_ACTION {
            let Self { short, seed, .. } = self;
            let hash = word.hash(action, 0, seed);
            short.insert_unique(hash, (word, number), |(other, _)| other.hash(&[], 0, seed));
        }
        number
    }

    /// The number of this action, or [`UNKNOWN_ACTION`].
    pub(crate) fn find(&self, action: &[u8]) -> u32 {
        let word = Word::new(action);
        let found = if word.is_whole() {
            self.short
                .find(word.hash(action, 0, &self.seed), |(other, _)| *other == word)
                .map(|(_, number)| *number)
        } else {
            self.names.find(action)
        };
        found.unwrap_or(UNKNOWN_ACTION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_of_any_length_are_found() {
        let mut actions = Actions::default();
        let names = ["GET", "", "indices:data/read/search", "indices:data/read/scroll", "sixteen-letters!"];
        for (number, name) in (0..).zip(names) {
            assert_eq!(actions.add(name.as_bytes()), number);
            assert_eq!(actions.add(name.as_bytes()), number);
        }
        for (number, name) in (0..).zip(names) {
            assert_eq!(actions.find(name.as_bytes()), number);
        }
        for other in
            ["get", "GETX", "G", "indices:data/read/searcH", "indices:data/Read/search", "sixteen-letters!!"]
        {
            assert_eq!(actions.find(other.as_bytes()), UNKNOWN_ACTION, "{other}");
        }
    }
}
