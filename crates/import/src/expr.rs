//! Conditions on requests and callers, and their disjunctive normal form.

use std::collections::BTreeSet;

use document::{Place, View};
use policy::pattern::Scope;

use crate::note::{Effect, MORE_DENIED, Note};
use crate::term::{self, Caller, Literal, Term};

/// A condition on a request and its caller.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    /// One of these holds.
    Any(Vec<Expr>),
    /// All of these hold.
    All(Vec<Expr>),
    /// This does not hold.
    Not(Box<Expr>),
    /// A part of the request or the caller is one of these.
    Is(Literal),
    /// A condition that cannot be expressed: `under` implies it, and it implies `over`. With a note
    /// that it is wider, `under` is a bit more. `acceptable`: that can be accepted by an option.
    /// With a note that it is the same, another note says what `under` lacks.
    Between { under: Box<Expr>, over: Box<Expr>, note: Note, acceptable: bool },
}

/// The direction in which conditions that cannot be expressed are approximated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The result implies the condition.
    Under,
    /// The condition implies the result.
    Over,
}

/// A condition has too many alternatives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooComplex;

/// The maximum number of alternatives of a condition.
const MAX_TERMS: usize = 20_000;

impl Expr {
    pub(crate) const fn always() -> Self {
        Self::All(Vec::new())
    }

    pub(crate) const fn never() -> Self {
        Self::Any(Vec::new())
    }

    pub(crate) fn is_never(&self) -> bool {
        matches!(self, Self::Any(all) if all.is_empty())
            || matches!(self, Self::Is(literal) if literal.is_empty())
    }

    /// One of these; alternatives of the same part of a request become one literal.
    pub(crate) fn any(alternatives: Vec<Self>) -> Self {
        let mut merged: Vec<Self> = Vec::new();
        for alternative in alternatives {
            match (merged.last_mut(), alternative) {
                (Some(Self::Is(Literal::Methods(all))), Self::Is(Literal::Methods(more))) => {
                    all.extend(more)
                }
                (Some(Self::Is(Literal::Hosts(all))), Self::Is(Literal::Hosts(more))) => {
                    all.extend(more)
                }
                (Some(Self::Is(Literal::Paths(all))), Self::Is(Literal::Paths(more))) => {
                    all.extend(more)
                }
                (_, alternative) => merged.push(alternative),
            }
        }
        Self::Any(merged)
    }

    pub(crate) fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }

    pub(crate) const fn caller(caller: Caller) -> Self {
        Self::Is(Literal::Caller(caller))
    }
}

/// A conjunction that cannot be expressed and was left out.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) note: Note,
    /// Conjunctions that can be expressed, each of which it implies: if something else allows all
    /// of one, nothing is lost.
    pub(crate) over: Vec<Term>,
}

/// Resolves conditions to terms, and collects notes about approximations.
#[derive(Debug)]
pub(crate) struct Resolver<'r> {
    pub(crate) notes: &'r mut BTreeSet<Note>,
    pub(crate) bound: Bound,
    /// The place and path of the condition, for notes about combinations.
    pub(crate) origin: &'r (Place, String),
    /// The conjunctions that were left out, with the bound `Under`.
    pub(crate) lost: Vec<Lost>,
}

