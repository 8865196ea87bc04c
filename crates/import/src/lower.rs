//! Turns the conditions that allow and deny requests into rules and roles.

use std::collections::{BTreeMap, BTreeSet};

use document::{Place, View};
use policy::pattern::{Pattern, Scope};

use crate::expr::{Bound, Expr, Lost, Notes as _, Resolver, TooComplex};
use crate::note::{Effect, Note};
use crate::sources::Sources;
use crate::term::{self, Caller, Literal, Term};
use crate::when::{self, When};

/// The requests that the imported configuration of Envoy or Istio allows and denies.
#[derive(Debug, Default)]
pub(crate) struct Original {
    /// A request is allowed if an alternative of each of these lists holds.
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

impl Alternative {
    pub(crate) fn new(view: &View<'_>, name: &str, condition: Expr) -> Self {
        Self { name: name.to_owned(), origin: view.origin(), condition }
    }
}

impl Original {
    /// Adds a condition that each allowed request meets.
    pub(crate) fn require(&mut self, view: &View<'_>, name: &str, condition: Expr) {
        self.allow.push(vec![Alternative::new(view, name, condition)]);
    }
}

/// A rule. [`Role`] has its callers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rule {
    /// The name of the original's policy.
    pub(crate) name: String,
    pub(crate) is_deny: bool,
    /// False for an approximation of the original's condition.
    pub(crate) is_exact: bool,
    pub(crate) methods: Option<BTreeSet<String>>,
    pub(crate) hosts: Option<Vec<Scope>>,
    pub(crate) paths: Option<Vec<Pattern>>,
    /// Conditions in CEL, which all hold.
    pub(crate) when: BTreeSet<When>,
}

/// The rules of some callers.
#[derive(Debug)]
pub(crate) struct Role {
    pub(crate) callers: BTreeSet<Caller>,
    pub(crate) rules: Vec<Rule>,
}

/// A term and the policy it comes from.
#[derive(Clone, Debug)]
struct NamedTerm {
    name: String,
    origin: (Place, String),
    term: Term,
}

