//! Envoy's string matchers.

use crate::view::View;

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Matcher {
    /// Every text.
    Any,
    Exact(String),
    Prefix(String),
    Suffix(String),
    Contains(String),
    /// A regular expression of RE2 for the whole text.
    Regex(String),
    /// A path template of Envoy.
    Template(String),
}

/// A string matcher, and whether it ignores case. `None` if it is not known.
pub(crate) fn string_matcher(view: &View<'_>) -> Option<(Matcher, bool)> {
    let ignore_case = view.is_true("ignore_case");
    let mut found = None;
    for (key, value) in view.entries() {
        let text = || value.text().map(str::to_owned);
        let matcher = match key.as_str() {
            "ignore_case" => continue,
            "exact" => Matcher::Exact(text()?),
            "prefix" => Matcher::Prefix(text()?),
            "suffix" => Matcher::Suffix(text()?),
            "contains" => Matcher::Contains(text()?),
            "safe_regex" => Matcher::Regex(value.text_of("regex")?.to_owned()),
            _ => return None,
        };
        if found.replace(matcher).is_some() {
            return None;
        }
    }
    // Without any, the text is empty (proto3).
    Some((found.unwrap_or(Matcher::Exact(String::new())), ignore_case)).map(|(matcher, ignore_case)| {
        match matcher {
            Matcher::Prefix(text) | Matcher::Suffix(text) | Matcher::Contains(text) if text.is_empty() => {
                (Matcher::Any, false)
            }
            Matcher::Regex(regex) if [".*", "(.*)", "^.*$"].contains(&&*regex) => (Matcher::Any, false),
            Matcher::Regex(regex) => (Matcher::Regex(regex), false),
            matcher => (matcher, ignore_case),
        }
    })
}