impl Resolver<'_> {
    /// The terms of which one holds if and only if the condition does, up to the bound.
    pub(crate) fn terms(&mut self, expr: &Expr) -> Result<Vec<Term>, TooComplex> {
        self.resolve(expr, false)
    }

    fn resolve(&mut self, expr: &Expr, negated: bool) -> Result<Vec<Term>, TooComplex> {
        match expr {
            Expr::Not(inner) => self.resolve(inner, !negated),
            Expr::Is(literal) => Ok(if negated { Term::not(literal) } else { Term::is(literal) }),
            Expr::Between { under, over, note, acceptable } => {
                let is_under = (self.bound == Bound::Under) != negated;
                if note.effect == Effect::Same && is_under {
                    return self.resolve(under, negated);
                }
                let mut note = note.clone();
                if note.effect != Effect::Wider || !is_under {
                    note.effect = Effect::Stricter;
                    let hint = if *acceptable && is_under {
                        " (`--allow-wider` accepts that)"
                    } else {
                        ""
                    };
                    let effect = match (self.bound, negated) {
                        (Bound::Under, false) if under.is_never() => "nothing is allowed by it",
                        (Bound::Under, _) => "less is allowed",
                        (Bound::Over, _) => MORE_DENIED,
                    };
                    note.message = format!("{}{hint}: {effect}", note.message);
                }
                self.notes.insert(note);
                self.resolve(if is_under { under } else { over }, negated)
            }
            Expr::Any(all) if !negated => self.sum(all, negated),
            Expr::All(all) if negated => self.sum(all, negated),
            Expr::Any(all) | Expr::All(all) => self.product(all, negated),
        }
    }

    fn sum(&mut self, all: &[Expr], negated: bool) -> Result<Vec<Term>, TooComplex> {
        let mut terms = Vec::new();
        for expr in all {
            terms.extend(self.resolve(expr, negated)?);
            if terms.len() > MAX_TERMS {
                return Err(TooComplex);
            }
        }
        Ok(terms)
    }

    fn product(&mut self, all: &[Expr], negated: bool) -> Result<Vec<Term>, TooComplex> {
        let mut terms = vec![Term::default()];
        for expr in all {
            let more = self.resolve(expr, negated)?;
            if terms.len().saturating_mul(more.len()) > MAX_TERMS {
                return Err(TooComplex);
            }
            let both = terms.iter().flat_map(|term| more.iter().map(move |other| (term, other)));
            let both = both.filter_map(|(term, other)| self.both(term, other));
            let both = both.filter_map(|mut term| term.simplify().then_some(term)).collect();
            terms = term::without_redundant(both, |term| term);
        }
        Ok(terms)
    }

    /// Both terms at once; `None` if that is impossible, or cannot be expressed and the bound is
    /// `Under`.
    fn both(&mut self, one: &Term, other: &Term) -> Option<Term> {
        let common_methods = |one: &BTreeSet<String>, other: &BTreeSet<String>| one & other;
        let methods =
            common_limit(&one.methods, &other.methods, common_methods, BTreeSet::is_empty)?;
        let common_hosts = |one: &Vec<Scope>, other: &Vec<Scope>| term::common_hosts(one, other);
        let hosts = common_limit(&one.hosts, &other.hosts, common_hosts, Vec::is_empty)?;
        // If the common paths cannot be written as patterns, the result has both lists.
        let (paths, are_paths_known) = match (&one.paths, &other.paths) {
            (None, paths) | (paths, None) => (vec![paths.clone()], true),
            (Some(one), Some(other)) => match term::common_paths(one, other) {
                Some(all) if all.is_empty() => return None,
                Some(all) => (vec![Some(all)], true),
                None => (vec![Some(one.clone()), Some(other.clone())], false),
            },
        };
        let (callers, is_caller_known) = match term::common_caller(&one.caller, &other.caller) {
            Ok(caller) => (vec![caller?], true),
            Err(term::Unknown) => (vec![one.caller.clone(), other.caller.clone()], false),
        };
        let mut not = one.not.clone();
        not.extend(other.not.iter().filter(|literal| !one.not.contains(literal)).cloned());
        let over: Vec<Term> = paths
            .iter()
            .flat_map(|paths| callers.iter().map(move |caller| (paths.clone(), caller.clone())))
            .map(|(paths, caller)| Term {
                methods: methods.clone(),
                hosts: hosts.clone(),
                paths,
                caller,
                not: not.clone(),
            })
            .collect();
        let mut is_exact = true;
        for (is_known, message) in [
            (
                are_paths_known,
                "two patterns of paths must match at once, which cannot be expressed",
            ),
            (is_caller_known, "a caller that must be two of these at once cannot be expressed"),
        ] {
            if !is_known {
                is_exact = false;
                self.inexpressible(message, &over);
            }
        }
        if is_exact || self.bound == Bound::Over { over.into_iter().next() } else { None }
    }

    /// Notes that a conjunction cannot be expressed, which implies each of `over`.
    fn inexpressible(&mut self, message: &str, over: &[Term]) {
        let effect = match self.bound {
            Bound::Under => "nothing is allowed by it",
            Bound::Over => MORE_DENIED,
        };
        let note = Note::new(self.origin, Effect::Stricter, format!("{message}: {effect}"));
        match self.bound {
            Bound::Under => self.lost.push(Lost { note, over: over.to_vec() }),
            Bound::Over => _ = self.notes.insert(note),
        }
    }
}

