//! Finds the rules that match a request.

use std::fmt;

use policy::Policy;
use policy::model::{Effect, Role, Rule};
use policy::pattern::PatternSubject;
use serde::Serialize;

/// A rule of a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRule {
    /// The name of its role.
    pub role: String,
    /// Its name.
    pub rule: String,
    /// Whether it is a `deny` rule.
    pub denies: bool,
    /// Its place in the policy, as `file:line:column`.
    pub at: String,
}

/// A rule that would allow a request, if the caller had its role or one that extends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingRole {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// Roles that extend its role, and would do as well: the first few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extended_by: Vec<String>,
}

/// The rules that match a request of this subject, whatever roles it has.
pub(crate) fn matching<'p>(
    policy: &'p Policy,
    method: &[u8],
    host: &[u8],
    path: &[u8],
    subject: Option<PatternSubject<'_>>,
) -> impl Iterator<Item = (&'p Role, &'p Rule, Effect)> {
    let rules = policy.rules().map(|(_, role, rule, effect)| (role, rule, effect));
    rules.filter(move |(_, rule, _)| is_for(rule, method, host) && has_path(rule, path, subject))
}

/// Whether a rule is for this method and this host.
pub(crate) fn is_for(rule: &Rule, method: &[u8], host: &[u8]) -> bool {
    rule.actions.matches(method)
        && (rule.scopes.is_empty() || rule.scopes.iter().any(|scope| scope.matches(host)))
}

/// Whether a path of a rule matches for this subject.
pub(crate) fn has_path(rule: &Rule, path: &[u8], subject: Option<PatternSubject<'_>>) -> bool {
    rule.resources.iter().any(|resource| resource.matches(path, subject))
}

pub(crate) fn explained_rule(role: &Role, rule: &Rule, effect: Effect) -> ExplainedRule {
    ExplainedRule {
        role: role.name.to_string(),
        rule: rule.name.to_string(),
        denies: effect == Effect::Deny,
        at: rule.at.to_string(),
    }
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, extended_by } = self;
        write!(f, "the role `{}`, ", rule.role)?;
        if !extended_by.is_empty() {
            write!(f, "or `{}`, which extend", extended_by.join("`, `"))?;
            f.write_str(if extended_by.len() == 1 { "s it, " } else { " it, " })?;
        }
        write!(f, "by {rule}")
    }
}

impl fmt::Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = if self.denies { "denied" } else { "allowed" };
        write!(f, "`{}: {}` ({effect} at {})", self.role, self.rule, self.at)
    }
}
