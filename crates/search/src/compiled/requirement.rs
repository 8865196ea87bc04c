//! Who may make a request: the roles that a caller must have for it.
//!
//! Each action on each name is granted by one role at least, and no role restricts what the request shows. So the roles
//! that permit a request are those that meet a list of conditions, each of which some role meets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::{Reason, changes, strictest};
use crate::config::{EvaluationType, Template, Variables};
use crate::inventory::Kind;
use crate::need::{Need, Target};
use crate::resolve::{Names, Unknown, resolve};

use super::actions::SYSTEM_INDEX;
use super::role_set::RoleSet;
use super::{Caller, Privileges};

/// The roles that a caller must have for a request to be permitted as it is, without a filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requirement {
    /// The caller needs one of each list.
    pub all: Vec<Vec<HeldRole>>,
    /// The caller must have none of these, because the cluster would have to filter.
    pub none: Vec<HeldRole>,
}

/// A role that a caller may have.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldRole {
    /// Its name.
    pub role: Arc<str>,
    /// If it counts for some callers only: for those whose values this pattern matches names with.
    pub matching: Option<Matching>,
}

/// A pattern with values of the caller that must match names.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// The pattern.
    pub template: Template,
    /// The names, each with the aliases and data streams that have it.
    names: Vec<Row>,
    /// Whether it must match each of them, and not only one.
    is_all: bool,
}

/// A name or pattern of a request, with other names by any of which it is permitted too.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    parents: Vec<String>,
    is_pattern: bool,
}

/// More names than are listed one by one where roles have several patterns with values of the caller. What only these
/// permit together then counts as denied.
const MOST_NAMES: usize = 50;

impl Requirement {
    /// Whether a caller with these roles and values meets it.
    #[must_use]
    pub fn is_met_by(&self, roles: &BTreeSet<Arc<str>>, variables: &Variables) -> bool {
        let has = |held: &HeldRole| roles.contains(&held.role) && held.counts_for(variables);
        self.all.iter().all(|any| any.iter().any(has)) && !self.none.iter().any(has)
    }

    fn nobody() -> Self {
        Self { all: vec![Vec::new()], none: Vec::new() }
    }

    fn add(&mut self, any: Vec<HeldRole>) {
        if !self.all.contains(&any) {
            self.all.push(any);
        }
    }
}

impl HeldRole {
    /// Whether the role counts for a caller with these values.
    #[must_use]
    pub fn counts_for(&self, variables: &Variables) -> bool {
        self.matching.as_ref().is_none_or(|matching| matching.holds(variables))
    }
}

impl Matching {
    fn holds(&self, variables: &Variables) -> bool {
        let Some(pattern) = self.template.pattern(variables) else { return false };
        let covers = |row: &Row| match (row.is_pattern, self.is_all) {
            (true, true) => pattern.covers(&row.name),
            (true, false) => pattern.may_overlap(&row.name),
            (false, _) => pattern.matches(&row.name) || row.parents.iter().any(|name| pattern.matches(name)),
        };
        if self.is_all { self.names.iter().all(covers) } else { self.names.iter().any(covers) }
    }

    /// The names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.iter().map(|row| &*row.name)
    }

    /// The only user name with which the pattern matches, if that is certain.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        match self.names.as_slice() {
            [row] if !row.is_pattern && row.parents.is_empty() => self.template.user_of(&row.name),
            _ => None,
        }
    }
}

