//! From a scope to the tries that apply to it.

use policy::ids::{IdVec, id_types};
use policy::pattern::Scope;

use crate::interner::Interner;
use crate::trie::{Roots, TrieBuilder};

id_types! {
    /// A scope that rules name exactly, or the suffix of a scope `*.suffix`.
    struct NameId;
}

/// The tries of each scope in the policy. Those that apply to a request are found by looking up its
/// scope and the suffix after each dot of it, so the cost does not depend on the number of scopes.
///
/// Each scope has tries of its own, rather than one trie whose rules check the scope: the walk then
/// meets only rules that apply, and a policy without scopes pays nothing for them.
#[derive(Debug)]
pub(crate) struct Scopes {
    any: Roots,
    exact: RootsByName,
    suffixes: RootsByName,
    /// The length of the longest suffix. Longer suffixes of a request's scope are not looked up, so
    /// a scope that consists of dots costs little.
    longest: usize,
}

#[derive(Debug, Default)]
struct RootsByName {
    names: Interner<NameId>,
    roots: IdVec<NameId, Roots>,
}

impl Scopes {
    pub(crate) fn new(trie: &mut TrieBuilder) -> Self {
        let (exact, suffixes) = (RootsByName::default(), RootsByName::default());
        Self { any: trie.roots(), exact, suffixes, longest: 0 }
    }

    /// The tries of a scope of the policy, which are added if the scope is new. `None` means every
    /// scope.
    pub(crate) fn add(&mut self, scope: Option<&Scope>, trie: &mut TrieBuilder) -> Roots {
        match scope {
            None => self.any,
            Some(Scope::Exact(name)) => self.exact.add(name, trie),
            Some(Scope::Below(suffix)) => {
                self.longest = self.longest.max(suffix.len());
                self.suffixes.add(suffix, trie)
            }
        }
    }

    /// Calls `found` with the tries that apply to the scope of a request.
    pub(crate) fn roots(&self, scope: &[u8], mut found: impl FnMut(Roots)) {
        found(self.any);
        self.exact.find(scope).into_iter().for_each(&mut found);
        if !self.suffixes.names.is_empty() {
            let roots =
                suffixes(scope, self.longest).filter_map(|suffix| self.suffixes.find(suffix));
            roots.for_each(found);
        }
    }
}

impl RootsByName {
    fn add(&mut self, name: &str, trie: &mut TrieBuilder) -> Roots {
        let id = self.names.add(name.as_bytes());
        if id == self.roots.next_id() {
            self.roots.push(trie.roots());
        }
        *self.roots.at(id)
    }

    fn find(&self, name: &[u8]) -> Option<Roots> {
        if self.names.is_empty() {
            return None;
        }
        self.names.find(name).map(|id| *self.roots.at(id))
    }
}

/// The suffix after each dot, from the right, up to this length. At least one byte precedes the
/// dot.
fn suffixes(scope: &[u8], longest: usize) -> impl Iterator<Item = &[u8]> {
    let from = scope.len().saturating_sub(longest.saturating_add(1)).max(1);
    let dots = (from..scope.len()).rev().filter(|place| scope.get(*place) == Some(&b'.'));
    dots.filter_map(|dot| scope.get(dot + 1..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_follows_a_dot_that_is_not_the_first_byte() {
        let all = |scope: &'static str, longest| -> Vec<&[u8]> {
            suffixes(scope.as_bytes(), longest).collect()
        };
        assert_eq!(all("a.b.example", 100), [b"example".as_slice(), b"b.example"]);
        assert_eq!(all("a.b.example", 9), [b"example".as_slice(), b"b.example"]);
        assert_eq!(all("a.b.example", 8), [b"example".as_slice()]);
        assert!(all(".example", 100).is_empty());
        assert_eq!(all("..example", 100), [b"example".as_slice()]);
        assert_eq!(all("a.", 100), [b"".as_slice()]);
        assert!(all("", 100).is_empty());
    }
}
