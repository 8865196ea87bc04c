//! Keyed hashes: the cache keys of credentials, so that a cache never holds the credentials themselves.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// A hash function with a secret key of this process. SipHash-2-4 with 128 bits of output is a keyed pseudo-random
/// function: without the key, nobody can search for two credentials of the same hash, or learn credentials from a hash.
#[derive(Clone)]
pub(crate) struct KeyedHasher(SipHasher24);

impl KeyedHasher {
    /// A hasher with a new random key; `None` if the system's random number generator fails.
    ///
    /// The key comes straight from the system. aws-lc first gathers entropy of its own from timing jitter, which took
    /// 50 ms of each start (November 2026) and adds nothing to what the kernel gives.
    pub(crate) fn random() -> Option<Self> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).ok()?;
        Some(Self(SipHasher24::new_with_key(&key)))
    }

    /// The hash of one string.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u128 {
        self.0.hash(bytes).as_u128()
    }

    /// The hash of two strings, each with its length before it, so that `("ab", "c")` and `("a", "bc")` differ.
    pub(crate) fn hash_pair(&self, first: &[u8], second: &[u8]) -> u128 {
        let mut hasher = self.0;
        for part in [first, second] {
            hasher.write(&part.len().to_le_bytes());
            hasher.write(part);
        }
        hasher.finish128().as_u128()
    }
}

impl fmt::Debug for KeyedHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyedHasher(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_between_the_strings_changes_the_hash() {
        let hasher = KeyedHasher::random().unwrap();
        assert_ne!(hasher.hash_pair(b"ab", b"c"), hasher.hash_pair(b"a", b"bc"));
        assert_ne!(hasher.hash_pair(b"", b"abc"), hasher.hash_pair(b"abc", b""));
        assert_eq!(hasher.hash_pair(b"ab", b"c"), hasher.hash_pair(b"ab", b"c"));
    }

    #[test]
    fn each_hasher_has_its_own_key() {
        let (one, other) = (KeyedHasher::random().unwrap(), KeyedHasher::random().unwrap());
        assert_ne!(one.hash(b"x"), other.hash(b"x"));
        assert_eq!(format!("{one:?}"), "KeyedHasher(…)");
    }
}
