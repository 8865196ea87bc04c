//! Roles that are granted by name, and that tokens can give too.

use std::collections::{BTreeSet, HashSet};

use crate::names::{MAX_LISTED, MAX_SOURCES, Source, listed, related, sources};
use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::model::{ANYONE, AUTHENTICATED, Issuer, RolesFromToken};
use policy::{Parsed, UnresolvedGrant};

/// Warns of each role that is granted to users or groups, and that every token of an issuer can give too, because
/// `roles_from_token` lists no roles: the administrators of that issuer grant it, too. The warning is where the
/// role is granted: a comment accepts only that role.
pub(crate) fn token_roles(parsed: &Parsed, problems: &mut Vec<Problem>) {
    let identity = &parsed.policy.identity;
    let sources = sources(identity);
    let gives_all = |issuer: &&Issuer| {
        issuer.role_claim().is_some() && matches!(issuer.roles_from_token, RolesFromToken::All)
    };
    let issuers: Vec<&Issuer> = identity.jwt.iter().filter(gives_all).collect();
    let is_one =
        |source: &&Source<'_>| issuers.iter().any(|issuer| std::ptr::eq(&raw const issuer.at, source.at));
    let issuers: Vec<&Source<'_>> = sources.iter().take(MAX_SOURCES).filter(is_one).collect();
    if issuers.is_empty() {
        return;
    }
    let help = help(parsed);
    let mut warnings = Warnings::new(problems);
    for grant in &parsed.grants {
        if !grant.users.is_empty() || !grant.groups.is_empty() {
            warnings.push(warning(grant, &issuers, &help));
        }
    }
}

fn warning(grant: &UnresolvedGrant, issuers: &[&Source<'_>], help: &str) -> Problem {
    let role = &grant.role;
    let of = listed("of", issuers);
    let message =
        format!("the role `{role}` is granted here, but each token {of} that names it gives it, too");
    related(Problem::warning(grant.at.clone(), Warning::TokenRole, message).help(help), issuers)
}

/// What to write: the roles that nobody is granted are those that tokens are to give.
fn help(parsed: &Parsed) -> String {
    let granted: HashSet<&str> = parsed.grants.iter().map(|grant| &*grant.role).collect();
    let roles = &parsed.policy.roles;
    let extended: HashSet<&str> =
        roles.iter().flat_map(|role| &role.extends).map(|id| &*roles.at(*id).name).collect();
    let names = roles.iter().map(|role| &*role.name);
    let only_in_tokens: BTreeSet<&str> = names
        .filter(|name| {
            !granted.contains(name) && !extended.contains(name) && ![ANYONE, AUTHENTICATED].contains(name)
        })
        .collect();
    let list = match only_in_tokens.len() {
        0 => "`roles_from_token: false`, or under `roles_from_token` the roles that they may give (all, if tokens are to give all)".to_owned(),
        1..=MAX_LISTED => {
            let names: Vec<&str> = only_in_tokens.into_iter().collect();
            format!("the roles that they may give: `roles_from_token: [{}]`", names.join(", "))
        }
        _ => "the roles that they may give under `roles_from_token`".to_owned(),
    };
    format!("write {list}")
}
