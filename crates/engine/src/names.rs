//! Byte strings, each once, with numbers.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::table::Table;

/// Byte strings with the numbers 0, 1, 2, … in the order in which they were first seen.
///
/// They stand one after the other in one allocation: a million user names as a million boxes would take three times the
/// memory.
#[derive(Clone, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// Where each ends; it starts where the one before it ends.
    ends: Table<usize>,
    index: HashTable<u32>,
    seed: RandomState,
}

impl Names {
    /// The number of this name, which is added if it is new.
    pub(crate) fn add(&mut self, name: &[u8]) -> u32 {
        let hash = self.hash(name);
        let Self { bytes, ends, index, seed } = self;
        if let Some(number) = index.find(hash, |other| text(bytes, ends, *other) == name) {
            return *number;
        }
        bytes.extend_from_slice(name);
        let number = ends.push(bytes.len());
        index.insert_unique(hash, number, |other| hash_with(seed, text(bytes, ends, *other)));
        number
    }

    /// The number of this name.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        self.index.find(self.hash(name), |number| text(&self.bytes, &self.ends, *number) == name).copied()
    }

    pub(crate) fn len(&self) -> u32 {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Gives back the memory that growing took in advance.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink();
    }

    fn hash(&self, name: &[u8]) -> u64 {
        hash_with(&self.seed, name)
    }
}

impl std::fmt::Debug for Names {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} names", self.len())
    }
}

fn text<'a>(bytes: &'a [u8], ends: &Table<usize>, number: u32) -> &'a [u8] {
    let start = number.checked_sub(1).map_or(0, |before| *ends.at(before));
    bytes.get(start..*ends.at(number)).unwrap_or_default()
}

fn hash_with(seed: &RandomState, name: &[u8]) -> u64 {
    let mut hasher = seed.build_hasher();
    hasher.write(name);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_once_in_order() {
        let mut names = Names::default();
        assert_eq!([b"a".as_slice(), b"", b"bc", b"a", b""].map(|name| names.add(name)), [0, 1, 2, 0, 1]);
        assert_eq!(names.len(), 3);
        assert_eq!(
            [b"bc".as_slice(), b"", b"b", b"abc"].map(|name| names.find(name)),
            [Some(2), Some(1), None, None]
        );
    }

    #[test]
    fn many_names_are_all_found() {
        let mut names = Names::default();
        let all: Vec<String> = (0..10_000).map(|number| format!("name-{number}")).collect();
        for (number, name) in (0..).zip(&all) {
            assert_eq!(names.add(name.as_bytes()), number);
        }
        names.shrink();
        assert!((0..).zip(&all).all(|(number, name)| names.find(name.as_bytes()) == Some(number)));
    }
}
