//! For people: the reason for a role, the permission for a request, and how to get it permitted.
//!
//! Nothing that decides uses this module. It asks the compiled privileges for decisions.

mod find;
mod requirement;
mod roles;

use std::sync::Arc;

use crate::action::Action;
use crate::answer::Answer;
use crate::compiled::{Caller, Grant, Privileges};
use crate::config::{EvaluationType, IndexPattern, IndexPermission};
use crate::need::{Need, Target};
use crate::resolve::{Unknown, resolve};
use crate::subject::Subject;
use crate::tenants::TenantAccess;

pub use find::{dashboards_server, requirement, requirement_for};
pub use requirement::{HeldRole, Matching, Requirement};
pub use roles::{RoleSource, role_sources};

/// A permission that shows only some documents or fields of an index.
#[derive(Clone, Copy, Debug)]
pub struct Restriction<'p> {
    /// The role.
    pub role: &'p Arc<str>,
    /// The permission.
    pub permission: &'p IndexPermission,
}

/// A permission that grants an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantingPermission<'p> {
    /// The role.
    pub role: &'p str,
    /// The pattern of the role, with its variables; `None` on the cluster.
    pub pattern: Option<&'p str>,
    /// The alias or data stream that the pattern matches, if it does not match the index itself.
    pub through: Option<&'p str>,
}

/// Whether a need counts: some do only with [`EvaluationType::V4`].
#[must_use]
pub fn counts(privileges: &Privileges, need: &Need<'_>) -> bool {
    crate::resolve::counts(privileges.evaluation(), need)
}

/// The names that a target stands for, as far as that is known: the indices of an alias (with
/// `legacy`), the matches of a pattern. None for the cluster.
#[must_use]
pub fn names_of<'t>(privileges: &'t Privileges, target: &'t Target<'_>) -> Vec<&'t str> {
    let inventory = privileges.inventory();
    let Some(names) = resolve(inventory, privileges.evaluation(), target) else {
        return Vec::new();
    };
    let known: Vec<&str> =
        names.known.iter().map(|number| privileges.inventory.name(number)).collect();
    known.into_iter().chain(names.unknown.into_iter().map(Unknown::text)).collect()
}

/// By which permission an action is granted to a caller on one of [these names](names_of), or on
/// the cluster. A permission that matches the name itself comes before one that matches its alias.
#[must_use]
pub fn granting_permission<'p>(
    privileges: &'p Privileges,
    caller: &'p Caller,
    action: Action,
    name: Option<&str>,
) -> Option<GrantingPermission<'p>> {
    let Some(name) = name else {
        let mut roles = caller.roles.ids().iter().filter_map(|id| {
            let (role, _) = privileges.config().roles.iter().nth(*id as usize)?;
            privileges.roles.get(*id as usize)?.cluster.contains(action).then_some(role)
        });
        return Some(GrantingPermission { role: roles.next()?, pattern: None, through: None });
    };
    let through = || {
        let inventory = privileges.inventory()?;
        let groups = inventory.groups(inventory.number(name)?).iter();
        groups.map(|group| inventory.name(*group)).find_map(|group| {
            let granting = granting_by_pattern(privileges, caller, action, group)?;
            Some(GrantingPermission { through: Some(group), ..granting })
        })
    };
    granting_by_pattern(privileges, caller, action, name).or_else(through)
}

/// The first permission of which a pattern matches a name, or covers a pattern of the request.
fn granting_by_pattern<'p>(
    privileges: &'p Privileges,
    caller: &'p Caller,
    action: Action,
    name: &str,
) -> Option<GrantingPermission<'p>> {
    let mut grants = caller.roles.grants(privileges).filter(|grant| grant.actions.contains(action));
    grants.find_map(|grant| {
        let matches = |pattern: &&IndexPattern| {
            let rendered = match pattern {
                IndexPattern::Static(pattern) => Some(pattern.clone()),
                IndexPattern::Template(template) => template.pattern(&caller.variables),
            };
            let unknown =
                if name.contains('*') { Unknown::Pattern(name) } else { Unknown::Name(name) };
            rendered.is_some_and(|pattern| unknown.is_covered_by(&pattern))
        };
        let pattern = match privileges.permission(grant)?.patterns.iter().find(matches)? {
            IndexPattern::Static(pattern) => pattern.text(),
            IndexPattern::Template(template) => template.text(),
        };
        Some(GrantingPermission {
            role: &grant.permission.0,
            pattern: Some(pattern),
            through: None,
        })
    })
}

/// The answer to a request of a subject with each other role of the configuration beside its own.
pub fn with_each_role<'p>(
    privileges: &'p Privileges,
    subject: &Subject,
    needs: &[Need<'_>],
) -> impl Iterator<Item = (&'p Arc<str>, Answer)> {
    privileges.config().roles.keys().map(move |role| {
        let mut subject = subject.clone();
        subject.roles.push(role.to_string());
        (role, privileges.decide(&privileges.uncached_caller(&subject), needs))
    })
}

/// The permissions that show a caller only some documents or fields of a name or pattern.
#[must_use]
pub fn restrictions<'p>(
    privileges: &'p Privileges,
    caller: &Caller,
    name: &str,
) -> Vec<Restriction<'p>> {
    let number = privileges.inventory().and_then(|inventory| inventory.number(name));
    let applies = |grant: &&Grant| match number {
        Some(number) => privileges.applies_to_known(caller, grant, number),
        // Any name may be that of an alias that was made since.
        None => {
            !name.contains('*') || privileges.matches_unknown(caller, grant, Unknown::Pattern(name))
        }
    };
    let roles = caller.roles.ids().iter().filter_map(|id| privileges.roles.get(*id as usize));
    let grants = roles.flat_map(|role| &role.grants).filter(|grant| grant.is_restricted());
    let restriction = |grant: &'p Grant| {
        Some(Restriction { role: &grant.permission.0, permission: privileges.permission(grant)? })
    };
    grants.filter(applies).filter_map(restriction).collect()
}

/// Whether a request with these needs may be reduced to permitted names, for some caller.
#[must_use]
pub fn may_be_reduced(privileges: &Privileges, needs: &[Need<'_>]) -> bool {
    let settings = &privileges.settings;
    needs.iter().filter(|need| matches!(need.target, Target::Indices(_))).any(|need| {
        let reads = || need.actions.iter().all(|action| settings.reduces(*action));
        privileges.names(need).is_some_and(|names| {
            (names.is_emptied && reads())
                || !privileges.left_out(need, TenantAccess::None).is_disjoint(&names.known)
                || match settings.evaluation {
                    EvaluationType::Legacy => settings.do_not_fail_on_forbidden && reads(),
                    EvaluationType::V4 => {
                        settings.ignore_unauthorized_indices && names.is_reducible
                    }
                }
        })
    })
}
