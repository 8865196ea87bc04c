//! Conjunctions of conditions on a request and its caller, and their intersections.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use policy::pattern::{Glob, Pattern, Scope, Segment};

use crate::when::{self, When};

/// A condition that a rule of rolegate can express.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Methods(Vec<String>),
    Hosts(Vec<Scope>),
    Paths(Vec<Pattern>),
    Caller(Caller),
    When(When),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Caller {
    Anyone,
    Authenticated,
    /// A user: the index of the identity source, and the name.
    User(usize, String),
    Group(usize, String),
}

impl Caller {
    /// Whether this stands for every caller, or every authenticated caller.
    pub(crate) fn is_reserved(&self) -> bool {
        matches!(self, Self::Anyone | Self::Authenticated)
    }

    /// Whether this includes everyone that `other` stands for.
    fn covers(&self, other: &Self) -> bool {
        self == other
            || *self == Self::Anyone
            || *self == Self::Authenticated && *other != Self::Anyone
    }
}

impl Literal {
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Methods(methods) => methods.is_empty(),
            Self::Hosts(hosts) => hosts.is_empty(),
            Self::Paths(paths) => paths.is_empty(),
            Self::Caller(_) | Self::When(_) => false,
        }
    }
}

/// A conjunction. A part that is `None` matches everything.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    pub(crate) methods: Option<BTreeSet<String>>,
    pub(crate) hosts: Option<Vec<Scope>>,
    pub(crate) paths: Option<Vec<Pattern>>,
    pub(crate) caller: Caller,
    /// Conditions in CEL, which all hold.
    pub(crate) when: BTreeSet<When>,
    /// The excluded literals: none of them may hold.
    pub(crate) not: Vec<Literal>,
}

impl Default for Term {
    /// Always holds.
    fn default() -> Self {
        Self {
            methods: None,
            hosts: None,
            paths: None,
            caller: Caller::Anyone,
            when: BTreeSet::new(),
            not: Vec::new(),
        }
    }
}

impl Term {
    /// The literal, or its negation, as alternative terms.
    pub(crate) fn alternatives(literal: &Literal, negated: bool) -> Vec<Self> {
        if let (Literal::When(when), true) = (literal, negated) {
            return vec![Self::default().with(&Literal::When(when.clone().negated()))];
        }
        match (negated, literal.is_empty()) {
            (false, true) => Vec::new(),
            (false, false) => vec![Self::default().with(literal)],
            (true, _) if *literal == Literal::Caller(Caller::Anyone) => Vec::new(),
            (true, true) => vec![Self::default()],
            (true, false) => vec![Self { not: vec![literal.clone()], ..Self::default() }],
        }
    }

    /// This term with the literal in place of its methods, its hosts, its paths or its caller. A
    /// condition in CEL is added to the others.
    pub(crate) fn with(mut self, literal: &Literal) -> Self {
        match literal.clone() {
            Literal::Methods(methods) => self.methods = Some(methods.into_iter().collect()),
            Literal::Hosts(hosts) => self.hosts = Some(hosts),
            Literal::Paths(paths) => self.paths = Some(paths),
            Literal::Caller(caller) => self.caller = caller,
            Literal::When(when) => {
                if self.caller == Caller::Anyone && when.needs_token() {
                    self.caller = Caller::Authenticated;
                }
                self.when.insert(when);
            }
        }
        self
    }

    /// The conditions on the parts that are not `None`.
    pub(crate) fn limits(&self) -> Vec<Literal> {
        let methods =
            self.methods.iter().map(|set| Literal::Methods(set.iter().cloned().collect()));
        let hosts = self.hosts.iter().cloned().map(Literal::Hosts);
        let paths = self.paths.iter().cloned().map(Literal::Paths);
        let caller = (self.caller != Caller::Anyone).then(|| Literal::Caller(self.caller.clone()));
        let when = self.when.iter().cloned().map(Literal::When);
        methods.chain(hosts).chain(paths).chain(caller).chain(when).collect()
    }

    /// Applies the excluded literals where that is possible without a `deny` rule, and keeps the
    /// others. Returns false if the term is then empty.
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
                    let paths = self.paths.get_or_insert_with(|| ANY.to_vec());
                    paths.retain(|path| {
                        // The only pattern that is not absolute is `*`, of `OPTIONS *`.
                        (path.absolute || has_options) && !not.iter().any(|not| not.covers(path))
                    });
                    paths_may_overlap(paths, not)
                }
                // Does not occur: `alternatives` negates the condition instead of excluding it.
                Literal::When(_) => true,
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

    /// Whether this holds wherever `other` holds. False if that is uncertain.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        let methods = self.methods.as_ref().is_none_or(|cover| {
            other.methods.as_ref().is_some_and(|methods| methods.is_subset(cover))
        });
        methods
            && self.when.is_subset(&other.when)
            && self.not.iter().all(|literal| other.not.contains(literal))
            && covers_all(self.hosts.as_deref(), other.hosts.as_deref(), Scope::covers)
            && covers_all(self.paths.as_deref(), other.paths.as_deref(), Pattern::covers)
            && self.caller.covers(&other.caller)
    }

    /// Whether the terms may have a request in common. True if that is uncertain.
    pub(crate) fn may_overlap(&self, other: &Self) -> bool {
        let methods = self.methods.as_ref().zip(other.methods.as_ref());
        let hosts = self.hosts.as_ref().zip(other.hosts.as_ref());
        let paths = self.paths.as_ref().zip(other.paths.as_ref());
        methods.is_none_or(|(a, b)| !a.is_disjoint(b))
            && hosts.is_none_or(|(a, b)| !common_hosts(a, b).is_empty())
            && paths.is_none_or(|(a, b)| paths_may_overlap(a, b))
            && !matches!(common_caller(&self.caller, &other.caller), Ok(None))
            && !when::is_contradictory(&self.when.union(&other.when).cloned().collect())
    }
}

