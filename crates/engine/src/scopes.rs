//! From a scope to the tries that apply to it.

use policy::ids::{IdVec, id_types};
use policy::pattern::{HostLabel, Scope};

use crate::interner::Interner;
use crate::trie::{Roots, TrieBuilder};

id_types! {
    /// A scope that rules name exactly, or the suffix of a scope `*.suffix`.
    struct NameId;
}

/// The tries of each scope in the policy. A request looks up its scope and the suffix after each
/// dot of it, so the cost does not depend on the number of scopes.
///
/// Each scope has its own tries, so the walk meets only rules that apply, and a policy without
/// scopes pays nothing for them.
pub(crate) struct Scopes {
    any: Roots,
    exact: RootsByName,
    suffixes: RootsByName,
    /// The length of the longest suffix. Longer suffixes of a request's scope are not looked up, so
    /// a scope that consists of dots costs little.
    longest: usize,
}

#[derive(Default)]
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
            Some(Scope::Labels(labels)) => match literal_end(labels) {
                Some(suffix) => {
                    self.longest = self.longest.max(suffix.len());
                    self.suffixes.add(&suffix, trie)
                }
                None => self.any,
            },
        }
    }

    /// Calls `visit` with the tries that apply to the scope of a request.
    pub(crate) fn roots(&self, scope: &[u8], mut visit: impl FnMut(Roots)) {
        visit(self.any);
        if let Some(roots) = self.exact.find(scope) {
            visit(roots);
        }
        if !self.suffixes.names.is_empty() {
            suffixes(scope, self.longest)
                .filter_map(|suffix| self.suffixes.find(suffix))
                .for_each(visit);
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

/// The labels after the last placeholder; `None` if there are none. Whether the labels before them
/// match is a condition of the rules.
fn literal_end(labels: &[HostLabel]) -> Option<String> {
    let end = labels.iter().rev().map_while(|label| match label {
        HostLabel::Literal(literal) => Some(&**literal),
        HostLabel::Any(_) => None,
    });
    let mut end: Vec<&str> = end.collect();
    end.reverse();
    (!end.is_empty()).then(|| end.join("."))
}

/// The suffix after each dot except a leading dot, from the right, up to this length.
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
        for (scope, longest, wanted) in [
            ("a.b.example", 100, &["example", "b.example"][..]),
            ("a.b.example", 9, &["example", "b.example"]),
            ("a.b.example", 8, &["example"]),
            (".example", 100, &[]),
            ("..example", 100, &["example"]),
            ("a.", 100, &[""]),
            ("", 100, &[]),
        ] {
            let wanted = wanted.iter().map(|suffix| suffix.as_bytes());
            assert!(suffixes(scope.as_bytes(), longest).eq(wanted), "{scope}, {longest}");
        }
    }
}
