//! The ways in which a rule counts for a caller: the conditions of the rule, and of the roles and
//! grants by which the caller has it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use condition::{
    Attribute, CallerClaims, CallerInputs, Condition, Expression, Inputs, KnownInputs,
    Placeholders, RequestInputs, Value, VariableKind,
};
use policy::Policy;
use policy::model::{Effect, Role, RoleId, Rule};
use policy::pattern::{Pattern, PatternSubject, PlaceholderIndices, Scope};

use crate::rules::in_order;

/// The maximum number of ways that are kept apart. A role can be reached by many chains of roles
/// that extend it. If these roles have conditions, each chain is a way of its own.
const MAX_WAYS: usize = 8;

/// The text of the clause that stands for all ways if there are more than [`MAX_WAYS`].
const MANY: &str = "one of more than 8 sets of conditions";

/// Alternative ways in which a rule counts. Without any, the rule never counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ways(Vec<Way>);

/// A rule counts in this way if all these conditions hold. Without any, the rule always counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    /// The place where the rule matches. `None` if it is not known, or if no condition of a role or
    /// of a grant reads it.
    place: Option<Arc<Place>>,
    clauses: Vec<Clause>,
}

/// A condition, or what is left of it after the parts whose values are known are evaluated.
#[derive(Clone, Debug)]
struct Clause {
    /// As it is written, or what is left of it.
    text: Arc<str>,
    expression: Arc<Expression>,
}

/// Where a rule matches: a path of a request, and the placeholders of the rule's patterns.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    path: Vec<u8>,
    /// The placeholders of the pattern that matches the path.
    in_path: PlaceholderIndices,
    /// The placeholders of the scope that matches the host.
    in_host: PlaceholderIndices,
}

/// What is known of a request and of its caller: [`KnownInputs`] without the place of a rule.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    pub(crate) request: RequestInputs<'a>,
    pub(crate) caller: Option<&'a CallerInputs<'a>>,
    pub(crate) unknown: &'a [VariableKind],
}

/// Where a further condition is shown.
#[derive(Clone, Copy)]
pub(crate) enum Position {
    First,
    Last,
}

/// Clauses are equal if they have the same text. At one place, a text has one meaning in a policy.
/// [`Clause::has_one_meaning`] says whether it also has the same meaning at every other place.
impl PartialEq for Clause {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Clause {}

impl PartialOrd for Clause {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Clause {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.text.cmp(&other.text)
    }
}

impl From<&Condition> for Clause {
    fn from(condition: &Condition) -> Self {
        let Condition { text, expression } = condition;
        Self { text: text.clone(), expression: expression.clone() }
    }
}

impl Clause {
    /// Whether its text means the same at every [`Place`]. It does not if the clause reads the path
    /// or placeholders, or if it is [`MANY`], which can stand for any conditions.
    fn has_one_meaning(&self) -> bool {
        let mut attributes = self.expression.attributes().into_iter();
        *self.text != *MANY && attributes.all(|read| read.kind() != VariableKind::Target)
    }
}

impl Given<'_> {
    pub(crate) fn inputs<'p>(&'p self, place: &'p Place) -> Inputs<'p> {
        let Place { path, in_path, in_host } = place;
        Inputs {
            request: RequestInputs { path, ..self.request },
            caller: self.caller,
            placeholders: Placeholders { path: in_path, host: in_host },
            ..Inputs::default()
        }
    }

    /// Whether a variable is known. Variables of the path or the rule count as known: each
    /// [`Place`] has their values.
    pub(crate) fn has(&self, variable: &Attribute) -> bool {
        let place = Place::default();
        let known = KnownInputs { inputs: self.inputs(&place), unknown: self.unknown };
        // The claims of a caller may be given although its source is not known.
        let has_claims = *variable == Attribute::Claims
            && self.caller.is_some_and(|caller| matches!(caller.claims, CallerClaims::Known(_)));
        has_claims || variable.kind() == VariableKind::Target || known.has(variable)
    }

    /// Whether the caller certainly has no such claim, or one that is not a text.
    fn lacks(&self, claim: &Expression) -> bool {
        let nowhere = Place::default();
        let value = condition::evaluate(claim, &self.inputs(&nowhere));
        self.has(&Attribute::Claims) && !matches!(value, Ok(Value::Text(_)))
    }

