//! Splits a resource into segments.
//!
//! In a profile of a decision (callgrind, 2026-11-21), each segment took 100 to 200 of the 785
//! instructions, among them those of a loop over the bytes of a short segment. So sixteen bytes are
//! read at once, and the end is found with arithmetic on integers.

use crate::first_bytes::{FirstBytes, first_sixteen, halves, sixteen};

/// Eight slashes.
const SLASHES: u64 = u64::from_le_bytes([b'/'; 8]);

/// The segment that starts at `start`, or `None` beyond the end. It ends before the next slash or
/// at the end of the resource.
///
/// Reads sixteen bytes at once and masks the bytes after the segment, so all segments up to this
/// length cost about the same.
#[inline]
pub(crate) fn segment_at(resource: &[u8], start: usize) -> Option<FirstBytes> {
    let remaining = resource.get(start..)?;
    let [first, second] = remaining
        .first_chunk()
        .map_or_else(|| last_bytes(resource, remaining), |chunk| halves(*chunk));
    let marks = slash_marks(first);
    if marks != 0 {
        let bits = marks.trailing_zeros() & !7;
        return Some(FirstBytes::from_parts([first & below(bits), 0], bits / 8));
    }
    let marks = slash_marks(second);
    if marks != 0 {
        let bits = marks.trailing_zeros() & !7;
        return Some(FirstBytes::from_parts([first, second & below(bits)], 8 + bits / 8));
    }
    Some(long([first, second], remaining))
}

/// The last bytes of `resource`, fewer than sixteen, padded with slashes, so that the last segment
/// ends before a slash, too.
fn last_bytes(resource: &[u8], remaining: &[u8]) -> [u64; 2] {
    if remaining.is_empty() {
        return [SLASHES; 2];
    }
    let bytes = resource.last_chunk().map_or_else(
        || sixteen(first_sixteen(remaining)),
        |last| u128::from_le_bytes(*last) >> (8 * (16 - remaining.len())),
    );
    halves((bytes | sixteen([SLASHES; 2]) << (8 * remaining.len())).to_le_bytes())
}

/// The first bytes of a segment of sixteen bytes or more.
#[cold]
fn long(first: [u64; 2], remaining: &[u8]) -> FirstBytes {
    let length = remaining.iter().position(|byte| *byte == b'/').unwrap_or(remaining.len());
    FirstBytes::from_parts(first, u32::try_from(length).unwrap_or(u32::MAX))
}

/// Sets the highest bit of the first byte that is `/`. Bits of later bytes may be set too. Zero if
/// no byte is `/`.
///
/// The XOR with slashes is zero in each byte that is `/`. Subtracting 1 from each byte borrows in
/// the lowest zero byte first, so its bit is right. Bits of the bytes above it may be wrong.
const fn slash_marks(bytes: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let difference = bytes ^ SLASHES;
    difference.wrapping_sub(ONES) & !difference & (ONES << 7)
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
                Some(FirstBytes::new(wanted)),
                "{start} in {resource:?}"
            );
            assert_eq!(segment_at(&resource, resource.len() + 1), None);
        }
    }
}