/// The limit of two terms at once; `None` if they have nothing in common.
#[expect(
    clippy::option_option,
    reason = "the outer one is whether there is a term, the inner one a limit"
)]
fn common_limit<T: Clone>(
    one: &Option<T>,
    other: &Option<T>,
    common: impl Fn(&T, &T) -> T,
    is_empty: impl Fn(&T) -> bool,
) -> Option<Option<T>> {
    match (one, other) {
        (None, limit) | (limit, None) => Some(limit.clone()),
        (Some(one), Some(other)) => {
            let both = common(one, other);
            (!is_empty(&both)).then_some(Some(both))
        }
    }
}

/// Why conditions of Envoy and of Istio cannot be expressed.
pub(crate) mod reason {
    pub(crate) const CERTIFICATE: &str = "certificates of clients are not known to rolegate";
    pub(crate) const CLIENT_ADDRESS: &str = "a rule does not depend on the address of the client";
    pub(crate) const FILTER_STATE: &str = "filter state is not known to rolegate";
    pub(crate) const HEADER: &str = "a rule does not depend on headers";
    pub(crate) const OTHER: &str = "this condition cannot be expressed";
    pub(crate) const SERVER_ADDRESS: &str =
        "a rule does not depend on the address and the port of the server";
}

/// Notes about a value, and conditions that cannot be expressed exactly because of it.
pub(crate) trait Notes {
    fn view(&self) -> &View<'_>;

    /// A note about this value.
    fn note(&self, effect: Effect, message: impl Into<String>) -> Note {
        Note::new(&(self.view().place(), self.view().path.clone()), effect, message)
    }

    /// A condition that cannot be expressed at all.
    fn inexpressible(&self, message: impl Into<String>) -> Expr {
        self.between(Expr::never(), Expr::always(), message)
    }

    /// Conditions that cannot be expressed, if this has fields besides these: they may limit what
    /// the others match.
    fn unknown(&self, known: &str) -> Option<Expr> {
        let unknown = self.view().besides(known);
        let conditions =
            unknown.iter().map(|field| field.inexpressible("a field that is not known"));
        (!unknown.is_empty()).then(|| Expr::All(conditions.collect()))
    }

    /// The items of a list, which is the only field of this, combined. Without an item, or with
    /// another field, it is not known what this matches: an empty conjunction would always hold.
    fn combined(&self, key: &str, combine: impl FnOnce(&[View<'_>]) -> Expr) -> Expr {
        let items = self.view().list(key);
        if items.is_empty() {
            return self.inexpressible(format!("`{key}` are expected here"));
        }
        self.unknown(key).unwrap_or_else(|| combine(&items))
    }

    /// A condition that is nearly this one, in which a bit more may hold: that is not allowed
    /// unless it is accepted.
    fn nearly(&self, nearly: Expr, over: Expr, is_accepted: bool, message: &str) -> Expr {
        let effect = if is_accepted { Effect::Wider } else { Effect::Stricter };
        let under = if is_accepted { nearly } else { Expr::never() };
        Expr::Between {
            under: Box::new(under),
            over: Box::new(over),
            note: self.note(effect, message),
            acceptable: !is_accepted,
        }
    }

    /// A condition between two others.
    fn between(&self, under: Expr, over: Expr, message: impl Into<String>) -> Expr {
        let note = self.note(Effect::Stricter, message);
        Expr::Between { under: Box::new(under), over: Box::new(over), note, acceptable: false }
    }
}

impl Notes for View<'_> {
    fn view(&self) -> &View<'_> {
        self
    }
}
