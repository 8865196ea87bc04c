//! Conjunctions of conditions on a request and its caller, and the intersections of hosts, paths or
//! callers have in common.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use policy::pattern::{Glob, Pattern, Scope, Segment};

/// A condition that a rule of rolegate can express.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Methods(Vec<String>),
    Hosts(Vec<Scope>),
    Paths(Vec<Pattern>),
    Caller(Caller),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    Anyone,
    Authenticated,
    /// A user of an identity source, by its number.
    User(usize, String),
    Group(usize, String),
}

impl Caller {
    /// Whether it stands for every caller, or every authenticated one.
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self, Self::Anyone | Self::Authenticated)
    }

    /// Whether another caller is always this one, too.
    fn covers(&self, other: &Self) -> bool {
        self == other
            || *self == Self::Anyone
            || *self == Self::Authenticated && *other != Self::Anyone
    }
}

impl Literal {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Methods(all) => all.is_empty(),
            Self::Hosts(all) => all.is_empty(),
            Self::Paths(all) => all.is_empty(),
            Self::Caller(_) => false,
        }
    }
}

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
        if literal.is_empty() { Vec::new() } else { vec![Self::default().with(literal)] }
    }

    /// The same, with this literal in place of the limit of its part.
    pub(crate) fn with(mut self, literal: &Literal) -> Self {
        match literal.clone() {
            Literal::Methods(methods) => self.methods = Some(methods.into_iter().collect()),
            Literal::Hosts(hosts) => self.hosts = Some(hosts),
            Literal::Paths(paths) => self.paths = Some(paths),
            Literal::Caller(caller) => self.caller = caller,
        }
        self
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
        let methods =
            self.methods.iter().map(|all| Literal::Methods(all.iter().cloned().collect()));
        let hosts = self.hosts.iter().cloned().map(Literal::Hosts);
        let paths = self.paths.iter().cloned().map(Literal::Paths);
        let caller = (self.caller != Caller::Anyone).then(|| Literal::Caller(self.caller.clone()));
        methods.chain(hosts).chain(paths).chain(caller).collect()
    }

    /// Resolves what it excludes as far as that is possible without a `deny` rule. False if nothing
    /// is left.
    pub(crate) fn simplify(&mut self) -> bool {
        for literal in std::mem::take(&mut self.not) {
            let remains = match &literal {
                Literal::Methods(not) => self.methods.as_mut().is_none_or(|methods| {
                    methods.retain(|method| !not.contains(method));
                    false
                }),
                Literal::Hosts(not) => self.hosts.as_mut().is_none_or(|hosts| {
                    hosts.retain(|host| !not.iter().any(|not| not.covers(host)));
                    !common_hosts(hosts, not).is_empty()
                }),
                Literal::Paths(not) => {
                    let has_options =
                        self.methods.as_ref().is_none_or(|methods| methods.contains("OPTIONS"));
                    let mut paths = self.paths.take().unwrap_or_else(|| ANY.to_vec());
                    paths.retain(|path| {
                        (path.absolute || has_options) && !not.iter().any(|not| not.covers(path))
                    });
                    let overlap = paths_may_overlap(Some(&paths), Some(not));
                    self.paths = Some(paths);
                    overlap
                }
                Literal::Caller(not) if not.covers(&self.caller) => return false,
                Literal::Caller(not) => !matches!(common_caller(not, &self.caller), Ok(None)),
            };
            let is_empty = self.methods.as_ref().is_some_and(BTreeSet::is_empty)
                || self.hosts.as_ref().is_some_and(Vec::is_empty)
                || self.paths.as_ref().is_some_and(Vec::is_empty);
            if is_empty {
                return false;
            }
            self.not.extend(remains.then_some(literal));
        }
        true
    }

    /// Whether this holds wherever another one does. May be false where it does.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(cover), Some(methods)) => methods.is_subset(cover),
        };
        let hosts = covers_all(self.hosts.as_deref(), other.hosts.as_deref(), Scope::covers);
        let paths = covers_all(self.paths.as_deref(), other.paths.as_deref(), Pattern::covers);
        let not = self.not.iter().all(|literal| other.not.contains(literal));
        not && methods && hosts && paths && self.caller.covers(&other.caller)
    }

    /// Whether a request of a caller may be in both. False only if none is.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        let methods = match (&self.methods, &other.methods) {
            (None, _) | (_, None) => true,
            (Some(one), Some(other)) => !one.is_disjoint(other),
        };
        let hosts = match (&self.hosts, &other.hosts) {
            (None, _) | (_, None) => true,
            (Some(one), Some(other)) => !common_hosts(one, other).is_empty(),
        };
        methods
            && hosts
            && paths_may_overlap(self.paths.as_deref(), other.paths.as_deref())
            && !matches!(common_caller(&self.caller, &other.caller), Ok(None))
    }
}

/// Whether one limit includes all of another one; `None` is no limit.
fn covers_all<T>(cover: Option<&[T]>, limit: Option<&[T]>, covers: fn(&T, &T) -> bool) -> bool {
    match (cover, limit) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(cover), Some(limit)) => {
            limit.iter().all(|part| cover.iter().any(|cover| covers(cover, part)))
        }
    }
}

/// The most terms of which each is compared with each other.
const MAX_COMPARED: usize = 3_000;

