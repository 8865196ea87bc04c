//! The parameters of a request: percent-encoded segments of its path, and its query.

use std::borrow::Cow;

use crate::problem::Problem;

const ENCODED: Problem = Problem::Invalid("its path or query is not percent-encoded UTF-8");

/// The query of a request, not decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a>(pub(crate) &'a str);

impl<'a> Query<'a> {
    /// The value of a parameter. One that is given twice is refused: a node takes the last, others the first.
    pub(crate) fn get(&self, wanted: &str) -> Result<Option<Cow<'a, str>>, Problem> {
        let mut found = None;
        // A node takes `;` for a separator too.
        for pair in self.0.split(['&', ';']) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if *decode(name, Plus::IsSpace)? == *wanted && found.replace(value).is_some() {
                return Err(Problem::Invalid("it gives a parameter twice"));
            }
        }
        found.map(|value| decode(value, Plus::IsSpace)).transpose()
    }

    /// The value of a parameter that is `true` or `false`; given without a value it is true.
    pub(crate) fn flag(&self, wanted: &str) -> Result<Option<bool>, Problem> {
        match self.get(wanted)?.as_deref() {
            None => Ok(None),
            Some("" | "true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::Invalid("a parameter is neither `true` nor `false`")),
        }
    }
}

/// What a `+` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    IsSpace,
    IsPlus,
}

/// Decodes a segment of a path, or a name or value of a query.
pub(crate) fn decode(raw: &str, plus: Plus) -> Result<Cow<'_, str>, Problem> {
    let is_plain = |byte: u8| byte != b'%' && (byte != b'+' || plus == Plus::IsPlus);
    if raw.bytes().all(is_plain) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'+' if plus == Plus::IsSpace => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2).ok_or(ENCODED)?;
                rest = after;
                let digits = std::str::from_utf8(digits).map_err(|_| ENCODED)?;
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                u8::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or(ENCODED)?
            }
            byte => byte,
        });
    }
    let text = String::from_utf8(bytes).map_err(|_| ENCODED)?;
    if text.contains('\0') { Err(ENCODED) } else { Ok(Cow::Owned(text)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_as_a_node_finds_it() {
        let get = |query: &'static str| Query(query).get("index").map(|value| value.map(Cow::into_owned));
        for (query, wanted) in [
            ("", None),
            ("a=b", None),
            ("index", Some("")),
            ("index=", Some("")),
            ("index=a", Some("a")),
            ("a=b&index=c", Some("c")),
            ("a=b;index=c", Some("c")),
            ("ind%65x=%61", Some("a")),
            ("index=a%2Cb+c", Some("a,b c")),
            ("index=a=b", Some("a=b")),
            ("Index=a", None),
        ] {
            assert_eq!(get(query), Ok(wanted.map(ToOwned::to_owned)), "{query}");
        }
        for query in
            ["index=a&index=b", "index=a&ind%65x=b", "index=%", "%zz", "index=%c3", "index=%00", "index=%+1"]
        {
            assert!(get(query).is_err(), "{query}");
        }
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(decode("a+b%2Cc", Plus::IsPlus).as_deref(), Ok("a+b,c"));
    }
}
