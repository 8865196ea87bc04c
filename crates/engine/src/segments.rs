//! Splits a resource into segments.
//!
//! In a profile of a decision (callgrind, 2026-11-21), each segment took 100 to 200 of the 785
//! instructions, among them those of a loop over the bytes of a short segment. So sixteen bytes are
//! read at once, and the end is found with arithmetic on integers.

use crate::prefix::{Prefix, first_sixteen, halves, sixteen};

/// Eight slashes.
const SLASHES: u64 = u64::from_le_bytes([b'/'; 8]);

/// The segment that starts at `start`, or `None` beyond the end. It ends before the next slash or
/// at the end of the resource.
///
/// Reads sixteen bytes at once and masks what follows the segment, so all segments up to this
/// length cost about the same.
#[inline]
pub(crate) fn segment_at(resource: &[u8], start: usize) -> Option<Prefix> {
    let left = resource.get(start..)?;
    let [first, second] =
        left.first_chunk().map_or_else(|| last_bytes(resource, left), |first| halves(*first));
    let found = slashes(first);
    if found != 0 {
        let bits = found.trailing_zeros() & !7;
        return Some(Prefix::from_parts([first & below(bits), 0], bits / 8));
    }
    let found = slashes(second);
    if found != 0 {
        let bits = found.trailing_zeros() & !7;
        return Some(Prefix::from_parts([first, second & below(bits)], 8 + bits / 8));
    }
    Some(long([first, second], left))
}

/// The bytes of `left`, the last fewer than sixteen bytes of `resource`, padded with slashes: the
/// segment at the end then ends before a slash too.
fn last_bytes(resource: &[u8], left: &[u8]) -> [u64; 2] {
    if left.is_empty() {
        return [SLASHES; 2];
    }
    let bytes = resource.last_chunk().map_or_else(
        || sixteen(first_sixteen(left)),
        |last| u128::from_le_bytes(*last) >> (8 * (16 - left.len())),
    );
    halves((bytes | sixteen([SLASHES; 2]) << (8 * left.len())).to_le_bytes())
}

/// The prefix of a segment of sixteen bytes or more.
#[cold]
fn long(first: [u64; 2], left: &[u8]) -> Prefix {
    let length = left.iter().position(|byte| *byte == b'/').unwrap_or(left.len());
    Prefix::from_parts(first, u32::try_from(length).unwrap_or(u32::MAX))
}

/// Sets the highest bit of the byte that holds the first `/`, if there is one. Bits of later bytes
/// may be set too.
///
/// A byte of the XOR with slashes is zero where a `/` is. Subtracting 1 from each byte makes the
/// lowest zero byte the first one that borrows; bytes above it may be wrong, but it is right.
const fn slashes(bytes: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let other = bytes ^ SLASHES;
    other.wrapping_sub(ONES) & !other & (ONES << 7)
}

/// The `bits` lowest bits set, for fewer than 64.
const fn below(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use generator::Rng;

    use super::*;

    #[test]
    fn a_segment_ends_before_the_next_slash_or_at_the_end() {
        let from = [b'/', 0, b'.', b'0', 0x80, 0xff, b'/' + 1, b'/' | 0x80];
        let mut rng = Rng::new(1);
        for number in 0..100_000 {
            let mut resource: Vec<u8> =
                (0..rng.below(60)).map(|_| *rng.pick(&from).unwrap()).collect();
            if number % 2 == 0 {
                resource.retain(|byte| *byte != b'/' || rng.percent(30));
            }
            let start = rng.below(resource.len() + 1);
            let wanted = resource[start..].split(|byte| *byte == b'/').next().unwrap();
            assert_eq!(
                segment_at(&resource, start),
                Some(Prefix::new(wanted)),
                "{start} in {resource:?}"
            );
            assert_eq!(segment_at(&resource, resource.len() + 1), None);
        }
    }
}
