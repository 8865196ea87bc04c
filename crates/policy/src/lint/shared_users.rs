//! Rules with `{user}` for callers from two sources who can have the same name: each reaches what is the other's.

use crate::ids::IdVec;
use crate::lint::names::{MAX_COMPARISONS, MAX_SOURCES, Source, sources};
use crate::lint::warnings::Warnings;
use crate::model::{ANYONE, AUTHENTICATED, Identity, Policy, RoleId, Rule};
use crate::pattern::Segment;
use crate::problem::Problem;
use crate::warning::Warning;

/// The maximum number of roles whose rules are looked at.
const MAX_ROLES: usize = 1000;

/// Warns of each two sources whose callers can have the same name and match the same rule with `{user}`.
pub(crate) fn shared_users(policy: &Policy, problems: &mut Vec<Problem>) {
    let with_user: Vec<(RoleId, &Rule)> = policy
        .roles
        .entries()
        .filter_map(|(id, role)| Some((id, role.allow.iter().find(|rule| has_user(rule))?)))
        .take(MAX_ROLES)
        .collect();
    if with_user.is_empty() {
        return;
    }
    let sources = sources(&policy.identity);
    let sources = sources.get(..MAX_SOURCES).unwrap_or(&sources);
    let roles: Vec<_> = sources.iter().map(|source| roles_of(policy, source)).collect();
    let mut warnings = Warnings::new(problems);
    for (number, (second, of_second)) in sources.iter().zip(&roles).enumerate() {
        for (first, of_first) in sources.iter().zip(&roles).take(number) {
            let both = |(id, _): &&(RoleId, &Rule)| *of_first.at(*id) && *of_second.at(*id);
            if let Some((_, rule)) =
                with_user.iter().find(both).filter(|_| first.users.may_meet(&second.users))
            {
                warnings.push(warning(rule, first, second));
            }
        }
    }
}

fn warning(rule: &Rule, first: &Source<'_>, second: &Source<'_>) -> Problem {
    let (one, other) = (&first.what, &second.what);
    let message = format!("a user of {one} and one of {other} with the same name are one `{{user}}`");
    let help = "give each a `user_prefix` of its own; if they are the same person, write `{user.id}` with `user_id_from`";
    Problem::warning(second.at.clone(), Warning::SharedUser, message)
        .help(help)
        .related(rule.at.clone(), format!("`{}` is for both", rule.name))
        .related(first.at.clone(), "the other source is here")
}

fn has_user(rule: &Rule) -> bool {
    rule.resources.iter().any(|pattern| pattern.segments.contains(&Segment::User))
}

/// Which roles callers from a source can have.
fn roles_of(policy: &Policy, source: &Source<'_>) -> IdVec<RoleId, bool> {
    let mut had: IdVec<RoleId, bool> = vec![by_token(&policy.identity, source); policy.roles.len()].into();
    let mut open: Vec<RoleId> =
        [ANYONE, AUTHENTICATED].into_iter().filter_map(|name| policy.role(name)).collect();
    let mut left = MAX_COMPARISONS / MAX_SOURCES;
    for grant in &policy.grants {
        let mut among = |names: &[std::sync::Arc<str>], of: &super::names::Names<'_>| {
            left = left.saturating_sub(names.len());
            left > 0 && names.iter().any(|name| of.may_be(name))
        };
        if among(&grant.users, &source.users) || among(&grant.groups, &source.groups) {
            open.push(grant.role);
        }
    }
    while let Some(role) = open.pop() {
        if !std::mem::replace(had.at_mut(role), true) {
            open.extend(&policy.roles.at(role).extends);
        }
    }
    had
}

/// Whether the tokens of a source can give any role.
fn by_token(identity: &Identity, source: &Source<'_>) -> bool {
    let issuer = identity.jwt.iter().find(|issuer| std::ptr::eq(&raw const issuer.at, source.at));
    issuer.is_some_and(|issuer| issuer.roles_from_token && issuer.claims.roles.is_some())
}
