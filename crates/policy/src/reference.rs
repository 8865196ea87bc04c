//! The reference evaluator: the meaning of a policy, slow and obvious. It checks every rule of
//! every role of the caller.
//!
//! The engine must agree with it on every policy and request. It is never optimized.

use std::collections::BTreeSet;

use crate::model::{ANYONE, AUTHENTICATED, Effect, Policy, RoleId, Rule, RuleId, SourceId};
use crate::pattern::PatternSubject;

/// A request in canonical form, reduced to the three things that rules match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// For HTTP: the method.
    pub action: &'a [u8],
    /// For HTTP: the host in lower case, without port and trailing dot. Not a scope of OAuth.
    pub scope: &'a [u8],
    /// For HTTP: the canonical path.
    pub resource: &'a [u8],
}

/// The result of an evaluation. If several rules decide alike, it names the rule with the lowest
/// [`RuleId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed by this rule.
    Allowed(RuleId),
    /// Denied by this `deny` rule.
    Denied(RuleId),
    /// Denied because no rule allows it.
    NotAllowed,
}

/// A caller after its credentials have been verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The user name. `None` is an anonymous caller, who has no groups and only the role `anyone`.
    pub user: Option<&'a str>,
    /// The source that authenticated it, if that is known.
    pub source: Option<SourceId>,
    /// Its groups.
    pub groups: Vec<&'a str>,
    /// The roles in its token; those that the policy does not define are ignored.
    pub roles: Vec<&'a str>,
}

/// Evaluates a request.
#[must_use]
pub fn decide(policy: &Policy, caller: &Caller<'_>, request: &AccessRequest<'_>) -> Decision {
    if let Some(rule) = first_match(policy, caller, request, Effect::Deny) {
        Decision::Denied(rule)
    } else if let Some(rule) = first_match(policy, caller, request, Effect::Allow) {
        Decision::Allowed(rule)
    } else {
        Decision::NotAllowed
    }
}

/// The first rule with this effect, of a role of the caller, that matches the request.
fn first_match(
    policy: &Policy,
    caller: &Caller<'_>,
    request: &AccessRequest<'_>,
    effect: Effect,
) -> Option<RuleId> {
    let roles = roles_of(policy, caller);
    let roles: BTreeSet<&str> = roles.into_iter().map(|id| &*policy.roles.at(id).name).collect();
    let subject = caller.user.map(|user| {
        let prefix = caller.source.map_or("", |source| policy.identity.user_prefix(source));
        PatternSubject { user: user.as_bytes(), prefix_len: prefix.len(), source: caller.source }
    });
    let mut rules = policy.rules().filter(|(_, role, ..)| roles.contains(&*role.name));
    let rule = rules
        .find(|(.., rule, rule_effect)| *rule_effect == effect && matches(rule, request, subject));
    rule.map(|(id, ..)| id)
}

fn matches(rule: &Rule, request: &AccessRequest<'_>, subject: Option<PatternSubject<'_>>) -> bool {
    rule.actions.matches(request.action)
        && (rule.scopes.is_empty() || rule.scopes.iter().any(|scope| scope.matches(request.scope)))
        && rule.resources.iter().any(|pattern| pattern.matches(request.resource, subject))
}

/// All roles of a caller: those granted, those from its token, the reserved roles, and those that
/// these extend.
#[must_use]
pub fn roles_of(policy: &Policy, caller: &Caller<'_>) -> BTreeSet<RoleId> {
    let mut roles = BTreeSet::new();
    roles.extend(policy.role(ANYONE));
    if let Some(user) = caller.user {
        roles.extend(policy.role(AUTHENTICATED));
        roles.extend(caller.roles.iter().filter_map(|name| policy.role(name)));
        for grant in &policy.grants {
            if grant.users.iter().any(|name| &**name == user)
                || grant.groups.iter().any(|name| caller.groups.contains(&&**name))
            {
                roles.insert(grant.role);
            }
        }
    }
    let mut unvisited: Vec<RoleId> = roles.iter().copied().collect();
    while let Some(role) = unvisited.pop() {
        for extended in &policy.roles.at(role).extends {
            if roles.insert(*extended) {
                unvisited.push(*extended);
            }
        }
    }
    roles
}
