//! Conditions on requests and callers, and their disjunctive normal form.

use std::collections::BTreeSet;

use document::{Place, View};

use crate::note::{Effect, MORE_DENIED, Note};
use crate::term::{self, Caller, Literal, Term};
use crate::when::{self, Doubt, When};

/// A condition on a request and its caller.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Any(Vec<Expr>),
    All(Vec<Expr>),
    Not(Box<Expr>),
    /// A part of the request or the caller is in a set.
    Is(Literal),
    /// A condition in CEL, and the requests for which it cannot be computed.
    When(When, Vec<Doubt>),
    /// A condition that cannot be expressed: `under` implies it, and it implies `over`.
    Between {
        under: Box<Expr>,
        over: Box<Expr>,
        /// With the effect `Wider`, the user has accepted an `under` that holds slightly too often.
        /// With `Same`, `under` needs no note: another note describes the requests that it lacks.
        note: Note,
        /// Whether `--allow-wider` would import a wider `under`.
        allow_wider_helps: bool,
    },
}

/// The direction in which conditions that cannot be expressed are approximated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The result implies the condition.
    Under,
    /// The condition implies the result.
    Over,
}

/// A condition has more than [`MAX_TERMS`] alternatives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooComplex;

const MAX_TERMS: usize = 20_000;

impl Expr {
    pub(crate) const fn always() -> Self {
        Self::All(Vec::new())
    }

    pub(crate) const fn never() -> Self {
        Self::Any(Vec::new())
    }

    pub(crate) fn is_always(&self) -> bool {
        matches!(self, Self::All(conditions) if conditions.is_empty())
    }

    pub(crate) fn is_never(&self) -> bool {
        match self {
            Self::Any(alternatives) => alternatives.is_empty(),
            Self::Is(literal) => literal.is_empty(),
            Self::All(_) | Self::Not(_) | Self::When(..) | Self::Between { .. } => false,
        }
    }

    /// At least one condition holds. Consecutive sets of methods, of hosts or of paths, and
    /// consecutive conditions in CEL, are merged.
    pub(crate) fn any(alternatives: impl IntoIterator<Item = Self>) -> Self {
        let mut merged: Vec<Self> = Vec::new();
        for alternative in alternatives {
            let literal = match alternative {
                Self::Is(literal) => literal,
                Self::When(more, more_doubts) => {
                    if let Some(Self::When(when, doubts)) = merged.last_mut() {
                        let either = When::any([when.clone(), more.clone()]);
                        if either.check().is_ok() {
                            *when = either;
                            doubts.extend(more_doubts);
                            continue;
                        }
                    }
                    merged.push(Self::When(more, more_doubts));
                    continue;
                }
                alternative => {
                    merged.push(alternative);
                    continue;
                }
            };
            match (merged.last_mut(), literal) {
                (Some(Self::Is(Literal::Methods(all))), Literal::Methods(more)) => all.extend(more),
                (Some(Self::Is(Literal::Hosts(all))), Literal::Hosts(more)) => all.extend(more),
                (Some(Self::Is(Literal::Paths(all))), Literal::Paths(more)) => all.extend(more),
                (_, literal) => merged.push(Self::Is(literal)),
            }
        }
        Self::Any(merged)
    }

    pub(crate) fn all(conditions: impl IntoIterator<Item = Self>) -> Self {
        Self::All(conditions.into_iter().collect())
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
    /// Wider terms that can be expressed. If other rules allow all requests of at least one of
    /// them, nothing is lost.
    pub(crate) over: Vec<Term>,
}

/// Resolves conditions to terms, and collects notes about approximations.
#[derive(Debug)]
pub(crate) struct Resolver<'r> {
    notes: &'r mut BTreeSet<Note>,
    bound: Bound,
    /// The place and path of the condition, for notes about combinations.
    origin: &'r (Place, String),
    /// The conjunctions that were left out, with the bound `Under`.
    pub(crate) lost: Vec<Lost>,
}

impl<'r> Resolver<'r> {
    pub(crate) fn new(
        notes: &'r mut BTreeSet<Note>,
        bound: Bound,
        origin: &'r (Place, String),
    ) -> Self {
        Self { notes, bound, origin, lost: Vec::new() }
    }

