//! The conditions on which a decision depends, with their parts.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use authorizer::{HeaderLines, ParsedRequest, Request};
use condition::{
    Condition, Constant, Expression, Fault, Headers, Inputs, Question, RequestInputs, Value,
};
use document::{closest, excerpt};
use identity::{Subject, UnixTime};
use policy::Policy;
use policy::model::{Effect, Role, RoleId, Rule};
use policy::pattern::PatternSubject;
use serde::Serialize;

use crate::one_line::OneLine;
use crate::rules::{ExtendingRoles, is_for};
use crate::ways::{Given, GivenRole, Place, Position, Ways, ways_of_roles};

/// The headers of a request, as far as they are known. A header that is not among them is unknown,
/// not absent.
#[derive(Clone, Copy)]
pub(crate) struct GivenHeaders<'a>(pub(crate) HeaderLines<'a>);

impl Headers for GivenHeaders<'_> {
    fn header(&self, name: &str) -> Result<&[u8], Fault> {
        match self.0.header(name) {
            Err(Fault::Absent) => Err(Fault::Unknown),
            other => other,
        }
    }

    fn count(&self) -> usize {
        self.0.count()
    }
}

/// The names in the client's certificate, as a person gave them. They are unknown if nobody gave a
/// certificate.
pub(crate) fn given_certificate(request: &Request<'_>) -> Result<Vec<Constant>, Fault> {
    match request.certificate {
        None => Err(Fault::Unknown),
        given @ Some(_) => authorizer::certificate_names(given),
    }
}

/// The variables of a request that a person describes; `certificate` has the names of its
/// certificate. What the person left out is unknown, not absent: headers, the time and, if the path
/// has no `?`, the query. The request may stand for an AuthZEN question, if the policy answers such
/// questions. If nobody gave this question, it is unknown, too.
pub(crate) fn given_variables<'a>(
    policy: &Policy,
    request: &Request<'a>,
    headers: &'a GivenHeaders<'a>,
    certificate: &'a Result<Vec<Constant>, Fault>,
    time: Option<UnixTime>,
) -> RequestInputs<'a> {
    let inputs =
        authorizer::request_inputs(request, &headers.0, certificate, time.unwrap_or_default());
    RequestInputs {
        query: inputs.query.filter(|_| request.path.contains(&b'?')),
        headers: Some(headers),
        time: inputs.time.filter(|_| time.is_some()),
        question: match policy.authzen {
            Some(_) => request.question,
            None => Some(&Question::None),
        },
        ..inputs
    }
}

/// The variables of a request that is explained.
#[derive(Clone, Copy)]
pub(crate) struct RequestVariables<'a> {
    /// The variables with which it is decided.
    pub(crate) request: RequestInputs<'a>,
    /// The variables that a person gave; the others are unknown.
    pub(crate) given: RequestInputs<'a>,
    pub(crate) caller: Option<&'a Subject>,
}

