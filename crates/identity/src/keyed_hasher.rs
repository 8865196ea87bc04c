//! Keyed hashes: the cache keys of credentials, so that a cache never holds the credentials themselves.

use std::fmt;
use std::hash::Hasher as _;

use polyval::Polyval;
use polyval::universal_hash::UniversalHash as _;
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// The length from which POLYVAL compresses a string before it is hashed, in bytes. For 900 bytes, as a token has,
/// SipHash alone takes 390 ns and both together 140 ns; up to 120 bytes SipHash alone is faster (November 2026).
const LONG: usize = 256;

/// A hash function with secret keys of this process: a keyed pseudo-random function. Without the keys, nobody can search
/// for two credentials of the same hash, or learn credentials from a hash.
///
/// Short strings are hashed by SipHash-2-4 with 128 bits of output. Long ones are first compressed to 128 bits by
/// POLYVAL (RFC 8452, 3): whoever does not know its key finds two strings that it compresses to the same with a probability of
/// at most their length, in blocks of 16 bytes, ÷ 2^128. What it returns could tell its key, so SipHash, with a key for long
/// strings only, hashes it, together with the length, because POLYVAL pads with zeros.
#[derive(Clone)]
pub(crate) struct KeyedHasher {
    short: SipHasher24,
    long: SipHasher24,
    compression: Polyval,
}

impl KeyedHasher {
    /// A hasher with new random keys; `None` if the system's random number generator fails.
    ///
    /// The keys come straight from the system. aws-lc first gathers entropy of its own from timing jitter, which took
    /// 50 ms of each start (November 2026) and adds nothing to what the kernel gives.
    pub(crate) fn random() -> Option<Self> {
        let mut keys = [[0; 16]; 3];
        getrandom::fill(keys.as_flattened_mut()).ok()?;
        let [short, long, compression] = keys;
        Some(Self {
            short: SipHasher24::new_with_key(&short),
            long: SipHasher24::new_with_key(&long),
            compression: Polyval::new(&compression.into()),
        })
    }

    /// The hash of one string.
    pub(crate) fn hash(&self, bytes: &[u8]) -> u128 {
        if bytes.len() < LONG {
            return self.short.hash(bytes).as_u128();
        }
        let mut compression = self.compression.clone();
        compression.update_padded(bytes);
        let mut hasher = self.long;
        hasher.write(&compression.finalize());
        hasher.write(&bytes.len().to_le_bytes());
        hasher.finish128().as_u128()
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

    /// On both sides of the length from which strings are compressed, and of the blocks of the compression.
    #[test]
    fn every_bit_and_the_length_change_the_hash() {
        let hasher = KeyedHasher::random().unwrap();
        for length in [0, 1, 15, 16, LONG - 1, LONG, LONG + 1, LONG + 15, LONG + 16, 900, 8192] {
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