    /// The condition, or its negation, as a disjunction of terms, approximated according to the
    /// bound.
    pub(crate) fn terms(&mut self, expr: &Expr, negated: bool) -> Result<Vec<Term>, TooComplex> {
        match expr {
            Expr::Not(inner) => self.terms(inner, !negated),
            Expr::Is(literal) => Ok(Term::alternatives(literal, negated)),
            Expr::When(when, doubts) => {
                // A negation turns an approximation from below into one from above.
                let is_under = (self.bound == Bound::Under) != negated;
                for doubt in doubts.iter().filter(|doubt| !doubt.only_negated || !is_under) {
                    self.notes.insert(doubt.note.clone());
                }
                Ok(Term::alternatives(&Literal::When(when.clone()), negated))
            }
            Expr::Between { under, over, note, allow_wider_helps } => {
                let is_under = (self.bound == Bound::Under) != negated;
                if note.effect == Effect::Same && is_under {
                    return self.terms(under, negated);
                }
                let mut note = note.clone();
                if note.effect != Effect::Wider || !is_under {
                    note.effect = Effect::Stricter;
                    let hint = if *allow_wider_helps && is_under {
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
                self.terms(if is_under { under } else { over }, negated)
            }
            Expr::Any(exprs) if !negated => self.sum(exprs, negated),
            Expr::All(exprs) if negated => self.sum(exprs, negated),
            Expr::Any(exprs) | Expr::All(exprs) => self.product(exprs, negated),
        }
    }

    fn sum(&mut self, exprs: &[Expr], negated: bool) -> Result<Vec<Term>, TooComplex> {
        let mut terms = Vec::new();
        for expr in exprs {
            terms.extend(self.terms(expr, negated)?);
            if terms.len() > MAX_TERMS {
                return Err(TooComplex);
            }
        }
        Ok(terms)
    }

    fn product(&mut self, exprs: &[Expr], negated: bool) -> Result<Vec<Term>, TooComplex> {
        let mut terms = vec![Term::default()];
        for expr in exprs {
            let factors = self.terms(expr, negated)?;
            if terms.len().saturating_mul(factors.len()) > MAX_TERMS {
                return Err(TooComplex);
            }
            let mut products = Vec::new();
            for (term, factor) in terms.iter().flat_map(|t| factors.iter().map(move |f| (t, f))) {
                let product = self.intersection(term, factor);
                products.extend(product.and_then(|mut term| term.simplify().then_some(term)));
            }
            terms = term::without_redundant(products, |term| term);
        }
        Ok(terms)
    }

    /// The requests in both terms; `None` if there are none, or if they cannot be expressed and the
    /// bound is `Under`.
    fn intersection(&mut self, a: &Term, b: &Term) -> Option<Term> {
        let methods = common_part(&a.methods, &b.methods, |a, b| a & b, BTreeSet::is_empty)?;
        let common_hosts = |a: &Vec<_>, b: &Vec<_>| term::common_hosts(a, b);
        let hosts = common_part(&a.hosts, &b.hosts, common_hosts, Vec::is_empty)?;
        // If an intersection cannot be written, `paths`, `callers` or `whens` has both operands.
        let mut reasons = Vec::new();
        let paths = match (&a.paths, &b.paths) {
            (None, paths) | (paths, None) => vec![paths.clone()],
            (Some(a), Some(b)) => match term::common_paths(a, b) {
                Some(common) if common.is_empty() => return None,
                Some(common) => vec![Some(common)],
                None => {
                    reasons.push(
                        "two patterns of paths must match at once, which cannot be expressed",
                    );
                    vec![Some(a.clone()), Some(b.clone())]
                }
            },
        };
        let callers = match term::common_caller(&a.caller, &b.caller) {
            Ok(caller) => vec![caller?],
            Err(term::Unknown) => {
                reasons.push("a caller that must match two conditions at once cannot be expressed");
                vec![a.caller.clone(), b.caller.clone()]
            }
        };
        let all: BTreeSet<When> = a.when.union(&b.when).cloned().collect();
        if when::is_contradictory(&all) {
            return None;
        }
        let mut whens = vec![all];
        if [a, b].into_iter().all(|term| !whens.contains(&term.when))
            && whens.iter().any(|w| When::all(w.iter().cloned()).check().is_err())
        {
            reasons.push("all of these conditions together are too large for one");
            whens = vec![a.when.clone(), b.when.clone()];
        }
        let mut not = a.not.clone();
        not.extend(b.not.iter().filter(|literal| !a.not.contains(literal)).cloned());
        let term = Term { methods, hosts, not, ..Term::default() };
        let mut over = Vec::new();
        for (paths, when) in paths.iter().flat_map(|paths| whens.iter().map(move |w| (paths, w))) {
            over.extend(callers.iter().cloned().map(|caller| Term {
                paths: paths.clone(),
                when: when.clone(),
                caller,
                ..term.clone()
            }));
        }
        for reason in &reasons {
            self.note_inexpressible(reason, &over);
        }
        let is_exact = reasons.is_empty();
        over.into_iter().next().filter(|_| is_exact || self.bound == Bound::Over)
    }

    /// Notes a conjunction that cannot be expressed. Each term of `over` is wider.
    fn note_inexpressible(&mut self, reason: &str, over: &[Term]) {
        let note = |effect| Note::new(self.origin, Effect::Stricter, format!("{reason}: {effect}"));
        match self.bound {
            Bound::Under => {
                let note = note("nothing is allowed by it");
                self.lost.push(Lost { note, over: over.to_vec() });
            }
            Bound::Over => _ = self.notes.insert(note(MORE_DENIED)),
        }
    }
}

/// The intersection of the same part of two terms; `None` if it is empty. A part that is `None`
/// matches everything.
#[expect(
    clippy::option_option,
    reason = "outer: whether the terms have requests in common; inner: whether the part is limited"
)]
fn common_part<T: Clone>(
    a: &Option<T>,
    b: &Option<T>,
    common: impl Fn(&T, &T) -> T,
    is_empty: impl Fn(&T) -> bool,
) -> Option<Option<T>> {
    match (a, b) {
        (None, part) | (part, None) => Some(part.clone()),
        (Some(a), Some(b)) => Some(common(a, b)).filter(|common| !is_empty(common)).map(Some),
    }
}