/// The items without those whose terms others cover. Of two that cover each other, the first is
/// kept.
pub(crate) fn without_redundant<T>(items: Vec<T>, term: impl Fn(&T) -> &Term) -> Vec<T> {
    if items.len() > MAX_COMPARED {
        return items;
    }
    let terms: Vec<&Term> = items.iter().map(term).collect();
    let is_redundant = |(number, term): (usize, &&Term)| {
        let covers = |(other, cover): (usize, &&Term)| {
            other != number && cover.covers(term) && !(other > number && term.covers(cover))
        };
        terms.iter().enumerate().any(covers)
    };
    let redundant: Vec<bool> = terms.iter().enumerate().map(is_redundant).collect();
    let kept = items.into_iter().zip(redundant).filter(|(_, is_redundant)| !is_redundant);
    kept.map(|(item, _)| item).collect()
}

/// Whether two sets have something in common cannot be told, or what they have in common cannot be
/// written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

/// The hosts that both include. Of two scopes, one includes the other or they have nothing in
/// common.
pub(crate) fn common_hosts(one: &[Scope], other: &[Scope]) -> Vec<Scope> {
    let narrower = |a: &Scope, b: &Scope| {
        if a.covers(b) { Some(b.clone()) } else { b.covers(a).then(|| a.clone()) }
    };
    one.iter().flat_map(|a| other.iter().filter_map(move |b| narrower(a, b))).collect()
}

/// The paths that both include; `None` if that cannot be written as patterns.
pub(crate) fn common_paths(one: &[Pattern], other: &[Pattern]) -> Option<Vec<Pattern>> {
    let mut common = Vec::new();
    for (a, b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
        match common_path(a, b) {
            Ok(pattern) => common.extend(pattern.filter(|pattern| !common.contains(pattern))),
            Err(Unknown) => return None,
        }
    }
    Some(common)
}

fn common_path(one: &Pattern, other: &Pattern) -> Result<Option<Pattern>, Unknown> {
    if !patterns_may_overlap(one, other) {
        return Ok(None);
    }
    let length = one.segments.len().max(other.segments.len());
    let segments: Result<Vec<Segment>, Unknown> = (0..length)
        .map(|number| match (one.segments.get(number), other.segments.get(number)) {
            (Some(a), Some(b)) if a.covers(b) => Ok(b.clone()),
            (Some(a), Some(b)) if b.covers(a) => Ok(a.clone()),
            (Some(_), Some(_)) | (None, None) => Err(Unknown),
            (Some(only), None) | (None, Some(only)) => Ok(only.clone()),
        })
        .collect();
    Ok(Some(Pattern { absolute: one.absolute, segments: segments?, rest: one.rest && other.rest }))
}

/// Whether a path may match both. False only if none does.
fn patterns_may_overlap(one: &Pattern, other: &Pattern) -> bool {
    let (a, b) = (one.segments.len(), other.segments.len());
    let length = (a == b) || (a < b && one.rest) || (b < a && other.rest);
    let pairs = || one.segments.iter().zip(&other.segments);
    one.absolute == other.absolute && length && pairs().all(|(a, b)| segments_may_overlap(a, b))
}

fn segments_may_overlap(one: &Segment, other: &Segment) -> bool {
    match (one, other) {
        (Segment::Literal(_), _) => other.covers(one),
        (_, Segment::Literal(_)) => one.covers(other),
        (Segment::Glob(a), Segment::Glob(b)) => globs_may_overlap(a, b),
        _ => true,
    }
}

fn globs_may_overlap(one: &Glob, other: &Glob) -> bool {
    let ends = |glob: &Glob| {
        let first = glob.0.first().map(|piece| piece.to_string()).unwrap_or_default();
        (first, glob.0.last().map(|piece| piece.to_string()).unwrap_or_default())
    };
    let ((a, b), (c, d)) = (ends(one), ends(other));
    (a.starts_with(&c) || c.starts_with(&a)) && (b.ends_with(&d) || d.ends_with(&b))
}

/// Whether two sets of paths may have one in common. `None` is any path.
pub(crate) fn paths_may_overlap(one: Option<&[Pattern]>, other: Option<&[Pattern]>) -> bool {
    match (one, other) {
        (None, _) | (_, None) => true,
        (Some(one), Some(other)) => {
            one.iter().any(|a| other.iter().any(|b| patterns_may_overlap(a, b)))
        }
    }
}

/// The callers that are both; `None` if nobody is.
pub(crate) fn common_caller(one: &Caller, other: &Caller) -> Result<Option<Caller>, Unknown> {
    match (one, other) {
        (Caller::Anyone, caller) | (caller, Caller::Anyone) => Ok(Some(caller.clone())),
        (Caller::Authenticated, caller) | (caller, Caller::Authenticated) => {
            Ok(Some(caller.clone()))
        }
        (one, other) if one == other => Ok(Some(one.clone())),
        (Caller::User(_, _), Caller::User(_, _)) => Ok(None),
        (Caller::User(a, _) | Caller::Group(a, _), Caller::User(b, _) | Caller::Group(b, _)) => {
            if a == b { Err(Unknown) } else { Ok(None) }
        }
    }
}

/// Any path: those that begin with a slash, and the one of `OPTIONS *`.
pub(crate) static ANY: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    vec![Pattern { absolute: true, segments: Vec::new(), rest: true }, asterisk()]
});

/// The path `*` of `OPTIONS *`.
pub(crate) fn asterisk() -> Pattern {
    Pattern { absolute: false, segments: vec![Segment::Literal("*".into())], rest: false }
}
