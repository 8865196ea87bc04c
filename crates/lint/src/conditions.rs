//! Conditions that are valid but probably not intended.

use std::collections::BTreeSet;
use std::sync::Arc;

use condition::{Attribute, Condition, Expression};
use document::{Place, Problem, Warning};
use policy::model::{ANYONE, AUTHENTICATED, Effect, Policy, Role};
use policy::pattern::{Pattern, Scope};

use crate::contradictions::contradiction;
use crate::warnings::Warnings;

pub(crate) fn conditions(policy: &Policy, warnings: &mut Warnings) {
    contradictions(policy, warnings);
    denies_without_claims(policy, warnings);
    let mut only_questions = OnlyQuestions::new(policy);
    for (_, _, rule, effect) in policy.rules() {
        if let Some(when) = &rule.when {
            check_expression(when, &rule.at, warnings);
            only_questions.check(when, &rule.at, effect, warnings);
            if effect == Effect::Allow {
                client_chosen(policy, when, &rule.at, warnings);
            }
        }
    }
    for role in policy.roles.iter() {
        if let Some(when) = &role.when {
            check_expression(when, &role.at, warnings);
            only_questions.check_role(when, role, warnings);
            client_chosen(policy, when, &role.at, warnings);
            missing_placeholders(role, when, warnings);
        }
    }
    for grant in &policy.grants {
        if let Some(when) = &grant.when {
            let role = policy.roles.at(grant.role);
            let at = &role.at;
            check_expression(when, at, warnings);
            only_questions.check_role(when, role, warnings);
            client_chosen(policy, when, at, warnings);
        }
    }
}

/// Warns of conditions that only questions of AuthZEN can decide.
struct OnlyQuestions {
    /// Whether the policy answers questions. Then its author knows that only questions have these
    /// attributes. Of the conditions for `allow` that no request of a proxy meets, only the first
    /// gets a warning.
    answers_questions: bool,
    warned_of_allow: bool,
}

impl OnlyQuestions {
    fn new(policy: &Policy) -> Self {
        Self { answers_questions: policy.authzen.is_some(), warned_of_allow: false }
    }

    fn check_role(&mut self, when: &Condition, role: &Role, warnings: &mut Warnings) {
        for (rules, effect) in [(&role.deny, Effect::Deny), (&role.allow, Effect::Allow)] {
            if !rules.is_empty() {
                self.check(when, &role.at, effect, warnings);
            }
        }
    }

    fn check(&mut self, when: &Condition, at: &Place, effect: Effect, warnings: &mut Warnings) {
        let outcomes = Outcomes::new(&when.expression, &without_question);
        let message = match effect {
            Effect::Deny if !outcomes.falsehood => {
                format!("requests of proxies lack what `{when}` reads, so it denies them")
            }
            Effect::Allow if !outcomes.truth && !self.warned_of_allow => {
                self.warned_of_allow = self.answers_questions;
                format!("requests of proxies lack what `{when}` reads, so it allows none")
            }
            Effect::Allow | Effect::Deny => return,
        };
        let help = if self.answers_questions {
            "only questions of AuthZEN have `resource.properties`, `action.properties` and \
             `context`"
        } else {
            "only questions of AuthZEN have `resource.properties`, `action.properties` and \
             `context`: write a section `authzen` to answer them"
        };
        let problem = Problem::warning(at.clone(), Warning::OnlyQuestions, message);
        warnings.push(problem.help(help));
    }
}

/// Whether a condition can be true, and whether it can be false.
#[derive(Clone, Copy)]
struct Outcomes {
    truth: bool,
    falsehood: bool,
}

impl Outcomes {
    const ANY: Self = Self { truth: true, falsehood: true };
    /// It cannot be computed.
    const NONE: Self = Self { truth: false, falsehood: false };

