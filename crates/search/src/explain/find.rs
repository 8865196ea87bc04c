//! Finds the roles that a caller must have for a request.
//!
//! Each action on each name must be granted by a role, and no role may restrict the answer. So the
//! requirement is a list of conditions, each of which some role of the caller must meet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::requirement::{HeldRole, MustMatch, NameWithParents, Requirement, TemplateMatch};
use crate::action::Action;
use crate::action_set::SYSTEM_INDEX;
use crate::answer::Reason;
use crate::compiled::{Caller, CompiledRole, Grant, Privileges};
use crate::config::{EvaluationType, Template};
use crate::filtering::{may_show_unknown_name, missing_if_restricted, strictest_filtering};
use crate::need::{Need, Target};
use crate::reading::Request;
use crate::resolve::{Names, Unknown, is_checked};
use crate::steps::Steps;
use crate::tenants::{KIBANA_USER, TenantAccess};

/// The most names that get a condition each. Names that several templates may match need separate
/// conditions, because a caller may need one template for one name and another for the next. If
/// there are more names, they share a condition, and a single template must match them all. The
/// requirement then takes a request for denied that only several templates together permit.
const MAX_SEPARATE_NAMES: usize = 50;

/// The roles that a caller must have for the needs of a request, among the roles that `can_be_held`
/// returns `true` for. `is_server`: the caller is [Dashboards itself](dashboards_server), which
/// needs fewer roles. A service account that meets the requirement may still be denied. `None` if
/// finding the roles takes too many steps.
#[must_use]
pub fn requirement(
    privileges: &Privileges,
    (needs, is_server): (&[Need<'_>], bool),
    can_be_held: impl Fn(&str) -> bool,
    steps: &mut Steps,
) -> Option<Requirement> {
    let mut roles = Vec::new();
    let compiled_roles = privileges.config().roles.keys().zip(&privileges.roles);
    for (id, (name, compiled)) in (0..).zip(compiled_roles) {
        if can_be_held(name) {
            let grants = compiled.grants.iter();
            let size = grants.map(|grant| 1 + grant.patterns.len() + grant.templates.len());
            // The roles of a caller have a cell for each action: making the caller takes about as
            // many steps.
            steps.take(1 + size.sum::<usize>() + Action::COUNT)?;
            let caller = privileges.nameless_caller(&[id]);
            roles.push(PossibleRole { name, compiled, caller });
        }
    }
    let requirement = Requirement::default();
    let mut finder = Finder { privileges, is_server, roles, steps, requirement };
    for need in needs.iter().filter(|need| is_checked(privileges.evaluation(), need)) {
        let names = privileges.names(need);
        if names.as_ref().is_some_and(|names| finder.is_for_nobody(need, names)) {
            return Some(Requirement::met_by_nobody());
        }
        finder.require(need, names.as_ref())?;
    }
    Some(finder.requirement)
}

/// The [`requirement`] for a whole request. If its patterns may be forwarded, it also forbids the
/// roles that hide something.
#[must_use]
pub fn requirement_for(
    privileges: &Privileges,
    request: &Request<'_>,
    (needs, is_server): (&[Need<'_>], bool),
    can_be_held: impl Fn(&str) -> bool,
    steps: &mut Steps,
) -> Option<Requirement> {
    let mut requirement = requirement(privileges, (needs, is_server), can_be_held, steps)?;
    // A request that is forwarded with patterns is denied if a role hides something.
    if privileges.may_keep_patterns(request, needs) {
        forbid_all_hiding_roles(privileges, &mut requirement, steps)?;
    }
    Some(requirement)
}

/// The user that Dashboards signs in as, if the needs are about an index of Dashboards: this user
/// needs fewer roles than others.
#[must_use]
pub fn dashboards_server<'p>(privileges: &'p Privileges, needs: &[Need<'_>]) -> Option<&'p str> {
    let tenants = privileges.tenants()?;
    let is_about_dashboards = needs.iter().any(|need| {
        privileges.names(need).is_some_and(|names| {
            is_of_global_tenant(privileges, need, &names)
                || is_of_other_tenant(privileges, need, &names)
        })
    });
    is_about_dashboards.then_some(&*tenants.dashboards.server)
}

/// Whether a need is about an index of another tenant than the global tenant. For a caller with
/// full access to the global tenant, the plugin leaves out such indices, and no others.
fn is_of_other_tenant(privileges: &Privileges, need: &Need<'_>, names: &Names<'_>) -> bool {
    privileges.tenants().is_some_and(|tenants| tenants.is_of_other_tenant(&need.target, names))
        || !privileges.dashboards_left_out(need, TenantAccess::Write).is_disjoint(&names.known)
}

/// Whether a need is about the index of Dashboards in the global tenant. For a caller without
/// access to this tenant, the plugin leaves out all indices of Dashboards.
fn is_of_global_tenant(privileges: &Privileges, need: &Need<'_>, names: &Names<'_>) -> bool {
    privileges.tenants().is_some_and(|tenants| tenants.is_about_dashboards(&need.target, names))
        || !privileges.dashboards_left_out(need, TenantAccess::None).is_disjoint(&names.known)
}

/// Forbids the roles that hide something.
fn forbid_all_hiding_roles(
    privileges: &Privileges,
    requirement: &mut Requirement,
    steps: &mut Steps,
) -> Option<()> {
    let roles = privileges.config().roles.keys().zip(&privileges.roles);
    for (name, _) in roles.filter(|(_, role)| role.grants.iter().any(Grant::is_restricted)) {
        steps.take(1 + requirement.forbidden.len())?;
        requirement.forbid(HeldRole::unconditional(name));
    }
    Some(())
}

/// Gathers the requirement for the needs of a request.
struct Finder<'p, 's> {
    privileges: &'p Privileges,
    is_server: bool,
    roles: Vec<PossibleRole<'p>>,
    steps: &'s mut Steps,
    requirement: Requirement,
}

/// A role that somebody can have.
struct PossibleRole<'p> {
    name: &'p Arc<str>,
    compiled: &'p CompiledRole,
    /// A caller with this role alone, and without values for templates.
    caller: Caller,
}

/// A role that grants an action. With a template, it does so only if the template matches with the
/// values of the caller.
type Candidate<'p> = (&'p Arc<str>, Option<&'p Template>);

impl<'p> Finder<'p, '_> {
    /// Whether a need is permitted to nobody as it is.
    fn is_for_nobody(&self, need: &Need<'_>, names: &Names<'_>) -> bool {
        let settings = &self.privileges.settings;
        names.is_emptied_by_exclusions
            || settings.changes_all(need)
            || !names.known.is_disjoint(&self.privileges.special.security)
            || names.unknown.iter().any(|unknown| {
                !matches!(unknown.special_reason(settings), None | Some(Reason::SystemIndex))
            })
            || (!names.is_empty()
                && !self.is_server
                && is_of_other_tenant(self.privileges, need, names))
    }

    /// Adds the conditions of a need. `None` if that takes too many steps.
    fn require(&mut self, need: &Need<'_>, names: Option<&Names<'_>>) -> Option<()> {
        if missing_if_restricted(need).is_some() {
            forbid_all_hiding_roles(self.privileges, &mut self.requirement, self.steps)?;
        }
        let Some(names) = names else {
            // A need to create an index that exists already needs no role.
            if need.target != Target::Cluster {
                return Some(());
            }
            return self.require_of_role(need, |role, action| role.cluster.contains(action));
        };
        self.steps.take(1 + to_usize(names.known.len()) + names.unknown.len())?;
        if names.is_empty() {
            return match self.privileges.evaluation() {
                EvaluationType::Legacy => Some(()),
                EvaluationType::V4 => self.require_of_role(need, CompiledRole::grants_anywhere),
            };
        }
        if !self.is_server && is_of_global_tenant(self.privileges, need, names) {
            self.require_tenant(need)?;
        }
        self.require_names(need, names)
    }

    /// Requires, for each action, a role that permits it.
    fn require_of_role(
        &mut self,
        need: &Need<'_>,
        permits: impl Fn(&CompiledRole, Action) -> bool,
    ) -> Option<()> {
        for action in need.actions {
            self.steps.take(self.roles.len())?;
            let permitting = self.roles.iter().filter(|role| permits(role.compiled, *action));
            let any = permitting.map(|role| HeldRole::unconditional(role.name)).collect();
            self.add(any)?;
        }
        Some(())
    }

    /// Adds a condition, unless the requirement has it already.
    fn add(&mut self, any: Vec<HeldRole>) -> Option<()> {
        self.steps.take(1 + self.requirement.required.len() + any.len())?;
        if !self.requirement.required.contains(&any) {
            self.requirement.required.push(any);
        }
        Some(())
    }

    /// Requires for each action a role that permits it in the global tenant.
    fn require_tenant(&mut self, need: &Need<'_>) -> Option<()> {
        let evaluation = self.privileges.evaluation();
        for action in need.actions {
            self.steps.take(self.roles.len())?;
            let (permitting, denying): (Vec<_>, Vec<_>) = self
                .roles
                .iter()
                .map(|role| (role.compiled.tenant, role.name))
                .partition(|(tenant, _)| tenant.permits_need(need, *action, evaluation));
            let mut any: Vec<HeldRole> =
                permitting.into_iter().map(|(_, name)| HeldRole::unconditional(name)).collect();
            // With `legacy`, `kibana_user` permits the action to a caller who has no role that
            // names the tenant and denies the action.
            let (silent, naming): (Vec<_>, Vec<_>) =
                denying.into_iter().partition(|(tenant, _)| *tenant == TenantAccess::None);
            if evaluation == EvaluationType::Legacy
                && let Some((_, name)) =
                    silent.into_iter().find(|(_, name)| ***name == *KIBANA_USER)
            {
                let without = naming.into_iter().map(|(_, name)| name.clone()).collect();
                any.push(HeldRole { without, ..HeldRole::unconditional(name) });
            }
            self.add(any)?;
        }
        Some(())
    }

    fn require_names(&mut self, need: &Need<'_>, names: &Names<'_>) -> Option<()> {
        let settings = &self.privileges.settings;
        let system = &names.known & &self.privileges.special.system;
        // The conditions for system indices are the same for each action: `add` keeps them once.
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
        match strictest_filtering(need) {
            Some((action, _)) => self.forbid_roles_hiding_names(action, names),
            None => Some(()),
        }
    }

    /// Forbids the roles that hide something of these names.
    fn forbid_roles_hiding_names(&mut self, action: Action, names: &Names<'_>) -> Option<()> {
        let privileges = self.privileges;
        let known: BTreeSet<u32> = names
            .known
            .iter()
            .flat_map(|id| match privileges.inventory.members(id) {
                [] => vec![id],
                members => members.to_vec(),
            })
            .collect();
        let nobody = privileges.nameless_caller(&[]);
        let roles = privileges.config().roles.keys().zip(&privileges.roles);
        let grants =
            roles.flat_map(|(name, role)| role.grants.iter().map(move |grant| (name, grant)));
        for (role, grant) in grants.filter(|(_, grant)| grant.is_restricted()) {
            let patterns = 1 + grant.patterns.len() + grant.templates.len();
            let names_count = known.len() + names.unknown.len();
            self.steps
                .take(patterns.saturating_mul(names_count) + self.requirement.forbidden.len())?;
            let hides = known.iter().any(|id| {
                privileges.applies_to_known(&nobody, grant, *id)
                    || privileges.may_hide(&nobody, grant, *id)
            }) || names.unknown.iter().any(|name| {
                may_show_unknown_name(action)
                    || privileges.may_apply_to_unknown(&nobody, grant, *name)
            });
            if hides {
                self.requirement.forbid(HeldRole::unconditional(role));
                continue;
            }
            for id in &grant.templates {
                let Some(template) = privileges.templates.get(*id as usize) else { continue };
                let pattern = template.pattern_for_any_values();
                let known_names = known.iter().map(|id| name_with_parents(privileges, *id));
                let unknown_names = names.unknown.iter().copied().map(NameWithParents::new);
                let mut matching: Vec<_> = known_names.chain(unknown_names).collect();
                matching.retain(|name| name.may_match(&pattern));
                if !matching.is_empty() {
                    let (template, must_match) = (template.clone(), MustMatch::Any);
                    let template_match = TemplateMatch { template, names: matching, must_match };
                    self.requirement.forbid(HeldRole {
                        template_match: Some(template_match),
                        ..HeldRole::unconditional(role)
                    });
                }
            }
        }
        Some(())
    }

    /// Requires roles that grant an action on these names of the inventory.
    fn require_known(&mut self, action: Action, names: &RoaringBitmap) -> Option<()> {
        let mut candidates: Vec<(Candidate<'p>, RoaringBitmap)> = Vec::new();
        if names.is_empty() {
            return Some(());
        }
        for role in &self.roles {
            self.steps.take(1)?;
            let granted = self.privileges.granted(&role.caller, action, names);
            let remaining = names - &granted;
            candidates.push(((role.name, None), granted));
            for template in templates(self.privileges, &role.caller, action) {
                self.steps.take(to_usize(names.len()))?;
                let pattern = template.pattern_for_any_values();
                let matched = remaining
                    .iter()
                    .filter(|id| name_with_parents(self.privileges, *id).may_match(&pattern));
                candidates.push(((role.name, Some(template)), matched.collect()));
            }
        }
        candidates.retain(|(_, granted)| !granted.is_empty());
        // Finding an id in a bitmap takes an eighth of the time of other steps.
        self.steps.take(candidates.len().saturating_mul(to_usize(names.len())) / 8)?;
        // Names with the same candidates share a condition.
        let mut ids_by_candidates: BTreeMap<Vec<usize>, Vec<u32>> = BTreeMap::new();
        for id in names {
            let granting = (0..).zip(&candidates).filter(|(_, (_, granted))| granted.contains(id));
            let positions = granting.map(|(position, _)| position).collect();
            ids_by_candidates.entry(positions).or_default().push(id);
        }
        for (positions, mut ids) in ids_by_candidates {
            let granting = positions.into_iter().filter_map(|position| candidates.get(position));
            let granting: Vec<Candidate<'p>> = granting.map(|(candidate, _)| *candidate).collect();
            // A condition lists its names once for each template. Without templates, it lists none.
            let templates = granting.iter().filter(|(_, template)| template.is_some()).count();
            self.steps.take(ids.len().saturating_mul(templates) + granting.len())?;
            if templates == 0 {
                ids.truncate(1);
            }
            let names: Vec<_> =
                ids.into_iter().map(|id| name_with_parents(self.privileges, id)).collect();
            // With the values of a caller, several templates may match all names together, although
            // no single template matches them all.
            let are_separate = templates > 1 && names.len() <= MAX_SEPARATE_NAMES;
            for names in names.chunks(if are_separate { 1 } else { names.len() }) {
                self.require_one_of(&granting, names)?;
            }
        }
        Some(())
    }

    /// Requires roles that grant an action on a name or pattern that the inventory lacks.
    fn require_unknown(&mut self, action: Action, unknown: Unknown<'_>) -> Option<()> {
        let name = NameWithParents::new(unknown);
        let mut granting: Vec<Candidate<'p>> = Vec::new();
        for PossibleRole { name: role, caller, .. } in &self.roles {
            self.steps.take(1)?;
            if self.privileges.grants_unknown(caller, action, unknown) {
                granting.push((role, None));
            } else {
                let mut templates = templates(self.privileges, caller, action);
                templates.retain(|template| name.may_match(&template.pattern_for_any_values()));
                granting.extend(templates.into_iter().map(|template| (*role, Some(template))));
            }
        }
        self.require_one_of(&granting, &[name])
    }

    /// Requires any of these roles. Roles without a template are listed first.
    fn require_one_of(
        &mut self,
        granting: &[Candidate<'p>],
        names: &[NameWithParents],
    ) -> Option<()> {
        let (always, sometimes): (Vec<Candidate<'_>>, Vec<_>) =
            granting.iter().partition(|(_, template)| template.is_none());
        let any = always.into_iter().chain(sometimes).map(|(role, template)| {
            let template_match = template.map(|template| TemplateMatch {
                template: template.clone(),
                names: names.to_vec(),
                must_match: MustMatch::All,
            });
            HeldRole { template_match, ..HeldRole::unconditional(role) }
        });
        self.add(any.collect())
    }
}

/// The templates of the permissions that grant an action to a caller.
fn templates<'p>(privileges: &'p Privileges, caller: &Caller, action: Action) -> Vec<&'p Template> {
    let granted = caller.roles.granted(privileges, action);
    let ids = granted.into_iter().flat_map(|granted| &granted.templates);
    ids.filter_map(|id| privileges.templates.get(id as usize)).collect()
}

/// A name of the inventory, with the aliases and data streams of an index.
fn name_with_parents(privileges: &Privileges, id: u32) -> NameWithParents {
    let parents = privileges.inventory.parents(id).iter();
    let parents = parents.map(|parent| privileges.inventory.name(*parent).to_owned()).collect();
    let name = privileges.inventory.name(id).to_owned();
    NameWithParents { name, parents, is_pattern: false }
}

fn to_usize(names: u64) -> usize {
    usize::try_from(names).unwrap_or(usize::MAX)
}
