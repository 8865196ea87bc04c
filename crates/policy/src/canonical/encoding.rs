//! Percent triplets (RFC 3986, 2.1): which are decoded, which are kept, and which are errors.

use super::error::PathError;

/// Whether a segment of a canonical path, once decoded, equals this user name.
///
/// Decodes while it compares: the engine calls this for `{user}` in a decision, which must not
/// allocate.
#[must_use]
pub fn segment_is_name(segment: &[u8], user: &[u8]) -> bool {
    let mut remainder = user;
    for unit in Units(segment) {
        let byte = match unit {
            Ok(Unit::Raw(byte) | Unit::Encoded { byte, .. }) => byte,
            Err(_) => return false,
        };
        match remainder.split_first() {
            Some((first, after)) if *first == byte => remainder = after,
            _ => return false,
        }
    }
    remainder.is_empty()
}

/// A segment of a canonical path with all of its triplets decoded.
#[must_use]
pub fn decoded(segment: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::new();
    decode_where(segment, |_| true, &mut decoded);
    decoded
}

/// A segment of a canonical path in which characters that are not ASCII are decoded.
#[must_use]
pub fn readable(segment: &str) -> String {
    let mut decoded = Vec::new();
    decode_where(segment.as_bytes(), |byte| !byte.is_ascii(), &mut decoded);
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Whether the text is normalised: no unreserved character is encoded, and every triplet has
/// upper-case digits.
///
/// # Errors
/// If it contains an invalid triplet, an encoded control character, slash or backslash, or encoded
/// bytes that are not UTF-8.
pub(super) fn is_normal(text: &[u8]) -> Result<bool, PathError> {
    let mut normal = true;
    let mut utf8 = Utf8::default();
    for unit in Units(text) {
        let unit = unit?;
        utf8.take(unit)?;
        if let Unit::Encoded { byte, upper } = unit {
            check(byte)?;
            normal &= upper && !is_unreserved(byte);
        }
    }
    utf8.end()?;
    Ok(normal)
}

/// Writes the normalised text: see [`is_normal`].
pub(crate) fn normalise(text: &[u8], normal: &mut Vec<u8>) {
    decode_where(text, is_unreserved, normal);
}

/// Like [`normalise`], but also decodes the visible reserved characters (`%40`, `%3A`, …). `%25`
/// stays.
pub(crate) fn decode_reserved(text: &[u8], decoded: &mut Vec<u8>) {
    decode_where(text, is_visible, decoded);
}

/// Whether all servers interpret every triplet of a normalised text alike. They do if each triplet
/// encodes a space, a byte of a character that is not ASCII, or a `%` that does not look like the
/// start of another triplet.
pub(super) fn is_unambiguous(text: &[u8]) -> bool {
    !is_doubly_encoded(text)
        && Units(text).flatten().all(|unit| match unit {
            Unit::Raw(_) => true,
            Unit::Encoded { byte, .. } => !is_visible(byte),
        })
}

/// Decodes a normalised text once more (`%2541` becomes `A`), and writes the result to `inner`. If
/// nothing in the text is encoded twice, it returns `false` and writes nothing. `raw` is a buffer.
///
/// # Errors
/// If the result is invalid or ambiguous, or could be decoded yet again.
pub(super) fn decode_again(
    text: &[u8],
    inner: &mut Vec<u8>,
    raw: &mut Vec<u8>,
) -> Result<bool, PathError> {
    if !is_doubly_encoded(text) {
        return Ok(false);
    }
    raw.clear();
    let mut remainder = text;
    while let Some((byte, after)) = remainder.split_first() {
        raw.push(*byte);
        let digits = after.strip_prefix(b"25").filter(|_| starts_doubly_encoded(remainder));
        remainder = digits.unwrap_or(after);
    }
    if is_doubly_encoded(raw) {
        return Err(PathError::NestedEncoding);
    }
    // The errors of encoded characters apply to doubly encoded characters, too.
    is_normal(raw)?;
    normalise(raw, inner);
    Ok(true)
}

/// The part of a normalised text before the first occurrence of this triplet.
pub(super) fn before<'a>(text: &'a [u8], triplet: &[u8; 3]) -> Option<&'a [u8]> {
    text.get(..text.windows(3).position(|three| three == triplet)?)
}

