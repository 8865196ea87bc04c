//! The reference evaluator: the meaning of a policy, slow and obvious. It checks every rule of
//! every role of the caller.
//!
//! The engine must agree with it on every policy and request. It is never optimized.

use std::collections::BTreeSet;

use condition::{Condition, Inputs, Placeholders, RequestInputs, and, or};

use crate::model::{ANYONE, AUTHENTICATED, Effect, Grant, Policy, Role, RoleId, RuleId, SourceId};
use crate::pattern::{PatternSubject, Scope};

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
    /// Denied because no rule allows it. This `allow` rule matches, but it does not count: its
    /// condition, that of its role or that of a grant is not true.
    ConditionFailed(RuleId),
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
    /// The actor that calls for this user, if there are two callers: an `allow` rule is for roles
    /// that both have, a `deny` rule for roles that either has. Conditions and `{user}` are about
    /// the user.
    pub actor: Option<Box<Caller<'a>>>,
}

/// Evaluates a request as if no condition could be computed.
#[must_use]
pub fn decide(policy: &Policy, caller: &Caller<'_>, request: &AccessRequest<'_>) -> Decision {
    decide_with(policy, caller, request, &Inputs::default())
}

/// Evaluates a request. `inputs` has the variables of conditions; the method, the host and the path
/// are those of `request`.
#[must_use]
pub fn decide_with(
    policy: &Policy,
    caller: &Caller<'_>,
    request: &AccessRequest<'_>,
    inputs: &Inputs<'_>,
) -> Decision {
    let matching = matching_rules(policy, caller, request, inputs);
    let denied =
        matching.iter().find(|(_, effect, truth)| *effect == Effect::Deny && *truth != Some(false));
    let mut allows = matching.iter().filter(|(_, effect, _)| *effect == Effect::Allow);
    let allowed = allows.clone().find(|(.., truth)| *truth == Some(true));
    match (denied, allowed, allows.next()) {
        (Some((rule, ..)), ..) => Decision::Denied(*rule),
        (None, Some((rule, ..)), _) => Decision::Allowed(*rule),
        (None, None, Some((rule, ..))) => Decision::ConditionFailed(*rule),
        (None, None, None) => Decision::NotAllowed,
    }
}