/// Why conditions of Envoy and of Istio are not imported.
pub(crate) mod reason {
    pub(crate) const CERTIFICATE: &str =
        "conditions on client certificates are not imported (write them with `source.certificate`)";
    pub(crate) const FILTER_STATE: &str = "rolegate does not see filter state";
    pub(crate) const OTHER: &str = "this condition cannot be expressed";
    pub(crate) const SERVER_ADDRESS: &str =
        "a rule does not depend on the address and the port of the server";
    pub(crate) const UNKNOWN_FIELD: &str = "unknown field";
}

/// Notes about a value in the original, and conditions that cannot be expressed exactly.
pub(crate) trait Notes {
    fn view(&self) -> &View<'_>;

    /// The place and path of this value.
    fn origin(&self) -> (Place, String) {
        (self.view().place(), self.view().path.clone())
    }

    /// A note about this value.
    fn note(&self, effect: Effect, message: impl Into<String>) -> Note {
        Note::new(&self.origin(), effect, message)
    }

    /// A condition that cannot be expressed at all.
    fn inexpressible(&self, message: impl Into<String>) -> Expr {
        self.between(Expr::never(), Expr::always(), message)
    }

    /// A condition in CEL. If a policy cannot have it, it becomes a condition that cannot be
    /// expressed.
    fn when(&self, when: When, doubt: impl IntoIterator<Item = Doubt>) -> Expr {
        match when.check() {
            Ok(()) => Expr::When(when, doubt.into_iter().collect()),
            Err(error) => self.inexpressible(format!("in a condition, {}", error.message)),
        }
    }

    /// A condition that cannot be expressed, if there are fields other than `known`: they may
    /// narrow the match.
    fn unknown_fields(&self, known: &str) -> Option<Expr> {
        let unknown = self.view().values_except(known);
        let conditions = unknown.iter().map(|field| field.inexpressible(reason::UNKNOWN_FIELD));
        (!unknown.is_empty()).then(|| Expr::all(conditions))
    }

    /// Combines the items of the list `key`, which must be the only field. A missing list cannot be
    /// expressed, because an empty conjunction would always hold.
    fn combined(&self, key: &str, combine: impl FnOnce(&[View<'_>]) -> Expr) -> Expr {
        let items = self.view().list(key);
        if items.is_empty() {
            return self.inexpressible(format!("`{key}` are expected here"));
        }
        self.unknown_fields(key).unwrap_or_else(|| combine(&items))
    }

    /// A condition that is approximated by the slightly wider `nearly`, but only with
    /// `allow_wider`.
    fn nearly(&self, nearly: Expr, over: Expr, allow_wider: bool, message: &str) -> Expr {
        let (effect, under) =
            if allow_wider { (Effect::Wider, nearly) } else { (Effect::Stricter, Expr::never()) };
        Expr::Between {
            under: Box::new(under),
            over: Box::new(over),
            note: self.note(effect, message),
            allow_wider_helps: !allow_wider,
        }
    }

    /// A condition that `under` implies, and that implies `over`.
    fn between(&self, under: Expr, over: Expr, message: impl Into<String>) -> Expr {
        Expr::Between {
            under: Box::new(under),
            over: Box::new(over),
            note: self.note(Effect::Stricter, message),
            allow_wider_helps: false,
        }
    }
}

impl Notes for View<'_> {
    fn view(&self) -> &View<'_> {
        self
    }
}
