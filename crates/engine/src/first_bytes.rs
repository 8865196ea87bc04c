//! Short byte strings as integers, for fast comparison and hashing.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

/// The first sixteen bytes of a byte string, zero-padded, and its length.
///
/// They describe a byte string of up to [`FirstBytes::WHOLE`] bytes completely. Nearly all
/// segments and actions are that short, and comparing two words avoids the call and the loop of
/// comparing slices (measured: a third of a decision).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstBytes {
    bytes: [u64; 2],
    length: u32,
}

impl FirstBytes {
    /// Up to this length, first bytes are equal if and only if their byte strings are.
    pub(crate) const WHOLE: u32 = 16;

    /// A length of 2³² or more is stored as 2³² - 1: such a string is not whole either way.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self { bytes: first_sixteen(bytes), length: u32::try_from(bytes.len()).unwrap_or(u32::MAX) }
    }

    /// From the first bytes, zero-padded, and the length.
    pub(crate) const fn from_parts(bytes: [u64; 2], length: u32) -> Self {
        Self { bytes, length }
    }

    /// The first bytes and the length, for callers that store them next to other fields.
    pub(crate) const fn parts(self) -> ([u64; 2], u32) {
        (self.bytes, self.length)
    }

    /// The length of the whole byte string.
    pub(crate) const fn length(self) -> u32 {
        self.length
    }

    pub(crate) const fn is_whole(self) -> bool {
        self.length <= Self::WHOLE
    }

    /// Hashes the byte string, which `bytes` start with. Strings that differ only in trailing zeros
    /// may have the same hash.
    #[inline]
    pub(crate) fn hash(self, bytes: &[u8], seed: &RandomState) -> u64 {
        let mut hasher = seed.build_hasher();
        hasher.write_u128(sixteen(self.bytes));
        if !self.is_whole() {
            hasher.write(bytes.get(..self.length as usize).unwrap_or(bytes));
        }
        hasher.finish()
    }
}

/// The first sixteen bytes, zero-padded. A shorter string is read in two overlapping parts, which
/// is faster than a loop over its bytes.
pub(crate) fn first_sixteen(bytes: &[u8]) -> [u64; 2] {
    let length = bytes.len();
    if let (Some(first), Some((_, second))) = (bytes.first_chunk(), bytes.split_first_chunk::<8>())
    {
        let second = match (second.first_chunk(), bytes.last_chunk()) {
            (Some(second), _) => u64::from_le_bytes(*second),
            (None, Some(last)) if length > 8 => u64::from_le_bytes(*last) >> (8 * (16 - length)),
            (None, _) => 0,
        };
        [u64::from_le_bytes(*first), second]
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        [u64::from(first) | u64::from(last) << (8 * (length - 4)), 0]
    } else if let [first, ..] = *bytes {
        [u64::from(first) | byte_in_place(bytes, length / 2) | byte_in_place(bytes, length - 1), 0]
    } else {
        [0, 0]
    }
}

/// A byte among the first eight, at its place in a little-endian integer.
fn byte_in_place(bytes: &[u8], place: usize) -> u64 {
    u64::from(bytes.get(place).copied().unwrap_or_default()) << (8 * place)
}

/// The bytes as two little-endian integers.
pub(crate) fn halves(bytes: [u8; 16]) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
    [u64::from_le_bytes([a, b, c, d, e, f, g, h]), u64::from_le_bytes([i, j, k, l, m, n, o, p])]
}

/// Joins the halves.
pub(crate) const fn sixteen([first, second]: [u64; 2]) -> u128 {
    first as u128 | (second as u128) << 64
}

#[cfg(test)]
mod tests {
    use generator::Rng;

    use super::*;

    #[test]
    fn first_bytes_of_short_strings_are_equal_if_and_only_if_the_strings_are() {
        let from = [b'/', 0, b'.', b'0', 0x80, 0xff];
        let mut rng = Rng::new(1);
        let strings: Vec<Vec<u8>> = (0..2_000)
            .map(|number| {
                (0..rng.below(2 + number % 16)).map(|_| *rng.pick(&from).unwrap()).collect()
            })
            .collect();
        for a in &strings {
            for b in &strings {
                assert!(FirstBytes::new(a).is_whole());
                assert_eq!(FirstBytes::new(a) == FirstBytes::new(b), a == b, "{a:?} and {b:?}");
            }
        }
        assert!(!FirstBytes::new(&[0; 17]).is_whole());
    }

    #[test]
    fn first_bytes_are_the_first_sixteen() {
        let bytes: Vec<u8> = (1..40).collect();
        for length in 0..bytes.len() {
            let mut wanted = [0; 16];
            let end = length.min(16);
            wanted[..end].copy_from_slice(&bytes[..end]);
            let first = FirstBytes::new(&bytes[..length]);
            assert_eq!(sixteen(first.parts().0).to_le_bytes(), wanted);
            assert_eq!(first.length() as usize, length);
        }
    }
}