/// The variables that are not given and that may change the decision about a caller with these
/// roles.
pub(crate) fn depends_on(
    policy: &Policy,
    parsed: &ParsedRequest<'_>,
    (roles, subject): (&[GivenRole<'_>], Option<PatternSubject<'_>>),
    given: &Given<'_>,
) -> Vec<String> {
    if policy.all_conditions().next().is_none() {
        return Vec::new();
    }
    let (mut allows, mut denies) = (Vec::new(), Ways::default());
    for path in parsed.paths.all() {
        let ways = ways_of_rules(policy, parsed, (Effect::Allow, path), (roles, subject, given));
        if ways.is_never() {
            return Vec::new();
        }
        allows.push(ways);
    }
    for path in parsed.paths.all().chain(parsed.paths.deny_only()) {
        denies.extend(&ways_of_rules(
            policy,
            parsed,
            (Effect::Deny, path),
            (roles, subject, given),
        ));
    }
    if denies.is_always() {
        return Vec::new();
    }
    let mut found: Vec<String> = Vec::new();
    for ways in allows.iter().filter(|ways| !ways.is_always()).chain([&denies]) {
        for variable in ways.variables() {
            if !given.has(&variable.attribute) && !found.contains(&variable.text) {
                found.push(variable.text);
            }
        }
    }
    found
}

/// The ways in which rules with this effect count for a path of a request.
fn ways_of_rules(
    policy: &Policy,
    parsed: &ParsedRequest<'_>,
    (effect, path): (Effect, &[u8]),
    (roles, subject, given): (&[GivenRole<'_>], Option<PatternSubject<'_>>, &Given<'_>),
) -> Ways {
    let mut ways = Ways::default();
    let mut roles_by_place: BTreeMap<Arc<Place>, BTreeMap<RoleId, Ways>> = BTreeMap::new();
    for (_, role, rule, rule_effect) in policy.rules() {
        if rule_effect != effect || !is_for(rule, parsed.method, parsed.host) {
            continue;
        }
        let Some(id) = policy.role(&role.name) else { continue };
        for place in Place::all(rule, parsed.host, path, subject) {
            let of_roles = roles_by_place.entry(place).or_insert_with_key(|place| {
                ways_of_roles(policy, roles, (effect, Some(place)), given)
            });
            if let Some(of_role) = of_roles.get(&id) {
                ways.extend(&of_role.under(rule.when.as_ref(), Position::Last, effect, given));
            }
        }
    }
    ways
}

/// A condition on which a decision depends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedCondition {
    /// Whose condition it is: `the rule`, or a role, or a grant.
    pub of: String,
    /// The condition. A part that equals a named condition is shown as its name.
    pub condition: String,
    /// Whether it is true; `None` if that cannot be computed.
    pub is_true: Option<bool>,
    /// Why a placeholder is not the caller's claim, if the condition is that it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// Its comparisons and named conditions. Empty if the condition is a single comparison.
    pub parts: Vec<ExplainedPart>,
}

/// A comparison of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPart {
    /// The comparison.
    pub part: String,
    /// Whether it is true; `None` if that cannot be computed.
    pub is_true: Option<bool>,
    /// Why a placeholder is not the caller's claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// A rule that decided about a path, or an `allow` rule that matches, but does not count. For that
/// rule, a condition is not true: its own, that of its role or that of a grant.
pub(crate) struct DecidingRule<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) rule: (&'a Role, &'a Rule, Effect),
    pub(crate) path: &'a [u8],
    pub(crate) subject: Option<PatternSubject<'a>>,
    /// The roles of the caller, each with the condition of its grant.
    pub(crate) roles: &'a [GivenRole<'a>],
    /// The names of these roles, and of those that they extend.
    pub(crate) possible_roles: HashSet<&'a str>,
}

impl DecidingRule<'_> {
    /// The conditions of the rule, of the roles by which the caller has it, and of their grants.
    pub(crate) fn conditions(&self, known: &Given<'_>) -> Vec<ExplainedCondition> {
        let Self { policy, rule: (role, rule, _), .. } = *self;
        let place = self.place(known);
        let inputs = known.inputs(&place);
        let mut conditions = Vec::new();
        let names = &*policy.conditions;
        conditions.extend(
            rule.when.as_ref().map(|when| explain("the rule".into(), when, names, &inputs)),
        );
        let roles = policy.role(&role.name).map(|role| {
            ExtendingRoles::new(policy).nearest(role, usize::MAX, |role| {
                self.possible_roles.contains(&*policy.roles.at(role).name)
            })
        });
        for id in roles.into_iter().flatten() {
            let role = policy.roles.at(id);
            let of_role = format!("the role `{}`", role.name);
            conditions
                .extend(role.when.as_ref().map(|when| explain(of_role, when, names, &inputs)));
            for when in self.roles.iter().filter(|(of, _)| *of == id).filter_map(|(_, when)| *when)
            {
                let of_grant = format!("the grant of `{}`", role.name);
                conditions.push(explain(of_grant, when, names, &inputs));
            }
        }
        conditions
    }

    /// The first place (host and path of the rule) at which the rule counts. If it counts at none,
    /// the first place that matches.
    fn place(&self, known: &Given<'_>) -> Arc<Place> {
        let Self { policy, rule: (role, rule, effect), .. } = *self;
        let places = Place::all(rule, known.request.host, self.path, self.subject);
        let counting = places.iter().find(|place| {
            let of_roles = ways_of_roles(policy, self.roles, (effect, Some(place)), known);
            let of_role = policy.role(&role.name).and_then(|id| of_roles.get(&id));
            let ways =
                of_role.map(|ways| ways.under(rule.when.as_ref(), Position::Last, effect, known));
            match effect {
                Effect::Allow => ways.is_some_and(|ways| ways.is_always()),
                Effect::Deny => ways.is_some_and(|ways| !ways.is_never()),
            }
        });
        counting.or_else(|| places.first()).cloned().unwrap_or_default()
    }
}

/// The conditions of a policy that have a name.
type Names<'a> = &'a [(Arc<str>, Condition)];

