//! The evaluator: decides by look-ups.
//!
//! Compiling makes two tables: which names of the inventory each pattern matches, and which actions each
//! permission grants. The rest is made when first needed, and kept: for a set of roles and an action, a bitmap
//! of the names on which it is permitted; for an expression with a pattern, a bitmap of the names that it
//! stands for. A request is then permitted if one bitmap is a subset of the other, however many roles and
//! indices there are. Names that the inventory lacks are looked up among the patterns.

mod actions;
mod bound;
mod decide;
mod expressions;
mod filters;
mod forward;
mod name_set;
mod patterns;
mod permits;
mod role_set;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;

use crate::config::{EvaluationType, IndexPattern, IndexPermission, SecurityConfig, Template, Variables};
use crate::groups::ActionGroups;
use crate::inventory::Inventory;
use crate::pattern::Pattern;
use crate::settings::{EvaluationSettings, SECURITY_INDEX};
use crate::subject::Subject;
use crate::tenants::TenantAccess;

pub(crate) use actions::SYSTEM_INDEX;
use actions::{ActionSet, ActionSets};
use expressions::Expressions;
pub(crate) use forward::shown_by_pattern;
use patterns::{PatternId, Patterns};
use role_set::RoleSet;

/// How many sets of roles are kept. Callers with others are served too, each with a set of its own.
const MAX_ROLE_SETS: usize = 10_000;

/// The privileges of all roles on the contents of a cluster, ready to decide.
#[derive(Debug)]
pub struct Privileges {
    config: Arc<SecurityConfig>,
    pub(crate) settings: EvaluationSettings,
    inventory: Option<Arc<Inventory>>,
    role_ids: HashMap<Arc<str>, u32>,
    pub(crate) roles: Box<[CompiledRole]>,
    patterns: Patterns,
    pub(crate) templates: Box<[Template]>,
    pub(crate) special: Special,
    role_sets: Mutex<HashMap<Box<[u32]>, Arc<RoleSet>>>,
    expressions: Expressions,
}

/// A caller, ready to be decided about: as long as the [`Privileges`] that made it are used.
#[derive(Debug)]
pub struct Caller {
    pub(crate) roles: Arc<RoleSet>,
    /// The patterns of the roles with the values of this subject.
    templates: Box<[Rendered]>,
    /// For patterns that may hide documents or fields of more names than they match.
    widened: Box<[Rendered]>,
    /// Names on which a role restricts documents or fields, if one does so by a pattern with values of this subject.
    restricted: Option<RoaringBitmap>,
    pub(crate) variables: Variables,
    is_service: bool,
    tenant: TenantAccess,
    /// Whether decisions about it use caches that other threads wait for.
    caches: bool,
}

/// A template with the values of a subject.
#[derive(Debug)]
struct Rendered {
    template: u32,
    pattern: Pattern,
    /// The names of the inventory that it matches.
    direct: RoaringBitmap,
    /// The same, with the indices of aliases and data streams among them.
    effective: RoaringBitmap,
}

/// A role.
#[derive(Debug)]
pub(crate) struct CompiledRole {
    pub(crate) cluster: ActionSet,
    pub(crate) grants: Box<[Grant]>,
    pub(crate) tenant: TenantAccess,
}

/// A permission on indices.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) actions: ActionSet,
    pub(crate) patterns: Box<[PatternId]>,
    pub(crate) templates: Box<[u32]>,
    /// The permission in the configuration: the role's name, and its number.
    pub(crate) permission: (Arc<str>, usize),
    /// Whether it hides documents, or hides or masks fields.
    restricts: [bool; 3],
}

/// Names of the inventory that need more than a grant. Aliases and data streams count as their indices do.
#[derive(Debug, Default)]
pub(crate) struct Special {
    pub(crate) security: RoaringBitmap,
    pub(crate) system: RoaringBitmap,
    /// Names with [odd](Pattern::is_odd) characters, and those that have one as an index or as a group.
    odd: RoaringBitmap,
    /// The index or alias of Dashboards, and aliases for that index alone.
    dashboards: RoaringBitmap,
}

impl Caller {
    /// Whether decisions about it use caches: not those of an [uncached](Privileges::uncached_caller) one.
    #[must_use]
    pub const fn is_cached(&self) -> bool {
        self.caches
    }

    /// The memory that it takes on the heap, in bytes, without what it shares with other callers of the same roles.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let rendered = |one: &Rendered| {
            one.pattern.text().len() + one.direct.serialized_size() + one.effective.serialized_size()
        };
        let all = || self.templates.iter().chain(&self.widened);
        all().map(size_of_val).sum::<usize>()
            + all().map(rendered).sum::<usize>()
            + self.restricted.as_ref().map_or(0, RoaringBitmap::serialized_size)
            + self.variables.heap_size()
    }
}

