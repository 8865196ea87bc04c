//! Conjunctions of conditions on a request and its caller.

use std::collections::BTreeSet;

use policy::pattern::{Pattern, Scope};

use crate::literal::{Caller, Literal};
use crate::sets;

/// A conjunction. The parts that are `None` are not limited.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) methods: Option<BTreeSet<String>>,
    pub(crate) hosts: Option<Vec<Scope>>,
    pub(crate) paths: Option<Vec<Pattern>>,
    pub(crate) caller: Caller,
    /// None of these holds.
    pub(crate) not: Vec<Literal>,
}

impl Default for Term {
    /// Holds always.
    fn default() -> Self {
        Self { methods: None, hosts: None, paths: None, caller: Caller::Anyone, not: Vec::new() }
    }
}

impl Term {
    pub(crate) fn is(literal: &Literal) -> Vec<Self> {
        let term = match literal.clone() {
            Literal::Methods(methods) => {
                Self { methods: Some(methods.into_iter().collect()), ..Self::default() }
            }
            Literal::Hosts(hosts) => Self { hosts: Some(hosts), ..Self::default() },
            Literal::Paths(paths) => Self { paths: Some(paths), ..Self::default() },
            Literal::Caller(caller) => Self { caller, ..Self::default() },
        };
        if literal.is_empty() { Vec::new() } else { vec![term] }
    }

    pub(crate) fn not(literal: &Literal) -> Vec<Self> {
        if *literal == Literal::Caller(Caller::Anyone) {
            return Vec::new();
        }
        let not = if literal.is_empty() { Vec::new() } else { vec![literal.clone()] };
        vec![Self { not, ..Self::default() }]
    }

    /// The parts that are limited, as conditions of which all hold.
    pub(crate) fn limits(&self) -> Vec<Literal> {
        let methods = self.methods.iter().map(|all| Literal::Methods(all.iter().cloned().collect()));
        let hosts = self.hosts.iter().cloned().map(Literal::Hosts);
        let paths = self.paths.iter().cloned().map(Literal::Paths);
        let caller = (self.caller != Caller::Anyone).then(|| Literal::Caller(self.caller.clone()));
        methods.chain(hosts).chain(paths).chain(caller).collect()
    }
}

impl Term {
    /// Resolves what it excludes as far as that is possible without a `deny` rule. False if nothing is left.
    pub(crate) fn simplify(&mut self) -> bool {
        let mut kept = Vec::new();
        for literal in std::mem::take(&mut self.not) {
            let remains = match &literal {
                Literal::Methods(not) => match &mut self.methods {
                    Some(methods) => {
                        methods.retain(|method| !not.contains(method));
                        if methods.is_empty() {
                            return false;
                        }
                        false
                    }
                    None => true,
                },
                Literal::Hosts(not) => match &mut self.hosts {
                    Some(hosts) => {
                        hosts.retain(|host| !not.iter().any(|not| not.covers(host)));
                        if hosts.is_empty() {
                            return false;
                        }
                        !sets::common_hosts(hosts, not).is_empty()
                    }
                    None => true,
                },
                Literal::Paths(not) => {
                    let is_of_options =
                        self.methods.as_ref().is_none_or(|methods| methods.contains("OPTIONS"));
                    let is_covered = |path: &Pattern| {
                        !path.absolute && !is_of_options || not.iter().any(|not| not.covers(path))
                    };
                    let mut paths = self.paths.take().unwrap_or_else(|| sets::ANY.to_vec());
                    paths.retain(|path| !is_covered(path));
                    if paths.is_empty() {
                        return false;
                    }
                    let overlap = sets::paths_may_overlap(Some(&paths), Some(not));
                    self.paths = Some(paths);
                    overlap
                }
                Literal::Caller(not) => {
                    if *not == Caller::Anyone || not == &self.caller {
                        return false;
                    }
                    if *not == Caller::Authenticated && self.caller != Caller::Anyone {
                        return false;
                    }
                    !matches!(sets::common_caller(not, &self.caller), Ok(None))
                }
            };
            if remains {
                kept.push(literal);
            }
        }
        self.not = kept;
        true
    }

    /// Whether this holds wherever another one does. May be false where it does.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(cover), Some(methods)) => methods.is_subset(cover),
        };
        let hosts = match (&self.hosts, &other.hosts) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(cover), Some(hosts)) => {
                hosts.iter().all(|host| cover.iter().any(|cover| cover.covers(host)))
            }
        };
        let paths = match (&self.paths, &other.paths) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(cover), Some(paths)) => {
                paths.iter().all(|path| cover.iter().any(|cover| cover.covers(path)))
            }
        };
        let caller = self.caller == other.caller
            || self.caller == Caller::Anyone
            || self.caller == Caller::Authenticated && other.caller != Caller::Anyone;
        let not = self.not.iter().all(|literal| other.not.contains(literal));
        not && methods && hosts && paths && caller
    }

    /// Whether a request of a caller may be in both. False only if none is.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (None, _) | (_, None) => true,
            (Some(one), Some(other)) => !one.is_disjoint(other),
        };
        let hosts = match (&self.hosts, &other.hosts) {
            (None, _) | (_, None) => true,
            (Some(one), Some(other)) => !sets::common_hosts(one, other).is_empty(),
        };
        methods
            && hosts
            && sets::paths_may_overlap(self.paths.as_deref(), other.paths.as_deref())
            && !matches!(sets::common_caller(&self.caller, &other.caller), Ok(None))
    }
}

/// The most terms of which each is compared with each other.
const MAX_COMPARED: usize = 3_000;

/// Which terms another one covers. Of two that cover each other, the first is kept.
pub(crate) fn redundant(terms: &[&Term]) -> Vec<bool> {
    if terms.len() > MAX_COMPARED {
        return vec![false; terms.len()];
    }
    let is_redundant = |(number, term): (usize, &&Term)| {
        let covers = |(other, cover): (usize, &&Term)| {
            other != number && cover.covers(term) && !(other > number && term.covers(cover))
        };
        terms.iter().enumerate().any(covers)
    };
    terms.iter().enumerate().map(is_redundant).collect()
}

/// The terms without those that never hold or that others cover.
pub(crate) fn without_redundant(mut terms: Vec<Term>) -> Vec<Term> {
    terms.retain_mut(Term::simplify);
    let mut redundant = redundant(&terms.iter().collect::<Vec<_>>()).into_iter();
    terms.retain(|_| !redundant.next().unwrap_or_default());
    terms
}
