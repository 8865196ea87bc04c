//! Explains to people why a caller has a role, which permission permits a request, and what would
//! permit a denied request.
//!
//! Nothing that decides uses this module. It asks the compiled privileges for decisions.

mod find;
mod requirement;
mod roles;

use std::sync::Arc;

use crate::action::Action;
use crate::answer::Answer;
use crate::compiled::{Caller, Privileges};
use crate::config::{EvaluationType, IndexPattern, IndexPermission};
use crate::need::{Need, Target};
use crate::resolve::{Unknown, resolve};
use crate::subject::Subject;
use crate::tenants::TenantAccess;

pub use find::{dashboards_server, requirement, requirement_for};
pub use requirement::{HeldRole, Requirement, TemplateMatch};
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

/// Whether the plugin checks a need: it checks some needs with [`EvaluationType::V4`] only.
#[must_use]
pub fn is_checked(privileges: &Privileges, need: &Need<'_>) -> bool {
    crate::resolve::is_checked(privileges.evaluation(), need)
}

/// The names that a target stands for, as far as they are known: the indices of an alias (with
/// `legacy`), the matches of a pattern. Empty for the cluster.
#[must_use]
pub fn names_of<'t>(privileges: &'t Privileges, target: &'t Target<'_>) -> Vec<&'t str> {
    let inventory = privileges.inventory();
    let Some(names) = resolve(inventory, privileges.evaluation(), target) else {
        return Vec::new();
    };
    let unknown = names.unknown.into_iter().map(Unknown::text);
    names.known.iter().map(|id| privileges.inventory.name(id)).chain(unknown).collect()
}

/// The permission that grants an action to a caller on the cluster, or on one of
/// [these names](names_of). A permission that matches the name comes before a permission that
/// matches its alias.
#[must_use]
pub fn granting_permission<'p>(
    privileges: &'p Privileges,
    caller: &'p Caller,
    action: Action,
    name: Option<&str>,
) -> Option<GrantingPermission<'p>> {
    let Some(name) = name else {
        let (role, _) = caller.roles.ids().iter().find_map(|id| {
            let role = privileges.roles.get(*id as usize)?;
            let named = privileges.config().roles.iter().nth(*id as usize)?;
            role.cluster.contains(action).then_some(named)
        })?;
        return Some(GrantingPermission { role, pattern: None, through: None });
    };
    granting_by_pattern(privileges, caller, action, name).or_else(|| {
        let inventory = privileges.inventory()?;
        let parents = inventory.parents(inventory.id(name)?).iter();
        parents.map(|parent| inventory.name(*parent)).find_map(|parent| {
            let granting = granting_by_pattern(privileges, caller, action, parent)?;
            Some(GrantingPermission { through: Some(parent), ..granting })
        })
    })
}

/// The first permission that grants the action, with a pattern that matches the name. If `name` is
/// itself a pattern (it has a `*`), the pattern of the permission must cover it.
fn granting_by_pattern<'p>(
    privileges: &'p Privileges,
    caller: &'p Caller,
    action: Action,
    name: &str,
) -> Option<GrantingPermission<'p>> {
    let name_or_pattern =
        if name.contains('*') { Unknown::Pattern(name) } else { Unknown::Name(name) };
    let mut grants = caller.roles.grants(privileges).filter(|grant| grant.actions.contains(action));
    grants.find_map(|grant| {
        let pattern = privileges.permission(grant)?.patterns.iter().find_map(|pattern| {
            let (text, rendered) = match pattern {
                IndexPattern::Static(pattern) => (pattern.text(), pattern.clone()),
                IndexPattern::Template(template) => {
                    (template.text(), template.pattern(&caller.variables)?)
                }
            };
            name_or_pattern.is_covered_by(&rendered).then_some(text)
        })?;
        let role = &grant.role;
        Some(GrantingPermission { role, pattern: Some(pattern), through: None })
    })
}

/// Each role of the configuration, and the answer to the request if the subject had this role
/// beside its own.
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
    let id = privileges.inventory().and_then(|inventory| inventory.id(name));
    let roles = caller.roles.ids().iter().filter_map(|id| privileges.roles.get(*id as usize));
    roles
        .flat_map(|role| &role.grants)
        .filter(|grant| grant.is_restricted())
        .filter(|grant| match id {
            Some(id) => privileges.applies_to_known(caller, grant, id),
            None if name.contains('*') => {
                privileges.may_apply_to_unknown(caller, grant, Unknown::Pattern(name))
            }
            // In the cluster, the name may be a newer alias of any index.
            None => true,
        })
        .filter_map(|grant| {
            let permission = privileges.permission(grant)?;
            Some(Restriction { role: &grant.role, permission })
        })
        .collect()
}

/// Whether a request with these needs may be reduced to permitted names, for some caller.
#[must_use]
pub fn may_be_reduced(privileges: &Privileges, needs: &[Need<'_>]) -> bool {
    let settings = &privileges.settings;
    needs.iter().filter(|need| matches!(need.target, Target::Indices(_))).any(|need| {
        let Some(names) = privileges.names(need) else { return false };
        let is_reducible = need.actions.iter().all(|action| settings.reduces(*action));
        (names.is_emptied_by_exclusions && is_reducible)
            || !privileges.dashboards_left_out(need, TenantAccess::None).is_disjoint(&names.known)
            || match settings.evaluation {
                EvaluationType::Legacy => settings.do_not_fail_on_forbidden && is_reducible,
                EvaluationType::V4 => settings.ignore_unauthorized_indices && names.is_reducible,
            }
    })
}
