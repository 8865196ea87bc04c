//! Roles that deny each other's hosts or paths, such as the roles of tenants: a new host or path is
//! open to all of these roles, and every host or path to a caller who has none of the roles.

use std::collections::BTreeSet;

use document::Warning;
use policy::model::{Effect, RoleId, Rule};
use policy::pattern::{Pattern, Scope, Segment};

use crate::overlap::{overlapping, share_method_and_host};
use crate::related::RelatedRoles;
use crate::trie::{RoleRule, Trie};
use crate::warnings::{Budget, Steps, Warnings};

/// The maximum number of steps for each `allow` rule.
const MAX_STEPS: usize = 10_000;

/// Where a rule has the name of a tenant: in the host, or in the segment with this index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Position {
    Host,
    Segment(usize),
}

/// The names that a role denies at a position of an `allow` rule.
struct DeniedNames<'s, 'p> {
    /// The first rule of the role that denies such a name.
    rule: &'s RoleRule<'p>,
    names: BTreeSet<&'p str>,
}

/// Warns if two roles deny each other's hosts or paths where an `allow` rule allows new ones. The
/// warning is at a rule of the first role, and there is one at most for each first role.
pub(crate) fn open_tenants(trie: &Trie<'_>, warnings: &mut Warnings) {
    let mut related = RelatedRoles::new(trie.policy);
    let mut warned: BTreeSet<RoleId> = BTreeSet::new();
    let mut budget = Budget { total: Steps(2_000_000), max_per_rule: MAX_STEPS };
    for allow in trie.rules.iter().filter(|rule| rule.effect == Effect::Allow) {
        budget.spend(|steps| {
            let ids = overlapping(trie, allow.rule, steps).into_iter();
            let mut denying: Vec<&RoleRule<'_>> = ids.map(|id| trie.rules.at(id)).collect();
            denying.retain(|rule| {
                rule.effect == Effect::Deny && share_method_and_host(rule.rule, allow.rule)
            });
            for position in positions(allow.rule) {
                let denied = denied_by_roles(&denying, allow.rule, position);
                let tenants = find_tenants(&denied, position, &mut related, steps);
                let Some([a, b]) = tenants else { continue };
                if !steps.are_left() || !warned.insert(a.role_id) {
                    continue;
                }
                let kind = if position == Position::Host { "host" } else { "path" };
                let mut message = format!(
                    "`{}` and `{}` deny each other's {kind}s: `{}` allows each new {kind}",
                    a.role.name, b.role.name, allow.rule.name
                );
                // With new steps: the message must not depend on how many the search has left.
                let roles = related.roles_of(allow.role_id, &mut Steps(MAX_STEPS));
                if !roles.has(a.role_id) && !roles.has(b.role_id) {
                    message += &format!(", and every {kind} to a caller without these roles");
                }
                let help = format!("allow each role its own {kind}s instead");
                let warning = a.warning(Warning::OpenTenant, message, &help);
                warnings.push(allow.relate_to(b.relate_to(warning)));
            }
        });
    }
}

/// The positions at which an `allow` rule matches any name.
fn positions(allow: &Rule) -> BTreeSet<Position> {
    let has_any_host = allow.scopes.is_empty()
        || allow.scopes.iter().any(|scope| matches!(scope, Scope::Below(_) | Scope::Labels(_)));
    let segments = allow.resources.iter().flat_map(open_segments).map(Position::Segment);
    has_any_host.then_some(Position::Host).into_iter().chain(segments).collect()
}

/// The indices of the segments of a pattern that match any name. `/**` alone has none, because
/// roles for different parts of an application also differ in the first segment.
fn open_segments(pattern: &Pattern) -> impl Iterator<Item = usize> {
    let count = pattern.segments.len();
    let placeholders = pattern.segments.iter().enumerate();
    let placeholders = placeholders.filter(|(_, segment)| matches!(segment, Segment::Any(_)));
    let open_end = (pattern.open_ended && count > 0).then_some(count);
    placeholders.map(|(index, _)| index).chain(open_end)
}

/// The names that each role denies at this position. `denying` has the rules of a role next to each
/// other.
fn denied_by_roles<'s, 'p>(
    denying: &[&'s RoleRule<'p>],
    allow: &Rule,
    position: Position,
) -> Vec<DeniedNames<'s, 'p>> {
    let roles = denying.chunk_by(|a, b| a.role_id == b.role_id);
    roles
        .filter_map(|rules| {
            let mut rules =
                rules.iter().map(|rule| (*rule, names(rule.rule, allow, position))).peekable();
            while rules.next_if(|(_, names)| names.is_empty()).is_some() {}
            let rule = rules.peek()?.0;
            Some(DeniedNames { rule, names: rules.flat_map(|(_, names)| names).collect() })
        })
        .collect()
}

/// The hosts of a `deny` rule that the `allow` rule does not name exactly, or the literals of the
/// `deny` rule in this segment of its paths.
fn names<'p>(deny: &'p Rule, allow: &Rule, position: Position) -> Vec<&'p str> {
    match position {
        Position::Host => deny
            .scopes
            .iter()
            .filter_map(|scope| match scope {
                Scope::Exact(host) => (!allow.scopes.contains(scope)).then_some(&**host),
                Scope::Below(_) | Scope::Labels(_) => None,
            })
            .collect(),
        Position::Segment(index) => deny
            .resources
            .iter()
            .filter_map(|pattern| match pattern.segments.get(index)? {
                Segment::Literal(name) => Some(&**name),
                Segment::Any(_) | Segment::User | Segment::UserId(_) | Segment::Glob(_) => None,
            })
            .collect(),
    }
}

/// A `deny` rule of each of two independent roles. Each role denies a name that the other does not
/// deny. For paths, there must also be a name that both deny (a third tenant): otherwise the roles
/// may be for different parts of an application.
fn find_tenants<'s, 'p>(
    denied: &[DeniedNames<'s, 'p>],
    position: Position,
    related: &mut RelatedRoles<'_>,
    steps: &mut Steps,
) -> Option<[&'s RoleRule<'p>; 2]> {
    for (index, a) in denied.iter().enumerate() {
        for b in denied.iter().skip(index + 1) {
            if !steps.take(a.names.len() + b.names.len()) {
                return None;
            }
            let is_nested = a.names.is_subset(&b.names) || a.names.is_superset(&b.names);
            let look_like_tenants = position == Position::Host || !a.names.is_disjoint(&b.names);
            if !is_nested
                && look_like_tenants
                && !related.one_includes_other(a.rule.role_id, b.rule.role_id, steps)
            {
                return Some([a.rule, b.rule]);
            }
        }
    }
    None
}