impl Privileges {
    /// The roles that a caller must have for the needs of a request, among those that somebody can have. Service accounts
    /// need more.
    #[must_use]
    pub fn requirement(&self, needs: &[Need<'_>], can_be_held: impl Fn(&str) -> bool) -> Requirement {
        let mut requirement = Requirement::default();
        let names = (0..).zip(self.config.roles.keys());
        let numbers = names.filter(|(_, name)| can_be_held(name)).map(|(number, _)| number).collect();
        let mut roles = OneByOne { privileges: self, numbers, callers: BTreeMap::new() };
        for need in needs {
            if need.target == Target::Cluster {
                for action in need.actions {
                    let has = |number: &usize| {
                        self.roles.get(*number).is_some_and(|role| role.cluster.contains(*action))
                    };
                    requirement.add(roles.named(roles.numbers.iter().copied().filter(has)));
                }
                continue;
            }
            let Some(names) = resolve(self.inventory.as_deref(), self.settings.evaluation, &need.target)
            else {
                continue;
            };
            if names.known.is_empty() && names.unknown.is_empty() {
                self.require_any_index(need, &mut roles, &mut requirement);
            } else if self.require_names(need, &names, &mut roles, &mut requirement).is_none() {
                return Requirement::nobody();
            }
        }
        requirement
    }

    /// Whether a request with these needs may be reduced to the names that are permitted.
    #[must_use]
    pub fn reduces(&self, needs: &[Need<'_>]) -> bool {
        needs.iter().any(|need| {
            matches!(need.target, Target::Indices(_))
                && match self.settings.evaluation {
                    EvaluationType::Legacy => {
                        self.settings.do_not_fail_on_forbidden
                            && need.actions.iter().all(|action| self.settings.reduces(*action))
                    }
                    EvaluationType::V4 => {
                        self.settings.ignore_unauthorized_indices
                            && resolve(self.inventory.as_deref(), self.settings.evaluation, &need.target)
                                .is_some_and(|names| names.is_reducible)
                    }
                }
        })
    }

    fn require_any_index(&self, need: &Need<'_>, roles: &mut OneByOne<'_>, requirement: &mut Requirement) {
        if self.settings.evaluation == EvaluationType::Legacy {
            return;
        }
        for action in need.actions {
            let mut granting = roles.numbers.clone();
            granting.retain(|number| {
                roles.caller(*number).roles.allowed(self, *action).is_some_and(|allowed| allowed.any)
            });
            requirement.add(roles.named(granting));
        }
    }

    /// `None` if nobody may.
    fn require_names(
        &self,
        need: &Need<'_>,
        names: &Names<'_>,
        roles: &mut OneByOne<'_>,
        requirement: &mut Requirement,
    ) -> Option<()> {
        if !names.known.is_disjoint(&self.special.security) {
            return None;
        }
        let system = &names.known & &self.special.system;
        let protected = &names.known & &self.special.protected;
        for action in need.actions {
            roles.grant_known(*action, &names.known, requirement);
            roles.grant_known(SYSTEM_INDEX, &system, requirement);
            if changes(*action) && !protected.is_empty() {
                requirement.add(self.changing_protected());
            }
            for unknown in &names.unknown {
                let (special, is_protected) = self.special_unknown(*unknown);
                match special {
                    None => {}
                    Some(Reason::SystemIndex) => roles.grant_unknown(SYSTEM_INDEX, *unknown, requirement),
                    Some(_) => return None,
                }
                if changes(*action) && is_protected {
                    requirement.add(self.changing_protected());
                }
                roles.grant_unknown(*action, *unknown, requirement);
            }
        }
        if strictest(need.actions).is_some() {
            self.refuse_restrictions(names, requirement);
        }
        Some(())
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

    fn changing_protected(&self) -> Vec<HeldRole> {
        let mapped = self.config.mappings.iter().map(|mapping| &mapping.role);
        let direct = self.config.users.iter().flat_map(|user| &user.roles);
        let names: BTreeSet<_> = self.config.roles.keys().chain(mapped).chain(direct).collect();
        let may =
            names.into_iter().filter(|name| self.settings.may_change_protected(std::iter::once(&***name)));
        may.map(|role| HeldRole { role: role.clone(), matching: None }).collect()
    }

    /// Adds the roles that show only a part of what the request shows.
    fn refuse_restrictions(&self, names: &Names<'_>, requirement: &mut Requirement) {
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
            variables: Variables::default(),
            is_service: false,
        };
        for (role, grant) in self.config.roles.keys().zip(&self.roles).flat_map(|(name, role)| {
            role.grants.iter().filter(|grant| grant.is_restricted()).map(move |grant| (name, grant))
        }) {
            let applies = known.iter().any(|number| self.applies_to_known(&nobody, grant, *number))
                || names.unknown.iter().any(|unknown| self.applies_to_unknown(&nobody, grant, *unknown));
            let mut refuse = |matching| {
                let held = HeldRole { role: role.clone(), matching };
                if !requirement.none.contains(&held) {
                    requirement.none.push(held);
                }
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

impl Row {
    fn of(unknown: Unknown<'_>) -> Self {
        let is_pattern = matches!(unknown, Unknown::Pattern(_));
        Self { name: unknown.text().to_owned(), parents: Vec::new(), is_pattern }
    }

    fn may_match(&self, widest: &crate::pattern::Pattern) -> bool {
        match self.is_pattern {
            true => widest.may_overlap(&self.name),
            false => std::iter::once(&self.name).chain(&self.parents).any(|name| widest.matches(name)),
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
    fn caller(&mut self, number: usize) -> Arc<Caller> {
        let privileges = self.privileges;
        let caller = self.callers.entry(number).or_insert_with(|| {
            let id = u32::try_from(number).unwrap_or(u32::MAX);
            Arc::new(Caller {
                roles: Arc::new(RoleSet::new(privileges, &[id], false)),
                templates: Box::default(),
                variables: Variables::default(),
                is_service: false,
            })
        });
        caller.clone()
    }

    fn named(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<HeldRole> {
        let names: Vec<&Arc<str>> = self.privileges.config.roles.keys().collect();
        let named = numbers.into_iter().filter_map(|number| names.get(number));
        named.map(|role| HeldRole { role: Arc::clone(role), matching: None }).collect()
    }

    /// The patterns with values by which a role may grant an action.
    fn templates(&mut self, number: usize, action: Action) -> Vec<Template> {
        let caller = self.caller(number);
        let ids = caller.roles.allowed(self.privileges, action).map(|allowed| &allowed.templates);
        let ids = ids.into_iter().flatten();
        ids.filter_map(|id| self.privileges.templates.get(id as usize).cloned()).collect()
    }

    /// Requires roles that grant an action on these names of the inventory.
    fn grant_known(&mut self, action: Action, names: &RoaringBitmap, requirement: &mut Requirement) {
        // Names that the same roles grant, and that the same patterns with values may match.
        let mut groups: Vec<Group> = vec![(names.clone(), Vec::new(), Vec::new())];
        for number in self.numbers.clone() {
            let granted = self.privileges.granted(&self.caller(number), action, names);
            split(&mut groups, &granted, |group| group.1.push(number));
            for template in self.templates(number, action) {
                let widest = template.widest();
                let rows = (names - &granted).into_iter();
                let may_match = rows.filter(|row| self.privileges.row(*row).may_match(&widest)).collect();
                split(&mut groups, &may_match, |group| group.2.push((number, template.clone())));
            }
        }
        for (names, granting, templates) in groups.into_iter().filter(|group| !group.0.is_empty()) {
            let rows: Vec<Row> = names.iter().map(|number| self.privileges.row(number)).collect();
            if templates.len() > 1 && rows.len() <= MOST_NAMES {
                for row in rows {
                    self.require(&granting, &templates, &[row], requirement);
                }
            } else {
                self.require(&granting, &templates, &rows, requirement);
            }
        }
    }

    fn grant_unknown(&mut self, action: Action, unknown: Unknown<'_>, requirement: &mut Requirement) {
        let (mut granting, mut templates) = (Vec::new(), Vec::new());
        let row = Row::of(unknown);
        for number in self.numbers.clone() {
            if self.privileges.grants_unknown(&self.caller(number), action, unknown) {
                granting.push(number);
                continue;
            }
            let more = self.templates(number, action).into_iter();
            let more = more.filter(|template| row.may_match(&template.widest()));
            templates.extend(more.map(|template| (number, template)));
        }
        self.require(&granting, &templates, &[row], requirement);
    }

    fn require(
        &self,
        granting: &[usize],
        templates: &[(usize, Template)],
        rows: &[Row],
        requirement: &mut Requirement,
    ) {
        let mut any = self.named(granting.iter().copied());
        for (number, template) in templates {
            let matching = Matching { template: template.clone(), names: rows.to_vec(), is_all: true };
            any.extend(
                self.named([*number])
                    .into_iter()
                    .map(|held| HeldRole { matching: Some(matching.clone()), ..held }),
            );
        }
        requirement.add(any);
    }
}

type Group = (RoaringBitmap, Vec<usize>, Vec<(usize, Template)>);

/// Splits each group into the names among these, which are changed, and the others.
fn split(groups: &mut Vec<Group>, names: &RoaringBitmap, change: impl Fn(&mut Group)) {
    let mut others = Vec::new();
    for group in groups.iter_mut() {
        let inside = &group.0 & names;
        if inside.is_empty() {
            continue;
        }
        let outside = &group.0 - &inside;
        if !outside.is_empty() {
            others.push((outside, group.1.clone(), group.2.clone()));
        }
        group.0 = inside;
        change(group);
    }
    groups.extend(others);
}