/// Whether a text has a dot segment with at least one encoded dot.
pub(super) fn has_encoded_dots(text: &[u8]) -> bool {
    text.split(|byte| *byte == b'/').any(|segment| {
        segment.contains(&b'%')
            && (segment_is_name(segment, b".") || segment_is_name(segment, b".."))
    })
}

/// Whether there is a `%25` followed by two hexadecimal digits.
fn is_doubly_encoded(text: &[u8]) -> bool {
    (0..text.len()).any(|at| text.get(at..).is_some_and(starts_doubly_encoded))
}

fn starts_doubly_encoded(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"%25").and_then(|digits| digits.first_chunk::<2>());
    digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

/// A byte of a text, raw or percent-encoded.
#[derive(Clone, Copy)]
enum Unit {
    Raw(u8),
    Encoded { byte: u8, upper: bool },
}

/// Iterates over the bytes of a text.
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
        Some(unit(*digits).ok_or(PathError::BadTriplet))
    }
}

fn unit([high, low]: [u8; 2]) -> Option<Unit> {
    let byte = (digit(high)? << 4) | digit(low)?;
    Some(Unit::Encoded { byte, upper: !high.is_ascii_lowercase() && !low.is_ascii_lowercase() })
}

/// The byte that a triplet at the start of a text encodes.
///
/// # Errors
/// If there is no triplet, or servers interpret the byte differently.
pub(crate) fn triplet(text: &[u8]) -> Result<u8, PathError> {
    match Units(text).next() {
        Some(Ok(Unit::Encoded { byte, .. })) => check(byte).map(|()| byte),
        _ => Err(PathError::BadTriplet),
    }
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Decodes the triplets of each byte for which `decode` is true, and writes other triplets with
/// upper-case digits.
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

pub(crate) fn push_triplet(text: &mut Vec<u8>, byte: u8) {
    text.push(b'%');
    text.extend([byte >> 4, byte & 15].map(|d| if d < 10 { b'0' + d } else { b'A' + d - 10 }));
}

/// Returns an error for encoded bytes that servers interpret differently.
fn check(byte: u8) -> Result<(), PathError> {
    match byte {
        0..0x20 | 0x7F => Err(PathError::EncodedControl),
        b'/' | b'\\' => Err(PathError::EncodedSlash),
        _ => Ok(()),
    }
}

/// An unreserved character (RFC 3986, 2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A visible character that neither starts a triplet nor separates segments.
pub(crate) fn is_visible(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'/' | b'\\')
}

/// Checks that encoded bytes of 0x80 and above form whole UTF-8 characters that are not C1
/// controls.
#[derive(Default)]
struct Utf8 {
    /// The first bytes of a character that is not complete.
    bytes: [u8; 4],
    length: usize,
}

impl Utf8 {
    fn take(&mut self, unit: Unit) -> Result<(), PathError> {
        match unit {
            Unit::Encoded { byte: byte @ 0x80.., .. } => self.push(byte),
            Unit::Raw(_) | Unit::Encoded { .. } => self.end(),
        }
    }

    fn push(&mut self, byte: u8) -> Result<(), PathError> {
        *self.bytes.get_mut(self.length).ok_or(PathError::InvalidUtf8)? = byte;
        self.length += 1;
        match std::str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()) {
            Ok(character) if character.contains(char::is_control) => Err(PathError::EncodedControl),
            Ok(_) => {
                self.length = 0;
                Ok(())
            }
            // `error_len` is `None` if more bytes may complete the character.
            Err(error) if error.error_len().is_none() => Ok(()),
            Err(_) => Err(PathError::InvalidUtf8),
        }
    }

    fn end(&self) -> Result<(), PathError> {
        if self.length == 0 { Ok(()) } else { Err(PathError::InvalidUtf8) }
    }
}