fn explain(
    of: String,
    condition: &Condition,
    names: Names<'_>,
    inputs: &Inputs<'_>,
) -> ExplainedCondition {
    let mut parts = Vec::new();
    collect_parts(&condition.expression, names, inputs, &mut parts);
    let shown = condition.expression.with_names(names).to_string();
    if let [only] = &*parts
        && only.part == shown
    {
        parts.clear();
    }
    ExplainedCondition {
        of,
        condition: shown,
        is_true: condition::holds(&condition.expression, inputs),
        because: claim_mismatch(&condition.expression, inputs),
        parts,
    }
}

/// Adds the named conditions and the comparisons that `&&`, `||`, `!` and `?:` join, each once. A
/// named condition is shown with what it stands for.
fn collect_parts(
    expression: &Expression,
    names: Names<'_>,
    inputs: &Inputs<'_>,
    parts: &mut Vec<ExplainedPart>,
) {
    let name = expression.name_among(names);
    let is_joined = matches!(
        expression,
        Expression::And(..) | Expression::Or(..) | Expression::Not(_) | Expression::Conditional(_)
    );
    if is_joined && name.is_none() {
        for part in expression.parts() {
            collect_parts(part, names, inputs, parts);
        }
        return;
    }
    let is_true = match condition::evaluate(expression, inputs) {
        Ok(Value::Bool(is_true)) => Some(is_true),
        Ok(_) | Err(_) => None,
    };
    let part = match name {
        Some(name) => format!("{name} ({expression})"),
        None => expression.to_string(),
    };
    let part = ExplainedPart { part, is_true, because: claim_mismatch(expression, inputs) };
    if !parts.contains(&part) {
        parts.push(part);
    }
}

/// Why a placeholder such as `{claims.tenant}` is not the claim: the caller has no such claim, or
/// one with another value. `None` if the two are equal, or if the claims are not known.
fn claim_mismatch(expression: &Expression, inputs: &Inputs<'_>) -> Option<String> {
    let Expression::IsClaim(_, claim) = expression else { return None };
    let Expression::Member(object, name) = &**claim else { return None };
    if condition::holds(expression, inputs) != Some(false) {
        return None;
    }
    match condition::evaluate(claim, inputs) {
        Ok(Value::Text(text)) => Some(format!("the claim is `{}`", excerpt(&text))),
        Ok(_) => Some("the claim is not text".to_owned()),
        Err(Fault::Absent) => {
            let similar = match condition::evaluate(object, inputs) {
                Ok(Value::ClaimMap(members)) => closest(name, members.keys().map(String::as_str)),
                Ok(_) | Err(_) => None,
            };
            let similar = similar.map(|name| Expression::Member(object.clone(), name.into()));
            let similar = similar.map(|claim| format!("; it has `{claim}`")).unwrap_or_default();
            Some(format!("the caller has no `{claim}`{similar}"))
        }
        Err(_) => None,
    }
}

/// The parts of the conditions of a rule and its role that must be true and are false here, by name
/// if they have a name.
pub(crate) fn false_parts(
    policy: &Policy,
    (role, rule): (&Role, &Rule),
    place: &Place,
    known: &Given<'_>,
) -> Vec<String> {
    let inputs = known.inputs(place);
    let mut parts = Vec::new();
    for when in rule.when.iter().chain(&role.when) {
        collect_false(&when.expression, &policy.conditions, &inputs, &mut parts);
    }
    parts
}

fn collect_false(
    expression: &Expression,
    names: Names<'_>,
    inputs: &Inputs<'_>,
    parts: &mut Vec<String>,
) {
    if let Expression::And(left, right) = expression
        && expression.name_among(names).is_none()
    {
        collect_false(left, names, inputs, parts);
        collect_false(right, names, inputs, parts);
    } else if condition::holds(expression, inputs) == Some(false) {
        let part = expression.with_names(names).to_string();
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
}

fn truth(is_true: Option<bool>) -> &'static str {
    match is_true {
        Some(true) => "true",
        Some(false) => "false",
        None => "cannot be computed",
    }
}

fn write_because(f: &mut fmt::Formatter<'_>, because: Option<&str>) -> fmt::Result {
    because.map_or(Ok(()), |because| write!(f, " ({})", OneLine(because)))
}

impl fmt::Display for ExplainedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, condition, is_true, because, parts } = self;
        write!(f, "{} of {of}: {}", OneLine(condition), truth(*is_true))?;
        write_because(f, because.as_deref())?;
        for ExplainedPart { part, is_true, because } in parts {
            write!(f, "; {}: {}", OneLine(part), truth(*is_true))?;
            write_because(f, because.as_deref())?;
        }
        Ok(())
    }
}
