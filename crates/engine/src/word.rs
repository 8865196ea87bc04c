//! Short byte strings as numbers, which are compared and hashed at once.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;

/// The first and the last eight bytes of a byte string, and its length.
///
/// Up to [`Word::WHOLE`] bytes this is all there is to know of it: the two halves meet or overlap. Nearly all segments
/// and actions are that short, and to compare two words takes none of the call and the loop that comparing bytes takes
/// (measured: a third of a decision).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    first: u64,
    last: u64,
    length: u32,
}

impl Word {
    /// Words of up to this length are equal if and only if the byte strings are.
    pub(crate) const WHOLE: u32 = 16;

    /// A byte string of 2³² bytes or more is taken for one of 2³² - 1, which is never short.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let (first, last) = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
            (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
        } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
            (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
        } else {
            (bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
        };
        Self { first, last, length }
    }

    pub(crate) const fn is_whole(self) -> bool {
        self.length <= Self::WHOLE
    }

    /// The first bytes, the last bytes, and the length, for those who store them side by side with something else.
    pub(crate) const fn parts(self) -> (u64, u64, u32) {
        (self.first, self.last, self.length)
    }

    pub(crate) const fn from_parts(first: u64, last: u64, length: u32) -> Self {
        Self { first, last, length }
    }

    /// A hash of the byte string that this word is of, and of a number.
    #[inline]
    pub(crate) fn hash(self, bytes: &[u8], number: u32, seed: &RandomState) -> u64 {
        let mut hasher = seed.build_hasher();
        hasher.write_u64(self.first);
        hasher.write_u64(self.last);
        hasher.write_u64(u64::from(self.length) << 32 | u64::from(number));
        if !self.is_whole() {
            hasher.write(bytes);
        }
        hasher.finish()
    }
}

/// How many bytes stand before the first `/`, or before the end.
///
/// Eight bytes at a time: segments are short, and for those this is faster than a byte at a time and than a search with
/// vectors, which has to be called first. A byte of the difference to `/` is zero where a `/` is; the lowest byte that
/// borrows from the one above it when 1 is taken from each is that one.
///
/// `bytes` are fewer than 2³².
pub(crate) fn segment_length(bytes: &[u8]) -> u32 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const SLASHES: u64 = u64::from_le_bytes([b'/'; 8]);
    let mut before = 0;
    let mut left = bytes;
    while let Some((eight, after)) = left.split_first_chunk() {
        let other = u64::from_le_bytes(*eight) ^ SLASHES;
        let slashes = other.wrapping_sub(ONES) & !other & (ONES << 7);
        if slashes != 0 {
            return before + slashes.trailing_zeros() / 8;
        }
        before += 8;
        left = after;
    }
    left.iter().take_while(|byte| **byte != b'/').fold(before, |before, _| before + 1)
}

#[cfg(test)]
mod tests {
    use policy::generate::Rng;

    use super::*;

    fn bytes(rng: &mut Rng, longest: usize) -> Vec<u8> {
        let from = [b'/', 0, b'.', b'0', 0x80, 0xff, b'/' + 1, b'/' | 0x80];
        (0..rng.below(longest)).map(|_| *rng.pick(&from).unwrap()).collect()
    }

    #[test]
    fn words_of_short_strings_are_equal_if_and_only_if_these_are() {
        let mut rng = Rng::new(1);
        let all: Vec<Vec<u8>> = (0..2_000).map(|number| bytes(&mut rng, 2 + number % 16)).collect();
        for one in &all {
            for other in &all {
                assert!(Word::new(one).is_whole());
                assert_eq!(Word::new(one) == Word::new(other), one == other, "{one:?} and {other:?}");
            }
        }
        assert!(!Word::new(&[0; 17]).is_whole());
    }

    #[test]
    fn a_segment_ends_before_the_first_slash_or_at_the_end() {
        let mut rng = Rng::new(2);
        for _ in 0..20_000 {
            let mut bytes = bytes(&mut rng, 40);
            if rng.percent(50) {
                bytes.retain(|byte| *byte != b'/');
            }
            let wanted = bytes.iter().position(|byte| *byte == b'/').unwrap_or(bytes.len());
            assert_eq!(segment_length(&bytes) as usize, wanted, "{bytes:?}");
        }
    }
}
