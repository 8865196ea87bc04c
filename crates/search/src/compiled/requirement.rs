//! Who may make a request: the roles that a caller must have for it.
//!
//! Each action on each name is granted by one role at least, and no role restricts what the request shows. So the roles
//! that permit a request are those that meet a list of conditions, each of which some role meets.

mod held;
mod tenant;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::{Reason, changes, reaches_new};
use crate::config::{EvaluationType, Template, Variables};
use crate::filtering::{may_be_of_any, strictest};
use crate::inventory::Kind;
use crate::need::{Need, Target};
use crate::resolve::{Names, Unknown, resolve_need};
use crate::steps::Steps;

use super::actions::SYSTEM_INDEX;
use crate::tenants::TenantAccess;

use super::role_set::RoleSet;
use super::{Caller, Grant, Privileges};
use held::Row;
pub use held::{HeldRole, Matching};

/// The roles that a caller must have for a request to be permitted as it is, without a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirement {
    /// The caller needs one of each list.
    pub all: Vec<Vec<HeldRole>>,
    /// The caller must have none of these, because the cluster would have to filter.
    pub none: Vec<HeldRole>,
}

/// More names than are listed one by one where roles have several patterns with values of the caller. What only these
/// permit together then counts as denied.
const MOST_NAMES: usize = 50;

impl Requirement {
    /// Whether a caller with these roles and values meets it.
    #[must_use]
    pub fn is_met_by(&self, roles: &BTreeSet<Arc<str>>, variables: &Variables) -> bool {
        let has = |held: &HeldRole| {
            let counts = || !held.without.iter().any(|role| roles.contains(role));
            roles.contains(&held.role) && held.counts_for(variables) && counts()
        };
        self.all.iter().all(|any| any.iter().any(has)) && !self.none.iter().any(has)
    }

    /// How many steps it takes to find out whether a caller meets it.
    #[must_use]
    pub fn size(&self) -> usize {
        let roles = self.all.iter().flatten().chain(&self.none);
        self.all.len() + roles.map(HeldRole::size).sum::<usize>()
    }

    fn nobody() -> Self {
        Self { all: vec![Vec::new()], none: Vec::new() }
    }

    fn refuse(&mut self, role: HeldRole) {
        if !self.none.contains(&role) {
            self.none.push(role);
        }
    }

    fn add(&mut self, any: Vec<HeldRole>, steps: &mut Steps) -> Option<()> {
        steps.take(1 + self.all.len() + any.len())?;
        if !self.all.contains(&any) {
            self.all.push(any);
        }
        Some(())
    }
}

impl Privileges {
    /// Adds that no role may hide anything.
    pub(super) fn refuse_restricted(&self, requirement: &mut Requirement, steps: &mut Steps) -> Option<()> {
        let all = self.config.roles.keys().zip(&self.roles);
        for (name, _) in all.filter(|(_, role)| role.grants.iter().any(Grant::is_restricted)) {
            steps.take(1 + requirement.none.len())?;
            requirement.refuse(HeldRole::of(name));
        }
        Some(())
    }