    /// The outcomes of an expression. `leaf_outcomes` gives those of a leaf: a part that is no
    /// `!`, `&&`, `||` or `?:`.
    fn new(expression: &Expression, leaf_outcomes: &dyn Fn(&Expression) -> Self) -> Self {
        let outcomes = |part| Self::new(part, leaf_outcomes);
        match expression {
            Expression::Not(operand) => {
                let Self { truth, falsehood } = outcomes(operand);
                Self { truth: falsehood, falsehood: truth }
            }
            Expression::And(left, right) => {
                let (left, right) = (outcomes(left), outcomes(right));
                Self {
                    truth: left.truth && right.truth,
                    falsehood: left.falsehood || right.falsehood,
                }
            }
            Expression::Or(left, right) => {
                let (left, right) = (outcomes(left), outcomes(right));
                Self {
                    truth: left.truth || right.truth,
                    falsehood: left.falsehood && right.falsehood,
                }
            }
            Expression::Conditional(parts) => {
                let [test, then, otherwise] = (**parts).each_ref().map(outcomes);
                Self {
                    truth: test.truth && then.truth || test.falsehood && otherwise.truth,
                    falsehood: test.truth && then.falsehood
                        || test.falsehood && otherwise.falsehood,
                }
            }
            _ => leaf_outcomes(expression),
        }
    }
}

/// The outcomes of a leaf for a request of a proxy, which is no question of AuthZEN.
fn without_question(leaf: &Expression) -> Outcomes {
    let mut attributes = leaf.attributes().into_iter();
    if attributes.any(|read| matches!(read, Attribute::Question(_))) {
        Outcomes::NONE
    } else {
        Outcomes::ANY
    }
}

/// The outcomes of a leaf for a caller without a token.
fn without_claims(leaf: &Expression) -> Outcomes {
    if reads_claim(leaf) {
        return Outcomes::NONE;
    }
    match leaf {
        Expression::HasMember(object, _) | Expression::In(_, object)
            if **object == Expression::Attribute(Attribute::Claims) =>
        {
            Outcomes { truth: false, falsehood: true }
        }
        Expression::IsClaim(..) => Outcomes { truth: false, falsehood: true },
        _ => Outcomes::ANY,
    }
}

/// Whether an expression needs the value of a claim.
fn reads_claim(expression: &Expression) -> bool {
    match expression {
        Expression::Member(object, _) | Expression::Index(object, _)
            if **object == Expression::Attribute(Attribute::Claims) =>
        {
            true
        }
        Expression::IsClaim(..) => false,
        _ => expression.parts().into_iter().any(reads_claim),
    }
}

/// Warns of a `deny` that denies every caller without a token, because its condition reads a claim.
fn denies_without_claims(policy: &Policy, warnings: &mut Warnings) {
    let identity = &policy.identity;
    let has_others =
        identity.basic.is_some() || identity.api_keys.is_some() || identity.certificates.is_some();
    for (_, role, rule, effect) in policy.rules() {
        let callers = match &*role.name {
            ANYONE => "callers without a token",
            AUTHENTICATED if has_others => "callers with other credentials than a token",
            _ => continue,
        };
        let Some(when) = rule.when.as_ref().filter(|_| effect == Effect::Deny) else { continue };
        if !Outcomes::new(&when.expression, &without_claims).falsehood {
            let message = format!("{callers} lack what `{when}` reads, so this denies them");
            let problem = Problem::warning(rule.at.clone(), Warning::MissingClaims, message);
            let help = "a `deny` counts unless its condition is false: begin it with \
                        `has(claims.NAME) &&` if it is for callers with that claim";
            warnings.push(problem.help(help));
        }
    }
}

/// Warns of conditions that are never true, once for each pair of parts. Several conditions can
/// have the same pair, if they use the same named condition.
fn contradictions(policy: &Policy, warnings: &mut Warnings) {
    let mut reported = BTreeSet::new();
    for (when, at) in with_places(policy) {
        let Some((part, other)) = contradiction(&when.expression) else { continue };
        let names = &policy.conditions;
        let (part, other) = (part.with_names(names), other.with_names(names));
        let message = format!("`{part}` and `{other}` are never true together");
        if reported.insert(message.clone()) {
            let problem = Problem::warning(at.clone(), Warning::NeverTrue, message);
            let help = "correct one of them, or join them with `||`";
            warnings.push(problem.help(help));
        }
    }
}

