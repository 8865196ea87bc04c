//! The canonical form of paths and hosts, in which requests are compared with rules.
//!
//! A backend may interpret a path differently from rolegate. A path is therefore turned into its
//! canonical form plus every other plausible interpretation ([`PathInterpretations`]), and a path
//! whose interpretations differ too much is an error. The steps have a fixed order: cut at `?` and
//! `#`, check raw bytes, decode percent triplets, remove dot segments, merge slashes. The module
//! `interpretations` lists the interpretations.

mod buffers;
pub(crate) mod encoding;
mod error;
mod host;
mod interpretations;
mod shape;

#[cfg(test)]
mod tests;

pub use buffers::Buffers;
pub use encoding::{decoded, readable, segment_is_name};
pub use error::PathError;
pub use host::{HostError, host};

use buffers::{NONE, Texts};

/// All interpretations of a path that a backend may use.
///
/// A request is allowed only if every interpretation in `all` is allowed and no `deny` rule matches
/// an interpretation in `deny_only`.
#[derive(Clone, Copy, Debug)]
pub struct PathInterpretations<'a> {
    /// The canonical path. It has a field of its own so that a request with a canonical path, as
    /// nearly all have, borrows it and writes to no buffer.
    first: &'a [u8],
    /// Empty if the path was canonical as received, with no other interpretation. Else its first
    /// entry is equal to `first`, and may be the only entry.
    all: &'a Texts,
    deny_only: &'a Texts,
}

impl<'a> PathInterpretations<'a> {
    /// The canonical path: the interpretation that is logged.
    #[must_use]
    pub fn first(&self) -> &'a [u8] {
        self.first
    }

    /// The interpretations that must all be allowed, without duplicates. The first is the canonical
    /// path. The others are the path after one or more of these changes: its `;` parameters are
    /// removed, it is cut at an encoded `?` or `#`, its reserved characters are decoded, or it is
    /// decoded twice.
    pub fn all(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.first).chain(self.all.iter().skip(1))
    }

    /// The interpretations that no `deny` rule may match, although they need not be allowed: the
    /// path with its dot segments kept. Adjacent slashes are merged here, too. This loses no match:
    /// only `**` matches an empty segment in the middle of a path, and `**` matches the merged path
    /// as well.
    pub fn deny_only(&self) -> impl Iterator<Item = &'a [u8]> {
        self.deny_only.iter()
    }

    /// Whether the path was canonical as received, with no other interpretation. Nearly all
    /// requests have such a path, and do not need the iterators. False also for a path that had to
    /// be changed, even if it has a single interpretation.
    #[must_use]
    pub fn is_only(&self) -> bool {
        self.all.is_empty() && self.deny_only.is_empty()
    }

    fn only(first: &'a [u8]) -> Self {
        Self { first, all: &NONE, deny_only: &NONE }
    }
}

/// Interprets the `:path` of a request: raw, with its query.
///
/// An already canonical path is borrowed; the interpretations of any other path are written to
/// `buffers`.
///
/// # Errors
/// If it is malformed, or its interpretations cannot be listed safely (`SECURITY.md`, "Paths,
/// methods and hosts").
pub fn path<'a>(
    method: &[u8],
    raw: &'a [u8],
    buffers: &'a mut Buffers,
) -> Result<PathInterpretations<'a>, PathError> {
    if raw == b"*" {
        return if method == b"OPTIONS" {
            Ok(PathInterpretations::only(raw))
        } else {
            Err(PathError::NotAbsolute)
        };
    }
    let (text, classes) = scan(raw);
    if has_path_in_fragment(raw.get(text.len()..).unwrap_or_default()) {
        return Err(PathError::ContinuedFragment);
    }
    // `scan` does not measure segments, because most paths are shorter than the longest allowed
    // segment.
    if text.len() > MAX_SEGMENT && has_long_segment(text) {
        return Err(PathError::SegmentTooLong);
    }
    match text.first() {
        Some(b'/') if classes == 0 => Ok(PathInterpretations::only(text)),
        Some(b'/') => interpret(text, classes, buffers),
        Some(_) => Err(PathError::NotAbsolute),
        None => Err(PathError::Empty),
    }
}

/// The longest segment of a path, in bytes as received. It is limited because the cost of matching
/// a rule grows with the segment's length.
pub const MAX_SEGMENT: usize = 4 << 10;

