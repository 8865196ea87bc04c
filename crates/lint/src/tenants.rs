//! Roles that deny each other's hosts or paths, as those of tenants do: a host or path that is new
//! is open to all of them, and each one is open to a caller who has none of these roles.

use std::collections::BTreeSet;

use crate::overlap::{overlap_but_for_paths, overlapping};
use crate::related::Related;
use crate::trie::{Ruled, Trie};
use crate::warnings::{Budget, Warnings};
use document::{Problem, Warning};
use policy::model::{Effect, Policy, RoleId, Rule};
use policy::pattern::{Pattern, Scope, Segment};

/// The maximum number of steps for each `allow` rule.
const MAX_STEPS: usize = 10_000;

/// Where the rule of a tenant has its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Position {
    Host,
    Segment(usize),
}

/// What a role denies of an `allow` rule: the hosts, or the names in one segment.
struct Denied<'s, 'p> {
    first: &'s Ruled<'p>,
    names: BTreeSet<&'p str>,
}

/// Warns of each `allow` rule from which two roles deny each other's part.
pub(crate) fn open(policy: &Policy, trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = Related::new(policy);
    let mut warned: BTreeSet<RoleId> = BTreeSet::new();
    let mut budget = Budget::new(2_000_000, MAX_STEPS);
    for allow in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Allow) {
        budget.spend(|left| {
            let denying: Vec<&Ruled<'_>> = overlapping(trie, allow.rule, left)
                .into_iter()
                .map(|id| trie.rules.at(id))
                .filter(|near| {
                    near.effect == Effect::Deny && overlap_but_for_paths(near.rule, allow.rule)
                })
                .collect();
            for position in positions(allow.rule) {
                let denied = denied_by_roles(&denying, allow.rule, position);
                if let Some((one, other)) = find_mutual(&denied, position, &mut related, left)
                    && *left > 0
                    && warned.insert(one.role)
                {
                    warnings.push(warning(one, other, allow, position, &mut related));
                }
            }
        });
    }
}

/// Where a rule has any host or any name.
fn positions(allow: &Rule) -> BTreeSet<Position> {
    let is_open = allow.scopes.is_empty()
        || allow.scopes.iter().any(|scope| matches!(scope, Scope::Below(_)));
    let segments = allow.resources.iter().flat_map(open_segments).map(Position::Segment);
    is_open.then_some(Position::Host).into_iter().chain(segments).collect()
}

/// The segments of a pattern that may have any name. Not the first one of `/**`: roles for
/// different parts of an application differ there, too.
fn open_segments(pattern: &Pattern) -> impl Iterator<Item = usize> {
    let count = pattern.segments.len();
    let any = pattern
        .segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| matches!(segment, Segment::One(_)));
    any.map(|(number, _)| number).chain((pattern.rest && count > 0).then_some(count))
}

/// What each role denies at this position. The rules of a role are beside each other.
fn denied_by_roles<'s, 'p>(
    denying: &[&'s Ruled<'p>],
    allow: &Rule,
    position: Position,
) -> Vec<Denied<'s, 'p>> {
    let roles = denying.chunk_by(|one, other| one.role == other.role);
    roles
        .filter_map(|rules| {
            let mut named =
                rules.iter().filter(|ruled| names(ruled.rule, allow, position).next().is_some());
            let first = named.next()?;
            let names = rules.iter().flat_map(|ruled| names(ruled.rule, allow, position)).collect();
            Some(Denied { first, names })
        })
        .collect()
}

/// The hosts of a `deny` rule that only a pattern of the `allow` rule covers, or the literals in a
/// segment of its paths.
fn names<'p>(deny: &'p Rule, allow: &Rule, position: Position) -> impl Iterator<Item = &'p str> {
    let hosts = deny.scopes.iter().filter_map(move |scope| match scope {
        Scope::Exact(host) if position == Position::Host && !allow.scopes.contains(scope) => {
            Some(&**host)
        }
        Scope::Exact(_) | Scope::Below(_) => None,
    });
    let literals =
        deny.resources.iter().filter_map(move |pattern| match (position, &*pattern.segments) {
            (Position::Segment(number), segments) => match segments.get(number)? {
                Segment::Literal(name) => Some(&**name),
                Segment::One(_) | Segment::User | Segment::UserId(_) | Segment::Glob(_) => None,
            },
            (Position::Host, _) => None,
        });
    hosts.chain(literals)
}

/// Two independent roles each of which denies what the other one does not. Of paths, there must
/// also be a name that both deny, a third tenant: otherwise these may be roles for different parts
/// of an application.
fn find_mutual<'s, 'p>(
    denied: &[Denied<'s, 'p>],
    position: Position,
    related: &mut Related<'_>,
    left: &mut usize,
) -> Option<(&'s Ruled<'p>, &'s Ruled<'p>)> {
    for (number, one) in denied.iter().enumerate() {
        for other in denied.iter().skip(number + 1) {
            *left = left.saturating_sub(one.names.len() + other.names.len());
            if *left == 0 {
                return None;
            }
            let is_nested =
                one.names.is_subset(&other.names) || one.names.is_superset(&other.names);
            let is_alike = position == Position::Host || !one.names.is_disjoint(&other.names);
            if !is_nested
                && is_alike
                && !related.come_together(one.first.role, other.first.role, left)
            {
                return Some((one.first, other.first));
            }
        }
    }
    None
}

fn warning(
    one: &Ruled<'_>,
    other: &Ruled<'_>,
    allow: &Ruled<'_>,
    position: Position,
    related: &mut Related<'_>,
) -> Problem {
    let what = if position == Position::Host { "host" } else { "path" };
    let (one_role, other_role) = (&one.named.name, &other.named.name);
    let mut message = format!(
        "`{one_role}` and `{other_role}` deny each other's {what}s: `{}` allows each new {what}",
        allow.rule.name
    );
    let mut left = MAX_STEPS;
    if [one, other].iter().all(|deny| {
        related.find_from(allow.role, &mut left);
        !related.has(deny.role)
    }) {
        message.push_str(&format!(", and every {what} to a caller without these roles"));
    }
    Problem::warning(one.rule.at.clone(), Warning::OpenTenant, message)
        .help(format!("allow each role its own {what}s instead"))
        .related(other.rule.at.clone(), format!("`{}` of the role `{other_role}`", other.rule.name))
        .related(
            allow.rule.at.clone(),
            format!("`{}` of the role `{}`", allow.rule.name, allow.named.name),
        )
}