impl Privileges {
    /// Compiles a configuration.
    #[must_use]
    pub fn new(
        config: Arc<SecurityConfig>,
        settings: EvaluationSettings,
        inventory: Option<Arc<Inventory>>,
    ) -> Self {
        let mut compiler = Compiler::default();
        let mut role_ids = HashMap::with_capacity(config.roles.len());
        let mut roles = Vec::with_capacity(config.roles.len());
        for (id, (name, role)) in (0..).zip(&config.roles) {
            let grants = role.index_permissions.iter().enumerate().map(|(number, permission)| {
                compiler.grant(&config.action_groups, (name, number), permission)
            });
            let grants = grants.collect();
            let cluster = compiler.actions.set(&config.action_groups, &role.cluster_permissions);
            role_ids.insert(name.clone(), id);
            roles.push(CompiledRole { cluster, grants, tenant: TenantAccess::of(role, &config) });
        }
        let Compiler { patterns, templates, .. } = compiler;
        let mut list = vec![None; templates.len()];
        for (template, id) in templates {
            list.get_mut(id as usize).into_iter().for_each(|entry| *entry = Some(template.clone()));
        }
        let special = inventory.as_deref().map_or_else(Special::default, |all| Special::new(&settings, all));
        Self {
            settings,
            role_ids,
            roles: roles.into(),
            patterns: patterns.build(inventory.as_deref()),
            templates: list.into_iter().flatten().collect(),
            special,
            role_sets: Mutex::default(),
            expressions: Expressions::default(),
            inventory,
            config,
        }
    }