    /// Evaluates a clause, as far as what it reads is known, for a rule with this effect. A fault
    /// counts as false for an `allow` rule, and as true for a `deny` rule.
    /// * `None`: the clause never holds, so the rule never counts.
    /// * `Some(None)`: the clause always holds.
    /// * `Some(Some(_))`: what is left of the clause.
    fn reduce(
        &self,
        clause: &Clause,
        place: Option<&Place>,
        effect: Effect,
    ) -> Option<Option<Clause>> {
        // Without a place, the variables of the path and the rule are unknown, too.
        let without_place = [self.unknown, &[VariableKind::Target]].concat();
        let unknown = if place.is_some() { self.unknown } else { &without_place };
        let nowhere = Place::default();
        let inputs = self.inputs(place.unwrap_or(&nowhere));
        let reduced = condition::reduce(&clause.expression, &KnownInputs { inputs, unknown });
        let (may_count, may_not_count) = match effect {
            Effect::Allow => {
                let outcomes = reduced.outcomes;
                (outcomes.truth, outcomes.falsehood || outcomes.fault)
            }
            Effect::Deny => {
                let outcomes = reduced.outcomes;
                (outcomes.truth || outcomes.fault, outcomes.falsehood)
            }
        };
        if !may_count {
            return None;
        }
        if !may_not_count {
            return Some(None);
        }
        let is_whole = reduced.expression == *clause.expression;
        Some(Some(if is_whole {
            clause.clone()
        } else {
            let text = reduced.expression.to_string().into();
            Clause { text, expression: Arc::new(reduced.expression) }
        }))
    }
}

impl Place {
    /// The places at which a rule matches a request of this user. Without a `user`: the places at
    /// which it matches for everybody.
    pub(crate) fn all(
        rule: &Rule,
        host: &[u8],
        path: &[u8],
        user: Option<PatternSubject<'_>>,
    ) -> Vec<Arc<Self>> {
        let scopes = rule.scopes.iter().filter(|scope| scope.matches(host));
        let any = rule.scopes.is_empty().then(PlaceholderIndices::new);
        let hosts: Vec<PlaceholderIndices> =
            any.into_iter().chain(scopes.map(Scope::placeholders)).collect();
        let patterns: Vec<&Pattern> =
            rule.resources.iter().filter(|pattern| pattern.matches(path, user)).collect();
        let mut places = Vec::new();
        for in_host in &hosts {
            for pattern in &patterns {
                let (path, in_path) = (path.to_vec(), pattern.placeholders());
                places.push(Arc::new(Self { path, in_path, in_host: in_host.clone() }));
            }
        }
        places
    }
}

/// Whether a condition of a role or of a grant depends on the rule or the path.
pub(crate) fn roles_read_places(policy: &Policy) -> bool {
    let of_roles = policy.roles.iter().filter_map(|role| role.when.as_ref());
    let of_grants = policy.grants.iter().filter_map(|grant| grant.when.as_ref());
    of_roles.chain(of_grants).any(|when| {
        let attributes = when.expression.attributes();
        attributes.into_iter().any(|attribute| attribute.kind() == VariableKind::Target)
    })
}

impl Ways {
    /// The ways in which a rule without a condition counts.
    pub(crate) fn always() -> Self {
        Self(vec![Way::default()])
    }

    /// The ways in which a rule counts, at places where it matches, for callers who have its role.
    /// With `keeps_place` each way keeps its place, because conditions of roles or grants that are
    /// added later may read it.
    pub(crate) fn at_places(
        (rule, effect): (&Rule, Effect),
        places: Vec<Arc<Place>>,
        keeps_place: bool,
        given: &Given<'_>,
    ) -> Self {
        let mut ways = Self::default();
        for place in places {
            let mut way = Way { place: Some(place), clauses: Vec::new() };
            if let Some(when) = &rule.when {
                let Some(longer) = way.under(&when.into(), Position::First, effect, given) else {
                    continue;
                };
                way = longer;
            }
            way.place = way.place.filter(|_| keeps_place);
            ways.add(way);
        }
        ways
    }

