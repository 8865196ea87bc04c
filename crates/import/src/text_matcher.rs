//! Envoy's string matchers.

use document::View;

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

/// A string matcher, and whether it ignores case. `None` if it is not known, or if there is none: Envoy refuses that, and an empty
/// text would match nothing, also where a denial was meant.
pub(crate) fn string_matcher(view: &View<'_>) -> Option<(Matcher, bool)> {
    let ignore_case = view.get("ignore_case").map_or(Some(false), |value| value.boolean())?;
    let mut found = None;
    for (key, value) in view.entries() {
        let text = || value.text().map(str::to_owned);
        let matcher = match key.as_str() {
            "ignore_case" => continue,
            "exact" => Matcher::Exact(text()?),
            "prefix" => Matcher::Prefix(text()?),
            "suffix" => Matcher::Suffix(text()?),
            "contains" => Matcher::Contains(text()?),
            "safe_regex" => Matcher::Regex(regex(&value)?),
            _ => return None,
        };
        if found.replace(matcher).is_some() {
            return None;
        }
    }
    Some(match found? {
        Matcher::Prefix(text) | Matcher::Suffix(text) | Matcher::Contains(text) if text.is_empty() => {
            (Matcher::Any, false)
        }
        Matcher::Regex(regex) if [".*", "(.*)", "^.*$"].contains(&&*regex) => (Matcher::Any, false),
        Matcher::Regex(regex) => (Matcher::Regex(regex), false),
        matcher => (matcher, ignore_case),
    })
}

/// The regular expression of a `RegexMatcher`. `None` if it has none, or a field that is not known.
pub(crate) fn regex(view: &View<'_>) -> Option<String> {
    let is_known = view.besides(&["regex", "google_re2"]).is_empty();
    view.text_of("regex").filter(|_| is_known).map(str::to_owned)
}