    /// What the cluster contains, if that is known.
    #[must_use]
    pub fn inventory(&self) -> Option<&Inventory> {
        self.inventory.as_deref()
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &SecurityConfig {
        &self.config
    }

    /// How partly permitted requests are evaluated.
    #[must_use]
    pub const fn evaluation(&self) -> EvaluationType {
        self.settings.evaluation
    }

    /// Prepares to decide about requests of a subject.
    #[must_use]
    pub fn caller(&self, subject: &Subject) -> Caller {
        let names = self.config.roles_of(subject);
        let roles = self.cached(self.role_ids(&names));
        self.caller_with(subject, &names, roles, true)
    }

    /// The same to explain decisions: it takes no lock and no place in a cache. Explanations run at a low
    /// priority, where a thread that holds a lock may have to wait, and the threads that decide with it.
    #[must_use]
    pub fn uncached_caller(&self, subject: &Subject) -> Caller {
        let names = self.config.roles_of(subject);
        let roles = Arc::new(RoleSet::new(self, &self.role_ids(&names)));
        self.caller_with(subject, &names, roles, false)
    }

    fn caller_with(
        &self,
        subject: &Subject,
        names: &BTreeSet<Arc<str>>,
        roles: Arc<RoleSet>,
        caches: bool,
    ) -> Caller {
        let variables = subject.variables(names, self.settings.evaluation);
        let text = |template: u32| self.templates.get(template as usize);
        let templates =
            roles.templates.iter().filter_map(|id| Some(self.render(id, text(id)?.pattern(&variables)?)));
        let templates: Box<[Rendered]> = templates.collect();
        let restricting = roles.restricting_templates.iter();
        let widened: Box<[Rendered]> =
            restricting.filter_map(|id| Some(self.render(id, text(id)?.widened(&variables)?))).collect();
        let restricted = self.restricted_by_values(&roles, &templates, &widened);
        let is_server = self.settings.dashboards.as_ref().is_some_and(|one| *one.server == *subject.name);
        let tenant = if is_server { TenantAccess::Server } else { roles.tenant };
        let is_service = subject.is_service;
        Caller { roles, templates, widened, restricted, variables, is_service, tenant, caches }
    }

    /// A caller with these roles, without a name and other values.
    pub(crate) fn nameless_caller(&self, roles: &[u32]) -> Caller {
        Caller {
            roles: Arc::new(RoleSet::new(self, roles)),
            templates: Box::default(),
            widened: Box::default(),
            restricted: None,
            variables: Variables::default(),
            is_service: false,
            tenant: TenantAccess::None,
            caches: false,
        }
    }

    /// The ids of the roles that exist, sorted.
    fn role_ids(&self, names: &BTreeSet<Arc<str>>) -> Box<[u32]> {
        names.iter().filter_map(|name| self.role_ids.get(name).copied()).collect()
    }

    /// The set of these roles. It is made while no lock is held: that takes a while if patterns match many
    /// names. Of two threads that make it at once, one drops it.
    fn cached(&self, ids: Box<[u32]>) -> Arc<RoleSet> {
        let lock = || self.role_sets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = lock().get(&ids) {
            return set.clone();
        }
        let set = Arc::new(RoleSet::new(self, &ids));
        let mut sets = lock();
        if sets.len() < MAX_ROLE_SETS || sets.contains_key(&ids) {
            return sets.entry(ids).or_insert(set).clone();
        }
        set
    }

    /// How many sets of roles are kept.
    #[must_use]
    pub fn role_sets(&self) -> usize {
        self.role_sets.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn render(&self, template: u32, pattern: Pattern) -> Rendered {
        let inventory = self.inventory.as_deref();
        let direct =
            inventory.map_or_else(RoaringBitmap::new, |all| patterns::Matches::of(&pattern, all).to_bitmap());
        let effective = self.effective(direct.clone());
        Rendered { template, pattern, direct, effective }
    }

    /// The indices of an alias or data stream of the inventory.
    pub(crate) fn members(&self, number: u32) -> &[u32] {
        self.inventory.as_deref().map_or(&[], |inventory| inventory.members(number))
    }

    /// The aliases and data streams of an index of the inventory.
    pub(crate) fn groups(&self, number: u32) -> &[u32] {
        self.inventory.as_deref().map_or(&[], |inventory| inventory.groups(number))
    }

    /// These names, and the indices of the aliases and data streams among them.
    fn effective(&self, mut names: RoaringBitmap) -> RoaringBitmap {
        if let Some(inventory) = self.inventory.as_deref() {
            for group in &names & (&inventory.aliases | &inventory.data_streams) {
                names.extend(inventory.members(group));
            }
        }
        names
    }
}

/// Numbers the patterns and templates that permissions share.
#[derive(Default)]
struct Compiler<'c> {
    actions: ActionSets,
    patterns: patterns::Builder<'c>,
    templates: HashMap<&'c Template, u32>,
}

impl<'c> Compiler<'c> {
    fn grant(
        &mut self,
        groups: &ActionGroups,
        (role, number): (&Arc<str>, usize),
        permission: &'c IndexPermission,
    ) -> Grant {
        let (mut patterns, mut templates) = (Vec::new(), Vec::new());
        for pattern in &permission.patterns {
            match pattern {
                IndexPattern::Static(pattern) => patterns.push(self.patterns.add(pattern)),
                IndexPattern::Template(template) => {
                    let next = u32::try_from(self.templates.len()).unwrap_or(u32::MAX);
                    templates.push(*self.templates.entry(template).or_insert(next));
                }
            }
        }
        Grant {
            actions: self.actions.set(groups, &permission.allowed_actions),
            patterns: patterns.into(),
            templates: templates.into(),
            permission: (role.clone(), number),
            restricts: [
                permission.document_query.is_some(),
                !permission.fields.is_empty(),
                !permission.masked_fields.is_empty(),
            ],
        }
    }
}

impl Grant {
    pub(crate) fn is_restricted(&self) -> bool {
        self.restricts.contains(&true)
    }

    fn hides_documents(&self) -> bool {
        self.restricts[0]
    }
}

impl Special {
    fn new(settings: &EvaluationSettings, inventory: &Inventory) -> Self {
        let among = |patterns: &mut dyn Iterator<Item = &Pattern>| {
            let mut found = RoaringBitmap::new();
            for pattern in patterns {
                found |= patterns::Matches::of(pattern, inventory).to_bitmap();
            }
            let indices = &found & (&inventory.open | &inventory.closed);
            for index in indices {
                found.extend(inventory.related(index));
            }
            found
        };
        let mut odd =
            (0..inventory.len()).filter(|number| Pattern::is_odd(inventory.name(*number))).collect();
        for number in &RoaringBitmap::clone(&odd) {
            odd.extend(inventory.related(number));
        }
        let mut dashboards = RoaringBitmap::new();
        if let Some(number) = settings.dashboards.as_ref().and_then(|one| inventory.number(&one.index)) {
            let is_alone = |alias: &&u32| inventory.related(**alias) == [number];
            dashboards.extend(inventory.related(number).iter().filter(is_alone));
            dashboards.insert(number);
        }
        Self {
            odd,
            dashboards,
            security: among(&mut std::iter::once(&*SECURITY_INDEX)),
            system: among(&mut settings.all_system_indices()),
        }
    }
}

#[cfg(test)]
mod tests;
