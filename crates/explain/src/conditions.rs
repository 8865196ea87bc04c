//! The conditions on which a decision depends, with their parts.

use std::fmt;

use condition::{CallerInputs, Condition, Expression, Inputs, Placeholders, RequestInputs, Value};
use policy::Policy;
use policy::model::{Role, RoleId, Rule};
use policy::pattern::PatternSubject;
use serde::Serialize;

use crate::one_line::OneLine;

/// A condition on which a decision depends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedCondition {
    /// Whose condition it is: `the rule`, or a role, or a grant.
    pub of: String,
    /// The condition, with the conditions that it names.
    pub condition: String,
    /// Whether it is true; `None` if that cannot be computed.
    pub is_true: Option<bool>,
    /// Its comparisons, if it has several.
    pub parts: Vec<ExplainedPart>,
}

/// A comparison of a condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPart {
    /// The comparison.
    pub part: String,
    /// Whether it is true; `None` if that cannot be computed.
    pub is_true: Option<bool>,
}

/// The variables with which a request is explained.
pub(crate) struct ExplainedInputs<'a> {
    pub(crate) request: RequestInputs<'a>,
    pub(crate) caller: CallerInputs<'a>,
    pub(crate) subject: Option<PatternSubject<'a>>,
}

impl ExplainedInputs<'_> {
    /// The conditions of a rule, of the roles by which this caller has it, and of their grants.
    pub(crate) fn conditions(
        &self,
        policy: &Policy,
        possible_roles: &[&str],
        (role, rule): (&Role, &Rule),
    ) -> Vec<ExplainedCondition> {
        let scope = rule.scopes.iter().find(|scope| scope.matches(self.request.host));
        let host = scope.map(policy::pattern::Scope::placeholders).unwrap_or_default();
        let mut patterns = rule.resources.iter();
        let pattern = patterns.find(|pattern| pattern.matches(self.request.path, self.subject));
        let path = pattern.map(policy::pattern::Pattern::placeholders).unwrap_or_default();
        let inputs = Inputs {
            request: self.request,
            caller: Some(&self.caller),
            placeholders: Placeholders { path: &path, host: &host },
            ..Inputs::default()
        };
        let mut conditions = Vec::new();
        conditions.extend(rule.when.as_ref().map(|when| explain("the rule".into(), when, &inputs)));
        for id in roles_with(policy, possible_roles, role) {
            let role = policy.roles.at(id);
            let of_role = format!("the role `{}`", role.name);
            conditions.extend(role.when.as_ref().map(|when| explain(of_role, when, &inputs)));
            for grant in policy.grants.iter().filter(|grant| grant.role == id) {
                let Some(when) = &grant.when else { continue };
                let CallerInputs { user, groups, .. } = &self.caller;
                if grant.users.iter().any(|name| Some(&**name) == *user)
                    || grant.groups.iter().any(|name| groups.contains(&&**name))
                {
                    let of_grant = format!("the grant of `{}`", role.name);
                    conditions.push(explain(of_grant, when, &inputs));
                }
            }
        }
        conditions
    }
}

/// The role, and those of the possible roles that extend it.
fn roles_with(policy: &Policy, possible_roles: &[&str], role: &Role) -> Vec<RoleId> {
    let mut found: Vec<RoleId> = policy.role(&role.name).into_iter().collect();
    let mut next = 0;
    while let Some(extended) = found.get(next).copied() {
        next += 1;
        for (id, role) in policy.roles.entries() {
            if role.extends.contains(&extended)
                && possible_roles.contains(&&*role.name)
                && !found.contains(&id)
            {
                found.push(id);
            }
        }
    }
    found
}

fn explain(of: String, condition: &Condition, inputs: &Inputs<'_>) -> ExplainedCondition {
    let mut parts = Vec::new();
    collect_parts(&condition.expression, inputs, &mut parts);
    if parts.len() == 1 {
        parts.clear();
    }
    ExplainedCondition {
        of,
        condition: condition.expression.to_string(),
        is_true: condition::holds(&condition.expression, inputs),
        parts,
    }
}

/// Adds the comparisons that `&&`, `||`, `!` and `?:` join, each once.
fn collect_parts(expression: &Expression, inputs: &Inputs<'_>, parts: &mut Vec<ExplainedPart>) {
    match expression {
        Expression::And(..)
        | Expression::Or(..)
        | Expression::Not(_)
        | Expression::Conditional(_) => {
            for part in expression.parts() {
                collect_parts(part, inputs, parts);
            }
        }
        _ => {
            let is_true = match condition::evaluate(expression, inputs) {
                Ok(Value::Bool(is_true)) => Some(is_true),
                _ => None,
            };
            let part = ExplainedPart { part: expression.to_string(), is_true };
            if !parts.contains(&part) {
                parts.push(part);
            }
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

impl fmt::Display for ExplainedCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { of, condition, is_true, parts } = self;
        write!(f, "{} of {of}: {}", OneLine(condition), truth(*is_true))?;
        for ExplainedPart { part, is_true } in parts {
            write!(f, "; {}: {}", OneLine(part), truth(*is_true))?;
        }
        Ok(())
    }
}
