//! The kinds of hosts that rules distinguish, each with a representative, and sets of them in the
//! words of a policy.
//!
//! The scopes are completed by what two of them share (`a.{x}.test` and `*.b.test` share
//! `a.b.test`). So the innermost scope with a host is unique, and scopes form a tree. A kind of
//! hosts is a scope without the scopes below it.

use std::collections::BTreeSet;

use policy::pattern::{HostLabel, Scope};
use serde::{Serialize, Serializer};

/// A set of hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HostRegion {
    /// The hosts of the set; empty for any host.
    #[serde(serialize_with = "serialize_texts")]
    pub hosts: Vec<Scope>,
    /// The hosts that are not in the set.
    #[serde(serialize_with = "serialize_texts")]
    pub except: Vec<Scope>,
    /// Whether a rule of the policies is for certain hosts only.
    #[serde(skip)]
    pub(crate) hosts_matter: bool,
}

/// The kinds of hosts.
pub(crate) struct Hosts {
    /// The scope of each kind, and a host of the kind. The first kind, without a scope, is every
    /// host in no scope.
    kinds: Vec<(Option<Scope>, String)>,
    /// For each kind, the kind of the innermost scope that includes it.
    parents: Vec<usize>,
}

impl HostRegion {
    /// Whether the set has this host, which is in canonical form.
    #[must_use]
    pub fn includes(&self, host: &[u8]) -> bool {
        (self.hosts.is_empty() || self.hosts.iter().any(|scope| scope.matches(host)))
            && !self.except.iter().any(|scope| scope.matches(host))
    }
}

pub(crate) fn serialize_texts<S: Serializer>(
    items: &[impl ToString],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(items.iter().map(ToString::to_string))
}

/// A host that ends with `end` and that no exact scope names.
fn unnamed_host(scopes: &BTreeSet<&Scope>, scope: Option<&Scope>, end: &str) -> String {
    // With more labels than any placeholder is for, so that none matches.
    let counts = scopes.iter().map(|scope| match scope {
        Scope::Labels(labels) => labels.len(),
        Scope::Exact(_) | Scope::Below(_) => 0,
    });
    let count = counts.max().unwrap_or(0) + 1;
    let mut name = "x".to_owned();
    loop {
        let host = vec![name.as_str(); count].join(".") + end;
        let is_named = scopes.iter().any(|inner| {
            inner.matches(host.as_bytes()) && !scope.is_some_and(|scope| inner.covers(scope))
        });
        if !is_named {
            return host;
        }
        name.push('x');
    }
}

/// A host of this scope, which has these labels, that no scope in it includes.
fn unnamed_labels(scopes: &BTreeSet<&Scope>, scope: &Scope, labels: &[HostLabel]) -> String {
    let mut name = "x".to_owned();
    loop {
        let labels = labels.iter().map(|label| match label {
            HostLabel::Literal(literal) => &**literal,
            HostLabel::Any(_) => name.as_str(),
        });
        let host = labels.collect::<Vec<_>>().join(".");
        let mut inner = scopes.iter().filter(|inner| **inner != scope && scope.covers(inner));
        if !inner.any(|inner| inner.matches(host.as_bytes())) {
            return host;
        }
        name.push('x');
    }
}

/// The scopes, and what any of them share.
fn with_intersections(scopes: BTreeSet<Scope>) -> BTreeSet<Scope> {
    let mut all = scopes;
    // Without placeholders, one of two scopes includes the other, or they share no host.
    if !all.iter().any(|scope| matches!(scope, Scope::Labels(_))) {
        return all;
    }
    loop {
        let list: Vec<&Scope> = all.iter().collect();
        let shared = list.iter().enumerate().flat_map(|(index, one)| {
            list.iter().skip(index + 1).filter_map(|other| one.intersection(other))
        });
        let new: Vec<Scope> = shared.filter(|scope| !all.contains(scope)).collect();
        if new.is_empty() {
            return all;
        }
        all.extend(new);
    }
}

