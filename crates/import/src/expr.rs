//! Conditions on requests and callers, and their disjunctive normal form.

use std::collections::BTreeSet;

use policy::Place;

use crate::literal::{Caller, Literal};
use crate::note::{Effect, Note};
use crate::sets;
use crate::term::{self, Term};

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
    /// A condition that cannot be expressed: `under` implies it, and it implies `over`. With a note that it is wider,
    /// `under` is a bit more. `acceptable`: that can be accepted by an option.
    Between { under: Box<Expr>, over: Box<Expr>, note: Note, acceptable: bool },
}

/// In which direction what cannot be expressed is approximated.
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
    /// What always holds.
    pub(crate) const fn always() -> Self {
        Self::All(Vec::new())
    }

    /// What never holds.
    pub(crate) const fn never() -> Self {
        Self::Any(Vec::new())
    }

    /// Whether this is what never holds.
    pub(crate) fn is_never(&self) -> bool {
        matches!(self, Self::Any(all) if all.is_empty())
            || matches!(self, Self::Is(literal) if literal.is_empty())
    }

    /// One of these; alternatives of the same part of a request become one literal.
    pub(crate) fn any(all: Vec<Self>) -> Self {
        let mut merged: Vec<Self> = Vec::new();
        for one in all {
            let last = merged.last_mut();
            match (last, one) {
                (Some(Self::Is(Literal::Methods(all))), Self::Is(Literal::Methods(more))) => all.extend(more),
                (Some(Self::Is(Literal::Hosts(all))), Self::Is(Literal::Hosts(more))) => all.extend(more),
                (Some(Self::Is(Literal::Paths(all))), Self::Is(Literal::Paths(more))) => all.extend(more),
                (_, one) => merged.push(one),
            }
        }
        Self::Any(merged)
    }

    /// The negation.
    pub(crate) fn negated(self) -> Self {
        Self::Not(Box::new(self))
    }

    /// The caller is this one.
    pub(crate) const fn caller(caller: Caller) -> Self {
        Self::Is(Literal::Caller(caller))
    }
}

/// Resolves conditions to terms, and collects notes about what was approximated.
#[derive(Debug)]
pub(crate) struct Resolver<'r> {
    pub(crate) notes: &'r mut BTreeSet<Note>,
    pub(crate) bound: Bound,
    /// The place and path of the condition, for notes about combinations.
    pub(crate) origin: &'r (Place, String),
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
                let mut note = note.clone();
                if note.effect != Effect::Wider || !is_under {
                    note.effect = Effect::Stricter;
                    let hint = if *acceptable && is_under { " (`--allow-wider` accepts that)" } else { "" };
                    let effect = match (self.bound, negated) {
                        (Bound::Under, false) if under.is_never() => "nothing is allowed by it",
                        (Bound::Under, _) => "less is allowed",
                        (Bound::Over, _) => "more is denied",
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
        for one in all {
            terms.extend(self.resolve(one, negated)?);
            if terms.len() > MAX_TERMS {
                return Err(TooComplex);
            }
        }
        Ok(terms)
    }

    fn product(&mut self, all: &[Expr], negated: bool) -> Result<Vec<Term>, TooComplex> {
        let mut terms = vec![Term::default()];
        for one in all {
            let more = self.resolve(one, negated)?;
            if terms.len().saturating_mul(more.len()) > MAX_TERMS {
                return Err(TooComplex);
            }
            let both = terms.iter().flat_map(|term| more.iter().map(move |other| (term, other)));
            let all = both.filter_map(|(term, other)| self.both(term, other)).collect();
            terms = term::without_redundant(all);
        }
        Ok(terms)
    }

    /// Both terms at once; `None` if that is impossible, or cannot be expressed and the bound is `Under`.
    fn both(&mut self, one: &Term, other: &Term) -> Option<Term> {
        let methods = match (&one.methods, &other.methods) {
            (None, methods) | (methods, None) => methods.clone(),
            (Some(one), Some(other)) => Some(one.intersection(other).cloned().collect())
                .filter(|all: &BTreeSet<String>| !all.is_empty())?
                .into(),
        };
        let hosts = self.combined(one.hosts.as_ref(), other.hosts.as_ref(), |one, other| {
            Some(sets::common_hosts(one, other))
        })?;
        let paths = self.combined(one.paths.as_ref(), other.paths.as_ref(), |one, other| {
            sets::common_paths(one, other)
        })?;
        let caller = match sets::common_caller(&one.caller, &other.caller) {
            Ok(caller) => caller?,
            Err(sets::Unknown) => {
                self.inexpressible("a caller that must be two of these at once cannot be expressed");
                if self.bound == Bound::Under {
                    return None;
                }
                one.caller.clone()
            }
        };
        let mut not = one.not.clone();
        not.extend(other.not.iter().filter(|literal| !one.not.contains(literal)).cloned());
        Some(Term { methods, hosts, paths, caller, not })
    }

    /// The common part of two sets; `None` if they have none.
    #[expect(
        clippy::option_option,
        reason = "the outer one is whether there is a term, the inner one a limit"
    )]
    fn combined<T: Clone>(
        &mut self,
        one: Option<&Vec<T>>,
        other: Option<&Vec<T>>,
        common: impl Fn(&[T], &[T]) -> Option<Vec<T>>,
    ) -> Option<Option<Vec<T>>> {
        let (one, other) = match (one, other) {
            (None, all) | (all, None) => return Some(all.cloned()),
            (Some(one), Some(other)) => (one, other),
        };
        match common(one, other) {
            Some(all) => (!all.is_empty()).then_some(Some(all)),
            None => {
                self.inexpressible("two patterns of paths must match at once, which cannot be expressed");
                (self.bound == Bound::Over).then(|| Some(one.clone()))
            }
        }
    }

    fn inexpressible(&mut self, message: &str) {
        let effect = match self.bound {
            Bound::Under => "nothing is allowed by it",
            Bound::Over => "more is denied",
        };
        let (at, path) = self.origin.clone();
        self.notes.insert(Note {
            at,
            path,
            message: format!("{message}: {effect}"),
            effect: Effect::Stricter,
        });
    }
}
