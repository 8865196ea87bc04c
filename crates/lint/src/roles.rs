//! Who has which roles, and warnings about roles that nobody has or that tokens can give, too.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::sync::Arc;

use document::{Place, Problem, Warning};
use policy::Parsed;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Policy, RoleId, RolesFromToken};

use crate::names::{
    MAX_COMPARISONS, MAX_LISTED, MAX_SOURCES, Names, Source, listed, related, sources,
};
use crate::warnings::Warnings;

/// The reserved roles that the policy defines.
pub(crate) fn reserved(policy: &Policy) -> impl Iterator<Item = RoleId> {
    [ANYONE, AUTHENTICATED].into_iter().filter_map(|name| policy.role(name))
}

/// Which roles whoever has these has, too: those that they extend, and they themselves.
pub(crate) fn with_extended(
    policy: &Policy,
    roles: impl IntoIterator<Item = RoleId>,
) -> IdVec<RoleId, bool> {
    let mut had: IdVec<RoleId, bool> = vec![false; policy.roles.len()].into();
    let mut open: Vec<RoleId> = roles.into_iter().collect();
    while let Some(role) = open.pop() {
        if !std::mem::replace(had.at_mut(role), true) {
            open.extend(&policy.roles.at(role).extends);
        }
    }
    had
}

/// Which roles callers from a source can have.
pub(crate) fn roles_of(policy: &Policy, source: &Source<'_>) -> IdVec<RoleId, bool> {
    let mut roles: Vec<RoleId> = reserved(policy).collect();
    if let Some(issuer) = source.issuer {
        let given = policy.roles.entries().filter(|(_, role)| issuer.may_give(&role.name));
        roles.extend(given.map(|(id, _)| id));
    }
    let mut left = MAX_COMPARISONS / MAX_SOURCES;
    let mut has_one = |granted: &[Arc<str>], names: &Names<'_>| {
        left = left.saturating_sub(granted.len());
        left > 0 && granted.iter().any(|name| names.may_be(name))
    };
    for grant in &policy.grants {
        if has_one(&grant.users, &source.users) || has_one(&grant.groups, &source.groups) {
            roles.push(grant.role);
        }
    }
    with_extended(policy, roles)
}

/// Warns of a policy without a role: it is probably a part of one, such as a file that was cut off.
pub(crate) fn no_roles(policy: &Policy, file: &Path, warnings: &mut Warnings) {
    if policy.roles.is_empty() && policy.search.is_none() {
        let message = "there is no role, so every request is denied";
        let problem = Problem::warning(Place::start_of(file), Warning::NoRoles, message);
        warnings.push(problem.help("add `roles`; if the policy had some, a part of it is missing"));
    }
}

/// Warns of each role that no caller can have, and of roles that sound as if every caller had them.
pub(crate) fn unused_roles(policy: &Policy, warnings: &mut Warnings) {
    let by_token = policy
        .roles
        .entries()
        .filter(|(_, role)| policy.identity.jwt.iter().any(|issuer| issuer.may_give(&role.name)))
        .map(|(id, _)| id);
    let granted: Vec<RoleId> =
        policy.grants.iter().map(|grant| grant.role).chain(by_token).collect();
    let is_granted = !granted.is_empty();
    let had = with_extended(policy, granted.into_iter().chain(reserved(policy)));
    let mut unused = policy.roles.entries().filter(|(id, _)| !*had.at(*id)).map(|(_, role)| role);
    if !is_granted {
        // One warning is enough for all of them.
        if let Some(role) = unused.next() {
            let message = "no role is granted to anybody";
            let help =
                "add `grants`, or call the role `anyone` or `authenticated`, which are not granted";
            warnings
                .push(Problem::warning(role.at.clone(), Warning::UnusedRole, message).help(help));
        }
        return;
    }
    for role in unused {
        let message = format!("nobody has the role `{}`", role.name);
        let help = "name it under `grants`, let a role that is granted extend it, or call it `anyone` or \
                    `authenticated`, which are not granted";
        warnings.push(Problem::warning(role.at.clone(), Warning::UnusedRole, message).help(help));
    }
    let everybodys = with_extended(policy, reserved(policy));
    for (_, role) in policy.roles.entries().filter(|(id, _)| *had.at(*id) && !*everybodys.at(*id)) {
        let name = role.name.to_ascii_lowercase();
        if matches!(&*name, "*" | "all" | "any" | "everyone" | "everybody" | "public" | "anonymous")
        {
            let message = format!(
                "`{}` is a role like any other: only callers to whom it is given have it",
                role.name
            );
            let help = "call it `anyone`, the role that every caller has, or `authenticated`, that of every caller with \
                        credentials: neither is granted or extended";
            warnings
                .push(Problem::warning(role.at.clone(), Warning::LikeAnyone, message).help(help));
        }
    }
}

/// Warns of each role that is granted to users or groups, and that every token of an issuer can
/// give too, because `roles_from_token` lists no roles: the administrators of that issuer grant it,
/// too. The warning is where the role is granted: a comment accepts only that role.
pub(crate) fn token_roles(parsed: &Parsed, warnings: &mut Warnings) {
    let gives_all = |source: &&Source<'_>| {
        source.issuer.is_some_and(|issuer| {
            issuer.role_claim().is_some() && matches!(issuer.roles_from_token, RolesFromToken::All)
        })
    };
    let sources = sources(&parsed.policy.identity);
    let issuers: Vec<&Source<'_>> = sources.iter().take(MAX_SOURCES).filter(gives_all).collect();
    if issuers.is_empty() {
        return;
    }
    let help = list_of_roles(parsed);
    for grant in
        parsed.grants.iter().filter(|grant| !grant.users.is_empty() || !grant.groups.is_empty())
    {
        let message = format!(
            "the role `{}` is granted here, but each token {} that names it gives it, too",
            grant.role,
            listed("of", &issuers)
        );
        let problem = Problem::warning(grant.at.clone(), Warning::TokenRole, message).help(&*help);
        warnings.push(related(problem, &issuers));
    }
}

/// What to write: the roles that nobody is granted are those that tokens are to give.
fn list_of_roles(parsed: &Parsed) -> String {
    let granted: HashSet<&str> = parsed.grants.iter().map(|grant| &*grant.role).collect();
    let roles = &parsed.policy.roles;
    let extended: HashSet<&str> =
        roles.iter().flat_map(|role| &role.extends).map(|id| &*roles.at(*id).name).collect();
    let mut only_in_tokens: BTreeSet<&str> = roles.iter().map(|role| &*role.name).collect();
    only_in_tokens.retain(|name| {
        !granted.contains(name)
            && !extended.contains(name)
            && ![ANYONE, AUTHENTICATED].contains(name)
    });
    if only_in_tokens.is_empty() || only_in_tokens.len() > MAX_LISTED {
        return "write `roles_from_token: false`, or list under `roles_from_token` the roles that they may give"
            .to_owned();
    }
    let names: Vec<&str> = only_in_tokens.into_iter().collect();
    format!("write the roles that they may give: `roles_from_token: [{}]`", names.join(", "))
}
