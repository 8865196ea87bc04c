//! Keyed hashes: the cache keys of credentials, so that a cache never holds the credentials
//! themselves.

use std::fmt;
use std::hash::Hasher as _;

use highway::{HighwayHash as _, HighwayHasher, Key};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The length from which HighwayHash hashes a string, in bytes. It takes 110 ns for the 900 bytes
/// of a token, and SipHash 420 ns; for the 30 bytes of Basic credentials 56 and 36 ns (November
/// 2026).
const MIN_LONG: usize = 64;

/// A hash function with secret keys of this process. Without the keys, nobody can search for two
/// credentials of the same hash, or learn credentials from a hash.
///
/// Short strings and pairs are hashed by SipHash-2-4, long strings by HighwayHash, both with 128
/// bits of output. HighwayHash was studied less, so names, which others may know, are hashed in
/// pairs only. To be taken for another caller, an attacker would need a value with the same hash as
/// the caller's, without the key and without the caller's value; no hash leaves this process.
/// POLYVAL (RFC 8452), for which that is proven to be infeasible, takes 230 ns for a token.
#[derive(Clone)]
pub(crate) struct KeyedHasher {
    short: SipHasher24,
    long: HighwayHasher,
    /// For pairs of strings: with the key of `short`, a string could have the hash of a pair.
    pairs: SipHasher24,
}

impl KeyedHasher {
    /// A hasher with new random keys; `None` if the system's random number generator fails.
    ///
    /// aws-lc is not used for the keys: it first gathers entropy from timing jitter, which took 50
    /// ms of each start (November 2026).
    pub(crate) fn random() -> Option<Self> {
        let (mut short, mut pairs, mut long) = ([0; 16], [0; 16], [[0; 8]; 4]);
        for key in [&mut short[..], &mut pairs, long.as_flattened_mut()] {
            getrandom::fill(key).ok()?;
        }
        Some(Self {
            short: SipHasher24::new_with_key(&short),
            long: HighwayHasher::new(Key(long.map(u64::from_ne_bytes))),
            pairs: SipHasher24::new_with_key(&pairs),
        })
    }

    /// The hash of a string.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u128 {
        if bytes.len() < MIN_LONG {
            return self.short.hash(bytes).as_u128();
        }
        let [low, high] = self.long.clone().hash128(bytes);
        u128::from(high) << 64 | u128::from(low)
    }

    /// The hash of two strings, each with its length before it, so that `("ab", "c")` and `("a",
    /// "bc")` differ.
    pub(crate) fn hash_pair(&self, first: &[u8], second: &[u8]) -> u128 {
        let mut hasher = self.pairs;
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
    fn one_string_does_not_have_the_hash_of_two() {
        let hasher = KeyedHasher::random().unwrap();
        let joined = [&2_u64.to_le_bytes()[..], b"ab", &1_u64.to_le_bytes(), b"c"].concat();
        assert_ne!(hasher.hash(&joined), hasher.hash_pair(b"ab", b"c"));
    }

    #[test]
    fn each_hasher_has_its_own_keys() {
        let (one, other) = (KeyedHasher::random().unwrap(), KeyedHasher::random().unwrap());
        for bytes in [&[0][..], &[0; MIN_LONG], &[0; 900]] {
            assert_ne!(one.hash(bytes), other.hash(bytes));
        }
        assert_ne!(one.hash_pair(b"x", b"y"), other.hash_pair(b"x", b"y"));
        assert_eq!(format!("{one:?}"), "KeyedHasher(…)");
    }

    /// On both sides of the length from which HighwayHash is used, and of its packets of 32 bytes.
    #[test]
    fn every_bit_and_the_length_change_the_hash() {
        let hasher = KeyedHasher::random().unwrap();
        for length in [0, 1, 15, 16, 900, 8192].into_iter().chain(MIN_LONG - 1..=MIN_LONG + 32) {
            let bytes = vec![0; length];
            let hash = hasher.hash(&bytes);
            assert_eq!(hash, hasher.clone().hash(&bytes));
            assert_ne!(hash, hasher.hash(&vec![0; length + 1]), "{length}");
            for bit in 0..length * 8 {
                let mut changed = bytes.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert_ne!(hash, hasher.hash(&changed), "{length} {bit}");
            }
        }
    }
}
