//! From a scope to the tries that apply to it.

use policy::pattern::Scope;

use crate::names::Names;
use crate::table::Table;
use crate::trie::{NodeId, TrieBuilder};

/// The two tries of one scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roots {
    /// For absolute patterns.
    pub(crate) absolute: NodeId,
    /// For relative patterns.
    pub(crate) relative: NodeId,
}

/// The tries of each scope in the policy. Those that apply to a request are found by looking up its scope and the
/// suffix after each dot of it, so the cost does not depend on the number of scopes.
#[derive(Debug)]
pub(crate) struct Scopes {
    any: Roots,
    exact: Names,
    exact_roots: Table<Roots>,
    /// The suffixes of `*.suffix`.
    below: Names,
    below_roots: Table<Roots>,
    /// The length of the longest suffix. Longer suffixes of a request's scope are not looked up, so a scope that
    /// consists of dots costs little.
    longest: usize,
}

impl Scopes {
    pub(crate) fn new(trie: &mut TrieBuilder) -> Self {
        Self {
            any: Roots::new(trie),
            exact: Names::default(),
            exact_roots: Table::new(),
            below: Names::default(),
            below_roots: Table::new(),
            longest: 0,
        }
    }

    /// The tries of a scope of the policy, which are added if the scope is new. `None` means every scope.
    pub(crate) fn add(&mut self, scope: Option<&Scope>, trie: &mut TrieBuilder) -> Roots {
        let (names, roots, name) = match scope {
            None => return self.any,
            Some(Scope::Exact(name)) => (&mut self.exact, &mut self.exact_roots, name),
            Some(Scope::Below(suffix)) => {
                self.longest = self.longest.max(suffix.len());
                (&mut self.below, &mut self.below_roots, suffix)
            }
        };
        let number = names.add(name.as_bytes());
        if number == roots.len() {
            roots.push(Roots::new(trie));
        }
        *roots.at(number)
    }

    /// Calls `found` with the tries that apply to the scope of a request.
    pub(crate) fn roots(&self, scope: &[u8], mut found: impl FnMut(Roots)) {
        found(self.any);
        if !self.exact.is_empty() {
            self.exact.find(scope).into_iter().for_each(|number| found(*self.exact_roots.at(number)));
        }
        if !self.below.is_empty() {
            let numbers = suffixes(scope, self.longest).filter_map(|suffix| self.below.find(suffix));
            numbers.for_each(|number| found(*self.below_roots.at(number)));
        }
    }
}

impl Roots {
    fn new(trie: &mut TrieBuilder) -> Self {
        Self { absolute: trie.root(), relative: trie.root() }
    }
}

/// The suffix after each dot, from the right, up to this length. At least one byte precedes the dot.
fn suffixes(scope: &[u8], longest: usize) -> impl Iterator<Item = &[u8]> {
    let from = scope.len().saturating_sub(longest.saturating_add(1)).max(1);
    let dots = (from..scope.len()).rev().filter(|place| scope.get(*place) == Some(&b'.'));
    dots.filter_map(|dot| scope.get(dot + 1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_stand_behind_dots_that_something_stands_before() {
        let all =
            |scope: &'static str, longest| -> Vec<&[u8]> { suffixes(scope.as_bytes(), longest).collect() };
        assert_eq!(all("a.b.example", 100), [b"example".as_slice(), b"b.example"]);
        assert_eq!(all("a.b.example", 9), [b"example".as_slice(), b"b.example"]);
        assert_eq!(all("a.b.example", 8), [b"example".as_slice()]);
        assert!(all(".example", 100).is_empty());
        assert_eq!(all("..example", 100), [b"example".as_slice()]);
        assert_eq!(all("a.", 100), [b"".as_slice()]);
        assert!(all("", 100).is_empty());
    }
}
