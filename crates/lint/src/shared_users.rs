//! Rules with `{user}` for callers from two sources who can have the same name: each reaches what is the other's.

use crate::names::{MAX_SOURCES, Source, keep_apart, listed, related, sources};
use crate::similar_names::MAX_COMPARISONS;
use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Identity, Issuer, Policy, RoleId, Rule};
use policy::pattern::Segment;

/// The maximum number of roles whose rules are looked at.
const MAX_ROLES: usize = 1000;

/// Warns of each rule with `{user}` for callers from two sources who can have the same name. The warning is at the rule:
/// a comment accepts only the rules on its own line.
pub(crate) fn shared_users(policy: &Policy, problems: &mut Vec<Problem>) {
    let roles = policy.roles.entries().filter(|(_, role)| role.allow.iter().any(has_user));
    let roles: Vec<_> = roles.take(MAX_ROLES).collect();
    if roles.is_empty() {
        return;
    }
    let sources = sources(&policy.identity);
    let sources = sources.get(..MAX_SOURCES).unwrap_or(&sources);
    let had: Vec<_> = sources.iter().map(|source| roles_of(policy, source)).collect();
    let mut pairs = Vec::new();
    for (number, (second, of_second)) in sources.iter().zip(&had).enumerate() {
        for (first, of_first) in sources.iter().zip(&had).take(number) {
            if first.users.may_meet(&second.users) {
                pairs.push([(first, of_first), (second, of_second)]);
            }
        }
    }
    let mut warnings = Warnings::new(problems);
    for (id, role) in roles {
        let both = pairs.iter().filter(|pair| pair.iter().all(|(_, had)| *had.at(id)));
        let met: Vec<&Source<'_>> = both.flatten().map(|(source, _)| *source).collect();
        let is_met = |source: &&Source<'_>| met.iter().any(|one| std::ptr::eq(*one, *source));
        let shared: Vec<&Source<'_>> = sources.iter().filter(is_met).collect();
        if !shared.is_empty() {
            role.allow
                .iter()
                .filter(|rule| has_user(rule))
                .for_each(|rule| warnings.push(warning(rule, &shared)));
        }
    }
}

fn warning(rule: &Rule, sources: &[&Source<'_>]) -> Problem {
    let message =
        format!("users {} with the same name cannot be told apart by `{{user}}`", listed("of", sources));
    let names: Vec<_> = sources.iter().map(|source| &source.users).collect();
    let apart = keep_apart("user", &names);
    let help = format!("{apart}; if they are the same person, write `{{user.id}}` with `user_id_from`");
    related(Problem::warning(rule.at.clone(), Warning::SharedUser, message).help(help), sources)
}

fn has_user(rule: &Rule) -> bool {
    rule.resources.iter().any(|pattern| pattern.segments.contains(&Segment::User))
}

/// Which roles callers from a source can have.
pub(crate) fn roles_of(policy: &Policy, source: &Source<'_>) -> IdVec<RoleId, bool> {
    let mut had: IdVec<RoleId, bool> = vec![false; policy.roles.len()].into();
    let mut open: Vec<RoleId> =
        [ANYONE, AUTHENTICATED].into_iter().filter_map(|name| policy.role(name)).collect();
    if let Some(issuer) = issuer_of(&policy.identity, source) {
        open.extend(policy.roles.entries().filter(|(_, role)| issuer.may_give(&role.name)).map(|(id, _)| id));
    }
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

/// The issuer that is this source.
pub(crate) fn issuer_of<'i>(identity: &'i Identity, source: &Source<'_>) -> Option<&'i Issuer> {
    identity.jwt.iter().find(|issuer| std::ptr::eq(&raw const issuer.at, source.at))
}