/// The conditions of all rules, roles and grants, with their places.
pub(crate) fn with_places(policy: &Policy) -> Vec<(&Condition, &Place)> {
    let of_rules =
        policy.rules().filter_map(|(_, _, rule, _)| Some((rule.when.as_ref()?, &rule.at)));
    let of_roles = policy.roles.iter().filter_map(|role| Some((role.when.as_ref()?, &role.at)));
    let of_grants = policy.grants.iter();
    let of_grants = of_grants.filter_map(|grant| Some((grant.when.as_ref()?, &grant.at)));
    of_rules.chain(of_roles).chain(of_grants).collect()
}

/// Warns of a condition without a variable, and of an hour or a day without a time zone.
fn check_expression(when: &Condition, at: &Place, warnings: &mut Warnings) {
    if when.expression.attributes().is_empty() {
        let message = format!("the condition `{when}` is the same for every request");
        let problem = Problem::warning(at.clone(), Warning::ConstantCondition, message);
        warnings.push(problem.help("compare a variable, such as `source.ip`, or leave it out"));
    }
    if has_hour_without_zone(&when.expression) {
        let message = format!("hours and days in `{when}` are those of UTC");
        let problem = Problem::warning(at.clone(), Warning::UtcHours, message);
        let help = "name the time zone, such as `getHours('Europe/Berlin')`, or `'UTC'`";
        warnings.push(problem.help(help));
    }
}

/// Whether a condition reads the site from which a browser sends a request.
pub(crate) fn reads_origin(when: &Condition) -> bool {
    let attributes = when.expression.attributes();
    attributes.iter().any(|a| matches!(a, Attribute::Header(name) if **name == *"origin"))
}

fn has_hour_without_zone(expression: &Expression) -> bool {
    match expression {
        Expression::TimePart(_, time, zone) if zone.name().is_none() => {
            matches!(**time, Expression::Attribute(Attribute::Time))
        }
        _ => expression.parts().into_iter().any(has_hour_without_zone),
    }
}

/// Warns of a condition on headers and query parameters alone, which every client can send. Where
/// tokens are in cookies, a condition on the header `Origin` gets no warning: it is meant against
/// other sites, which cannot choose what a browser sends as `Origin`.
fn client_chosen(policy: &Policy, when: &Condition, at: &Place, warnings: &mut Warnings) {
    let attributes = when.expression.attributes();
    let is_against_sites = policy.identity.token_cookies().next().is_some() && reads_origin(when);
    if !is_against_sites
        && !attributes.is_empty()
        && attributes.iter().all(|a| matches!(a, Attribute::Header(_) | Attribute::Query(_)))
    {
        let message = format!("every client can make `{when}` true");
        let problem = Problem::warning(at.clone(), Warning::ClientChosen, message);
        let help = "also read what no client can choose; or accept this where Envoy replaces what \
                    clients send, or nothing needs protection";
        warnings.push(problem.help(help));
    }
}

/// Warns of a placeholder that the condition of a role reads, and no rule of the role has. A role
/// that extends others is left out: its condition is also for their rules, which may have it.
fn missing_placeholders(role: &Role, when: &Condition, warnings: &mut Warnings) {
    let rules = role.allow.iter().chain(&role.deny);
    let path = rules.clone().flat_map(|rule| &rule.resources).flat_map(Pattern::placeholders);
    let host = rules.flat_map(|rule| &rule.scopes).flat_map(Scope::placeholders);
    let [path, host]: [BTreeSet<Arc<str>>; 2] =
        [path.map(|(name, _)| name).collect(), host.map(|(name, _)| name).collect()];
    for attribute in when.expression.attributes() {
        let has_placeholder = match attribute {
            Attribute::PathPlaceholder(name) => path.contains(name),
            Attribute::HostPlaceholder(name) => host.contains(name),
            _ => true,
        };
        if !has_placeholder && role.extends.is_empty() {
            let message =
                format!("no rule of `{}` has the placeholder of `{attribute}`", role.name);
            let problem = Problem::warning(role.at.clone(), Warning::MissingPlaceholder, message);
            let help = "write the placeholder in a rule: without it, no rule of the role counts";
            warnings.push(problem.help(help));
        }
    }
}
