//! Percent-encoding in a rule's path (RFC 3986, 2), converted to the canonical form of requests.

use crate::canonical::{PathError, encoding};

/// A piece of a segment in canonical form: unreserved characters are decoded, other triplets have
/// upper-case digits, and characters that are not ASCII are encoded.
#[derive(Debug)]
pub(crate) struct Spelling<'p> {
    pub(crate) canonical: String,
    /// The same piece in which triplets of visible reserved characters, such as `%40`, are decoded
    /// too. `None` if this is the canonical form.
    pub(crate) decoded: Option<String>,
    /// The first triplet of a reserved character that a rule can also write raw, and this
    /// character.
    pub(crate) needlessly_encoded: Option<(&'p str, char)>,
}

/// Reads a piece of a segment.
///
/// # Errors
/// A part that no valid request has, and the reason.
pub(crate) fn read(piece: &str) -> Result<Spelling<'_>, (&str, PathError)> {
    let mut needlessly_encoded = None;
    for (at, _) in piece.match_indices('%') {
        let from = piece.get(at..).unwrap_or_default();
        let end = from.char_indices().nth(3).map_or(from.len(), |(end, _)| end);
        let triplet = from.get(..end).unwrap_or_default();
        let byte = encoding::triplet(triplet.as_bytes()).map_err(|error| (triplet, error))?;
        let is_needless = encoding::is_visible(byte) && !encoding::is_unreserved(byte);
        if needlessly_encoded.is_none() && is_needless && !b"?#*{}\"$[]".contains(&byte) {
            needlessly_encoded = Some((triplet, char::from(byte)));
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
    encoding::decode_reserved(&encoded, &mut text);
    let decoded = Some(String::from_utf8_lossy(&text).into_owned());
    let decoded = decoded.filter(|decoded| *decoded != canonical);
    Ok(Spelling { canonical, decoded, needlessly_encoded })
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
        assert_eq!(spelling.decoded.as_deref(), Some("a@b%20?"));
        assert_eq!(spelling.needlessly_encoded, Some(("%40", '@')));
        assert!(read("a%20b%25").unwrap().decoded.is_none());
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
