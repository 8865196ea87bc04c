//! The parameters of a request: percent-encoded segments of its path, and its query.

use std::borrow::Cow;
use std::fmt::Write;

use crate::problem::Problem;

const ENCODED: Problem = Problem::Invalid("its path or query is not percent-encoded UTF-8");

/// The parameters whose values may change the needs of a request.
const DECIDING: &[&str] = &[
    "alias",
    "allow_no_indices",
    "expand_wildcards",
    "ignore_unavailable",
    "index",
    "name",
    "new_index",
    "pipeline",
    "refresh",
    "search_pipeline",
    "target",
    "version_type",
];

/// The parameters that change the needs of a request by being there. Their values do not matter:
/// they are contents of documents and queries.
const UNREAD: &[&str] = &["ids", "source"];

/// The part of a query on which the needs of the request depend, not decoded. Other values are left
/// out: they may be contents of queries, or credentials.
#[must_use]
pub fn deciding_query(target: &str) -> String {
    let mut deciding = String::new();
    for (name, value) in Query::from_target(target).pairs() {
        let (name, is_deciding) = match decode(name, Plus::IsSpace) {
            // A pair that begins with `=` is denied, whatever its value.
            Ok(decoded) if decoded.is_empty() && value.is_some() => ("=", false),
            Ok(decoded) if DECIDING.contains(&&*decoded) => (name, true),
            Ok(decoded) if !UNREAD.contains(&&*decoded) => continue,
            Ok(_) | Err(_) => (name, false),
        };
        deciding.extend([if deciding.is_empty() { "" } else { "&" }, name]);
        if let Some(value) = value.filter(|value| is_deciding && !value.is_empty()) {
            deciding.extend(["=", value]);
        }
    }
    deciding
}

/// The query of a request, not decoded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Query<'a>(pub(crate) &'a str);

impl<'a> Query<'a> {
    /// The query in `target`, which is a path that may have a query after it.
    pub(crate) fn from_target(target: &'a str) -> Self {
        Self(target.split_once('?').map_or("", |(_, query)| query))
    }

    /// The raw names and values. Like a node, it treats `;` as a separator, too.
    pub(crate) fn pairs(self) -> impl Iterator<Item = (&'a str, Option<&'a str>)> {
        self.0.split(['&', ';']).map(|pair| match pair.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (pair, None),
        })
    }

    /// The value of a parameter. A repeated parameter is an error: readers differ about which value
    /// they use.
    pub(crate) fn get(&self, parameter: &str) -> Result<Option<Cow<'a, str>>, Problem> {
        debug_assert!(
            DECIDING.contains(&parameter) || UNREAD.contains(&parameter),
            "`{parameter}` is not listed"
        );
        let mut raw = None;
        for (name, value) in self.pairs() {
            if (name == parameter || *decode(name, Plus::IsSpace)? == *parameter)
                && raw.replace(value.unwrap_or_default()).is_some()
            {
                return Err(Problem::Invalid("it gives a parameter twice"));
            }
        }
        raw.map(|value| decode(value, Plus::IsSpace)).transpose()
    }

    /// Whether a parameter names a pipeline.
    pub(crate) fn names_pipeline(&self, parameter: &str) -> Result<bool, Problem> {
        Ok(self.get(parameter)?.is_some_and(|name| name != "_none"))
    }

    /// Whether a pair begins with `=`. A node reads `=index=a` as another `index`.
    pub(crate) fn has_nameless_pair(&self) -> bool {
        self.pairs().any(|(name, value)| name.is_empty() && value.is_some())
    }

    /// The value of a parameter that is `true` or `false`; without a value it is true.
    pub(crate) fn flag(&self, parameter: &str) -> Result<Option<bool>, Problem> {
        match self.get(parameter)?.as_deref() {
            None => Ok(None),
            Some("" | "true") => Ok(Some(true)),
            Some("false") => Ok(Some(false)),
            Some(_) => Err(Problem::Invalid("a parameter is neither `true` nor `false`")),
        }
    }
}

/// The meaning of `+`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plus {
    IsSpace,
    IsPlus,
}

/// Decodes a segment of a path, or a name or value of a query.
pub(crate) fn decode(raw: &str, plus: Plus) -> Result<Cow<'_, str>, Problem> {
    if raw.bytes().all(|byte| byte != b'%' && (byte != b'+' || plus == Plus::IsPlus)) {
        return Ok(Cow::Borrowed(raw));
    }
    let mut bytes = Vec::with_capacity(raw.len());
    let mut encoded = raw.as_bytes();
    while let Some((&byte, after)) = encoded.split_first() {
        encoded = after;
        bytes.push(match byte {
            b'+' if plus == Plus::IsSpace => b' ',
            b'%' => {
                let (digits, after) = encoded.split_at_checked(2).ok_or(ENCODED)?;
                encoded = after;
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

/// Adds a name to a list, percent-encoded (RFC 3986, 2.3).
pub(crate) fn push_encoded(list: &mut String, name: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            list.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(list, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_as_a_node_finds_it() {
        let get =
            |query: &'static str| Query(query).get("index").map(|value| value.map(Cow::into_owned));
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
        let invalid = "index=a&index=b index=a&ind%65x=b index=% %zz index=%c3 index=%00 index=%+1";
        for query in invalid.split(' ') {
            assert!(get(query).is_err(), "{query}");
        }
    }

    #[test]
    fn only_what_decides_is_kept_of_a_query() {
        for (target, wanted) in [
            ("/a", ""),
            ("/a?", ""),
            ("/a?q=secret&index=b&token=secret", "index=b"),
            ("/a?ind%65x=b%2Cc;ignore_unavailable;x", "ind%65x=b%2Cc&ignore_unavailable"),
            ("/a?source=%7Bsecret%7D&index=a&index=b", "source&index=a&index=b"),
            ("/a?%zz=secret", "%zz"),
            ("/a?=q=secret", "="),
            ("/a?index=b&=index=c", "index=b&="),
        ] {
            assert_eq!(deciding_query(target), wanted, "{target}");
        }
    }

    #[test]
    fn a_plus_in_a_path_is_a_plus() {
        assert_eq!(decode("a+b%2Cc", Plus::IsPlus).as_deref(), Ok("a+b,c"));
    }
}