    /// The roles that a caller must have for the needs of a request, among those that somebody can have. Service accounts
    /// need more. `None` if that takes more steps.
    #[must_use]
    pub fn requirement(
        &self,
        needs: &[Need<'_>],
        can_be_held: impl Fn(&str) -> bool,
        steps: &mut Steps,
    ) -> Option<Requirement> {
        self.requirement_of(needs, false, can_be_held, steps)
    }

    /// The same; for Dashboards itself if `is_server` is set.
    pub(super) fn requirement_of(
        &self,
        needs: &[Need<'_>],
        is_server: bool,
        can_be_held: impl Fn(&str) -> bool,
        steps: &mut Steps,
    ) -> Option<Requirement> {
        let mut requirement = Requirement::default();
        let names = (0..).zip(self.config.roles.keys());
        let numbers = names.filter(|(_, name)| can_be_held(name)).map(|(number, _)| number).collect();
        let mut roles = OneByOne { privileges: self, numbers, callers: BTreeMap::new() };
        for need in needs.iter().filter(|need| self.counts(need)) {
            if reaches_new(need).is_some() {
                self.refuse_restricted(&mut requirement, steps)?;
            }
            if need.target == Target::Cluster {
                for action in need.actions {
                    steps.take(roles.numbers.len())?;
                    let has = |number: &usize| {
                        self.roles.get(*number).is_some_and(|role| role.cluster.contains(*action))
                    };
                    requirement.add(roles.named(roles.numbers.iter().copied().filter(has)), steps)?;
                }
                continue;
            }
            let Some(names) = resolve_need(self.inventory.as_deref(), self.settings.evaluation, need) else {
                continue;
            };
            if names.is_emptied || self.settings.changes_all(need) {
                return Some(Requirement::nobody());
            }
            steps.take(1 + count(names.known.len()) + names.unknown.len())?;
            if names.known.is_empty() && names.unknown.is_empty() {
                self.require_any_index(need, &mut roles, &mut requirement, steps)?;
            } else if self.is_for_nobody(&names) || (!is_server && self.is_of_other_tenant(need, &names)) {
                return Some(Requirement::nobody());
            } else {
                if !is_server {
                    self.require_tenant(need, &names, &roles, &mut requirement, steps)?;
                }
                self.require_names(need, &names, &mut roles, &mut requirement, steps)?;
            }
        }
        Some(requirement)
    }

    fn require_any_index(
        &self,
        need: &Need<'_>,
        roles: &mut OneByOne<'_>,
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        if self.settings.evaluation == EvaluationType::Legacy {
            return Some(());
        }
        for action in need.actions {
            let mut granting = Vec::new();
            for number in roles.numbers.clone() {
                let caller = roles.caller(number, steps)?;
                if caller.roles.allowed(self, *action).is_some_and(|allowed| allowed.any) {
                    granting.push(number);
                }
            }
            requirement.add(roles.named(granting), steps)?;
        }
        Some(())
    }

    /// Whether one of these names is the index of the security configuration, or may be.
    fn is_for_nobody(&self, names: &Names<'_>) -> bool {
        let is_denied = |unknown: &Unknown<'_>| match self.special_unknown(*unknown).0 {
            None | Some(Reason::SystemIndex) => false,
            Some(_) => true,
        };
        !names.known.is_disjoint(&self.special.security) || names.unknown.iter().any(is_denied)
    }

    /// `None` if that takes too many steps.
    fn require_names(
        &self,
        need: &Need<'_>,
        names: &Names<'_>,
        roles: &mut OneByOne<'_>,
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        let system = &names.known & &self.special.system;
        let protected = &names.known & &self.special.protected;
        for action in need.actions {
            roles.grant_known(*action, &names.known, requirement, steps)?;
            roles.grant_known(SYSTEM_INDEX, &system, requirement, steps)?;
            if changes(*action) && !protected.is_empty() {
                requirement.add(self.changing_protected(steps)?, steps)?;
            }
            for unknown in &names.unknown {
                let (special, is_protected) = self.special_unknown(*unknown);
                if special.is_some() {
                    roles.grant_unknown(SYSTEM_INDEX, *unknown, requirement, steps)?;
                }
                if changes(*action) && is_protected {
                    requirement.add(self.changing_protected(steps)?, steps)?;
                }
                roles.grant_unknown(*action, *unknown, requirement, steps)?;
            }
        }
        match strictest(need) {
            Some((action, _)) => self.refuse_restrictions(action, names, requirement, steps),
            None => Some(()),
        }
    }

    fn special_unknown(&self, unknown: Unknown<'_>) -> (Option<Reason>, bool) {
        match unknown {
            Unknown::Name(name) => (self.settings.special(name), self.settings.is_protected(name)),
            Unknown::Pattern(text) => {
                let overlaps = |pattern: &crate::pattern::Pattern| pattern.may_overlap(text);
                (self.settings.special_pattern(text), self.settings.protected_indices.iter().any(overlaps))
            }
        }
    }

    fn changing_protected(&self, steps: &mut Steps) -> Option<Vec<HeldRole>> {
        steps.take(self.config.roles.len() + self.config.mappings.len() + self.config.users.len())?;
        let mapped = self.config.mappings.iter().map(|mapping| &mapping.role);
        let direct = self.config.users.iter().flat_map(|user| &user.roles);
        let names: BTreeSet<_> = self.config.roles.keys().chain(mapped).chain(direct).collect();
        let may =
            names.into_iter().filter(|name| self.settings.may_change_protected(std::iter::once(&***name)));
        Some(may.map(HeldRole::of).collect())
    }

    /// Adds the roles that show only a part of what the request shows.
    fn refuse_restrictions(
        &self,
        action: Action,
        names: &Names<'_>,
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        let may_be_of_any = may_be_of_any(action);
        let members = |number: u32| match self.inventory.as_deref() {
            Some(all) if !all.kind(number).is_some_and(Kind::is_index) && !all.related(number).is_empty() => {
                all.related(number).to_vec()
            }
            Some(_) | None => vec![number],
        };
        let known: BTreeSet<u32> = names.known.iter().flat_map(members).collect();
        let nobody = Caller {
            roles: Arc::new(RoleSet::new(self, &[], false)),
            templates: Box::default(),
            widened: Box::default(),
            restricted: None,
            variables: Variables::default(),
            is_service: false,
            tenant: TenantAccess::None,
            caches: false,
        };
        for (role, grant) in self.config.roles.keys().zip(&self.roles).flat_map(|(name, role)| {
            role.grants.iter().filter(|grant| grant.is_restricted()).map(move |grant| (name, grant))
        }) {
            let patterns = 1 + grant.patterns.len() + grant.templates.len();
            steps
                .take(patterns.saturating_mul(known.len() + names.unknown.len()) + requirement.none.len())?;
            let of_known = |number: u32| {
                self.applies_to_known(&nobody, grant, number) || self.may_hide(&nobody, grant, number)
            };
            let applies = known.iter().any(|number| of_known(*number))
                || names
                    .unknown
                    .iter()
                    .any(|unknown| may_be_of_any || self.matches_unknown(&nobody, grant, *unknown));
            let mut refuse = |matching| {
                requirement.refuse(HeldRole { matching, ..HeldRole::of(role) });
            };
            if applies {
                refuse(None);
                continue;
            }
            for template in grant.templates.iter().filter_map(|id| self.templates.get(*id as usize)) {
                let widest = template.widest();
                let rows = known.iter().map(|number| self.row(*number));
                let rows = rows.chain(names.unknown.iter().map(|unknown| Row::of(*unknown)));
                let names: Vec<Row> = rows.filter(|row| row.may_match(&widest)).collect();
                if !names.is_empty() {
                    refuse(Some(Matching { template: template.clone(), names, is_all: false }));
                }
            }
        }
        Some(())
    }

    fn row(&self, number: u32) -> Row {
        let parents = match self.inventory.as_deref() {
            Some(all) if all.kind(number).is_some_and(Kind::is_index) => all.related(number),
            Some(_) | None => &[],
        };
        Row {
            name: self.name(number).to_owned(),
            parents: parents.iter().map(|parent| self.name(*parent).to_owned()).collect(),
            is_pattern: false,
        }
    }
}

/// Callers with one role each.
struct OneByOne<'p> {
    privileges: &'p Privileges,
    /// The roles that somebody can have.
    numbers: Vec<usize>,
    callers: BTreeMap<usize, Arc<Caller>>,
}

