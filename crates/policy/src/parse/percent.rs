//! Percent-encoding in a rule's path (RFC 3986, 2), converted to the canonical form of requests.

use crate::canonical::{PathError, encoding};

/// A piece of a segment in canonical form: unreserved characters raw, other encoded characters as
/// upper-case triplets, characters that are not ASCII encoded.
#[derive(Debug)]
pub(crate) struct Spelling<'p> {
    pub(crate) canonical: String,
    /// The same with every printable character raw, if that differs.
    pub(crate) raw: Option<String>,
    /// The first triplet that could be written as the character it encodes.
    pub(crate) needless: Option<(&'p str, char)>,
}

/// Reads a piece of a segment.
///
/// # Errors
/// The part that occurs in no valid request, and why.
pub(crate) fn read(piece: &str) -> Result<Spelling<'_>, (&str, PathError)> {
    let mut needless = None;
    for (at, _) in piece.match_indices('%') {
        let from = piece.get(at..).unwrap_or_default();
        let end = from.char_indices().nth(3).map_or(from.len(), |(end, _)| end);
        let triplet = from.get(..end).unwrap_or_default();
        let byte = encoding::triplet(triplet.as_bytes()).map_err(|error| (triplet, error))?;
        let is_needless = encoding::is_visible(byte) && !encoding::is_unreserved(byte);
        if needless.is_none() && is_needless && !b"?#*{}\"$[]".contains(&byte) {
            needless = Some((triplet, char::from(byte)));
        }
    }
    let mut encoded = Vec::with_capacity(piece.len());
    for byte in piece.bytes() {
        if byte.is_ascii() {
            encoded.push(byte)
        } else {
            encoding::push_triplet(&mut encoded, byte)
        }
    }
    let mut text = Vec::new();
    encoding::normalise(&encoded, &mut text);
    let canonical = String::from_utf8_lossy(&text).into_owned();
    encoding::reserved_decoded(&encoded, &mut text);
    let raw = Some(String::from_utf8_lossy(&text).into_owned()).filter(|raw| *raw != canonical);
    Ok(Spelling { canonical, raw, needless })
}

#[cfg(test)]
mod tests {
    use super::{PathError, read};

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
            ("a%", "%", PathError::BadTriplet),
            ("a%4", "%4", PathError::BadTriplet),
            ("%+1", "%+1", PathError::BadTriplet),
            ("%é", "%é", PathError::BadTriplet),
            ("a%2fb", "%2f", PathError::EncodedSlash),
            ("a%5C", "%5C", PathError::EncodedSlash),
            ("%00", "%00", PathError::EncodedControl),
            ("%1F", "%1F", PathError::EncodedControl),
            ("%7F", "%7F", PathError::EncodedControl),
        ] {
            assert_eq!(read(piece).unwrap_err(), (part, never), "{piece}");
        }
    }
}
