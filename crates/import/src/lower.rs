//! Makes rules and roles of the conditions under which requests are allowed and denied.

use std::collections::{BTreeMap, BTreeSet};

use document::Place;

use crate::expr::{Bound, Expr, Lost, Resolver, TooComplex};
use crate::matcher;
use crate::note::{Effect, Note};
use crate::sources::Sources;
use crate::term::{self, Caller, Literal, Term};
use policy::pattern::Pattern;

#[derive(Debug, Default)]
pub(crate) struct Original {
    /// A request is allowed if of each of these lists an alternative holds.
    pub(crate) allow: Vec<Vec<Alternative>>,
    /// None of these may hold.
    pub(crate) deny: Vec<Alternative>,
    /// Who authenticates callers.
    pub(crate) sources: Sources,
    /// Notes that depend on no condition.
    pub(crate) notes: Vec<Note>,
}

#[derive(Debug)]
pub(crate) struct Alternative {
    /// The name of the original's policy.
    pub(crate) name: String,
    pub(crate) origin: (Place, String),
    pub(crate) condition: Expr,
}

/// A rule with those for whom it is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// The name of the original's policy.
    pub(crate) name: String,
    pub(crate) is_deny: bool,
    /// Whether the original has it, and not less because that cannot be expressed.
    pub(crate) is_exact: bool,
    pub(crate) methods: Option<BTreeSet<String>>,
    pub(crate) hosts: Option<Vec<policy::pattern::Scope>>,
    pub(crate) paths: Option<Vec<Pattern>>,
}

/// The rules of some callers.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) callers: BTreeSet<Caller>,
    pub(crate) rules: Vec<Rule>,
}

/// A term with the policy from which it is.
#[derive(Clone, Debug)]
struct Named {
    name: String,
    origin: (Place, String),
    term: Term,
}

pub(crate) fn roles(
    original: &Original,
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<Role>, TooComplex> {
    let mut rules: Vec<(Rule, Caller)> = Vec::new();
    let limits = denied(original, &mut rules, notes)?;
    let allowed = allowed(original, &limits, notes)?;
    let mut kept = Vec::new();
    for named in &allowed {
        match excluded(named, &allowed) {
            Ok(denials) => {
                kept.push(named.clone());
                rules.extend(denials);
            }
            Err(Conflict(name)) => {
                let common = named.with_common_methods();
                let message = match &common {
                    Some(_) => {
                        "only the common methods besides those that are excluded: less is allowed"
                            .to_owned()
                    }
                    None => format!(
                        "what it excludes, others may do (`{name}`), and a `deny` rule would deny it to them, too: nothing is allowed by it"
                    ),
                };
                notes.insert(Note::new(&named.origin, Effect::Stricter, message));
                kept.extend(common);
            }
        }
    }
    for Named { name, term, .. } in kept {
        rules.push((Rule::new(&term, &name, false), term.caller));
    }
    Ok(by_caller(merged(rules)))
}

fn resolver<'r>(
    notes: &'r mut BTreeSet<Note>,
    bound: Bound,
    origin: &'r (Place, String),
) -> Resolver<'r> {
    Resolver { notes, bound, origin, lost: Vec::new() }
}