impl OneByOne<'_> {
    /// A caller with one role and without values.
    fn caller(&mut self, number: usize, steps: &mut Steps) -> Option<Arc<Caller>> {
        let privileges = self.privileges;
        let size = |grant: &Grant| 1 + grant.patterns.len() + grant.templates.len();
        let grants = privileges.roles.get(number).map(|role| role.grants.iter().map(size).sum::<usize>());
        // Making a set of roles takes as long as some hundred looks at a name.
        let is_new = !self.callers.contains_key(&number);
        steps.take(1 + grants.unwrap_or_default() + if is_new { Action::COUNT } else { 0 })?;
        let caller = self.callers.entry(number).or_insert_with(|| {
            let id = u32::try_from(number).unwrap_or(u32::MAX);
            Arc::new(Caller {
                roles: Arc::new(RoleSet::new(privileges, &[id], false)),
                templates: Box::default(),
                widened: Box::default(),
                restricted: None,
                variables: Variables::default(),
                is_service: false,
                tenant: TenantAccess::None,
                caches: false,
            })
        });
        Some(caller.clone())
    }

    fn named(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<HeldRole> {
        let names: Vec<&Arc<str>> = self.privileges.config.roles.keys().collect();
        let named = numbers.into_iter().filter_map(|number| names.get(number));
        named.map(|role| HeldRole::of(role)).collect()
    }

    /// The patterns with values by which a role may grant an action.
    fn templates(&self, caller: &Caller, action: Action) -> Vec<Template> {
        let ids = caller.roles.allowed(self.privileges, action).map(|allowed| &allowed.templates);
        let ids = ids.into_iter().flatten();
        ids.filter_map(|id| self.privileges.templates.get(id as usize).cloned()).collect()
    }

    /// Requires roles that grant an action on these names of the inventory.
    fn grant_known(
        &mut self,
        action: Action,
        names: &RoaringBitmap,
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        if names.is_empty() {
            return Some(());
        }
        // Names that the same roles grant, and that the same patterns with values may match.
        let mut groups: Vec<Group> = vec![(names.clone(), Vec::new(), Vec::new())];
        for number in self.numbers.clone() {
            let caller = self.caller(number, steps)?;
            let granted = self.privileges.granted(&caller, action, names);
            split(&mut groups, &granted, steps, |group| group.1.push(number))?;
            for template in self.templates(&caller, action) {
                steps.take(count(names.len()))?;
                let widest = template.widest();
                let rows = (names - &granted).into_iter();
                let may_match = rows.filter(|row| self.privileges.row(*row).may_match(&widest)).collect();
                split(&mut groups, &may_match, steps, |group| group.2.push((number, template.clone())))?;
            }
        }
        for (names, granting, templates) in groups.into_iter().filter(|group| !group.0.is_empty()) {
            // They are listed for each pattern with values, and only for these.
            steps.take(count(names.len()).saturating_mul(templates.len()) + granting.len())?;
            let names = names.iter().take(if templates.is_empty() { 1 } else { usize::MAX });
            let rows: Vec<Row> = names.map(|number| self.privileges.row(number)).collect();
            if templates.len() > 1 && rows.len() <= MOST_NAMES {
                for row in rows {
                    self.require(&granting, &templates, &[row], requirement, steps)?;
                }
            } else {
                self.require(&granting, &templates, &rows, requirement, steps)?;
            }
        }
        Some(())
    }

    fn grant_unknown(
        &mut self,
        action: Action,
        unknown: Unknown<'_>,
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        let (mut granting, mut templates) = (Vec::new(), Vec::new());
        let row = Row::of(unknown);
        for number in self.numbers.clone() {
            let caller = self.caller(number, steps)?;
            if self.privileges.grants_unknown(&caller, action, unknown) {
                granting.push(number);
                continue;
            }
            let more = self.templates(&caller, action).into_iter();
            let more = more.filter(|template| row.may_match(&template.widest()));
            templates.extend(more.map(|template| (number, template)));
        }
        self.require(&granting, &templates, &[row], requirement, steps)
    }

    fn require(
        &self,
        granting: &[usize],
        templates: &[(usize, Template)],
        rows: &[Row],
        requirement: &mut Requirement,
        steps: &mut Steps,
    ) -> Option<()> {
        let mut any = self.named(granting.iter().copied());
        for (number, template) in templates {
            let matching = Matching { template: template.clone(), names: rows.to_vec(), is_all: true };
            any.extend(
                self.named([*number])
                    .into_iter()
                    .map(|held| HeldRole { matching: Some(matching.clone()), ..held }),
            );
        }
        requirement.add(any, steps)
    }
}

type Group = (RoaringBitmap, Vec<usize>, Vec<(usize, Template)>);

/// A number of names.
fn count(names: u64) -> usize {
    usize::try_from(names).unwrap_or(usize::MAX)
}

/// Splits each group into the names among these, which are changed, and the others. `None` if that takes too many steps.
fn split(
    groups: &mut Vec<Group>,
    names: &RoaringBitmap,
    steps: &mut Steps,
    change: impl Fn(&mut Group),
) -> Option<()> {
    let mut others = Vec::new();
    for group in groups.iter_mut() {
        // A set operation looks at 64 names at once.
        steps.take(1 + count(group.0.len()) / 64)?;
        let inside = &group.0 & names;
        if inside.is_empty() {
            continue;
        }
        let outside = &group.0 - &inside;
        if !outside.is_empty() {
            steps.take(group.1.len() + group.2.len())?;
            others.push((outside, group.1.clone(), group.2.clone()));
        }
        group.0 = inside;
        change(group);
    }
    groups.extend(others);
    Some(())
}
