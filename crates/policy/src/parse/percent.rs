//! Percent-encoding in a rule's path (RFC 3986, 2), converted to the canonical form of requests.

/// A piece of a segment in canonical form: unreserved characters raw, other encoded characters as upper-case triplets,
/// characters that are not ASCII encoded.
#[derive(Debug)]
pub(crate) struct Spelling<'p> {
    pub(crate) canonical: String,
    /// The same with every printable character raw, if that differs.
    pub(crate) raw: Option<String>,
    /// The first triplet that could be written as the character it encodes.
    pub(crate) needless: Option<(&'p str, char)>,
}

/// Why every request with such a path is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unmatchable {
    /// `%` without two hex digits.
    Triplet,
    /// An encoded control character.
    Control,
    /// An encoded `/` or `\`.
    Separator,
}

/// Reads a piece of a segment.
///
/// # Errors
/// The part that occurs in no valid request, and why.
pub(crate) fn read(piece: &str) -> Result<Spelling<'_>, (&str, Unmatchable)> {
    let mut spelling = Spelling { canonical: String::with_capacity(piece.len()), raw: None, needless: None };
    let mut rest = piece;
    while let Some(character) = rest.chars().next() {
        let after = rest.get(character.len_utf8()..).unwrap_or_default();
        if character != '%' {
            spelling.push(character);
            rest = after;
            continue;
        }
        let (triplet, byte) = triplet(rest)?;
        spelling.push_byte(byte, triplet);
        rest = after.get(2..).unwrap_or_default();
    }
    Ok(spelling)
}

/// Whether the decoded bytes of a canonical piece are UTF-8.
pub(crate) fn is_utf8(canonical: &str) -> bool {
    if !canonical.contains('%') {
        return true;
    }
    let mut bytes = Vec::with_capacity(canonical.len());
    let mut rest = canonical.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let encoded = canonical.get(canonical.len() - rest.len()..).and_then(|rest| triplet(rest).ok());
        match encoded.filter(|_| *first == b'%') {
            Some((_, byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    std::str::from_utf8(&bytes).is_ok()
}

/// The triplet at the start of a text, and its byte.
fn triplet(text: &str) -> Result<(&str, u8), (&str, Unmatchable)> {
    let incomplete = || text.char_indices().nth(3).and_then(|(end, _)| text.get(..end)).unwrap_or(text);
    let digits = text.get(1..3).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let byte = byte.ok_or_else(|| (incomplete(), Unmatchable::Triplet))?;
    let triplet = text.get(..3).unwrap_or(text);
    match byte {
        b'/' | b'\\' => Err((triplet, Unmatchable::Separator)),
        _ if byte.is_ascii_control() => Err((triplet, Unmatchable::Control)),
        _ => Ok((triplet, byte)),
    }
}

impl<'p> Spelling<'p> {
    fn push(&mut self, character: char) {
        let mut buffer = [0; 4];
        for byte in character.encode_utf8(&mut buffer).bytes() {
            if byte.is_ascii() {
                self.push_both(char::from(byte));
            } else {
                self.push_encoded(byte);
            }
        }
    }

    fn push_byte(&mut self, byte: u8, triplet: &'p str) {
        let character = char::from(byte);
        if is_unreserved(byte) {
            self.push_both(character);
        } else if byte.is_ascii_graphic() && byte != b'%' {
            let mut raw = self.raw.take().unwrap_or_else(|| self.canonical.clone());
            raw.push(character);
            self.canonical.push_str(&encoded(byte));
            self.raw = Some(raw);
            if self.needless.is_none()
                && !matches!(byte, b'?' | b'#' | b'*' | b'{' | b'}' | b'"' | b'$' | b'[' | b']')
            {
                self.needless = Some((triplet, character));
            }
        } else {
            self.push_encoded(byte);
        }
    }

    fn push_both(&mut self, character: char) {
        self.canonical.push(character);
        if let Some(raw) = &mut self.raw {
            raw.push(character);
        }
    }

    fn push_encoded(&mut self, byte: u8) {
        let triplet = encoded(byte);
        self.canonical.push_str(&triplet);
        if let Some(raw) = &mut self.raw {
            raw.push_str(&triplet);
        }
    }
}

impl Unmatchable {
    /// What is wrong, as text to append to the part.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Triplet => "is not a percent-encoded byte",
            Self::Control => "never matches: a request with an encoded control character is denied",
            Self::Separator => "never matches: a request with an encoded separator is denied",
        }
    }

    /// How to fix it.
    pub(crate) fn help(self) -> &'static str {
        match self {
            Self::Triplet => "write two hex digits after `%`, or `%25` for the character itself",
            Self::Control => "leave it out",
            Self::Separator => "write `/`",
        }
    }
}

fn encoded(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// An unreserved character (RFC 3986, 2.3).
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::{Unmatchable, is_utf8, read};

    fn canonical(piece: &str) -> String {
        read(piece).unwrap().canonical
    }

    /// RFC 3986, 6.2.2.
    #[test]
    fn unreserved_characters_are_raw_and_others_upper_case() {
        assert_eq!(canonical("%41%7e%2D%5f%2E"), "A~-_.");
        assert_eq!(canonical("a%3a%c3%a9"), "a%3A%C3%A9");
        assert_eq!(canonical("é"), "%C3%A9");
        assert_eq!(canonical("%25%32%46"), "%252F");
        assert_eq!(canonical("@:!$&'()*+,;="), "@:!$&'()*+,;=");
    }

    #[test]
    fn a_printable_character_may_be_spelled_either_way() {
        let spelling = read("a%40b%20%3F").unwrap();
        assert_eq!(spelling.canonical, "a%40b%20%3F");
        assert_eq!(spelling.raw.as_deref(), Some("a@b%20?"));
        assert_eq!(spelling.needless, Some(("%40", '@')));
        assert!(read("a%20b%25").unwrap().raw.is_none());
    }

    #[test]
    fn what_no_request_has_is_an_error() {
        for (piece, part, never) in [
            ("a%", "%", Unmatchable::Triplet),
            ("a%4", "%4", Unmatchable::Triplet),
            ("%+1", "%+1", Unmatchable::Triplet),
            ("%é", "%é", Unmatchable::Triplet),
            ("a%2fb", "%2f", Unmatchable::Separator),
            ("a%5C", "%5C", Unmatchable::Separator),
            ("%00", "%00", Unmatchable::Control),
            ("%1F", "%1F", Unmatchable::Control),
            ("%7F", "%7F", Unmatchable::Control),
        ] {
            assert_eq!(read(piece).unwrap_err(), (part, never), "{piece}");
        }
    }

    /// RFC 3629, 3: neither overlong nor cut off.
    #[test]
    fn only_utf8_is_utf8() {
        assert!(is_utf8("caf%C3%A9") && is_utf8("plain") && is_utf8("%F0%9F%98%80"));
        assert!(!is_utf8("%C3") && !is_utf8("%C0%AF") && !is_utf8("a%FFb") && !is_utf8("%ED%A0%80"));
    }
}
