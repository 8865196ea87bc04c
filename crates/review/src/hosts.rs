//! The kinds of hosts that rules distinguish, each with a representative, and sets of them in the
//! words of a policy.
//!
//! Of two scopes, one includes the other or they share no host. So they form a tree, and a kind of
//! hosts is what one scope includes and no scope below it.

use std::collections::BTreeSet;

use policy::pattern::Scope;
use serde::{Serialize, Serializer};

/// Some hosts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HostRegion {
    /// Hosts, of which one must be met; none means any host.
    #[serde(serialize_with = "texts")]
    pub hosts: Vec<Scope>,
    /// But none of these.
    #[serde(serialize_with = "texts")]
    pub except: Vec<Scope>,
}

/// The kinds of hosts.
pub(crate) struct Hosts {
    /// The scope of each kind but the first, which is every other host, and a host of this kind.
    kinds: Vec<(Option<Scope>, String)>,
    /// For each kind, the kind of the scope that includes it most closely.
    parents: Vec<usize>,
}

impl HostRegion {
    /// Whether this host, in canonical form, is one of them.
    #[must_use]
    pub fn includes(&self, host: &[u8]) -> bool {
        let any = |scopes: &[Scope]| scopes.iter().any(|scope| scope.matches(host));
        (self.hosts.is_empty() || any(&self.hosts)) && !any(&self.except)
    }
}

/// Serializes a list by its texts.
pub(crate) fn texts<S: Serializer>(
    all: &[impl ToString],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(all.iter().map(ToString::to_string))
}

impl Hosts {
    pub(crate) fn new<'r>(scopes: impl IntoIterator<Item = &'r Scope>) -> Self {
        let scopes: BTreeSet<&Scope> = scopes.into_iter().collect();
        let is_taken = |host: &str| {
            scopes.iter().any(|scope| matches!(scope, Scope::Exact(exact) if **exact == *host))
        };
        let fresh = |end: &str| {
            let mut label = String::from("x");
            while is_taken(&format!("{label}{end}")) {
                label.push('x');
            }
            format!("{label}{end}")
        };
        let mut kinds = vec![(None, fresh(""))];
        kinds.extend(scopes.iter().map(|scope| {
            let host = match scope {
                Scope::Exact(exact) => exact.to_string(),
                Scope::Below(suffix) => fresh(&format!(".{suffix}")),
            };
            (Some((*scope).clone()), host)
        }));
        let includes = |outer: &Option<Scope>, inner: usize, hosts: &[(Option<Scope>, String)]| {
            let host = hosts.get(inner).map_or("", |(_, host)| host.as_str());
            outer.as_ref().is_none_or(|scope| scope.matches(host.as_bytes()))
        };
        let parent = |index: usize| {
            let outer = (0..kinds.len()).filter(|other| {
                *other != index
                    && kinds.get(*other).is_some_and(|(scope, _)| includes(scope, index, &kinds))
            });
            // The innermost scope is included in all others that include the host.
            let closest = outer.max_by_key(|other| {
                kinds.iter().filter(|(scope, _)| includes(scope, *other, &kinds)).count()
            });
            closest.unwrap_or(0)
        };
        let parents = (0..kinds.len()).map(parent).collect();
        Self { kinds, parents }
    }

    /// A host of each kind.
    pub(crate) fn witnesses(&self) -> impl Iterator<Item = &str> {
        self.kinds.iter().map(|(_, host)| host.as_str())
    }

    /// A set of kinds as scopes, each without some that are below it.
    pub(crate) fn regions(&self, set: &BTreeSet<usize>) -> Vec<HostRegion> {
        let mut plain = HostRegion { hosts: Vec::new(), except: Vec::new() };
        let mut regions = Vec::new();
        for (kind, (scope, _)) in self.kinds.iter().enumerate() {
            let is_first =
                kind == 0 || !self.parents.get(kind).is_some_and(|parent| set.contains(parent));
            if !set.contains(&kind) || !is_first {
                continue;
            }
            let except: Vec<Scope> = (1..self.kinds.len())
                .filter(|other| !set.contains(other) && self.is_next_below(*other, kind, set))
                .filter_map(|other| self.kinds.get(other)?.0.clone())
                .collect();
            match scope {
                Some(scope) if except.is_empty() => plain.hosts.push(scope.clone()),
                scope => {
                    regions.push(HostRegion { hosts: scope.iter().cloned().collect(), except })
                }
            }
        }
        if !plain.hosts.is_empty() {
            regions.push(plain);
        }
        regions
    }

    /// Whether only kinds of the set are between a kind and one above it.
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
        let all: Vec<&str> = hosts.witnesses().collect();
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
