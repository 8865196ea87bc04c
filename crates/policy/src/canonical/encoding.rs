//! Percent triplets (RFC 3986, 2.1): which are decoded, which are kept, which are refused.

use super::PathError;

/// Whether a segment of a canonical path names this user, however it is encoded.
#[must_use]
pub fn names(segment: &[u8], user: &[u8]) -> bool {
    let mut rest = user;
    for unit in Units(segment) {
        let byte = match unit {
            Ok(Unit::Raw(byte) | Unit::Encoded { byte, .. }) => byte,
            Err(_) => return false,
        };
        match rest.split_first() {
            Some((first, after)) if *first == byte => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// The bytes that a segment of a canonical path names: all of its triplets decoded.
#[must_use]
pub fn decoded(segment: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    decode_where(segment, |_| true, &mut decoded);
    decoded
}

/// Whether a text has its unreserved characters decoded, and upper-case digits in every triplet.
///
/// # Errors
/// When it has triplets that are refused.
pub(super) fn is_normal(text: &[u8]) -> Result<bool, PathError> {
    let mut normal = true;
    let mut utf8 = Utf8::default();
    for unit in Units(text) {
        let unit = unit?;
        utf8.take(unit)?;
        if let Unit::Encoded { byte, upper } = unit {
            refuse(byte)?;
            normal &= upper && !is_unreserved(byte);
        }
    }
    utf8.end()?;
    Ok(normal)
}

/// Writes the text as [`is_normal`] has it.
pub(super) fn normalise(text: &[u8], normal: &mut Vec<u8>) {
    decode_where(text, is_unreserved, normal);
}

/// Writes the text with the reserved characters that can be seen (`%40`, `%3A`, …) decoded too; `%25` stays.
pub(super) fn reserved_decoded(text: &[u8], decoded: &mut Vec<u8>) {
    decode_where(text, is_visible, decoded);
}

/// Whether a normalised text has no triplet that anybody reads in another way: only spaces, characters that are not
/// ASCII, and percent signs that do not look like the start of another triplet.
pub(super) fn is_opaque(text: &[u8]) -> bool {
    !has_inner(text)
        && Units(text).flatten().all(|unit| match unit {
            Unit::Raw(_) => true,
            Unit::Encoded { byte, .. } => !is_visible(byte),
        })
}

/// Writes what a normalised text is when it is decoded once more, and says whether that makes a difference: `%2541`
/// becomes `A`. `raw` is overwritten.
///
/// # Errors
/// When the result is ambiguous in itself, has dot segments that the text has not, or could be decoded yet again.
pub(super) fn once_more(text: &[u8], inner: &mut Vec<u8>, raw: &mut Vec<u8>) -> Result<bool, PathError> {
    if !has_inner(text) {
        return Ok(false);
    }
    raw.clear();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        raw.push(*byte);
        rest = if starts_inner(rest) { after.strip_prefix(b"25").unwrap_or(after) } else { after };
    }
    if has_inner(raw) {
        return Err(PathError::NestedEncoding);
    }
    // What is refused outside is refused inside.
    is_normal(raw)?;
    normalise(raw, inner);
    let hidden =
        |(outer, inner): (&[u8], &[u8])| super::shape::is_dotted(inner) && !super::shape::is_dotted(outer);
    if split(text).zip(split(inner)).any(hidden) { Err(PathError::NestedEncoding) } else { Ok(true) }
}

/// What stands before the first of these triplets in a normalised text.
pub(super) fn before<'a>(text: &'a [u8], triplet: &[u8; 3]) -> Option<&'a [u8]> {
    text.get(..text.windows(3).position(|three| three == triplet)?)
}

/// Whether a text has a dot segment of which at least one dot is encoded.
pub(super) fn has_encoded_dots(text: &[u8]) -> bool {
    split(text).any(|segment| segment.contains(&b'%') && (names(segment, b".") || names(segment, b"..")))
}

fn split(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'/')
}