pub(crate) fn roles(
    original: &Original,
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<Role>, TooComplex> {
    let mut rules: Vec<(Rule, Caller)> = Vec::new();
    let requirements = add_deny_rules(original, &mut rules, notes)?;
    let allowed = allowed_terms(original, &requirements, notes)?;
    let mut kept: Vec<NamedTerm> = Vec::new();
    for named in &allowed {
        match deny_rules_for_exclusions(named, &allowed) {
            Ok(denials) => {
                kept.push(named.clone());
                rules.extend(denials);
            }
            Err(Conflict(name)) => {
                if let Some(named) = named.with_conditions(&original.sources) {
                    kept.push(named);
                    continue;
                }
                let message = format!(
                    "`{name}` allows requests that this excludes, and a `deny` rule would deny \
                     them: nothing is allowed by it"
                );
                notes.insert(Note::new(&named.origin, Effect::Stricter, message));
            }
        }
    }
    for NamedTerm { name, term, .. } in kept {
        rules.push((Rule::new(&term, &name, false), term.caller));
    }
    Ok(roles_of_callers(merged(rules)))
}

/// Adds the `deny` rules. Returns conditions that each allowed request must meet: a denial of all
/// requests outside a set becomes a condition on the allowed requests.
fn add_deny_rules(
    original: &Original,
    rules: &mut Vec<(Rule, Caller)>,
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<Expr>, TooComplex> {
    if original.deny.is_empty() {
        return Ok(Vec::new());
    }
    // The notes are dropped: `roles` calls `allowed_terms` again, with the requirements, and keeps
    // the notes of that call.
    let allowed = allowed_terms(original, &[], &mut BTreeSet::new())?;
    let has_effect = |term: &Term| allowed.iter().any(|a| a.term.may_overlap(term));
    let mut requirements = Vec::new();
    for Alternative { name, origin, condition } in &original.deny {
        let mut approximations = BTreeSet::new();
        let mut resolver = Resolver::new(&mut approximations, Bound::Over, origin);
        let terms = resolver.terms(condition, false)?;
        let is_exact = approximations.iter().all(|note| note.effect == Effect::Unusual);
        if !terms.iter().any(has_effect) {
            approximations.retain(|note| note.effect != Effect::Unusual);
            approximations = approximations.into_iter().map(Note::without_effect).collect();
        }
        notes.extend(approximations);
        for term in terms {
            if term.not.is_empty() {
                rules.push((Rule { is_exact, ..Rule::new(&term, name, true) }, term.caller));
            } else if has_effect(&term) {
                // The negation of the term: an excluded literal holds, or a limit does not.
                let excluded = term.not.iter().cloned().map(Expr::Is);
                let outside = term.limits().into_iter().map(|limit| Expr::Is(limit).negated());
                requirements.push(Expr::any(excluded.chain(outside)));
            } else {
                // A person who allows more later needs to know that the `deny` rule is missing.
                let message =
                    format!("nothing that is allowed matches `{name}`, so it has no `deny` rule");
                notes.insert(Note::new(origin, Effect::Same, message));
            }
        }
    }
    Ok(requirements)
}

/// The terms that allow requests which meet all `requirements`.
fn allowed_terms(
    original: &Original,
    requirements: &[Expr],
    notes: &mut BTreeSet<Note>,
) -> Result<Vec<NamedTerm>, TooComplex> {
    // Rules are named after the first list that does not always hold.
    let mut lists = original.allow.iter();
    let is_conditional = |list: &&Vec<Alternative>| {
        list.is_empty() || !list.iter().all(|alternative| alternative.condition.is_always())
    };
    let Some(first) = lists.clone().find(is_conditional).or_else(|| lists.next()) else {
        return Ok(Vec::new());
    };
    let more = original.allow.iter().filter(|list| !std::ptr::eq(*list, first));
    let more = more.map(|list| Expr::any(list.iter().map(|item| item.condition.clone())));
    let more: Vec<Expr> = more.chain(requirements.iter().cloned()).collect();
    let (mut allowed, mut lost): (Vec<NamedTerm>, Vec<Lost>) = Default::default();
    for Alternative { name, origin, condition } in first {
        let condition = Expr::all([condition.clone()].into_iter().chain(more.iter().cloned()));
        let mut resolver = Resolver::new(notes, Bound::Under, origin);
        for mut term in resolver.terms(&condition, false)? {
            if term.simplify() {
                allowed.push(NamedTerm { name: name.clone(), origin: origin.clone(), term });
            }
        }
        lost.append(&mut resolver.lost);
    }
    let lost = lost.into_iter().filter(|lost| !is_allowed(lost, &allowed));
    notes.extend(lost.map(|lost| lost.note));
    Ok(term::without_redundant(allowed, |a| &a.term))
}

/// Whether other terms allow the whole conjunction that was left out.
fn is_allowed(lost: &Lost, allowed: &[NamedTerm]) -> bool {
    lost.over
        .iter()
        .cloned()
        .any(|mut over| !over.simplify() || allowed.iter().any(|a| a.term.covers(&over)))
}

/// The name of another alternative, which allows requests that a term excludes.
struct Conflict(String);

/// The `deny` rules for the literals that a term excludes.
fn deny_rules_for_exclusions(
    named: &NamedTerm,
    allowed: &[NamedTerm],
) -> Result<Vec<(Rule, Caller)>, Conflict> {
    let mut rules = Vec::new();
    for literal in &named.term.not {
        let denied = Term { not: Vec::new(), ..named.term.clone() }.with(literal);
        let conflict = allowed.iter().find(|other| {
            !std::ptr::eq(*other, named)
                && !other.term.not.contains(literal)
                && denied.may_overlap(&other.term)
        });
        if let Some(other) = conflict {
            return Err(Conflict(other.name.clone()));
        }
        rules.push((Rule::new(&denied, &named.name, true), denied.caller));
    }
    Ok(rules)
}

impl NamedTerm {
    /// This term with conditions in place of the excluded literals; `None` if there are no such
    /// conditions.
    fn with_conditions(&self, sources: &Sources) -> Option<Self> {
        let mut when = self.term.when.clone();
        for literal in &self.term.not {
            let excluded = match literal {
                Literal::Methods(methods) => {
                    let methods: Vec<String> = methods.iter().map(|m| when::quoted(m)).collect();
                    When::Test(format!("request.method in [{}]", methods.join(", ")))
                }
                Literal::Caller(caller) => sources.caller_condition(caller)?,
                Literal::Hosts(_) | Literal::Paths(_) | Literal::When(_) => return None,
            };
            when.insert(excluded.negated());
        }
        When::all(when.iter().cloned()).check().ok()?;
        let term = Term { when, not: Vec::new(), ..self.term.clone() };
        Some(Self { term, ..self.clone() })
    }
}

impl Rule {
    fn new(term: &Term, name: &str, is_deny: bool) -> Self {
        let Term { methods, hosts, paths, when, .. } = term.clone();
        Self { name: name.to_owned(), is_deny, is_exact: true, methods, hosts, paths, when }
    }

    /// Merges another rule into this rule if they differ in one part only. Returns whether it did.
    fn merge(&mut self, other: &Self) -> bool {
        if (&self.name, self.is_deny, &self.when) != (&other.name, other.is_deny, &other.when) {
            return false;
        }
        let same =
            (self.methods == other.methods, self.hosts == other.hosts, self.paths == other.paths);
        match same {
            (_, true, true) => merge_part(&mut self.methods, &other.methods),
            (true, _, true) => merge_part(&mut self.hosts, &other.hosts),
            (true, true, _) => merge_part(&mut self.paths, &other.paths),
            _ => return false,
        }
        self.is_exact &= other.is_exact;
        true
    }
}

/// Adds the items of another rule's part; `None` in either matches everything.
fn merge_part<C, T: PartialEq>(part: &mut Option<C>, other: &Option<C>)
where
    C: FromIterator<T> + IntoIterator<Item = T> + Clone,
{
    *part = part.take().zip(other.clone()).map(|(items, more)| {
        let mut joined: Vec<T> = Vec::new();
        for item in items.into_iter().chain(more) {
            if !joined.contains(&item) {
                joined.push(item);
            }
        }
        joined.into_iter().collect()
    });
}

/// Merges rules of the same caller that differ in one part only.
fn merged(rules: Vec<(Rule, Caller)>) -> BTreeMap<Caller, Vec<Rule>> {
    let mut by_caller: BTreeMap<Caller, Vec<Rule>> = BTreeMap::new();
    for (rule, caller) in rules {
        let merged = by_caller.entry(caller).or_default();
        if !merged.contains(&rule) && !merged.iter_mut().any(|earlier| earlier.merge(&rule)) {
            merged.push(rule);
        }
    }
    by_caller
}

/// The rules of one policy for a caller become a role with the policy's name. Callers with the same
/// rules share a role.
fn roles_of_callers(rules: BTreeMap<Caller, Vec<Rule>>) -> Vec<Role> {
    let mut roles: Vec<Role> = Vec::new();
    for (caller, rules) in rules {
        if caller.is_reserved() {
            roles.push(Role { callers: BTreeSet::from([caller]), rules });
            continue;
        }
        let mut by_name: Vec<Vec<Rule>> = Vec::new();
        for rule in rules {
            let has_name =
                |group: &&mut Vec<Rule>| group.first().is_some_and(|r| r.name == rule.name);
            match by_name.iter_mut().find(has_name) {
                Some(group) => group.push(rule),
                None => by_name.push(vec![rule]),
            }
        }
        for rules in by_name {
            let mut shared =
                roles.iter_mut().filter(|role| role.rules == rules && !role.is_reserved());
            match shared.next() {
                Some(role) => _ = role.callers.insert(caller.clone()),
                None => roles.push(Role { callers: BTreeSet::from([caller.clone()]), rules }),
            }
        }
    }
    roles
}

impl Role {
    /// Whether every caller, or every authenticated caller, has this role.
    pub(crate) fn is_reserved(&self) -> bool {
        self.callers.iter().any(Caller::is_reserved)
    }
}
