//! From a scope to the tries that apply to it.

use policy::ids::{Id, IdVec, id_types};
use policy::pattern::Scope;

use crate::interner::Interner;
use crate::trie::{Roots, TrieBuilder};

id_types! {
    /// A scope that rules name exactly.
    struct ExactId;

    /// The suffix of a scope `*.suffix`.
    struct SuffixId;
}

/// The tries of each scope in the policy. Those that apply to a request are found by looking up its scope and the
/// suffix after each dot of it, so the cost does not depend on the number of scopes.
///
/// Each scope has tries of its own, rather than one trie whose rules check the scope: the walk then meets only rules
/// that apply, and a policy without scopes pays nothing for them.
#[derive(Debug)]
pub(crate) struct Scopes {
    any: Roots,
    exact: Interner<ExactId>,
    exact_roots: IdVec<ExactId, Roots>,
    suffixes: Interner<SuffixId>,
    suffix_roots: IdVec<SuffixId, Roots>,
    /// The length of the longest suffix. Longer suffixes of a request's scope are not looked up, so a scope that
    /// consists of dots costs little.
    longest: usize,
}

impl Scopes {
    pub(crate) fn new(trie: &mut TrieBuilder) -> Self {
        Self {
            any: trie.roots(),
            exact: Interner::default(),
            exact_roots: IdVec::new(),
            suffixes: Interner::default(),
            suffix_roots: IdVec::new(),
            longest: 0,
        }
    }

    /// The tries of a scope of the policy, which are added if the scope is new. `None` means every scope.
    pub(crate) fn add(&mut self, scope: Option<&Scope>, trie: &mut TrieBuilder) -> Roots {
        match scope {
            None => self.any,
            Some(Scope::Exact(name)) => add(name, &mut self.exact, &mut self.exact_roots, trie),
            Some(Scope::Below(suffix)) => {
                self.longest = self.longest.max(suffix.len());
                add(suffix, &mut self.suffixes, &mut self.suffix_roots, trie)
            }
        }
    }

    /// Calls `found` with the tries that apply to the scope of a request.
    pub(crate) fn roots(&self, scope: &[u8], mut found: impl FnMut(Roots)) {
        found(self.any);
        if !self.exact.is_empty() {
            self.exact.find(scope).into_iter().for_each(|id| found(*self.exact_roots.at(id)));
        }
        if !self.suffixes.is_empty() {
            let ids = suffixes(scope, self.longest).filter_map(|suffix| self.suffixes.find(suffix));
            ids.for_each(|id| found(*self.suffix_roots.at(id)));
        }
    }
}

fn add<I: Id + PartialEq>(
    name: &str,
    names: &mut Interner<I>,
    roots: &mut IdVec<I, Roots>,
    trie: &mut TrieBuilder,
) -> Roots {
    let id = names.add(name.as_bytes());
    if id == roots.next_id() {
        roots.push(trie.roots());
    }
    *roots.at(id)
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
    fn a_suffix_follows_a_dot_that_is_not_the_first_byte() {
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