impl Hosts {
    pub(crate) fn new<'r>(scopes: impl IntoIterator<Item = &'r Scope>) -> Self {
        let scopes = with_intersections(scopes.into_iter().cloned().collect());
        let scopes: BTreeSet<&Scope> = scopes.iter().collect();
        let mut kinds = vec![(None, unnamed_host(&scopes, None, ""))];
        kinds.extend(scopes.iter().map(|scope| {
            let host = match scope {
                Scope::Exact(host) => host.to_string(),
                Scope::Below(suffix) => unnamed_host(&scopes, Some(scope), &format!(".{suffix}")),
                Scope::Labels(labels) => unnamed_labels(&scopes, scope, labels),
            };
            (Some((*scope).clone()), host)
        }));
        let including = |host: &str| -> Vec<usize> {
            let kinds = kinds.iter().enumerate().filter(|(_, (scope, _))| {
                scope.as_ref().is_none_or(|scope| scope.matches(host.as_bytes()))
            });
            kinds.map(|(kind, _)| kind).collect()
        };
        let depths: Vec<usize> = kinds.iter().map(|(_, host)| including(host).len()).collect();
        // The innermost scope is the deepest: all other scopes with the host include it.
        let parents = kinds.iter().enumerate().map(|(kind, (_, host))| {
            let outer = including(host).into_iter().filter(|outer| *outer != kind);
            outer.max_by_key(|outer| depths.get(*outer)).unwrap_or(0)
        });
        let parents = parents.collect();
        Self { kinds, parents }
    }

    /// A host of each kind.
    pub(crate) fn representatives(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|(_, host)| host.as_str())
    }

    /// Describes a set of kinds by scopes, each with exceptions below it.
    pub(crate) fn regions(&self, set: &BTreeSet<usize>) -> Vec<HostRegion> {
        let hosts_matter = self.kinds.len() > 1;
        let mut without_exceptions =
            HostRegion { hosts: Vec::new(), except: Vec::new(), hosts_matter };
        let mut regions = Vec::new();
        for (kind, (scope, _)) in self.kinds.iter().enumerate() {
            let is_first =
                kind == 0 || !self.parents.get(kind).is_some_and(|parent| set.contains(parent));
            if !set.contains(&kind) || !is_first {
                continue;
            }
            let except: Vec<Scope> = (1..self.kinds.len())
                .filter(|inner| !set.contains(inner) && self.is_next_below(*inner, kind, set))
                .filter_map(|inner| self.kinds.get(inner)?.0.clone())
                .collect();
            match scope {
                Some(scope) if except.is_empty() => without_exceptions.hosts.push(scope.clone()),
                scope => {
                    let hosts = scope.iter().cloned().collect();
                    regions.push(HostRegion { hosts, except, hosts_matter })
                }
            }
        }
        if !without_exceptions.hosts.is_empty() {
            regions.push(without_exceptions);
        }
        regions
    }

    /// Whether `above` includes a kind, and all kinds between them are in the set.
    fn is_next_below(&self, kind: usize, above: usize, set: &BTreeSet<usize>) -> bool {
        let mut next = kind;
        while next != 0 {
            next = self.parents.get(next).copied().unwrap_or(0);
            if next == above {
                return true;
            }
            if !set.contains(&next) {
                return false;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use policy::pattern::Scope;

    use super::Hosts;

    /// Every set of kinds is described so that exactly its hosts are in it.
    #[test]
    fn a_description_includes_the_kinds_of_its_set_and_no_other() {
        let exact = |host: &str| Scope::Exact(host.into());
        let below = |host: &str| Scope::Below(host.into());
        let scopes =
            [below("test"), below("a.test"), exact("b.a.test"), exact("x.test"), exact("x")];
        let hosts = Hosts::new(&scopes);
        let all: Vec<&str> = hosts.representatives().collect();
        assert_eq!(all.len(), 6);
        for mask in 0_usize..64 {
            let set: BTreeSet<usize> = (0..6).filter(|kind| mask >> kind & 1 == 1).collect();
            let regions = hosts.regions(&set);
            for (kind, host) in all.iter().enumerate() {
                let included = regions.iter().any(|region| region.includes(host.as_bytes()));
                assert_eq!(included, set.contains(&kind), "{host} in {set:?}: {regions:?}");
            }
        }
    }
}