/// The rules that match a request, in order, each with its effect and with whether its conditions
/// are true: `None` if that cannot be computed. A rule is listed for each of its hosts and paths
/// that match, because the placeholders that conditions read differ.
fn matching_rules(
    policy: &Policy,
    caller: &Caller<'_>,
    request: &AccessRequest<'_>,
    inputs: &Inputs<'_>,
) -> Vec<(RuleId, Effect, Option<bool>)> {
    let AccessRequest { action, scope, resource } = *request;
    let callers = [caller].into_iter().chain(caller.actor.as_deref());
    let callers: Vec<(&Caller<'_>, BTreeSet<RoleId>)> =
        callers.map(|caller| (caller, roles_of(policy, caller))).collect();
    let subject = caller.user.map(|user| {
        let prefix = caller.source.map_or("", |source| policy.identity.user_prefix(source));
        PatternSubject { user: user.as_bytes(), prefix_len: prefix.len(), source: caller.source }
    });
    let mut matching = Vec::new();
    for (id, role, rule, effect) in policy.rules() {
        let Some(role) = policy.role(&role.name) else { continue };
        let mut may_have = callers.iter().map(|(_, possible)| possible.contains(&role));
        let is_possible = match effect {
            Effect::Allow => may_have.all(|may| may),
            Effect::Deny => may_have.any(|may| may),
        };
        if !is_possible || !rule.actions.matches(action) {
            continue;
        }
        let any_scope = rule.scopes.is_empty().then_some(None);
        let scopes = rule.scopes.iter().filter(|rule_scope| rule_scope.matches(scope)).map(Some);
        for rule_scope in any_scope.into_iter().chain(scopes) {
            for pattern in rule.resources.iter().filter(|p| p.matches(resource, subject)) {
                let (path, host) = (pattern.placeholders(), rule_scope.map(Scope::placeholders));
                let host = host.unwrap_or_default();
                let request =
                    RequestInputs { method: action, host: scope, path: resource, ..inputs.request };
                let placeholders = Placeholders { path: &path, host: &host };
                let inputs = Inputs { request, placeholders, ..*inputs };
                let has_role = callers
                    .iter()
                    .map(|(caller, possible)| has_role(policy, caller, possible, role, &inputs))
                    .reduce(|user, actor| match effect {
                        Effect::Allow => and(user, actor),
                        Effect::Deny => or(user, actor),
                    });
                let has_role = has_role.flatten();
                let when = rule.when.as_ref().map_or(Some(true), |when| is_true(when, &inputs));
                matching.push((id, effect, and(has_role, when)));
            }
        }
    }
    matching
}

/// Whether a caller has a role, by the conditions of the role and of its grants; `None` if that
/// cannot be computed. `possible` are the roles that the caller may have.
fn has_role(
    policy: &Policy,
    caller: &Caller<'_>,
    possible: &BTreeSet<RoleId>,
    role: RoleId,
    inputs: &Inputs<'_>,
) -> Option<bool> {
    let Role { name, when, .. } = policy.roles.at(role);
    let mut has = Some(is_given(caller, name));
    for grant in policy.grants.iter().filter(|grant| grant.role == role && is_for(grant, caller)) {
        let holds = grant.when.as_ref().map_or(Some(true), |when| is_true(when, inputs));
        has = or(has, holds);
    }
    for other in possible.iter().filter(|r| policy.roles.at(**r).extends.contains(&role)) {
        has = or(has, has_role(policy, caller, possible, *other, inputs));
    }
    and(has, when.as_ref().map_or(Some(true), |when| is_true(when, inputs)))
}

/// The value of the variable `roles`: the names of the roles that a caller has without a condition.
/// Reserved roles are left out. If an actor calls for the caller, both have these roles.
#[must_use]
pub fn certain_roles<'p>(policy: &'p Policy, caller: &Caller<'_>) -> Vec<&'p str> {
    let mut certain = unconditional_roles(policy, caller);
    if let Some(actor) = &caller.actor {
        let of_actor = unconditional_roles(policy, actor);
        certain.retain(|role| of_actor.contains(role));
    }
    let names = certain.into_iter().map(|role| &*policy.roles.at(role).name);
    names.filter(|name| ![ANYONE, AUTHENTICATED].contains(name)).collect()
}

/// The roles that a caller has without a condition, without regard to its actor.
fn unconditional_roles(policy: &Policy, caller: &Caller<'_>) -> BTreeSet<RoleId> {
    let given = given_roles(policy, caller).filter(|(_, when)| when.is_none());
    with_extended(policy, given.map(|(role, _)| role), |role| role.when.is_none())
}

/// Whether a caller has a role without a grant: a reserved role, or a role from its token.
fn is_given(caller: &Caller<'_>, role: &str) -> bool {
    role == ANYONE
        || caller.user.is_some() && (role == AUTHENTICATED || caller.roles.contains(&role))
}

fn is_true(condition: &Condition, inputs: &Inputs<'_>) -> Option<bool> {
    condition::holds(&condition.expression, inputs)
}

fn is_for(grant: &Grant, caller: &Caller<'_>) -> bool {
    grant.users.iter().any(|name| Some(&**name) == caller.user)
        || caller.user.is_some() && grant.groups.iter().any(|name| caller.groups.contains(&&**name))
}

/// All roles that a caller may have: granted roles, roles from its token, reserved roles, and the
/// roles that these extend. Its actor does not count. Conditions may take some of the roles away.
#[must_use]
pub fn roles_of(policy: &Policy, caller: &Caller<'_>) -> BTreeSet<RoleId> {
    with_extended(policy, given_roles(policy, caller).map(|(role, _)| role), |_| true)
}

/// The roles that a caller is given: reserved roles, roles from its token, and roles granted to its
/// name or its groups. A granted role comes with the condition of its grant, if any.
fn given_roles<'p>(
    policy: &'p Policy,
    caller: &Caller<'_>,
) -> impl Iterator<Item = (RoleId, Option<&'p Condition>)> {
    let roles = policy.roles.entries().filter(|(_, role)| is_given(caller, &role.name));
    let grants = policy.grants.iter().filter(|grant| is_for(grant, caller));
    let granted = grants.map(|grant| (grant.role, grant.when.as_ref()));
    roles.map(|(id, _)| (id, None)).chain(granted)
}

/// These roles and the roles that they extend, as far as `is_kept` is true. A role that is not kept
/// does not add the roles that it extends.
fn with_extended(
    policy: &Policy,
    roles: impl Iterator<Item = RoleId>,
    is_kept: impl Fn(&Role) -> bool,
) -> BTreeSet<RoleId> {
    let mut kept = BTreeSet::new();
    let mut unvisited: Vec<RoleId> = roles.collect();
    while let Some(id) = unvisited.pop() {
        let role = policy.roles.at(id);
        if is_kept(role) && kept.insert(id) {
            unvisited.extend(&role.extends);
        }
    }
    kept
}