/// A byte that no path may contain.
const BAD: u8 = 1;
/// `%`.
const PERCENT: u8 = 2;
/// `;`.
const PARAMETER: u8 = 4;
/// `/` or `.`: unusual only after a `/`.
const SHAPE: u8 = 8;
/// `?` or `#`.
const END: u8 = 16;

/// The class of each byte; 0 for an ordinary byte. A table, because [`scan`] then takes the same
/// few instructions for every byte, without a branch for each class.
#[expect(
    clippy::indexing_slicing,
    reason = "evaluated when this is compiled, within the length of the array"
)]
const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0;
    while byte < class.len() {
        class[byte] = match byte {
            0..=0x20 | 0x7F.. | 0x5C => BAD,
            0x25 => PERCENT,
            0x3B => PARAMETER,
            0x2E | 0x2F => SHAPE,
            0x23 | 0x3F => END,
            _ => 0,
        };
        byte += 1;
    }
    class
};

/// Returns the path without query and fragment, and the classes of unusual bytes in it: 0 if it is
/// canonical. Every request takes this pass, so a single pass finds both.
fn scan(raw: &[u8]) -> (&[u8], u8) {
    let mut classes = 0;
    // The classes that are unusual at the current byte: `/` and `.` only after a `/`.
    let mut unusual = !SHAPE;
    for (at, byte) in raw.iter().enumerate() {
        let class = CLASS.get(usize::from(*byte)).copied().unwrap_or(BAD);
        if class == END {
            return (raw.get(..at).unwrap_or(raw), classes);
        }
        classes |= class & unusual;
        unusual = if *byte == b'/' { u8::MAX } else { !SHAPE };
    }
    (raw, classes)
}

/// Whether a path ends at a `#` that has more of a path behind it.
fn has_path_in_fragment(end: &[u8]) -> bool {
    let Some(fragment) = end.strip_prefix(b"#") else { return false };
    let fragment = fragment.split(|byte| *byte == b'?').next().unwrap_or_default();
    fragment.iter().any(|byte| matches!(byte, b'/' | b'\\' | b'%'))
}

/// Whether a segment is longer than [`MAX_SEGMENT`]. From the start of a segment it jumps to
/// the last slash within that length, so it reads few bytes of a path of short segments.
fn has_long_segment(mut text: &[u8]) -> bool {
    while let Some(within_reach) = text.get(..=MAX_SEGMENT) {
        match within_reach.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => text = text.get(slash + 1..).unwrap_or_default(),
            None => return true,
        }
    }
    false
}

/// Interprets a path that contains something unusual.
fn interpret<'a>(
    text: &'a [u8],
    classes: u8,
    buffers: &'a mut Buffers,
) -> Result<PathInterpretations<'a>, PathError> {
    if classes & BAD != 0 {
        return Err(forbidden_byte(text));
    }
    let is_normal = encoding::is_normal(text)?;
    if is_normal
        && classes & PARAMETER == 0
        && encoding::is_unambiguous(text)
        && shape::is_resolved(text)
    {
        return Ok(PathInterpretations::only(text));
    }
    if text.len() > interpretations::MAX_LENGTH {
        return Err(PathError::TooLong);
    }
    interpretations::write_candidates(text, buffers)?;
    let Buffers { candidates, current, result, scratch, all, deny_only } = buffers;
    all.clear();
    deny_only.clear();
    // Candidate 0 is the path with its triplets normalised. Without its dot segments and adjacent
    // slashes, it is the canonical path.
    candidates.copy(0, current);
    shape::resolve(current, result, scratch)?;
    all.push(result);
    for candidate in candidates.iter().filter(|candidate| shape::is_resolved(candidate)) {
        // With its reserved characters decoded, then as it is.
        encoding::decode_reserved(candidate, result);
        all.push_new(result);
        all.push_new(candidate);
    }
    for unresolved in candidates.iter().filter(|candidate| shape::has_dots(candidate)) {
        current.clear();
        current.extend_from_slice(unresolved);
        shape::merge(current);
        encoding::decode_reserved(current, result);
        deny_only.push_new(result);
        deny_only.push_new(current);
    }
    let first = all.iter().next().ok_or(PathError::Empty)?;
    Ok(PathInterpretations { first, all, deny_only })
}

/// The error for a path that contains a byte of class [`BAD`].
fn forbidden_byte(text: &[u8]) -> PathError {
    match text.iter().find(|byte| CLASS.get(usize::from(**byte)) == Some(&BAD)) {
        _ if text.first() != Some(&b'/') => PathError::NotAbsolute,
        Some(b'\\') => PathError::Backslash,
        _ => PathError::ForbiddenByte,
    }
}