/// Whether there is a `%25` with two hexadecimal digits after it.
fn has_inner(text: &[u8]) -> bool {
    (0..text.len()).any(|at| text.get(at..).is_some_and(starts_inner))
}

fn starts_inner(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"%25").and_then(|digits| digits.first_chunk::<2>());
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// One byte of a text, as it stands or encoded.
#[derive(Clone, Copy)]
enum Unit {
    Raw(u8),
    Encoded { byte: u8, upper: bool },
}

/// The bytes of a text.
struct Units<'a>(&'a [u8]);

impl Iterator for Units<'_> {
    type Item = Result<Unit, PathError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (first, after) = self.0.split_first()?;
        self.0 = after;
        if *first != b'%' {
            return Some(Ok(Unit::Raw(*first)));
        }
        let Some((digits, after)) = after.split_first_chunk::<2>() else {
            return Some(Err(PathError::BadTriplet));
        };
        self.0 = after;
        Some(triplet(*digits).ok_or(PathError::BadTriplet))
    }
}

fn triplet([high, low]: [u8; 2]) -> Option<Unit> {
    let byte = (digit(high)? << 4) | digit(low)?;
    Some(Unit::Encoded { byte, upper: !high.is_ascii_lowercase() && !low.is_ascii_lowercase() })
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

/// Writes the text with those encoded bytes decoded that are to be, and every other triplet with upper-case digits.
fn decode_where(text: &[u8], decode: impl Fn(u8) -> bool, decoded: &mut Vec<u8>) {
    decoded.clear();
    decoded.reserve(text.len());
    for unit in Units(text).flatten() {
        match unit {
            Unit::Raw(byte) => decoded.push(byte),
            Unit::Encoded { byte, .. } if decode(byte) => decoded.push(byte),
            Unit::Encoded { byte, .. } => push_triplet(decoded, byte),
        }
    }
}

fn push_triplet(text: &mut Vec<u8>, byte: u8) {
    let digit = |value: u8| if value < 10 { b'0' + value } else { b'A' + value - 10 };
    text.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
}

/// Refuses encoded bytes that no two servers agree about.
fn refuse(byte: u8) -> Result<(), PathError> {
    match byte {
        0..0x20 | 0x7F => Err(PathError::EncodedControl),
        b'/' | b'\\' => Err(PathError::EncodedSlash),
        _ => Ok(()),
    }
}

/// RFC 3986, 2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A character that can be seen, and that does not start a triplet or separate segments.
fn is_visible(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'/' | b'\\')
}

/// Watches that encoded bytes of 0x80 and above are whole UTF-8 characters, and no C1 controls.
#[derive(Default)]
struct Utf8 {
    bytes: [u8; 4],
    have: usize,
    need: usize,
}

impl Utf8 {
    fn take(&mut self, unit: Unit) -> Result<(), PathError> {
        match unit {
            Unit::Encoded { byte: byte @ 0x80.., .. } => self.push(byte),
            Unit::Raw(_) | Unit::Encoded { .. } => self.end(),
        }
    }

    fn push(&mut self, byte: u8) -> Result<(), PathError> {
        if self.have == 0 {
            self.need = match byte {
                0xC2..=0xDF => 2,
                0xE0..=0xEF => 3,
                0xF0..=0xF4 => 4,
                _ => return Err(PathError::InvalidUtf8),
            };
        }
        *self.bytes.get_mut(self.have).ok_or(PathError::InvalidUtf8)? = byte;
        self.have += 1;
        if self.have < self.need {
            return Ok(());
        }
        self.have = 0;
        let character = self.bytes.get(..self.need).and_then(|bytes| std::str::from_utf8(bytes).ok());
        match character.map(|character| character.contains(char::is_control)) {
            Some(false) => Ok(()),
            Some(true) => Err(PathError::EncodedControl),
            None => Err(PathError::InvalidUtf8),
        }
    }

    fn end(&self) -> Result<(), PathError> {
        if self.have == 0 { Ok(()) } else { Err(PathError::InvalidUtf8) }
    }
}