    pub(crate) fn is_never(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_always(&self) -> bool {
        self.0.iter().any(|way| way.clauses.is_empty())
    }

    /// Adds a way, unless another way includes it. Removes the ways that it includes.
    fn add(&mut self, way: Way) {
        if self.0.iter().any(|w| w.includes(&way)) {
            return;
        }
        self.0.retain(|w| !way.includes(w));
        self.0.push(way);
        if self.0.len() > MAX_WAYS {
            // This condition must stay undecided. No cached value has this index, so the value of
            // the expression is never known.
            let many =
                Clause { text: MANY.into(), expression: Expression::Cached(usize::MAX).into() };
            self.0 = vec![Way { place: None, clauses: vec![many] }];
        }
    }

    pub(crate) fn extend(&mut self, ways: &Self) {
        for way in &ways.0 {
            self.add(way.clone());
        }
    }

    /// The ways under a further condition.
    pub(crate) fn under(
        &self,
        when: Option<&Condition>,
        position: Position,
        effect: Effect,
        given: &Given<'_>,
    ) -> Self {
        let Some(when) = when else { return self.clone() };
        let mut ways = Self::default();
        let clause = when.into();
        for longer in self.0.iter().filter_map(|way| way.under(&clause, position, effect, given)) {
            ways.add(longer);
        }
        ways
    }

    /// The ways, with what is left of their conditions for these inputs. Ways in which a rule with
    /// this effect never counts are left out.
    pub(crate) fn reduced(&self, effect: Effect, given: &Given<'_>) -> Self {
        let mut ways = Self::default();
        for Way { place, clauses } in &self.0 {
            let mut left = Some(Way { place: place.clone(), clauses: Vec::new() });
            for clause in clauses.iter().rev() {
                left = left.and_then(|way| way.under(clause, Position::First, effect, given));
            }
            if let Some(way) = left {
                ways.add(way);
            }
        }
        ways
    }

    /// The ways, each without its place if its conditions do not read it. Ways that only differed
    /// in their places become one.
    pub(crate) fn without_places(&self) -> Self {
        let mut ways = Self::default();
        for Way { place, clauses } in &self.0 {
            let is_needed = !clauses.iter().all(Clause::has_one_meaning);
            let place = place.clone().filter(|_| is_needed);
            ways.add(Way { place, clauses: clauses.clone() });
        }
        ways
    }

    /// These ways, without those that are certainly denied: they have all conditions of a way of
    /// `denied`, and those conditions mean the same at every place.
    pub(crate) fn unless_denied(&self, denied: &Self) -> Self {
        let certain = denied.0.iter().filter(|way| way.clauses.iter().all(Clause::has_one_meaning));
        let certain: Vec<&Way> = certain.collect();
        let ways = self
            .0
            .iter()
            .filter(|way| !certain.iter().any(|denial| way.clauses_include(&denial.clauses)));
        Self(ways.cloned().collect())
    }

    /// One text for each way: its conditions. A way is left out if its conditions include all those
    /// of a way of `unless`.
    pub(crate) fn conditions(&self, unless: &Self) -> Vec<String> {
        let ways =
            self.0.iter().filter(|way| !unless.0.iter().any(|w| way.clauses_include(&w.clauses)));
        ways.map(ToString::to_string).collect()
    }

    /// The variables that the conditions of these ways read.
    pub(crate) fn variables(&self) -> Vec<Variable> {
        let mut found = Vec::new();
        for clause in self.0.iter().flat_map(|way| &way.clauses) {
            collect_variables(&clause.expression, &mut found);
        }
        found
    }

    /// The condition, as text; `None` if the rule always counts, or never.
    pub(crate) fn condition(&self) -> Option<String> {
        (!self.is_always() && !self.is_never()).then(|| self.to_string())
    }
}

impl Way {
    /// This way with a further condition; `None` if a rule then never counts.
    fn under(
        &self,
        clause: &Clause,
        position: Position,
        effect: Effect,
        given: &Given<'_>,
    ) -> Option<Self> {
        let left = given.reduce(clause, self.place.as_deref(), effect)?;
        let mut way = self.clone();
        if let Some(clause) = left.filter(|clause| !self.clauses.contains(clause)) {
            match position {
                Position::First => way.clauses.insert(0, clause),
                Position::Last => way.clauses.push(clause),
            }
        }
        Some(way)
    }

    /// Whether a rule that counts in the other way also counts in this way: the place is the same,
    /// and the other way has all conditions of this way.
    fn includes(&self, other: &Self) -> bool {
        self.place == other.place && other.clauses_include(&self.clauses)
    }

    fn clauses_include(&self, clauses: &[Clause]) -> bool {
        clauses.iter().all(|clause| self.clauses.contains(clause))
    }
}

impl fmt::Display for Ways {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, way) in self.0.iter().enumerate() {
            write!(f, "{}{way}", if index == 0 { "" } else { " || " })?;
        }
        Ok(())
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Clause { text, expression }) in self.clauses.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " && " })?;
            let binds_loosely = matches!(**expression, Expression::Conditional(_))
                || matches!(**expression, Expression::Or(..)) && self.clauses.len() > 1;
            if binds_loosely && text.contains(' ') {
                write!(f, "({text})")?;
            } else {
                f.write_str(text)?;
            }
        }
        Ok(())
    }
}

/// Whether any condition of the policy reads the variable `roles`.
pub(crate) fn reads_roles(policy: &Policy) -> bool {
    let mut conditions = policy.all_conditions();
    conditions.any(|when| when.expression.attributes().contains(&&Attribute::Roles))
}