/// Adds the rules that deny. Returns conditions that each allowed request must meet: to deny where
/// a condition does not hold is to allow only where it holds.
fn denied(
    original: &Original,
    rules: &mut Vec<(Rule, Caller)>,
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<Expr>, TooComplex> {
    if original.deny.is_empty() {
        return Ok(Vec::new());
    }
    // The notes of the second call count, which is within the limits.
    let allowed = allowed(original, &[], &mut BTreeSet::new())?;
    let mut limits = Vec::new();
    for Alternative { name, origin, condition } in &original.deny {
        let mut own = BTreeSet::new();
        let terms = resolver(&mut own, Bound::Over, origin).terms(condition)?;
        let has_effect = |term: &Term| allowed.iter().any(|allowed| allowed.term.may_overlap(term));
        let is_exact = own.is_empty();
        if !terms.iter().any(has_effect) {
            own = own.into_iter().map(Note::without_effect).collect();
        }
        notes.extend(own);
        for term in terms {
            if term.not.is_empty() {
                rules.push((Rule { is_exact, ..Rule::new(&term, name, true) }, term.caller));
            } else if has_effect(&term) {
                let not = term.limits().into_iter().map(|limit| Expr::Is(limit).negated());
                limits.push(Expr::any(term.not.iter().cloned().map(Expr::Is).chain(not).collect()));
            } else {
                // Whoever allows more later must know of it.
                let message = format!(
                    "nothing that is allowed matches `{name}`, so the policy does not have what it denies"
                );
                notes.insert(Note::new(origin, Effect::Same, message));
            }
        }
    }
    Ok(limits)
}

/// The terms that allow requests.
fn allowed(
    original: &Original,
    limits: &[Expr],
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<Named>, TooComplex> {
    // The alternatives of the first condition that may not hold give rules their names.
    let is_limit = |all: &&Vec<Alternative>| {
        let always = |one: &Alternative| matches!(&one.condition, Expr::All(all) if all.is_empty());
        !all.iter().all(always) || all.is_empty()
    };
    let Some(first) = original.allow.iter().find(is_limit).or_else(|| original.allow.first())
    else {
        return Ok(Vec::new());
    };
    let more: Vec<Expr> = original
        .allow
        .iter()
        .filter(|all| !std::ptr::eq(*all, first))
        .map(|all| Expr::any(all.iter().map(|one| one.condition.clone()).collect()))
        .chain(limits.iter().cloned())
        .collect();
    let (mut all, mut lost): (Vec<Named>, Vec<Lost>) = Default::default();
    for alternative in first {
        let condition = Expr::All(
            [alternative.condition.clone()].into_iter().chain(more.iter().cloned()).collect(),
        );
        let mut resolver = resolver(notes, Bound::Under, &alternative.origin);
        let terms = resolver.terms(&condition)?;
        lost.append(&mut resolver.lost);
        for mut term in terms {
            if term.simplify() {
                all.push(Named {
                    name: alternative.name.clone(),
                    origin: alternative.origin.clone(),
                    term,
                });
            }
        }
    }
    notes.extend(lost.into_iter().filter(|lost| !is_allowed(lost, &all)).map(|lost| lost.note));
    Ok(term::without_redundant(all, |named| &named.term))
}

/// Whether terms allow all that was left out.
fn is_allowed(lost: &Lost, all: &[Named]) -> bool {
    lost.over
        .iter()
        .cloned()
        .any(|mut over| !over.simplify() || all.iter().any(|named| named.term.covers(&over)))
}

/// The name of another alternative that allows requests which one excludes.
struct Conflict(String);

/// The `deny` rules for the literals that a term excludes.
fn excluded(named: &Named, all: &[Named]) -> Result<Vec<(Rule, Caller)>, Conflict> {
    let mut rules = Vec::new();
    for literal in &named.term.not {
        let denied = Term { not: Vec::new(), ..named.term.clone() }.with(literal);
        for other in all.iter().filter(|other| !std::ptr::eq(*other, named)) {
            let excludes_too = other.term.not.contains(literal);
            if !excludes_too && denied.may_overlap(&other.term) {
                return Err(Conflict(other.name.clone()));
            }
        }
        rules.push((Rule::new(&denied, &named.name, true), denied.caller));
    }
    Ok(rules)
}

impl Named {
    /// The same without excluded methods, but only with common ones; `None` if it excludes
    /// something else.
    fn with_common_methods(&self) -> Option<Self> {
        let mut excluded: Vec<&String> = Vec::new();
        for literal in &self.term.not {
            let Literal::Methods(methods) = literal else { return None };
            excluded.extend(methods);
        }
        if excluded.is_empty() {
            return None;
        }
        let methods = matcher::METHODS.iter().map(|method| (*method).to_owned());
        let methods = methods.filter(|method| !excluded.contains(&method)).collect();
        let term = Term { methods: Some(methods), not: Vec::new(), ..self.term.clone() };
        Some(Self { term, ..self.clone() })
    }
}

impl Rule {
    fn new(term: &Term, name: &str, is_deny: bool) -> Self {
        let Term { methods, hosts, paths, .. } = term.clone();
        Self { name: name.to_owned(), is_deny, is_exact: true, methods, hosts, paths }
    }

    /// Joins another rule that differs in one part only.
    fn join(&mut self, other: &Self) -> bool {
        if (&self.name, self.is_deny) != (&other.name, other.is_deny) {
            return false;
        }
        let same =
            (self.methods == other.methods, self.hosts == other.hosts, self.paths == other.paths);
        match same {
            (_, true, true) => self.methods = joined(self.methods.take(), &other.methods),
            (true, _, true) => self.hosts = joined(self.hosts.take(), &other.hosts),
            (true, true, _) => self.paths = joined(self.paths.take(), &other.paths),
            _ => return false,
        }
        self.is_exact &= other.is_exact;
        true
    }
}

/// The union of two limits.
fn joined<A, T>(one: Option<A>, other: &Option<A>) -> Option<A>
where
    A: FromIterator<T> + IntoIterator<Item = T> + Clone,
    T: PartialEq,
{
    let (one, other) = (one?, other.clone()?);
    let mut all: Vec<T> = Vec::new();
    for item in one.into_iter().chain(other) {
        if !all.contains(&item) {
            all.push(item);
        }
    }
    Some(all.into_iter().collect())
}

/// Joins the rules of each caller that differ in one part only.
fn merged(rules: Vec<(Rule, Caller)>) -> BTreeMap<Caller, Vec<Rule>> {
    let mut all: BTreeMap<Caller, Vec<Rule>> = BTreeMap::new();
    for (rule, caller) in rules {
        let known = all.entry(caller).or_default();
        if !known.contains(&rule) && !known.iter_mut().any(|known| known.join(&rule)) {
            known.push(rule);
        }
    }
    all
}

/// Callers with the same rules have one role.
fn by_caller(rules: BTreeMap<Caller, Vec<Rule>>) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    // The rules of one policy for the same callers become a role, which has its name.
    for (caller, rules) in rules {
        let reserved = caller.is_reserved();
        let mut by_name: Vec<Vec<Rule>> = Vec::new();
        for rule in rules {
            let belongs = |group: &&mut Vec<Rule>| {
                reserved || group.first().is_some_and(|first| first.name == rule.name)
            };
            match by_name.iter_mut().find(belongs) {
                Some(group) => group.push(rule),
                None => by_name.push(vec![rule]),
            }
        }
        for rules in by_name {
            match roles
                .iter_mut()
                .find(|role| !reserved && role.rules == rules && !role.is_reserved())
            {
                Some(role) => {
                    role.callers.insert(caller.clone());
                }
                None => roles.push(Role { callers: BTreeSet::from([caller.clone()]), rules }),
            }
        }
    }
    roles
}

impl Role {
    /// Whether every caller, or every authenticated one, has it.
    pub(crate) fn is_reserved(&self) -> bool {
        self.callers.iter().any(Caller::is_reserved)
    }
}
