//! Who may make a request: the reverse of authorizing one, computed from the policy itself.

use std::collections::BTreeSet;
use std::fmt;

use policy::Policy;
use policy::canonical::decoded;
use policy::model::{ANYONE, AUTHENTICATED, Effect, Role, RoleId, Rule};
use serde::Serialize;

use crate::Authorizer;
use crate::matched::{ExplainedRule, explained_rule, matching};
use crate::reason::Reason;
use crate::request::{self, ParseScratch, Request};

/// Who may make a request.
#[derive(Clone, Debug, Serialize)]
pub struct WhoCan {
    /// The interpretations of the path: a caller needs a permission on each of them.
    pub paths: Vec<String>,
    /// Every rule that matches, in the order of the policy. Rules that deny win.
    pub permissions: Vec<Permission>,
}

/// A rule that matches the request, and the callers that it allows or denies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Permission {
    /// The interpretation of the path that the rule matches.
    pub path: String,
    /// The rule.
    pub rule: ExplainedRule,
    /// The roles that have the rule: its own role, and those that extend it.
    pub roles: Vec<String>,
    /// The users who are granted one of these roles; if `owner` is set, only that user.
    pub users: Vec<String>,
    /// The groups that are granted one of these roles.
    pub groups: Vec<String>,
    /// If the rule is only for the owner of the path: the user name that the caller must have.
    pub owner: Option<String>,
    /// Whether every caller, an anonymous one included, has one of these roles.
    pub anyone: bool,
    /// Whether every authenticated caller has one of these roles.
    pub authenticated: bool,
}

impl Authorizer {
    /// Who may make this request. Roles that tokens carry are not resolved to users: only the issuer knows who has
    /// them.
    ///
    /// # Errors
    /// If the request is invalid for every caller.
    pub fn who_can(&self, method: &[u8], host: &[u8], path: &[u8]) -> Result<WhoCan, Reason> {
        let mut scratch = ParseScratch::default();
        let request = Request { method, host, path, headers: &[], id: b"" };
        let parsed = request::parse(&request, &mut scratch)?;
        let policy = &self.loaded.policy;
        let mut permissions = Vec::new();
        for path in parsed.paths.all() {
            permissions.extend(permissions_on(policy, method, parsed.host, path));
        }
        for path in parsed.paths.deny_only() {
            let denials = permissions_on(policy, method, parsed.host, path);
            permissions.extend(denials.filter(|permission| permission.rule.denies));
        }
        let paths = parsed.paths.all().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
        Ok(WhoCan { paths, permissions })
    }
}

fn permissions_on<'p>(
    policy: &'p Policy,
    method: &[u8],
    host: &[u8],
    path: &[u8],
) -> impl Iterator<Item = Permission> + use<'p> {
    let shown = String::from_utf8_lossy(path).into_owned();
    let mut found: Vec<(&Role, &Rule, Effect, Option<String>)> = matching(policy, method, host, path, None)
        .map(|(role, rule, effect)| (role, rule, effect, None))
        .collect();
    for owner in owners(path) {
        let for_owner = matching(policy, method, host, path, Some(owner.as_bytes()));
        let new: Vec<_> = for_owner
            .filter(|(_, rule, _)| !found.iter().any(|(_, known, ..)| known.at == rule.at))
            .collect();
        found.extend(new.into_iter().map(|(role, rule, effect)| (role, rule, effect, Some(owner.clone()))));
    }
    found
        .into_iter()
        .map(move |(role, rule, effect, owner)| permission(policy, &shown, role, rule, effect, owner))
}

/// The user names for which an owner rule could match a path: its decoded segments.
fn owners(path: &[u8]) -> BTreeSet<String> {
    let segments = path.split(|byte| *byte == b'/').filter(|segment| !segment.is_empty());
    segments.filter_map(|segment| String::from_utf8(decoded(segment)).ok()).collect()
}

fn permission(
    policy: &Policy,
    path: &str,
    role: &Role,
    rule: &Rule,
    effect: Effect,
    owner: Option<String>,
) -> Permission {
    let roles = policy.role(&role.name).map(|id| extending(policy, id)).unwrap_or_default();
    let grants = || policy.grants.iter().filter(|grant| roles.contains(&grant.role));
    let users: BTreeSet<_> = grants().flat_map(|grant| &grant.users).map(ToString::to_string).collect();
    let users = users.into_iter().filter(|user| owner.as_ref().is_none_or(|owner| owner == user)).collect();
    let groups: BTreeSet<_> = grants().flat_map(|grant| &grant.groups).map(ToString::to_string).collect();
    let has = |name: &str| policy.role(name).is_some_and(|id| roles.contains(&id));
    Permission {
        path: path.to_owned(),
        rule: explained_rule(role, rule, effect),
        users,
        groups: groups.into_iter().collect(),
        owner,
        anyone: has(ANYONE),
        authenticated: has(AUTHENTICATED),
        roles: roles
            .iter()
            .filter_map(|id| Some(policy.roles.get(id.0 as usize)?.name.to_string()))
            .collect(),
    }
}

/// A role and every role that extends it, directly or not.
fn extending(policy: &Policy, role: RoleId) -> BTreeSet<RoleId> {
    let mut found = BTreeSet::from([role]);
    loop {
        let extends_one = |role: &Role| role.extends.iter().any(|extended| found.contains(extended));
        let more: Vec<RoleId> = (0..)
            .map(RoleId)
            .zip(&policy.roles)
            .filter(|(_, role)| extends_one(role))
            .map(|(id, _)| id)
            .collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

impl fmt::Display for WhoCan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.permissions.is_empty() {
            f.write_str("nobody: no rule allows it")?;
        }
        let mut first = true;
        for permission in &self.permissions {
            f.write_str(if std::mem::take(&mut first) { "" } else { "\n" })?;
            permission.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.rule, self.path)?;
        if let Some(owner) = &self.owner {
            write!(f, "\n    only:   the user `{owner}`")?;
        }
        let everyone = [(self.anyone, "anyone"), (self.authenticated, "any authenticated caller")];
        for (_, who) in everyone.iter().filter(|(applies, _)| *applies) {
            write!(f, "\n    who:    {who}")?;
        }
        for (what, names) in [("roles: ", &self.roles), ("users: ", &self.users), ("groups:", &self.groups)] {
            if !names.is_empty() {
                write!(f, "\n    {what} {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}
