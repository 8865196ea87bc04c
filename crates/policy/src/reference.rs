//! The reference evaluator: the meaning of a policy, slow and obvious. It checks every rule of every role of the
//! caller.
//!
//! The engine must agree with it on every policy and request. It is never optimized.

use std::collections::BTreeSet;

use crate::decision::{AccessRequest, Decision};
use crate::model::{ANYONE, AUTHENTICATED, Effect, Policy, RoleId, SourceId};
use crate::pattern::PatternSubject;

/// A caller after its credentials have been verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller<'a> {
    /// The user name. `None` is an anonymous caller, who has no groups and only the role `anyone`.
    pub user: Option<&'a str>,
    /// What authenticated it, if that is known.
    pub source: Option<SourceId>,
    /// Its groups.
    pub groups: Vec<&'a str>,
    /// The roles in its token; those that the policy does not define are ignored.
    pub roles: Vec<&'a str>,
}

/// Evaluates a request.
#[must_use]
pub fn decide(policy: &Policy, caller: &Caller<'_>, request: &AccessRequest<'_>) -> Decision {
    let roles = roles_of(policy, caller);
    let subject = caller.user.map(|user| pattern_subject(policy, user, caller.source));
    let matching = |wanted: Effect| {
        policy.rules().find(|(_, role, rule, effect)| {
            *effect == wanted
                && policy.role(&role.name).is_some_and(|id| roles.contains(&id))
                && rule.actions.matches(request.action)
                && (rule.scopes.is_empty() || rule.scopes.iter().any(|scope| scope.matches(request.scope)))
                && rule.resources.iter().any(|pattern| pattern.matches(request.resource, subject))
        })
    };
    if let Some((rule, ..)) = matching(Effect::Deny) {
        Decision::Denied(rule)
    } else if let Some((rule, ..)) = matching(Effect::Allow) {
        Decision::Allowed(rule)
    } else {
        Decision::NotAllowed
    }
}

/// A caller's name, the length of the prefix in it, and its source.
fn pattern_subject<'a>(policy: &Policy, user: &'a str, source: Option<SourceId>) -> PatternSubject<'a> {
    let prefix = source.map_or("", |source| policy.identity.user_prefix(source));
    PatternSubject { user: user.as_bytes(), prefix: prefix.len(), source }
}

/// All roles of a caller: those granted, those from its token, the reserved ones, and those that these extend.
#[must_use]
pub fn roles_of(policy: &Policy, caller: &Caller<'_>) -> BTreeSet<RoleId> {
    let mut roles = BTreeSet::new();
    let mut add = |name: &str| roles.extend(policy.role(name));
    add(ANYONE);
    if let Some(user) = caller.user {
        add(AUTHENTICATED);
        caller.roles.iter().copied().for_each(add);
        for grant in &policy.grants {
            let named = grant.users.iter().any(|name| &**name == user);
            if named || grant.groups.iter().any(|name| caller.groups.contains(&&**name)) {
                roles.insert(grant.role);
            }
        }
    }
    let mut open: Vec<RoleId> = roles.iter().copied().collect();
    while let Some(role) = open.pop() {
        for extended in &policy.roles.at(role).extends {
            if roles.insert(*extended) {
                open.push(*extended);
            }
        }
    }
    roles
}
