//! Keyed hashes: the cache keys of credentials, so that a cache never holds the credentials themselves.

use std::fmt;
use std::hash::Hasher as _;

use highway::{HighwayHash as _, HighwayHasher, Key};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The length from which HighwayHash hashes a string, in bytes. For 900 bytes, as a token has, it takes 110 ns and SipHash
/// 420 ns; at 30 bytes, as Basic credentials have, it takes 56 and 36 ns (November 2026).
const LONG: usize = 64;

/// A hash function with secret keys of this process: a keyed pseudo-random function. Without the keys, nobody can search
/// for two credentials of the same hash, or learn credentials from a hash.
///
/// Short strings are hashed by SipHash-2-4, long ones by HighwayHash, both with 128 bits of output. HighwayHash was studied less. What is
/// needed of it is little: no hash leaves this process, and to be taken for another caller one would have to send a value with the same
/// hash as that caller's, without the key and without that value (who has it is that caller already). POLYVAL (RFC 8452), for which that
/// is proven, takes 230 ns for a token where its multiplication takes two cycles.
#[derive(Clone)]
pub(crate) struct KeyedHasher {
    short: SipHasher24,
    long: HighwayHasher,
}

impl KeyedHasher {
    /// A hasher with new random keys; `None` if the system's random number generator fails.
    ///
    /// The keys come straight from the system. aws-lc first gathers entropy of its own from timing jitter, which took
    /// 50 ms of each start (November 2026) and adds nothing to what the kernel gives.
    pub(crate) fn random() -> Option<Self> {
        let mut keys = [[0; 8]; 6];
        getrandom::fill(keys.as_flattened_mut()).ok()?;
        let [short, more, long @ ..] = keys.map(u64::from_ne_bytes);
        Some(Self { short: SipHasher24::new_with_keys(short, more), long: HighwayHasher::new(Key(long)) })
    }

    /// The hash of one string.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u128 {
        if bytes.len() < LONG {
            return self.short.hash(bytes).as_u128();
        }
        let [low, high] = self.long.clone().hash128(bytes);
        u128::from(high) << 64 | u128::from(low)
    }

    /// The hash of two strings, each with its length before it, so that `("ab", "c")` and `("a", "bc")` differ.
    pub(crate) fn hash_pair(&self, first: &[u8], second: &[u8]) -> u128 {
        let mut hasher = self.short;
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

    /// On both sides of the length from which HighwayHash is used, and of its packets of 32 bytes.
    #[test]
    fn every_bit_and_the_length_change_the_hash() {
        let hasher = KeyedHasher::random().unwrap();
        for length in [0, 1, 15, 16, LONG - 1, LONG, LONG + 1, LONG + 16, LONG + 31, LONG + 32, 900, 8192] {
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
