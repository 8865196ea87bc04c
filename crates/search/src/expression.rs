//! Expressions over indices, such as `logs-*,-logs-old`, split as the cluster splits them.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::problem::Problem;

/// Names and patterns of a request. The text is decoded, and its date math is resolved.
#[derive(Debug, Clone)]
pub struct Expression<'a> {
    text: Text<'a>,
    /// The expansion of the patterns, and the meaning of names that do not exist.
    pub options: Options,
}

/// Cloned without a copy: a short request may need the same long list thousands of times.
#[derive(Debug, Clone)]
enum Text<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

impl PartialEq for Expression<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.full_text() == other.full_text() && self.options == other.options
    }
}

impl Eq for Expression<'_> {}

/// All open indices.
impl Default for Expression<'_> {
    fn default() -> Self {
        Self::new("", Options::OPEN)
    }
}

impl Hash for Expression<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.full_text(), self.options).hash(state);
    }
}

/// The parameters of a request that determine the meaning of an [`Expression`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// Patterns expand to open indices.
    pub open: bool,
    /// Patterns expand to closed indices.
    pub closed: bool,
    /// Patterns expand to hidden indices, data streams and aliases. Otherwise they do so only if
    /// both the pattern and the name begin with a dot.
    pub hidden: bool,
    /// Names that do not exist are ignored (`ignore_unavailable`). Otherwise they are an error.
    pub ignore_unavailable: bool,
    /// Patterns that match nothing are no error (`allow_no_indices`).
    pub allow_no_indices: bool,
}

/// A part of an [`Expression`] between commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'e> {
    /// The name of an index, alias or data stream.
    Name(&'e str),
    /// Names that match this pattern. `*` stands for any characters, and nothing else is special.
    Pattern(&'e str),
    /// Excludes this name, or names that match this pattern, from the names before it.
    Except(&'e str),
}

impl Options {
    /// The options of most reading requests.
    pub const OPEN: Options = Options {
        open: true,
        closed: false,
        hidden: false,
        ignore_unavailable: false,
        allow_no_indices: true,
    };

    /// Whether patterns expand to anything.
    #[must_use]
    pub fn expands(self) -> bool {
        self.open || self.closed
    }

    /// These options, with the states that a value of `expand_wildcards` names.
    pub(crate) fn expanding(self, states: &str) -> Result<Options, Problem> {
        let mut options = Options { open: false, closed: false, hidden: false, ..self };
        for state in states.split(',') {
            match state {
                "open" => options.open = true,
                "closed" => options.closed = true,
                "hidden" => options.hidden = true,
                "all" => (options.open, options.closed, options.hidden) = (true, true, true),
                "none" => (options.open, options.closed, options.hidden) = (false, false, false),
                _ => return Err(Problem::Invalid("`expand_wildcards` has an unknown value")),
            }
        }
        Ok(options)
    }
}

impl<'a> Expression<'a> {
    /// The expression with this text, which is decoded and has no date math.
    #[must_use]
    pub fn new(text: impl Into<Cow<'a, str>>, options: Options) -> Self {
        let text = match text.into() {
            Cow::Borrowed(text) => Text::Borrowed(text),
            Cow::Owned(text) => Text::Shared(text.into()),
        };
        Self { text, options }
    }

    /// The expression with other options.
    pub(crate) fn with_options(&self, options: Options) -> Self {
        Self { text: self.text.clone(), options }
    }

    /// The text without the empty parts at its end, which the cluster drops.
    #[must_use]
    pub fn text(&self) -> &str {
        self.full_text().trim_end_matches(',')
    }

    fn full_text(&self) -> &str {
        match &self.text {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// Whether it is empty or `_all`, but not the pattern `*`.
    #[must_use]
    pub fn is_empty_or_all(&self) -> bool {
        matches!(self.text(), "" | "_all")
    }

    /// Whether it stands for all indices: empty, `_all` or `*`. It then matches no aliases.
    pub(crate) fn is_all(&self) -> bool {
        self.is_empty_or_all() || self.text() == "*"
    }

    /// The expression for a request that does not name its indices: any index may be among them,
    /// even a closed or hidden one.
    pub(crate) fn unseen() -> Self {
        Self::new("", Options { closed: true, hidden: true, ..Options::OPEN })
    }

    /// Whether it is the expression for [indices that a request does not name](Self::unseen).
    pub(crate) fn is_unseen(&self) -> bool {
        self.text().is_empty() && self.options.closed && self.options.hidden
    }

    /// Whether a part is an exclusion.
    pub(crate) fn excludes(&self) -> bool {
        self.parts().any(|part| matches!(part, Part::Except(_)))
    }

    /// Whether a part is a pattern.
    pub(crate) fn has_pattern(&self) -> bool {
        self.parts().any(|part| matches!(part, Part::Pattern(_)))
    }

    /// Whether a part is a name.
    pub(crate) fn has_name(&self) -> bool {
        self.parts().any(|part| matches!(part, Part::Name(_)))
    }

    /// How many commas are between its [parts](Self::parts).
    pub(crate) fn commas(&self) -> usize {
        self.text().bytes().filter(|byte| *byte == b',').count()
    }

    /// The parts in their order; `*` for an expression that [is empty or
    /// `_all`](Self::is_empty_or_all).
    pub fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        let text = if self.is_empty_or_all() { "*" } else { self.text() };
        let mut has_pattern = false;
        text.split(',').map(move |part| match part.strip_prefix('-') {
            // `-x` excludes only after a pattern. Before the first pattern it is the name of an
            // index.
            Some(excluded) if has_pattern => Part::Except(excluded),
            _ if part.contains('*') => {
                has_pattern = true;
                Part::Pattern(part)
            }
            _ => Part::Name(part),
        })
    }
}

/// Whether `name` matches `pattern`, in which `*` stands for any characters.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    crate::pattern::matches_expression(pattern, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Vec<String> {
        let expression = Expression::new(text, Options::OPEN);
        let shown = expression.parts().map(|part| match part {
            Part::Name(name) => name.to_owned(),
            Part::Pattern(pattern) => format!("~{pattern}"),
            Part::Except(name) => format!("!{name}"),
        });
        shown.collect()
    }

    #[test]
    fn an_expression_is_split_as_the_cluster_splits_it() {
        // Each was tried on a node.
        for (text, wanted) in [
            ("", &["~*"][..]),
            ("_all", &["~*"]),
            (",", &["~*"]),
            (",,", &["~*"]),
            ("a,", &["a"]),
            (",a", &["", "a"]),
            ("a,,b", &["a", "", "b"]),
            ("a, b", &["a", " b"]),
            ("_all,-a", &["_all", "-a"]),
            ("_ALL", &["_ALL"]),
            ("*,-a", &["~*", "!a"]),
            ("*,-a*", &["~*", "!a*"]),
            ("-a,*", &["-a", "~*"]),
            ("a,-a", &["a", "-a"]),
            ("-a*", &["~-a*"]),
            ("-a*,-a", &["~-a*", "!a"]),
            ("a*,b,-b", &["~a*", "b", "!b"]),
            ("a?", &["a?"]),
        ] {
            assert_eq!(parts(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_pattern_matches_the_whole_name() {
        for (pattern, name, wanted) in [
            ("*", "", true),
            ("*", "a", true),
            ("a*", "a", true),
            ("a*", "ba", false),
            ("*a", "ba", true),
            ("*a", "ab", false),
            ("a*b*c", "axxbxxbc", true),
            ("a*b*c", "axxbxxb", false),
            ("a**b", "ab", true),
            ("a?", "ab", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
