//! Roles that nobody has, that sound as if everybody had them, or that tokens can give, too.

use std::path::Path;

use document::{Place, Problem, Warning};
use policy::Parsed;
use policy::model::{Policy, RoleId, RolesFromToken};

use crate::related::{Roles, reserved};
use crate::sources::{Source, join_labels};
use crate::warnings::Warnings;

/// Warns of a policy without a role. It is probably incomplete, such as a file that was cut off.
pub(crate) fn no_roles(policy: &Policy, file: &Path, warnings: &mut Warnings) {
    if policy.roles.is_empty() && policy.search.is_none() {
        let message = "there is no role, so every request is denied";
        let problem = Problem::warning(Place::start_of(file), Warning::NoRoles, message);
        warnings.push(problem.help("add `roles`; if the policy had some, a part of it is missing"));
    }
}

/// Warns of each role that no caller can have, and of roles that sound as if every caller had them.
pub(crate) fn unused_roles(policy: &Policy, warnings: &mut Warnings) {
    let issuers = &policy.identity.jwt;
    let mut granted: Vec<RoleId> = policy.grants.iter().map(|grant| grant.role).collect();
    let roles = policy.roles.entries();
    let by_token = roles.filter(|(_, role)| issuers.iter().any(|i| i.may_give(&role.name)));
    granted.extend(by_token.map(|(id, _)| id));
    let is_any_granted = !granted.is_empty();
    let with_callers = Roles::with_extended(policy, granted.into_iter().chain(reserved(policy)));
    let had_without_grant = Roles::with_extended(policy, reserved(policy));
    for (id, role) in policy.roles.entries() {
        let (kind, message, help) = match (
            with_callers.contains(id),
            &*role.name.to_ascii_lowercase(),
        ) {
            (false, _) if is_any_granted => (
                Warning::UnusedRole,
                format!("nobody has the role `{}`", role.name),
                "name it under `grants`, let a role that is granted extend it, or call it \
                 `anyone` or `authenticated`, which are not granted",
            ),
            (false, _) => (
                Warning::UnusedRole,
                "no role is granted to anybody".to_owned(),
                "add `grants`, or call the role `anyone` or `authenticated`, which are not granted",
            ),
            (true, "*" | "all" | "any" | "everyone" | "everybody" | "public" | "anonymous")
                if !had_without_grant.contains(id) =>
            {
                (
                    Warning::LikeAnyone,
                    format!(
                        "`{}` is a role like any other: only callers to whom it is given have it",
                        role.name
                    ),
                    "call it `anyone`, the role that every caller has, or `authenticated`, the \
                     role of every caller with credentials: neither is granted or extended",
                )
            }
            (true, _) => continue,
        };
        warnings.push(Problem::warning(role.at.clone(), kind, message).help(help));
        if !is_any_granted {
            // If nothing is granted, a single warning is enough for all roles.
            return;
        }
    }
}

/// Warns of issuers whose tokens can give any role, because `roles_from_token` lists no roles, if
/// the policy also grants roles to users or groups: the administrators of these issuers can give
/// these roles, too. The warning is at the last issuer, so that an `# accept:` comment does not
/// cover an issuer that is added later.
pub(crate) fn token_roles(parsed: &Parsed, sources: &[&Source<'_>], warnings: &mut Warnings) {
    let mut issuers = sources.to_vec();
    issuers.retain(|source| {
        source.issuer.is_some_and(|issuer| {
            issuer.accepted_role_claim().is_some()
                && matches!(issuer.roles_from_token, RolesFromToken::All)
        })
    });
    let grants = parsed.grants.iter().filter(|g| !g.users.is_empty() || !g.groups.is_empty());
    let mut places = grants.map(|g| (g.at.clone(), format!("`{}` is granted", g.role))).peekable();
    if let Some(issuer) = issuers.last()
        && places.peek().is_some()
    {
        let message = format!(
            "each token {} gives the roles that it names, also those that the policy grants",
            join_labels("of", &issuers)
        );
        let help = "write `roles_from_token: false`, or list under `roles_from_token` the roles \
                    that they may give";
        let problem = Problem::warning(issuer.at.clone(), Warning::TokenRole, message);
        warnings.push(problem.help(help).places(places));
    }
}
