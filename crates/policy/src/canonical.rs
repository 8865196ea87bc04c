//! The one reading of a path and of a host that rules and requests are compared in.
//!
//! What stands behind the proxy may read a path in other ways than we do. So a path becomes its canonical form, with
//! every other way in which it may plausibly be read beside it ([`Readings`]); what would be read too differently is
//! refused. The order of the steps is fixed: cut at `?` and `#`, raw bytes, percent triplets, dot segments, slashes. `ways`
//! has what others make of the path.

mod buffers;
mod encoding;
mod host;
mod shape;
mod ways;

#[cfg(test)]
mod tests;

pub use buffers::Buffers;
pub use encoding::{decoded, names};
pub use host::{HostError, host};

use buffers::{NONE, Space, Texts};

/// Why a path cannot be judged. Each is answered with 400 and the reason `invalid_path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum PathError {
    /// Nothing at all, or nothing before the query.
    #[error("the path is empty")]
    Empty,
    /// Not the origin-form of a request target (RFC 9112, 3.2.1), nor `*` with `OPTIONS` (3.2.4).
    #[error("the path does not start with `/`")]
    NotAbsolute,
    /// A raw control byte, a space, or a byte that is not ASCII: none may stand in a URI (RFC 3986, 2).
    #[error("the path has a control byte, a space or a byte that is not ASCII in it")]
    ForbiddenByte,
    /// A `%` without two hexadecimal digits after it (RFC 3986, 2.1).
    #[error("a `%` is not followed by two hexadecimal digits")]
    BadTriplet,
    /// An encoded control character, `%00` and C1 controls (`%C2%80` to `%C2%9F`) among them.
    #[error("an encoded control character")]
    EncodedControl,
    /// `%2F` or `%5C`: one server's separator is another's data.
    #[error("an encoded slash or backslash")]
    EncodedSlash,
    /// A raw `\`, which some servers take for a `/`.
    #[error("a backslash")]
    Backslash,
    /// Encoded bytes that are not UTF-8 (RFC 3629, 3): invalid, overlong, a surrogate, or cut short.
    #[error("encoded bytes that are not UTF-8")]
    InvalidUtf8,
    /// Dot segments that lead out of the root.
    #[error("dot segments that climb above the root")]
    AboveRoot,
    /// Merging slashes before or after removing dot segments gives two different paths.
    #[error("adjacent slashes before a dot segment")]
    AmbiguousSlashes,
    /// It begins with `//`, as it is or once dot segments or `;` parameters are removed: parsers of URL references read an
    /// authority there (RFC 3986, 4.2), so that Node's `new URL("//public/admin", base)` has the path `/admin`.
    #[error("the path begins with `//`, where an authority may be read")]
    Authority,
    /// An encoded `?` or `#` after a dot segment, as in `/a/..%3F/b`: a server that cuts the path there is left with the dots.
    #[error("an encoded `?` or `#` right after a dot segment")]
    AmbiguousEnd,
    /// A `;` in or beside a dot segment.
    #[error("a `;` in or beside a dot segment")]
    AmbiguousParameter,
    /// Longer than 8 KiB without its query, and not canonical; or shorter, with so many ways to read it that these are
    /// over 48 KiB.
    #[error("the path has too many or too long interpretations")]
    TooLong,
    /// A segment over 4,096 bytes as received.
    #[error("a segment of the path is over 4,096 bytes long")]
    SegmentTooLong,
    /// Encoded twice so that decoding it twice gives dot segments, or encoded three times.
    #[error("an encoding inside an encoding that hides a dot segment or another encoding")]
    NestedEncoding,
}

/// All the ways a path may be read by what stands behind the proxy.
///
/// A request is allowed only if every reading in `all` is allowed and no `deny` rule matches one in `deny_only`.
#[derive(Clone, Copy, Debug)]
pub struct Readings<'a> {
    first: &'a [u8],
    /// With the first, if there are any.
    all: &'a Texts,
    deny_only: &'a Texts,
}

impl<'a> Readings<'a> {
    /// The canonical path: the reading that is shown in logs.
    #[must_use]
    pub fn first(&self) -> &'a [u8] {
        self.first
    }

    /// The readings that must all be allowed: the canonical path, then what it is without its `;` parameters, cut at an
    /// encoded `?` or `#`, with its reserved characters decoded, decoded twice, and all of these together, as far as they
    /// differ.
    pub fn all(&self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::once(self.first).chain(self.all.iter().skip(1))
    }

    /// The readings that no `deny` rule may match; they need not be allowed: the path with its dot segments still in it.
    /// Its adjacent slashes are merged there too: no pattern matches an empty segment but by `**`, so what matches a path
    /// with empty segments matches it without them.
    pub fn deny_only(&self) -> impl Iterator<Item = &'a [u8]> {
        self.deny_only.iter()
    }

    fn one(first: &'a [u8]) -> Self {
        Self { first, all: &NONE, deny_only: &NONE }
    }
}

