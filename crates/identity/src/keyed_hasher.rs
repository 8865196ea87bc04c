//! Keyed hashes: what a cache knows a proof by, so that it never holds the proof itself.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// A secret of this process. SipHash-2-4 with 128 bits out is a keyed pseudo-random function: whoever does not know the
/// key can neither look for two proofs of one hash nor learn a proof from its hash.
#[derive(Clone)]
pub(crate) struct KeyedHasher(SipHasher24);

impl KeyedHasher {
    /// A new secret; `None` if the system has no randomness.
    ///
    /// Straight from the system: aws-lc first gathers entropy of its own from timing jitter, which took 50 ms of each
    /// start (November 2026) and adds nothing to what the kernel gives.
    pub(crate) fn random() -> Option<Self> {
        let mut key = [0; 16];
        getrandom::fill(&mut key).ok()?;
        Some(Self(SipHasher24::new_with_key(&key)))
    }

    /// The hash of one string.
    pub(crate) fn whole(&self, bytes: &[u8]) -> u128 {
        self.0.hash(bytes).as_u128()
    }

    /// The hash of two strings, each with its length before it: `("ab", "c")` is not `("a", "bc")`.
    pub(crate) fn pair(&self, first: &[u8], second: &[u8]) -> u128 {
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
    fn where_the_first_string_ends_counts() {
        let hasher = KeyedHasher::random().unwrap();
        assert_ne!(hasher.pair(b"ab", b"c"), hasher.pair(b"a", b"bc"));
        assert_ne!(hasher.pair(b"", b"abc"), hasher.pair(b"abc", b""));
        assert_eq!(hasher.pair(b"ab", b"c"), hasher.pair(b"ab", b"c"));
    }

    #[test]
    fn each_process_has_its_own() {
        let (one, other) = (KeyedHasher::random().unwrap(), KeyedHasher::random().unwrap());
        assert_ne!(one.whole(b"x"), other.whole(b"x"));
        assert_eq!(format!("{one:?}"), "KeyedHasher(…)");
    }
}
