//! Parameters of a query.

use std::borrow::Cow;

use crate::fault::Fault;

/// The value of a parameter, percent-decoded once.
///
/// Applications disagree about `+` (a space or itself) and about `;` (a separator or itself), so a
/// value with `+` and a query with `;` are malformed: else a client could show the condition
/// another value than the application reads.
pub(crate) fn parameter<'a>(query: &'a [u8], name: &str) -> Result<Cow<'a, str>, Fault> {
    if query.contains(&b';') {
        return Err(Fault::Malformed);
    }
    let mut found = None;
    for pair in query.split(|byte| *byte == b'&') {
        let (key, value) = match pair.iter().position(|byte| *byte == b'=') {
            Some(equals) => (pair.get(..equals), pair.get(equals + 1..)),
            None => (Some(pair), None),
        };
        let key = key.unwrap_or_default();
        if is_key(key, name) && found.replace(value.unwrap_or_default()).is_some() {
            return Err(Fault::Repeated);
        }
    }
    let value = found.ok_or(Fault::Absent)?;
    if value.contains(&b'+') { Err(Fault::Malformed) } else { decoded(value) }
}

/// Whether an application may read this key as the name.
fn is_key(key: &[u8], name: &str) -> bool {
    if key == name.as_bytes() {
        return true;
    }
    if !key.contains(&b'%') && !key.contains(&b'+') {
        return false;
    }
    let decoded = Decoded { rest: key, has_spaces: false };
    let with_spaces = Decoded { has_spaces: true, ..decoded.clone() };
    decoded.eq(name.bytes()) || with_spaces.eq(name.bytes())
}

/// A text, percent-decoded once (RFC 3986, 2.1).
pub(crate) fn decoded(text: &[u8]) -> Result<Cow<'_, str>, Fault> {
    if text.contains(&b'%') {
        return String::from_utf8(decode(text)).map(Cow::Owned).map_err(|_| Fault::Malformed);
    }
    std::str::from_utf8(text).map(Cow::Borrowed).map_err(|_| Fault::Malformed)
}

fn decode(text: &[u8]) -> Vec<u8> {
    Decoded { rest: text, has_spaces: false }.collect()
}

/// The bytes of a text after it is percent-decoded. A `%` that no two hexadecimal digits follow
/// stays as it is. A query may have thousands of keys, so nothing is allocated for each.
#[derive(Clone)]
struct Decoded<'a> {
    rest: &'a [u8],
    /// Whether `+` is a space.
    has_spaces: bool,
}

impl Iterator for Decoded<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let (byte, after) = self.rest.split_first()?;
        if let [high, low, after_triplet @ ..] = after
            && *byte == b'%'
            && let Some((high, low)) = hex(*high).zip(hex(*low))
        {
            self.rest = after_triplet;
            return Some(high << 4 | low);
        }
        self.rest = after;
        Some(if self.has_spaces && *byte == b'+' { b' ' } else { *byte })
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_has_one_value_or_none() {
        for (query, wanted) in [
            ("a=1", Ok("1")),
            ("b=2&a=1", Ok("1")),
            ("a", Ok("")),
            ("a=", Ok("")),
            ("a=%41%2b", Ok("A+")),
            ("%61=1", Ok("1")),
            ("a=1&a=1", Err(Fault::Repeated)),
            ("a=1&%61=2", Err(Fault::Repeated)),
            ("b=1", Err(Fault::Absent)),
            ("", Err(Fault::Absent)),
            ("A=1", Err(Fault::Absent)),
            ("a=1+2", Err(Fault::Malformed)),
            ("a=1;b=2", Err(Fault::Malformed)),
            ("a=%ff", Err(Fault::Malformed)),
            ("a=%2", Ok("%2")),
            ("a=%252B", Ok("%2B")),
        ] {
            let found = parameter(query.as_bytes(), "a");
            assert_eq!(found.as_deref().map_err(|fault| *fault), wanted, "{query}");
        }
    }
}