/// Reads the `:path` of a request: raw, with its query.
///
/// A path that is canonical already is borrowed; the readings of any other are written to `buffers`.
///
/// # Errors
/// When it is ambiguous or not a path.
pub fn path<'a>(method: &[u8], raw: &'a [u8], buffers: &'a mut Buffers) -> Result<Readings<'a>, PathError> {
    if raw == b"*" {
        return if method == b"OPTIONS" { Ok(Readings::one(raw)) } else { Err(PathError::NotAbsolute) };
    }
    let (text, seen) = scan(raw);
    // The scan does not measure segments: a usual path is shorter than one may be.
    if text.len() > LONGEST_SEGMENT && has_long_segment(text) {
        return Err(PathError::SegmentTooLong);
    }
    match text.first() {
        Some(b'/') if seen == 0 => Ok(Readings::one(text)),
        Some(b'/') => unusual(text, seen, buffers),
        Some(_) => Err(PathError::NotAbsolute),
        None => Err(PathError::Empty),
    }
}

/// The longest segment of a path, in bytes as received: what a rule costs grows with the segment that it is matched with.
pub const LONGEST_SEGMENT: usize = 4 << 10;

/// The longest path that is read in several ways, in bytes. A client pays nothing for length; here a dozen readings and more
/// are made and judged one by one: 5 to 15 ms for 60 KiB, which is what Envoy lets through (November 2026, 2 cores under load,
/// `hostile_paths` in the authorizer's examples). Other servers take no longer paths at all.
const LONGEST_UNUSUAL: usize = 8 << 10;

/// A byte that may not stand in a path.
const BAD: u8 = 1;
/// `%`.
const PERCENT: u8 = 2;
/// `;`.
const PARAMETER: u8 = 4;
/// `/` or `.`: unusual after a `/`.
const SHAPE: u8 = 8;
/// `?` or `#`.
const END: u8 = 16;

/// What is unusual about each byte.
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

/// The path without query and fragment, and what is unusual in it: 0 for a canonical one. The one pass that every
/// request pays for.
fn scan(raw: &[u8]) -> (&[u8], u8) {
    let mut seen = 0;
    let mut counts = !SHAPE;
    for (at, byte) in raw.iter().enumerate() {
        let class = CLASS.get(usize::from(*byte)).copied().unwrap_or(BAD);
        if class == END {
            return (raw.get(..at).unwrap_or(raw), seen);
        }
        seen |= class & counts;
        counts = if *byte == b'/' { u8::MAX } else { !SHAPE };
    }
    (raw, seen)
}

/// Whether a segment is longer than one may be. From the start of a segment this goes on at the last slash within reach,
/// so that it looks at few bytes of a path of short segments.
fn has_long_segment(mut text: &[u8]) -> bool {
    while let Some(within_reach) = text.get(..=LONGEST_SEGMENT) {
        match within_reach.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => text = text.get(slash + 1..).unwrap_or_default(),
            None => return true,
        }
    }
    false
}

/// Reads a path that has something unusual in it.
fn unusual<'a>(text: &'a [u8], seen: u8, buffers: &'a mut Buffers) -> Result<Readings<'a>, PathError> {
    if seen & BAD != 0 {
        return Err(forbidden(text));
    }
    let as_written = encoding::is_normal(text)?;
    if as_written && seen & PARAMETER == 0 && encoding::is_opaque(text) && shape::is_resolved(text) {
        return Ok(Readings::one(text));
    }
    if text.len() > LONGEST_UNUSUAL {
        return Err(PathError::TooLong);
    }
    let space = buffers.space();
    ways::write(text, space)?;
    let Space { ways, way, made, other, all, deny_only } = space;
    all.clear();
    deny_only.clear();
    ways.copy(0, way);
    shape::resolve(way, made, other)?;
    all.push(made);
    for way in ways.iter().filter(|way| shape::is_resolved(way)) {
        // With its reserved characters decoded, and as it is.
        encoding::reserved_decoded(way, made);
        all.add(made);
        all.add(way);
    }
    for unresolved in ways.iter().filter(|way| shape::has_dots(way)) {
        way.clear();
        way.extend_from_slice(unresolved);
        shape::merge(way);
        encoding::reserved_decoded(way, made);
        deny_only.add(made);
        deny_only.add(way);
    }
    let first = all.iter().next().ok_or(PathError::Empty)?;
    Ok(Readings { first, all, deny_only })
}

/// What is wrong with a path that has a byte of the class [`BAD`] in it.
fn forbidden(text: &[u8]) -> PathError {
    match text.iter().find(|byte| CLASS.get(usize::from(**byte)) == Some(&BAD)) {
        _ if text.first() != Some(&b'/') => PathError::NotAbsolute,
        Some(b'\\') => PathError::Backslash,
        _ => PathError::ForbiddenByte,
    }
}
