//! Finds the roles that a caller must have for a request.
//!
//! Each action on each name is granted by one role at least, and no role restricts what the request
//! shows. So who permits a request is said by a list of conditions, each of which some role meets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::requirement::{HeldRole, Matching, Requirement, Row};
use crate::action::Action;
use crate::action_set::SYSTEM_INDEX;
use crate::answer::Reason;
use crate::compiled::{Caller, CompiledRole, Grant, Privileges, shown_by_pattern};
use crate::config::{EvaluationType, Template};
use crate::filtering::{may_be_of_any, reaches_new, strictest};
use crate::need::{Need, Target};
use crate::reading::Request;
use crate::resolve::{Names, Unknown, counts};
use crate::steps::Steps;
use crate::tenants::{KIBANA_USER, TenantAccess};

/// More names than are listed one by one where roles have several patterns with values of the
/// caller. A request that only several permit together then counts as denied.
const MAX_NAMES: usize = 50;

/// The roles that a caller must have for the needs of a request, among those that somebody can
/// have. Service accounts need more, and [Dashboards itself](dashboards_server), if `is_server` is
/// set, less. `None` if finding them takes more steps.
#[must_use]
pub fn requirement(
    privileges: &Privileges,
    (needs, is_server): (&[Need<'_>], bool),
    can_be_held: impl Fn(&str) -> bool,
    steps: &mut Steps,
) -> Option<Requirement> {
    let roles = (0..).zip(privileges.config().roles.keys()).filter(|(_, name)| can_be_held(name));
    let (roles, callers) = (roles.collect(), BTreeMap::new());
    let requirement = Requirement::default();
    let mut finder = Finder { privileges, is_server, roles, callers, steps, requirement };
    for need in needs.iter().filter(|need| counts(privileges.evaluation(), need)) {
        let names = privileges.names(need);
        if names.as_ref().is_some_and(|names| finder.is_for_nobody(need, names)) {
            return Some(Requirement { all: vec![Vec::new()], none: Vec::new() });
        }
        finder.require(need, names.as_ref())?;
    }
    Some(finder.requirement)
}

/// The same for a whole request, which may also be denied because of its patterns.
#[must_use]
pub fn requirement_for(
    privileges: &Privileges,
    request: &Request<'_>,
    (needs, is_server): (&[Need<'_>], bool),
    can_be_held: impl Fn(&str) -> bool,
    steps: &mut Steps,
) -> Option<Requirement> {
    let mut requirement = requirement(privileges, (needs, is_server), can_be_held, steps)?;
    if keeps_patterns(privileges, request, needs) {
        refuse_restricted(privileges, &mut requirement, steps)?;
    }
    Some(requirement)
}

/// Whether a request is forwarded with patterns, and so denied if a role hides something.
fn keeps_patterns(privileges: &Privileges, request: &Request<'_>, needs: &[Need<'_>]) -> bool {
    let mut shown = needs.iter().filter(|need| shown_by_pattern(need).is_some());
    shown.any(|need| {
        let expression = need.target.expression();
        expression.is_some_and(|list| privileges.with_names(request, needs, list, false).is_none())
    })
}

/// The user of Dashboards, who needs other roles than all others, if the needs are about its index.
#[must_use]
pub fn dashboards_server<'p>(privileges: &'p Privileges, needs: &[Need<'_>]) -> Option<&'p str> {
    let tenants = privileges.tenants()?;
    let is_about = |need: &Need<'_>| {
        privileges.names(need).is_some_and(|names| {
            is_of_tenant(privileges, need, &names) || is_of_other_tenant(privileges, need, &names)
        })
    };
    needs.iter().any(is_about).then_some(&*tenants.dashboards.server)
}

/// Whether a need is about an index of another tenant than the global one.
fn is_of_other_tenant(privileges: &Privileges, need: &Need<'_>, names: &Names<'_>) -> bool {
    privileges.tenants().is_some_and(|tenants| tenants.is_of_other_tenant(&need.target, names))
        || !privileges.left_out(need, TenantAccess::Write).is_disjoint(&names.known)
}

/// Whether a need is about the index of Dashboards in the global tenant.
fn is_of_tenant(privileges: &Privileges, need: &Need<'_>, names: &Names<'_>) -> bool {
    privileges.tenants().is_some_and(|tenants| tenants.is_meant(&need.target, names))
        || !privileges.left_out(need, TenantAccess::None).is_disjoint(&names.known)
}

/// Refuses the roles that hide something.
fn refuse_restricted(
    privileges: &Privileges,
    requirement: &mut Requirement,
    steps: &mut Steps,
) -> Option<()> {
    let roles = privileges.config().roles.keys().zip(&privileges.roles);
    for (name, _) in roles.filter(|(_, role)| role.grants.iter().any(Grant::is_restricted)) {
        steps.take(1 + requirement.none.len())?;
        requirement.refuse(HeldRole::always(name));
    }
    Some(())
}

/// Gathers the requirement for the needs of a request, one after the other.
struct Finder<'p, 's> {
    privileges: &'p Privileges,
    is_server: bool,
    /// The roles that somebody can have, with their ids.
    roles: Vec<(u32, &'p Arc<str>)>,
    /// For roles that were looked at: a caller who has just this role, and no values.
    callers: BTreeMap<u32, Arc<Caller>>,
    steps: &'s mut Steps,
    requirement: Requirement,
}

/// A role that grants an action, if a pattern with values of the caller matches.
type Candidate<'p> = (&'p Arc<str>, Option<&'p Template>);

/// Names that the same roles grant.
struct Group<'p> {
    names: RoaringBitmap,
    granting: Vec<Candidate<'p>>,
}

impl<'p> Finder<'p, '_> {
    /// Whether nobody can have a need permitted as it is.
    fn is_for_nobody(&self, need: &Need<'_>, names: &Names<'_>) -> bool {
        let settings = &self.privileges.settings;
        let may_be_of_security = |unknown: &Unknown<'_>| {
            unknown.special_reason(settings).is_some_and(|reason| reason != Reason::SystemIndex)
        };
        names.is_emptied
            || settings.changes_all(need)
            || !names.known.is_disjoint(&self.privileges.special.security)
            || names.unknown.iter().any(may_be_of_security)
            || (!names.is_nothing()
                && !self.is_server
                && is_of_other_tenant(self.privileges, need, names))
    }

    /// Adds the conditions of a need. `None` if that takes too many steps.
    fn require(&mut self, need: &Need<'_>, names: Option<&Names<'_>>) -> Option<()> {
        if reaches_new(need).is_some() {
            refuse_restricted(self.privileges, &mut self.requirement, self.steps)?;
        }
        let Some(names) = names else {
            let is_of_cluster = need.target == Target::Cluster;
            let permits = |role: &CompiledRole, action| role.cluster.contains(action);
            return if is_of_cluster { self.require_of_role(need, permits) } else { Some(()) };
        };
        self.steps.take(1 + count(names.known.len()) + names.unknown.len())?;
        if names.is_nothing() {
            return match self.privileges.evaluation() {
                EvaluationType::Legacy => Some(()),
                EvaluationType::V4 => self.require_of_role(need, CompiledRole::grants_anywhere),
            };
        }
        if !self.is_server && is_of_tenant(self.privileges, need, names) {
            self.require_tenant(need)?;
        }
        self.require_names(need, names)
    }

    /// Requires for each action one of the roles that permit it by themselves.
    fn require_of_role(
        &mut self,
        need: &Need<'_>,
        permits: impl Fn(&CompiledRole, Action) -> bool,
    ) -> Option<()> {
        for action in need.actions {
            self.steps.take(self.roles.len())?;
            let role = |id: u32| self.privileges.roles.get(id as usize);
            let permitting = self
                .roles
                .iter()
                .filter(|(id, _)| role(*id).is_some_and(|role| permits(role, *action)));
            self.add(permitting.map(|(_, name)| HeldRole::always(name)).collect())?;
        }
        Some(())
    }

    fn add(&mut self, any: Vec<HeldRole>) -> Option<()> {
        self.steps.take(1 + self.requirement.all.len() + any.len())?;
        if !self.requirement.all.contains(&any) {
            self.requirement.all.push(any);
        }
        Some(())
    }

    /// A caller with one role, and without values.
    fn caller(&mut self, id: u32) -> Option<Arc<Caller>> {
        let size = |grant: &Grant| 1 + grant.patterns.len() + grant.templates.len();
        let role = self.privileges.roles.get(id as usize);
        let grants = role.map_or(0, |role| role.grants.iter().map(size).sum());
        // Making a set of roles takes as long as some hundred looks at a name.
        let is_new = !self.callers.contains_key(&id);
        self.steps.take(1 + grants + if is_new { Action::COUNT } else { 0 })?;
        let make = || Arc::new(self.privileges.nameless_caller(&[id]));
        Some(self.callers.entry(id).or_insert_with(make).clone())
    }

    /// Adds the roles that permit a need about the index of Dashboards in the global tenant.
    fn require_tenant(&mut self, need: &Need<'_>) -> Option<()> {
        let (privileges, evaluation) = (self.privileges, self.privileges.evaluation());
        let tenant = |id: u32| {
            privileges.roles.get(id as usize).map_or(TenantAccess::None, |role| role.tenant)
        };
        for action in need.actions {
            self.steps.take(self.roles.len())?;
            let may = |id: u32| tenant(id).permits_need(need, *action, evaluation);
            let roles = self.roles.iter();
            let mut any: Vec<HeldRole> =
                roles.filter(|(id, _)| may(*id)).map(|(_, role)| HeldRole::always(role)).collect();
            // With `legacy`, `kibana_user` permits it unless another role names the tenant.
            let kibana_user = self.roles.iter().find(|(id, role)| {
                evaluation == EvaluationType::Legacy
                    && ***role == *KIBANA_USER
                    && tenant(*id) == TenantAccess::None
            });
            if let Some((_, role)) = kibana_user {
                let takes_away = |id: u32| tenant(id) != TenantAccess::None && !may(id);
                let without = self.roles.iter().filter(|(id, _)| takes_away(*id));
                let without = without.map(|(_, role)| Arc::clone(role)).collect();
                any.push(HeldRole { without, ..HeldRole::always(role) });
            }
            self.add(any)?;
        }
        Some(())
    }

    fn require_names(&mut self, need: &Need<'_>, names: &Names<'_>) -> Option<()> {
        let settings = &self.privileges.settings;
        let system = &names.known & &self.privileges.special.system;
        for action in need.actions {
            self.require_known(*action, &names.known)?;
            self.require_known(SYSTEM_INDEX, &system)?;
            for unknown in &names.unknown {
                if unknown.special_reason(settings).is_some() {
                    self.require_unknown(SYSTEM_INDEX, *unknown)?;
                }
                self.require_unknown(*action, *unknown)?;
            }
        }
        match strictest(need) {
            Some((action, _)) => self.refuse_restrictions(action, names),
            None => Some(()),
        }
    }

    /// Refuses the roles that hide something of the request.
    fn refuse_restrictions(&mut self, action: Action, names: &Names<'_>) -> Option<()> {
        let privileges = self.privileges;
        let members = |number: u32| match privileges.inventory.members(number) {
            [] => vec![number],
            members => members.to_vec(),
        };
        let known: BTreeSet<u32> = names.known.iter().flat_map(members).collect();
        let nobody = privileges.nameless_caller(&[]);
        let roles = privileges.config().roles.keys().zip(&privileges.roles);
        for (role, grant) in
            roles.flat_map(|(name, role)| role.grants.iter().map(move |grant| (name, grant)))
        {
            if !grant.is_restricted() {
                continue;
            }
            let patterns = 1 + grant.patterns.len() + grant.templates.len();
            let names_count = known.len() + names.unknown.len();
            self.steps.take(patterns.saturating_mul(names_count) + self.requirement.none.len())?;
            let hides = |number: &u32| {
                privileges.applies_to_known(&nobody, grant, *number)
                    || privileges.may_hide(&nobody, grant, *number)
            };
            let hides_unknown = |unknown: &Unknown<'_>| {
                may_be_of_any(action) || privileges.matches_unknown(&nobody, grant, *unknown)
            };
            if known.iter().any(hides) || names.unknown.iter().any(hides_unknown) {
                self.requirement.refuse(HeldRole::always(role));
                continue;
            }
            for template in
                grant.templates.iter().filter_map(|id| privileges.templates.get(*id as usize))
            {
                let widest = template.widest();
                let rows = known.iter().map(|number| row(privileges, *number));
                let rows = rows.chain(names.unknown.iter().map(|unknown| Row::new(*unknown)));
                let names: Vec<Row> = rows.filter(|row| row.may_match(&widest)).collect();
                if !names.is_empty() {
                    let matching =
                        Some(Matching { template: template.clone(), names, is_all: false });
                    self.requirement.refuse(HeldRole { matching, ..HeldRole::always(role) });
                }
            }
        }
        Some(())
    }

    /// The patterns with values by which a role may grant an action.
    fn templates(&self, caller: &Caller, action: Action) -> Vec<&'p Template> {
        let privileges = self.privileges;
        let allowed = caller.roles.allowed(privileges, action);
        let ids = allowed.into_iter().flat_map(|allowed| &allowed.templates);
        ids.filter_map(|id| privileges.templates.get(id as usize)).collect()
    }

    /// Requires roles that grant an action on these names of the inventory.
    fn require_known(&mut self, action: Action, names: &RoaringBitmap) -> Option<()> {
        let mut groups = vec![Group { names: names.clone(), granting: Vec::new() }];
        for (id, role) in if names.is_empty() { Vec::new() } else { self.roles.clone() } {
            let caller = self.caller(id)?;
            let granted = self.privileges.granted(&caller, action, names);
            self.split(&mut groups, &granted, (role, None))?;
            for template in self.templates(&caller, action) {
                self.steps.take(count(names.len()))?;
                let widest = template.widest();
                let others = (names - &granted).into_iter();
                let may_match = others
                    .filter(|number| row(self.privileges, *number).may_match(&widest))
                    .collect();
                self.split(&mut groups, &may_match, (role, Some(template)))?;
            }
        }
        for Group { names, granting } in groups.into_iter().filter(|group| !group.names.is_empty())
        {
            // Names are listed for each pattern with values, and only for these.
            let templates = granting.iter().filter(|(_, template)| template.is_some()).count();
            self.steps.take(count(names.len()).saturating_mul(templates) + granting.len())?;
            let listed = names.iter().take(if templates == 0 { 1 } else { usize::MAX });
            let rows: Vec<Row> = listed.map(|number| row(self.privileges, number)).collect();
            // Several patterns may match together what none matches alone.
            let is_each = templates > 1 && rows.len() <= MAX_NAMES;
            for rows in rows.chunks(if is_each { 1 } else { rows.len().max(1) }) {
                self.require_one_of(&granting, rows)?;
            }
        }
        Some(())
    }

    /// Splits each group into the names among these, which the role grants, too, and the others.
    fn split(
        &mut self,
        groups: &mut Vec<Group<'p>>,
        names: &RoaringBitmap,
        role: Candidate<'p>,
    ) -> Option<()> {
        let mut others = Vec::new();
        for group in groups.iter_mut() {
            // A set operation looks at 64 names at once.
            self.steps.take(1 + count(group.names.len()) / 64)?;
            let inside = &group.names & names;
            if inside.is_empty() {
                continue;
            }
            let outside = &group.names - &inside;
            if !outside.is_empty() {
                self.steps.take(group.granting.len())?;
                others.push(Group { names: outside, granting: group.granting.clone() });
            }
            group.names = inside;
            group.granting.push(role);
        }
        groups.extend(others);
        Some(())
    }

    /// Requires roles that grant an action on a name or pattern that the inventory lacks.
    fn require_unknown(&mut self, action: Action, unknown: Unknown<'_>) -> Option<()> {
        let row = Row::new(unknown);
        let mut granting = Vec::new();
        for (id, role) in self.roles.clone() {
            let caller = self.caller(id)?;
            if self.privileges.grants_unknown(&caller, action, unknown) {
                granting.push((role, None));
            } else {
                let templates = self.templates(&caller, action).into_iter();
                let may_match = templates.filter(|template| row.may_match(&template.widest()));
                granting.extend(may_match.map(|template| (role, Some(template))));
            }
        }
        self.require_one_of(&granting, &[row])
    }

    /// Requires one of these roles. Those that always count are listed first.
    fn require_one_of(&mut self, granting: &[Candidate<'p>], rows: &[Row]) -> Option<()> {
        let (always, sometimes): (Vec<Candidate<'_>>, Vec<_>) =
            granting.iter().partition(|(_, template)| template.is_none());
        let any = always.into_iter().chain(sometimes).map(|(role, template)| {
            let matching = template.map(|template| Matching {
                template: template.clone(),
                names: rows.to_vec(),
                is_all: true,
            });
            HeldRole { matching, ..HeldRole::always(role) }
        });
        self.add(any.collect())
    }
}

/// A name of the inventory, with the aliases and data streams of an index.
fn row(privileges: &Privileges, number: u32) -> Row {
    let groups = privileges.inventory.groups(number).iter();
    let parents = groups.map(|group| privileges.inventory.name(*group).to_owned()).collect();
    Row { name: privileges.inventory.name(number).to_owned(), parents, is_pattern: false }
}

/// A number of names.
fn count(names: u64) -> usize {
    usize::try_from(names).unwrap_or(usize::MAX)
}
