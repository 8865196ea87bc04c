//! The roles of a caller, and why it has them.

use std::collections::{BTreeMap, HashSet};

use identity::Subject;
use policy::Policy;
use policy::model::{ANYONE, AUTHENTICATED, Effect, RoleId};
use serde::Serialize;

use crate::is_false;
use crate::ways::{Given, GivenRole, Ways, ways_of_roles};

/// A caller, and its roles.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ExplainedCaller {
    /// The user name; `None` if the caller is anonymous.
    pub user: Option<String>,
    /// The issuer of the caller's token, if any.
    pub issuer: Option<String>,
    /// The caller's groups.
    pub groups: Vec<String>,
    /// The caller's roles in the order of the policy, each with its sources. With an actor, only
    /// those that both have.
    pub roles: Vec<ExplainedRole>,
    /// The actor that calls for the user, with its own roles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<Box<ExplainedCaller>>,
}

/// A role of a caller, and why the caller has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRole {
    /// Its name.
    pub name: String,
    /// Why the caller has it; at least one source.
    pub from: Vec<RoleSource>,
    /// The condition under which it has the role, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Whether a search cluster maps the role to the caller, but does not define it.
    #[serde(skip_serializing_if = "is_false")]
    pub is_missing: bool,
}

/// Why a caller has a role.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleSource {
    /// Every caller has the role: `anyone`.
    Everyone,
    /// Every authenticated caller has the role: `authenticated`.
    EveryoneAuthenticated,
    /// The role is granted to the caller's user name.
    GrantedToUser(String),
    /// The role is granted to this group of the caller.
    GrantedToGroup(String),
    /// The caller's token names the role.
    CarriedByToken,
    /// The role was given for this explanation, without a token.
    Given,
    /// This role of the caller extends the role.
    ExtendedBy(String),
    /// The search cluster maps or gives the role.
    #[serde(untagged)]
    OfCluster(search::explain::RoleSource),
}

impl ExplainedCaller {
    /// The caller with its roles of the policy.
    pub(crate) fn by_rules(policy: &Policy, subject: Option<&Subject>) -> Self {
        let mut roles = roles(policy, subject);
        let caller = subject.map_or_else(Self::default, Self::new);
        let actor = subject.and_then(|subject| subject.actor.as_deref());
        let actor = actor.map(|actor| Box::new(Self::by_rules(policy, Some(actor))));
        if let Some(actor) = &actor {
            roles.retain(|role| actor.roles.iter().any(|of_actor| of_actor.name == role.name));
        }
        Self { actor, ..caller.with_roles(roles) }
    }

    /// The caller without its roles. A subject with an empty name stands for every caller.
    pub(crate) fn new(subject: &Subject) -> Self {
        Self {
            user: (!subject.user.is_empty()).then(|| subject.user.to_string()),
            issuer: subject.issuer.as_ref().map(ToString::to_string),
            groups: subject.groups.iter().map(ToString::to_string).collect(),
            roles: Vec::new(),
            actor: None,
        }
    }

    pub(crate) fn with_roles(self, roles: Vec<ExplainedRole>) -> Self {
        Self { roles, ..self }
    }
}

/// The names of the roles whose `deny` rules count: all roles of a caller, and those of its actor.
pub(crate) fn denying_roles<'p>(policy: &'p Policy, subject: Option<&Subject>) -> HashSet<&'p str> {
    let actor = subject.and_then(|subject| subject.actor.as_deref());
    let mut names = HashSet::new();
    for caller in [subject].into_iter().chain(actor.map(Some)) {
        let held: HashSet<String> = roles(policy, caller).into_iter().map(|r| r.name).collect();
        names.extend(policy.roles.iter().map(|r| &*r.name).filter(|name| held.contains(*name)));
    }
    names
}

/// The roles of a caller, without regard to its actor, and their sources. They are computed from
/// the policy as the reference evaluator computes them.
fn roles(policy: &Policy, subject: Option<&Subject>) -> Vec<ExplainedRole> {
    let mut sources: BTreeMap<RoleId, Vec<RoleSource>> = BTreeMap::new();
    for (id, source) in direct_roles(policy, subject) {
        sources.entry(id).or_default().push(source);
    }
    let mut to_visit: Vec<RoleId> = sources.keys().copied().collect();
    while let Some(id) = to_visit.pop() {
        let role = policy.roles.at(id);
        for extended in &role.extends {
            if !sources.contains_key(extended) {
                to_visit.push(*extended);
            }
            let source = RoleSource::ExtendedBy(role.name.to_string());
            sources.entry(*extended).or_default().push(source);
        }
    }
    let given = given_roles(policy, subject);
    let ways = ways_of_roles(policy, &given, (Effect::Allow, None), &Given::default());
    let roles = sources.into_iter().map(|(id, from)| ExplainedRole {
        name: policy.roles.at(id).name.to_string(),
        from,
        when: ways.get(&id).and_then(Ways::condition),
        is_missing: false,
    });
    roles.collect()
}

/// The roles that a caller has directly: `anyone`, `authenticated` if it has credentials, and those
/// of its token or of grants to its name or groups. Its actor has no influence.
pub(crate) fn given_roles<'p>(policy: &'p Policy, subject: Option<&Subject>) -> Vec<GivenRole<'p>> {
    let mut roles: Vec<GivenRole<'p>> = Vec::new();
    roles.extend(policy.role(ANYONE).map(|role| (role, None)));
    let Some(subject) = subject else { return roles };
    roles.extend(policy.role(AUTHENTICATED).map(|role| (role, None)));
    let by_token = subject.roles.iter().filter_map(|role| policy.role(role));
    roles.extend(by_token.map(|role| (role, None)));
    let grants = policy.grants.iter().filter(|grant| {
        grant.users.contains(&subject.user)
            || grant.groups.iter().any(|group| subject.groups.contains(group))
    });
    roles.extend(grants.map(|grant| (grant.role, grant.when.as_ref())));
    roles
}

fn direct_roles(policy: &Policy, subject: Option<&Subject>) -> Vec<(RoleId, RoleSource)> {
    let mut roles: Vec<(RoleId, RoleSource)> = Vec::new();
    roles.extend(policy.role(ANYONE).map(|id| (id, RoleSource::Everyone)));
    let Some(subject) = subject else { return roles };
    roles.extend(policy.role(AUTHENTICATED).map(|id| (id, RoleSource::EveryoneAuthenticated)));
    let source = match subject.issuer {
        Some(_) => RoleSource::CarriedByToken,
        None => RoleSource::Given,
    };
    let by_token = subject.roles.iter().filter_map(|role| policy.role(role));
    roles.extend(by_token.map(|id| (id, source.clone())));
    for grant in &policy.grants {
        if grant.users.contains(&subject.user) {
            roles.push((grant.role, RoleSource::GrantedToUser(subject.user.to_string())));
        }
        for group in grant.groups.iter().filter(|group| subject.groups.contains(group)) {
            roles.push((grant.role, RoleSource::GrantedToGroup(group.to_string())));
        }
    }
    roles
}