/// A copy of the rule, to be shown, with the hosts and paths that can match for this caller. `None`
/// if there are none. The copy has no condition if the condition only compares placeholders with
/// claims: the patterns of the rule already show these placeholders.
pub(crate) fn shown_rule(rule: &Rule, given: &Given<'_>) -> Option<Rule> {
    let shown = rule.when.as_ref().filter(|when| !only_checks_placeholders(&when.expression));
    let mut copy = Rule { when: shown.cloned(), ..rule.clone() };
    if let Some(when) = &rule.when {
        remove_impossible(&mut copy, &when.expression, given);
    }
    let has_hosts = rule.scopes.is_empty() || !copy.scopes.is_empty();
    (has_hosts && !copy.resources.is_empty()).then_some(copy)
}

/// Removes the hosts and paths of a rule that require a claim which the caller lacks.
fn remove_impossible(rule: &mut Rule, when: &Expression, given: &Given<'_>) {
    if let Expression::IsClaim(required, claim) = when
        && given.lacks(claim)
    {
        rule.scopes.retain(|scope| {
            let mut placeholders = scope.placeholders().into_iter();
            placeholders.all(|(name, _)| Attribute::HostPlaceholder(name) != *required)
        });
        rule.resources.retain(|pattern| {
            let mut placeholders = pattern.placeholders().into_iter();
            placeholders.all(|(name, _)| Attribute::PathPlaceholder(name) != *required)
        });
    }
    for part in when.parts() {
        remove_impossible(rule, part, given);
    }
}

fn only_checks_placeholders(expression: &Expression) -> bool {
    if let Expression::And(left, right) = expression {
        only_checks_placeholders(left) && only_checks_placeholders(right)
    } else {
        matches!(expression, Expression::IsClaim(..))
    }
}

/// The ways in which a rule counts for a caller who is given its role, at any place. Conditions
/// that read the path or placeholders stay undecided.
pub(crate) fn ways_with_role(
    (role, rule, effect): (&Role, &Rule, Effect),
    given: &Given<'_>,
) -> Ways {
    let places = vec![Arc::new(Place::default())];
    let unknown = [given.unknown, &[VariableKind::Target]].concat();
    let given = Given { unknown: &unknown, ..*given };
    let Some(rule) = shown_rule(rule, &given) else { return Ways::default() };
    let ways = Ways::at_places((&rule, effect), places, true, &given);
    ways.under(role.when.as_ref(), Position::First, effect, &given)
}

/// A role, and the condition of the grant by which somebody has it.
pub(crate) type GivenRole<'p> = (RoleId, Option<&'p Condition>);

/// For each of these roles, and for each role that they extend: the ways in which a caller has it.
/// The conditions are evaluated for rules with this effect, at this place.
pub(crate) fn ways_of_roles(
    policy: &Policy,
    roles: &[GivenRole<'_>],
    (effect, place): (Effect, Option<&Arc<Place>>),
    given: &Given<'_>,
) -> BTreeMap<RoleId, Ways> {
    let start = Ways(vec![Way { place: place.cloned(), clauses: Vec::new() }]);
    let mut ways: BTreeMap<RoleId, Ways> = BTreeMap::new();
    for (role, when) in roles {
        ways.entry(*role).or_default().extend(&start.under(*when, Position::Last, effect, given));
    }
    // A role comes before the roles that it extends: its ways are complete when they are passed on.
    for id in in_order(roles.iter().map(|(role, _)| *role), |role| {
        policy.roles.at(role).extends.iter().copied()
    }) {
        let role = policy.roles.at(id);
        let of_role = ways.remove(&id).unwrap_or_default();
        let of_role = of_role.under(role.when.as_ref(), Position::Last, effect, given);
        for extended in &role.extends {
            ways.entry(*extended).or_default().extend(&of_role);
        }
        ways.insert(id, of_role);
    }
    ways
}

/// What a condition reads: a variable, or a single claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) attribute: Attribute,
    /// Its text in a condition.
    pub(crate) text: String,
}

fn collect_variables(expression: &Expression, found: &mut Vec<Variable>) {
    let member = if let Expression::HasMember(object, name) = expression {
        Some(Expression::Member(object.clone(), name.clone()))
    } else {
        Some(expression.clone()).filter(|member| matches!(member, Expression::Member(..)))
    };
    if let Some(member) = &member
        && let [Attribute::Claims] = *member.attributes()
    {
        add_variable(&Attribute::Claims, member.to_string(), found);
        return;
    }
    if let Expression::Attribute(attribute)
    | Expression::IsPresent(attribute)
    | Expression::IsClaim(attribute, _) = expression
    {
        add_variable(attribute, attribute.to_string(), found);
    }
    for part in expression.parts() {
        collect_variables(part, found);
    }
}

fn add_variable(attribute: &Attribute, text: String, found: &mut Vec<Variable>) {
    let variable = Variable { attribute: attribute.clone(), text };
    if !found.contains(&variable) {
        found.push(variable);
    }
}
