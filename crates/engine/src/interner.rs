//! Interns byte strings.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use policy::ids::{Id, IdVec};

/// Byte strings with ids in order of first appearance.
///
/// They are concatenated: a million user names in a million boxes would take three times the
/// memory.
pub(crate) struct Interner<I> {
    bytes: Vec<u8>,
    /// The end of each string. The string starts at the end of its predecessor.
    ends: IdVec<I, usize>,
    index: HashTable<Symbol<I>>,
    seed: RandomState,
}

/// An entry of the index. It stores the string's hash: recomputing hashes whenever the index grows
/// took half of the time to compile a million users (2026-11-21).
#[derive(Clone, Copy)]
struct Symbol<I> {
    id: I,
    hash: u32,
}

impl<I: Id> Interner<I> {
    /// The id of this string. A new string is added.
    pub(crate) fn add(&mut self, string: &[u8]) -> I {
        if let Some(id) = self.find(string) {
            return id;
        }
        let hash = self.hash(string);
        self.bytes.extend_from_slice(string);
        let id = self.ends.push(self.bytes.len());
        self.index.insert_unique(spread(hash), Symbol { id, hash }, |symbol| spread(symbol.hash));
        id
    }

    /// The id of this string, if it was added. The strings are compared, not just their hashes: a
    /// collision must not give a caller the roles of another.
    pub(crate) fn find(&self, string: &[u8]) -> Option<I> {
        let hash = self.hash(string);
        self.index
            .find(spread(hash), |symbol| symbol.hash == hash && self.text(symbol.id) == string)
            .map(|symbol| symbol.id)
    }

    /// Frees the spare capacity left from growing.
    pub(crate) fn shrink(&mut self) {
        self.bytes.shrink_to_fit();
        self.ends.shrink();
    }

    fn text(&self, id: I) -> &[u8] {
        let start = id.index().checked_sub(1).and_then(|previous| self.ends.get(previous));
        self.bytes.get(start.copied().unwrap_or(0)..*self.ends.at(id)).unwrap_or_default()
    }
}

impl<I> Interner<I> {
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    fn hash(&self, string: &[u8]) -> u32 {
        let mut hasher = self.seed.build_hasher();
        hasher.write(string);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "half of the bits are enough for fewer than 2^32 strings"
        )]
        let half = hasher.finish() as u32;
        half
    }
}

impl<I> Default for Interner<I> {
    fn default() -> Self {
        Self {
            bytes: Vec::new(),
            ends: IdVec::default(),
            index: HashTable::new(),
            seed: RandomState::default(),
        }
    }
}

/// Widens a hash to 64 bits: the hash table uses both the lowest and the highest bits.
const fn spread(hash: u32) -> u64 {
    (hash as u64) << 32 | hash as u64
}

#[cfg(test)]
mod tests {
    use policy::model::RoleId;

    use super::*;

    #[test]
    fn ids_are_given_once_in_order() {
        let mut interner: Interner<RoleId> = Interner::default();
        let ids = [b"a".as_slice(), b"", b"bc", b"a", b""].map(|string| interner.add(string));
        assert_eq!(ids, [0, 1, 2, 0, 1].map(RoleId));
        let found = [b"bc".as_slice(), b"", b"b", b"abc"].map(|string| interner.find(string));
        assert_eq!(found, [Some(RoleId(2)), Some(RoleId(1)), None, None]);
    }

    #[test]
    fn many_strings_are_all_found() {
        let mut interner: Interner<RoleId> = Interner::default();
        let all: Vec<String> = (0..10_000).map(|number| format!("name-{number}")).collect();
        for (id, string) in (0..).map(RoleId).zip(&all) {
            assert_eq!(interner.add(string.as_bytes()), id);
        }
        interner.shrink();
        let mut known = (0..).map(RoleId).zip(&all);
        assert!(known.all(|(id, string)| interner.find(string.as_bytes()) == Some(id)));
    }
}
