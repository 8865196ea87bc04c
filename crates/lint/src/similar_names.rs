//! The search for names that are similar to one that is not known.

use document::Suggestions;

/// The maximum number of name comparisons in search of similar names.
pub(crate) const MAX_COMPARISONS: usize = 2_000_000;

/// The bounds on the search for similar names.
pub(crate) struct Work {
    /// How many names have been compared.
    compared: usize,
    pub(crate) suggestions: Suggestions,
}

impl Default for Work {
    fn default() -> Self {
        Self { compared: 0, suggestions: Suggestions::for_a_file() }
    }
}

impl Work {
    /// Takes so many names to compare with one more; whether they may be compared.
    pub(crate) fn take(&mut self, names: usize) -> bool {
        self.compared += names;
        self.compared <= MAX_COMPARISONS
    }
}

/// Whether one of these names is the other one with a prefix such as `basic:`.
pub(crate) fn differ_by_prefix(one: &str, other: &str) -> bool {
    let extends = |long: &str, short: &str| {
        let prefix = long.strip_suffix(short).filter(|_| !short.is_empty());
        prefix.is_some_and(|prefix| prefix.ends_with(|last: char| !last.is_alphanumeric()))
    };
    extends(one, other) || extends(other, one)
}
