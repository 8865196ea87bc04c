//! Envoy's string matchers.

use document::View;

use crate::when::{When, quoted};

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Matcher {
    /// Every text.
    Any,
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    /// An RE2 expression for the whole text.
    Regex(String),
    /// A URI template of Envoy.
    Template(String),
}

/// The condition that a value, a text in CEL, matches; `None` if conditions have no such matcher,
/// or not this regular expression.
pub(crate) fn test(value: &str, matcher: &Matcher, ignore_case: bool) -> Option<When> {
    let (subject, text) = match matcher {
        Matcher::Exact(text)
        | Matcher::Prefix(text)
        | Matcher::Suffix(text)
        | Matcher::Contains(text)
            if ignore_case =>
        {
            (format!("{value}.lowerAscii()"), quoted(&text.to_ascii_lowercase()))
        }
        Matcher::Exact(text)
        | Matcher::Prefix(text)
        | Matcher::Suffix(text)
        | Matcher::Contains(text) => (value.to_owned(), quoted(text)),
        // RE2 must match the whole text. `a)|(b` is an expression only within brackets.
        Matcher::Regex(regex) => {
            When::Test(format!("request.path.matches({})", quoted(regex))).check().ok()?;
            (value.to_owned(), quoted(&format!("^(?:{regex})$")))
        }
        Matcher::Any => (value.to_owned(), quoted("")),
        Matcher::Template(_) => return None,
    };
    Some(When::Test(match matcher {
        Matcher::Exact(_) => format!("{subject} == {text}"),
        // Every text starts with no text; another value has no start.
        Matcher::Prefix(_) | Matcher::Any => format!("{subject}.startsWith({text})"),
        Matcher::Suffix(_) => format!("{subject}.endsWith({text})"),
        Matcher::Contains(_) => format!("{subject}.contains({text})"),
        Matcher::Regex(_) | Matcher::Template(_) => format!("{subject}.matches({text})"),
    }))
}

/// A string matcher, and whether it ignores case. `None` if it is unknown or missing, which Envoy
/// refuses. A default that matches nothing would drop a denial.
pub(crate) fn string_matcher(view: &View<'_>) -> Option<(Matcher, bool)> {
    let ignore_case = view.get("ignore_case").map_or(Some(false), |value| value.boolean())?;
    let mut fields = view.entries();
    fields.retain(|(key, _)| key != "ignore_case");
    let [(key, value)] = fields.as_slice() else { return None };
    Some(match field(key, value)? {
        Matcher::Prefix(text) | Matcher::Suffix(text) | Matcher::Contains(text)
            if text.is_empty() =>
        {
            (Matcher::Any, false)
        }
        Matcher::Regex(regex) if [".*", "(.*)", "^.*$"].contains(&&*regex) => (Matcher::Any, false),
        Matcher::Regex(regex) => (Matcher::Regex(regex), false),
        matcher => (matcher, ignore_case),
    })
}

/// The matcher in a field such as `prefix`; `None` if the key is unknown.
pub(crate) fn field(key: &str, value: &View<'_>) -> Option<Matcher> {
    let text = value.text().map(str::to_owned);
    match key {
        "exact" => text.map(Matcher::Exact),
        "prefix" => text.map(Matcher::Prefix),
        "suffix" => text.map(Matcher::Suffix),
        "contains" => text.map(Matcher::Contains),
        "safe_regex" if value.values_except("regex google_re2").is_empty() => {
            value.text_of("regex").map(str::to_owned).map(Matcher::Regex)
        }
        _ => None,
    }
}