/// Whether each item is covered by an item of `cover`; `None` matches everything.
fn covers_all<T>(cover: Option<&[T]>, items: Option<&[T]>, covers: fn(&T, &T) -> bool) -> bool {
    cover.is_none_or(|cover| {
        items.is_some_and(|items| items.iter().all(|item| cover.iter().any(|c| covers(c, item))))
    })
}

/// Maximum number of terms for [`without_redundant`], which compares each pair.
const MAX_COMPARED: usize = 3_000;

/// Removes items whose terms are covered by other items. Of two equal terms, the first stays.
pub(crate) fn without_redundant<T>(items: Vec<T>, term: impl Fn(&T) -> &Term) -> Vec<T> {
    if items.len() > MAX_COMPARED {
        return items;
    }
    let terms: Vec<&Term> = items.iter().map(term).collect();
    let is_redundant = |(index, term): (usize, &&Term)| {
        terms.iter().enumerate().any(|(other, cover)| {
            other != index && cover.covers(term) && !(other > index && term.covers(cover))
        })
    };
    let redundant: Vec<bool> = terms.iter().enumerate().map(is_redundant).collect();
    let items = items.into_iter().zip(redundant).filter(|(_, is_redundant)| !is_redundant);
    items.map(|(item, _)| item).collect()
}

/// An intersection cannot be written in a policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unknown;

/// The hosts in both lists. No imported scope has placeholders, so two scopes are disjoint, or one
/// covers the other.
pub(crate) fn common_hosts(a: &[Scope], b: &[Scope]) -> Vec<Scope> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let narrower = pairs
        .filter_map(|(a, b)| if a.covers(b) { Some(b) } else { Some(a).filter(|a| b.covers(a)) });
    narrower.cloned().collect()
}

/// The paths in both lists; `None` if they cannot be written as patterns.
pub(crate) fn common_paths(a: &[Pattern], b: &[Pattern]) -> Option<Vec<Pattern>> {
    let mut common = Vec::new();
    for (a, b) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
        if patterns_may_overlap(a, b) {
            let pattern = common_path(a, b)?;
            if !common.contains(&pattern) {
                common.push(pattern);
            }
        }
    }
    Some(common)
}

fn common_path(a: &Pattern, b: &Pattern) -> Option<Pattern> {
    let length = a.segments.len().max(b.segments.len());
    let segments: Option<Vec<Segment>> = (0..length)
        .map(|number| match (a.segments.get(number), b.segments.get(number)) {
            (Some(a), Some(b)) if a.covers(b) => Some(b.clone()),
            (Some(a), Some(b)) if b.covers(a) => Some(a.clone()),
            (Some(_), Some(_)) => None,
            (a, b) => a.or(b).cloned(),
        })
        .collect();
    Some(Pattern {
        absolute: a.absolute,
        segments: segments?,
        open_ended: a.open_ended && b.open_ended,
    })
}

/// Whether a path may match both patterns. True if that is uncertain.
fn patterns_may_overlap(a: &Pattern, b: &Pattern) -> bool {
    let (a_length, b_length) = (a.segments.len(), b.segments.len());
    a.absolute == b.absolute
        && (a_length == b_length
            || (a_length < b_length && a.open_ended)
            || (b_length < a_length && b.open_ended))
        && a.segments.iter().zip(&b.segments).all(|(a, b)| segments_may_overlap(a, b))
}

fn segments_may_overlap(a: &Segment, b: &Segment) -> bool {
    match (a, b) {
        (Segment::Literal(_), _) => b.covers(a),
        (_, Segment::Literal(_)) => a.covers(b),
        (Segment::Glob(a), Segment::Glob(b)) => {
            let ((start, end), (other_start, other_end)) = (ends(a), ends(b));
            (start.starts_with(other_start) || other_start.starts_with(start))
                && (end.ends_with(other_end) || other_end.ends_with(end))
        }
        _ => true,
    }
}

/// The literal text at the start and at the end of a glob.
fn ends(glob: &Glob) -> (&str, &str) {
    (glob.0.first().map_or("", |piece| piece), glob.0.last().map_or("", |piece| piece))
}

/// Whether two sets of paths may have a path in common.
fn paths_may_overlap(a: &[Pattern], b: &[Pattern]) -> bool {
    a.iter().any(|a| b.iter().any(|b| patterns_may_overlap(a, b)))
}

/// The intersection of two callers; `None` if it is empty.
pub(crate) fn common_caller(a: &Caller, b: &Caller) -> Result<Option<Caller>, Unknown> {
    match (a, b) {
        (a, b) if a.covers(b) => Ok(Some(b.clone())),
        (a, b) if b.covers(a) => Ok(Some(a.clone())),
        (Caller::User(..), Caller::User(..)) => Ok(None),
        (Caller::User(a, _) | Caller::Group(a, _), Caller::User(b, _) | Caller::Group(b, _))
            if a == b =>
        {
            Err(Unknown)
        }
        _ => Ok(None),
    }
}

/// Any path, including `*` of `OPTIONS *`.
static ANY: LazyLock<[Pattern; 2]> = LazyLock::new(|| {
    [Pattern { absolute: true, segments: Vec::new(), open_ended: true }, asterisk()]
});

/// The path `*` of `OPTIONS *`.
pub(crate) fn asterisk() -> Pattern {
    Pattern { absolute: false, segments: vec![Segment::Literal("*".into())], open_ended: false }
}
