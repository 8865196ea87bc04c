//! The rules that match a request, and the roles that extend a role.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;

use policy::Policy;
use policy::model::{Effect, Role, RoleId, Rule};
use policy::pattern::PatternSubject;
use serde::Serialize;

use crate::is_false;
use crate::one_line::write_condition;

/// The maximum number of extending roles that are listed.
const MAX_LISTED: usize = 3;
/// The maximum number of extending roles that are visited for a role.
const MAX_VISITED: usize = 64;

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

/// A rule that would allow a request, if the caller had its role or a role that extends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingRole {
    /// The rule.
    #[serde(flatten)]
    pub rule: ExplainedRule,
    /// The first few roles that extend its role and would also help.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extended_by: Vec<String>,
    /// The condition of the rule and that of its role, if they have any. Without the parts that are
    /// known to be true, unless it `fails`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether this condition is not true for the request, so that the role alone does not help.
    #[serde(skip_serializing_if = "is_false")]
    pub fails: bool,
}

/// Whether a rule is for this method and this host.
pub(crate) fn is_for(rule: &Rule, method: &[u8], host: &[u8]) -> bool {
    rule.actions.matches(method) && is_for_host(rule, host)
}

/// Whether a rule is for this host.
pub(crate) fn is_for_host(rule: &Rule, host: &[u8]) -> bool {
    rule.scopes.is_empty() || rule.scopes.iter().any(|scope| scope.matches(host))
}

/// Whether a path of a rule matches for this subject.
pub(crate) fn has_path(rule: &Rule, path: &[u8], subject: Option<PatternSubject<'_>>) -> bool {
    rule.resources.iter().any(|resource| resource.matches(path, subject))
}

impl ExplainedRule {
    pub(crate) fn new(role: &Role, rule: &Rule, effect: Effect) -> Self {
        Self {
            role: role.name.to_string(),
            rule: rule.name.to_string(),
            denies: effect == Effect::Deny,
            at: rule.at.to_string(),
        }
    }
}

/// For each role, the roles that extend it directly.
pub(crate) struct ExtendingRoles(HashMap<RoleId, Vec<RoleId>>);

impl ExtendingRoles {
    pub(crate) fn new(policy: &Policy) -> Self {
        let mut extending: HashMap<RoleId, Vec<RoleId>> = HashMap::new();
        for (id, role) in policy.roles.entries() {
            for extended in &role.extends {
                extending.entry(*extended).or_default().push(id);
            }
        }
        Self(extending)
    }

    pub(crate) fn directly(&self, role: RoleId) -> impl Iterator<Item = RoleId> {
        self.0.get(&role).into_iter().flatten().copied()
    }

    /// A role, and the roles that extend it, directly or not.
    pub(crate) fn with_extending(&self, role: RoleId) -> BTreeSet<RoleId> {
        self.nearest(role, usize::MAX, |_| true).into_iter().collect()
    }

    /// The names of the first few useful roles that extend a role, directly or not.
    pub(crate) fn names(
        &self,
        policy: &Policy,
        role: &Role,
        is_useful: impl Fn(&Role) -> bool,
    ) -> Vec<String> {
        let Some(role) = policy.role(&role.name) else { return Vec::new() };
        let extending = self.nearest(role, MAX_VISITED, |_| true);
        let extending = extending.iter().skip(1).map(|id| policy.roles.at(*id));
        let useful = extending.filter(|role| is_useful(role)).take(MAX_LISTED);
        useful.map(|role| role.name.to_string()).collect()
    }

    /// A role, and the roles that extend it, directly or not, the most direct first. A role that is
    /// not included is left out, and the roles that extend it are not looked for. Visits at most
    /// `max_visited` roles to find those that extend them.
    pub(crate) fn nearest(
        &self,
        role: RoleId,
        max_visited: usize,
        is_included: impl Fn(RoleId) -> bool,
    ) -> Vec<RoleId> {
        let (mut distinct, mut roles) = (HashSet::from([role]), vec![role]);
        let mut visited = 0;
        while let Some(role) = roles.get(visited).copied().filter(|_| visited < max_visited) {
            visited += 1;
            let extending = self.directly(role).filter(|extending| is_included(*extending));
            roles.extend(extending.filter(|extending| distinct.insert(*extending)));
        }
        roles
    }
}

/// Roles, and those that `next` finds from them, directly or not. Each comes after those from which
/// it is found: the policy has no cycle of roles.
pub(crate) fn in_order<I: Iterator<Item = RoleId>>(
    roles: impl Iterator<Item = RoleId>,
    next: impl Fn(RoleId) -> I,
) -> Vec<RoleId> {
    let mut waits_for: BTreeMap<RoleId, usize> = roles.map(|role| (role, 0)).collect();
    let mut to_visit: Vec<RoleId> = waits_for.keys().copied().collect();
    while let Some(role) = to_visit.pop() {
        for found in next(role) {
            if !waits_for.contains_key(&found) {
                to_visit.push(found);
            }
            *waits_for.entry(found).or_default() += 1;
        }
    }
    let ready = waits_for.iter().filter(|(_, count)| **count == 0);
    let mut ready: Vec<RoleId> = ready.map(|(role, _)| *role).collect();
    let mut ordered = Vec::new();
    while let Some(role) = ready.pop() {
        ordered.push(role);
        for found in next(role) {
            if let Some(count) = waits_for.get_mut(&found) {
                *count -= 1;
                if *count == 0 {
                    ready.push(found);
                }
            }
        }
    }
    ordered
}

impl fmt::Display for MissingRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, extended_by, when, fails } = self;
        write!(f, "the role `{}`, ", rule.role)?;
        if !extended_by.is_empty() {
            write!(f, "or `{}`, which extend", extended_by.join("`, `"))?;
            f.write_str(if extended_by.len() == 1 { "s it, " } else { " it, " })?;
        }
        write!(f, "by {rule}")?;
        match when {
            Some(when) if *fails => write!(f, ", but {when} is not true"),
            when => write_condition(f, when.as_deref()),
        }
    }
}

impl fmt::Display for ExplainedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = if self.denies { "denied" } else { "allowed" };
        write!(f, "`{}: {}` ({effect} at {})", self.role, self.rule, self.at)
    }
}
