//! The kinds of hosts that rules distinguish, each with a representative, and sets of them in the
//! words of a policy.
//!
//! A scope is a host of a rule, or a pattern of hosts. The intersections of two scopes are added to
//! the scopes: `a.{x}.test` and `*.b.test` share `a.b.test`. Then only one scope with a given host
//! is innermost, so the scopes form a tree. A kind of hosts is a scope without the scopes below it.

use std::collections::{BTreeMap, BTreeSet};

use policy::pattern::{HostLabel, Scope};
use serde::{Serialize, Serializer};

use crate::TooComplex;

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

/// The maximum number of scopes with placeholders and of their intersections. `n` scopes can have
/// 2<sup>n</sup> intersections, and whoever proposes a change to the policy chooses `n`.
const MAX_SHARED_SCOPES: usize = 2000;

/// A scope without the names of its placeholders: equal for scopes with the same hosts.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct HostsOfScope(Scope);

impl HostsOfScope {
    fn new(scope: &Scope) -> Self {
        let Scope::Labels(labels) = scope else { return Self(scope.clone()) };
        let labels = labels.iter().map(|label| match label {
            HostLabel::Literal(_) => label.clone(),
            HostLabel::Any(_) => HostLabel::Any("".into()),
        });
        Self(Scope::Labels(labels.collect()))
    }
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

/// A host that ends with `end`. No scope includes it, except the scopes that cover `scope`.
fn unnamed_host(scopes: &BTreeSet<&Scope>, scope: Option<&Scope>, end: &str) -> String {
    // The host has more labels than any scope with placeholders, so that none of these matches.
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

/// A host of `scope`, whose labels are `labels`. No narrower scope includes the host.
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

/// The scopes, and their intersections. Scopes that differ only in the names of placeholders are
/// merged, with the names that come first.
fn with_intersections<'r>(
    scopes: impl IntoIterator<Item = &'r Scope>,
) -> Result<BTreeMap<HostsOfScope, Scope>, TooComplex> {
    let (with_placeholders, without): (Vec<&Scope>, Vec<&Scope>) =
        scopes.into_iter().partition(|scope| matches!(scope, Scope::Labels(_)));
    // Without placeholders, one of two scopes includes the other, or they share no host.
    let mut all = BTreeMap::new();
    for scope in without {
        all.entry(HostsOfScope::new(scope)).or_insert_with(|| scope.clone());
    }
    let max = all.len() + MAX_SHARED_SCOPES;
    // The intersections so far are among them, so each new scope needs to meet them only once.
    for scope in with_placeholders {
        let shared: Vec<Scope> = all.values().filter_map(|s| scope.intersection(s)).collect();
        for scope in [scope.clone()].into_iter().chain(shared) {
            all.entry(HostsOfScope::new(&scope)).or_insert(scope);
        }
        if all.len() > max {
            return Err(TooComplex);
        }
    }
    Ok(all)
}

/// The kinds whose scopes include a host.
fn kinds_with<'k>(
    kinds: &'k [(Option<Scope>, String)],
    host: &'k str,
) -> impl Iterator<Item = usize> + 'k {
    let with_host = kinds.iter().enumerate().filter(|(_, (scope, _))| {
        scope.as_ref().is_none_or(|scope| scope.matches(host.as_bytes()))
    });
    with_host.map(|(kind, _)| kind)
}

impl Hosts {
    /// # Errors
    /// If the scopes share too many hosts.
    pub(crate) fn new<'r>(scopes: impl IntoIterator<Item = &'r Scope>) -> Result<Self, TooComplex> {
        let scopes = with_intersections(scopes)?;
        let scopes: BTreeSet<&Scope> = scopes.values().collect();
        let mut kinds = vec![(None, unnamed_host(&scopes, None, ""))];
        kinds.extend(scopes.iter().map(|scope| {
            let host = match scope {
                Scope::Exact(host) => host.to_string(),
                Scope::Below(suffix) => unnamed_host(&scopes, Some(scope), &format!(".{suffix}")),
                Scope::Labels(labels) => unnamed_labels(&scopes, scope, labels),
            };
            (Some((*scope).clone()), host)
        }));
        let depths: Vec<usize> =
            kinds.iter().map(|(_, host)| kinds_with(&kinds, host).count()).collect();
        // The innermost scope is the deepest: all other scopes with the host include it.
        let parents = kinds.iter().enumerate().map(|(kind, (_, host))| {
            let outer = kinds_with(&kinds, host).filter(|outer| *outer != kind);
            outer.max_by_key(|outer| depths.get(*outer)).unwrap_or(0)
        });
        let parents = parents.collect();
        Ok(Self { kinds, parents })
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
            let is_outermost =
                kind == 0 || !self.parents.get(kind).is_some_and(|parent| set.contains(parent));
            if !set.contains(&kind) || !is_outermost {
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

    use policy::pattern::{HostLabel, Scope};

    use super::Hosts;

    /// A host such as `{x}.test`.
    fn with_placeholders(host: &str) -> Scope {
        let labels = host.split('.').map(|label| {
            let name = label.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
            name.map_or_else(
                || HostLabel::Literal(label.into()),
                |name| HostLabel::Any(name.into()),
            )
        });
        Scope::Labels(labels.collect())
    }

    /// Every set of kinds is described so that exactly its hosts are in it.
    #[test]
    fn a_description_includes_the_kinds_of_its_set_and_no_other() {
        let exact = |host: &str| Scope::Exact(host.into());
        let below = |host: &str| Scope::Below(host.into());
        let scopes =
            [below("test"), below("a.test"), exact("b.a.test"), exact("x.test"), exact("x")];
        let hosts = Hosts::new(&scopes).unwrap();
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

    /// Another name is no other host.
    #[test]
    fn the_name_of_a_placeholder_distinguishes_no_hosts() {
        for (scopes, kinds, outermost) in [
            (&["{x}.test", "{y}.test"][..], 2, "{x}.test"),
            (&["a.{z}.test", "{p}.{q}.test"], 3, "{p}.{q}.test"),
            (&["{x}.{y}.test", "{y}.{x}.test", "a.{x}.test", "a.{y}.test"], 3, "{x}.{y}.test"),
        ] {
            let scopes: Vec<Scope> = scopes.iter().map(|host| with_placeholders(host)).collect();
            let hosts = Hosts::new(&scopes).unwrap();
            assert_eq!(hosts.representatives().count(), kinds, "{scopes:?}");
            let regions = hosts.regions(&(1..kinds).collect());
            let named = regions.iter().flat_map(|region| &region.hosts).map(Scope::to_string);
            assert_eq!(named.collect::<Vec<_>>(), [outermost], "{regions:?}");
        }
    }

    /// Twenty-five hosts with a label of their own share 2^25 hosts.
    #[test]
    fn hosts_that_share_too_many_hosts_are_too_complex() {
        for (count, is_few) in [(8, true), (25, false)] {
            let scopes = (0..count).map(|place| {
                let labels = (0..count).map(|index| match index == place {
                    true => HostLabel::Literal("a".into()),
                    false => HostLabel::Any("x".into()),
                });
                Scope::Labels(labels.collect())
            });
            assert_eq!(Hosts::new(&scopes.collect::<Vec<_>>()).is_ok(), is_few, "{count}");
        }
    }
}
