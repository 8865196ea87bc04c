//! Actions and their numbers.

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::names::Names;
use crate::rows::UNKNOWN_ACTION;
use crate::word::Word;

/// Up to this many actions are compared one by one, which costs less than a hash.
const FEW: usize = 8;

/// The actions that the policy names.
#[derive(Debug, Default)]
pub(crate) struct Actions {
    names: Names,
    /// The first actions, indexed by number.
    few: Vec<Word>,
    seed: RandomState,
    /// All other short actions.
    short: HashTable<(Word, u32)>,
}

impl Actions {
    /// The number of this action. A new action is added.
    pub(crate) fn add(&mut self, action: &[u8]) -> u32 {
        let known = self.names.len();
        let number = self.names.add(action);
        let word = Word::new(action);
        if number == known && self.few.len() == number as usize && self.few.len() < FEW {
            self.few.push(word);
        } else if number == known && word.is_whole() {
            let Self { short, seed, .. } = self;
            let hash = word.hash(action, seed);
            short.insert_unique(hash, (word, number), |(other, _)| other.hash(&[], seed));
        }
        number
    }

    /// The number of this action, or [`UNKNOWN_ACTION`].
    pub(crate) fn find(&self, action: &[u8]) -> u32 {
        let word = Word::new(action);
        if !word.is_whole() {
            return self.names.find(action).unwrap_or(UNKNOWN_ACTION);
        }
        let few = (0..).zip(&self.few).find(|(_, other)| **other == word).map(|(number, _)| number);
        few.or_else(|| self.find_hashed(word)).unwrap_or(UNKNOWN_ACTION)
    }

    fn find_hashed(&self, word: Word) -> Option<u32> {
        let found = self.short.find(word.hash(&[], &self.seed), |(other, _)| *other == word);
        found.map(|(_, number)| *number)
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
        for (number, name) in (0..).zip(&names) {
            assert_eq!(actions.add(name.as_bytes()), number);
            assert_eq!(actions.add(name.as_bytes()), number);
        }
        for (number, name) in (0..).zip(&names) {
            assert_eq!(actions.find(name.as_bytes()), number);
        }
        for other in
            ["get", "GETX", "G", "indices:data/read/searcH", "indices:data/Read/search", "sixteen-letters!!"]
        {
            assert_eq!(actions.find(other.as_bytes()), UNKNOWN_ACTION, "{other}");
        }
    }
}
