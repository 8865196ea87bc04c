//! Interns byte strings.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::table::Table;

/// Byte strings with the numbers 0, 1, 2, … in order of first appearance.
///
/// They are concatenated in one allocation: a million user names in a million boxes would take three times the memory.
#[derive(Clone, Default)]
pub(crate) struct Names {
    bytes: Vec<u8>,
    /// The end of each name; it starts at the end of the one before it.
    ends: Table<usize>,
    index: HashTable<Name>,
    seed: RandomState,
}

/// An entry of the index. It stores the name's hash: recomputing hashes whenever the index grows took half of the time
/// to compile a million users (2026-11-21).
#[derive(Clone, Copy)]
struct Name {
    number: u32,
    hash: u32,
}

impl Names {
    /// The number of this name. A new name is added.
    pub(crate) fn add(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.find(name) {
            return number;
        }
        let hash = self.hash(name);
        self.bytes.extend_from_slice(name);
        let number = self.ends.push(self.bytes.len());
        self.index.insert_unique(spread(hash), Name { number, hash }, |other| spread(other.hash));
        number
    }

    /// The number of this name, if it is known.
    pub(crate) fn find(&self, name: &[u8]) -> Option<u32> {
        let hash = self.hash(name);
        let is = |other: &Name| other.hash == hash && text(&self.bytes, &self.ends, other.number) == name;
        self.index.find(spread(hash), is).map(|found| found.number)
    }

    pub(crate) fn len(&self) -> u32 {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Frees the spare capacity left from growing.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink();
    }

    fn hash(&self, name: &[u8]) -> u32 {
        let mut hasher = self.seed.build_hasher();
        hasher.write(name);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a half of the bits is enough for fewer than 2^32 names"
        )]
        let half = hasher.finish() as u32;
        half
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

/// Widens a hash to 64 bits: the hash table uses both the lowest and the highest bits.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
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
