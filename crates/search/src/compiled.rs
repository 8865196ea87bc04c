//! The evaluator: decides by look-ups.
//!
//! Compiling makes two tables: the names of the inventory that each pattern matches, and the
//! actions that each permission grants. Two kinds of bitmaps are made when first needed, and kept:
//! the names on which a set of roles permits an action, and the names that an expression with a
//! pattern stands for. A request is permitted if the second is a subset of the first, however many
//! roles and indices there are. Names that the inventory lacks are looked up among the patterns.

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
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::{HashMap, HashMapExt};
use roaring::RoaringBitmap;

use crate::action::Action;
use crate::action_set::{ActionSet, ActionSets};
use crate::config::{
    EvaluationType, IndexPattern, IndexPermission, SecurityConfig, Template, Variables,
};
use crate::groups::ActionGroups;
use crate::inventory::Inventory;
use crate::need::Need;
use crate::pattern::Pattern;
use crate::resolve::{Names, resolve_need};
use crate::settings::{EvaluationSettings, SECURITY_INDEX};
use crate::subject::Subject;
use crate::tenants::TenantAccess;

use expressions::Expressions;
pub(crate) use forward::shown_by_pattern;
use patterns::{PatternId, Patterns, matches_of};
use role_set::RoleSet;

/// The most sets of roles that are kept. Further callers have sets of their own.
const MAX_ROLE_SETS: usize = 10_000;

/// The privileges of all roles on the contents of a cluster, ready to decide.
#[derive(Debug)]
pub struct Privileges {
    config: Arc<SecurityConfig>,
    pub(crate) settings: EvaluationSettings,
    /// The contents of the cluster; empty if they are not known.
    pub(crate) inventory: Arc<Inventory>,
    has_inventory: bool,
    role_ids: HashMap<Arc<str>, u32>,
    pub(crate) roles: Box<[CompiledRole]>,
    patterns: Patterns,
    pub(crate) templates: Box<[Template]>,
    pub(crate) special: Special,
    role_sets: Mutex<HashMap<Box<[u32]>, Arc<RoleSet>>>,
    expressions: Expressions,
}

/// A prepared caller. It belongs to the [`Privileges`] that made it.
#[derive(Debug)]
pub struct Caller {
    pub(crate) roles: Arc<RoleSet>,
    /// The patterns of the roles with the values of this subject.
    templates: Box<[RenderedPattern]>,
    /// Patterns that may hide documents or fields of more names than they match.
    widened: Box<[RenderedPattern]>,
    /// Names that roles restrict, if one does so by a pattern with values of this subject.
    restricted: Option<RoaringBitmap>,
    pub(crate) variables: Variables,
    is_service: bool,
    tenant: TenantAccess,
    /// Whether decisions about it use caches that other threads wait for.
    caches: bool,
}

/// A template with the values of a subject.
#[derive(Debug)]
struct RenderedPattern {
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

/// Names of the inventory that need more than a grant, also those of their aliases and data
/// streams.
#[derive(Debug, Default)]
pub(crate) struct Special {
    pub(crate) security: RoaringBitmap,
    pub(crate) system: RoaringBitmap,
    /// Names with [odd](Pattern::is_odd) characters, with their indices or groups.
    odd: RoaringBitmap,
    /// The index or alias of Dashboards, and aliases for that index alone.
    dashboards: RoaringBitmap,
}

impl Caller {
    /// Whether decisions about it use caches: not those of an
    /// [uncached](Privileges::uncached_caller) one.
    #[must_use]
    pub const fn is_cached(&self) -> bool {
        self.caches
    }

    /// Its bytes on the heap, without the set of roles, which callers share.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let rendered = |one: &RenderedPattern| {
            one.pattern.text().len()
                + one.direct.serialized_size()
                + one.effective.serialized_size()
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
            roles.push(CompiledRole {
                cluster,
                grants,
                tenant: TenantAccess::from_role(role, &config),
            });
        }
        let Compiler { patterns, templates, .. } = compiler;
        let has_inventory = inventory.is_some();
        let inventory = inventory.unwrap_or_default();
        let special = Special::new(&settings, &inventory);
        Self {
            settings,
            role_ids,
            roles: roles.into(),
            patterns: Patterns::new(&patterns.into_values(), &inventory),
            templates: templates.into_values().into_iter().cloned().collect(),
            special,
            role_sets: Mutex::default(),
            expressions: Expressions::default(),
            inventory,
            has_inventory,
            config,
        }
    }

    /// The contents of the cluster, if they are known.
    #[must_use]
    pub fn inventory(&self) -> Option<&Inventory> {
        self.has_inventory.then_some(&*self.inventory)
    }

    /// The names that a need is about; `None` for the cluster, and for a need that does not count.
    pub(crate) fn names<'t>(&self, need: &'t Need<'_>) -> Option<Names<'t>> {
        resolve_need(self.inventory(), self.evaluation(), need)
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

    /// The same to explain decisions: it takes no lock and no place in a cache. Explanations run at
    /// a low priority. A lock that they hold could make the threads wait that decide.
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
        let templates = roles
            .templates
            .iter()
            .filter_map(|id| Some(self.render(id, text(id)?.pattern(&variables)?)));
        let templates: Box<[RenderedPattern]> = templates.collect();
        let restricting = roles.restricting_templates.iter();
        let widened: Box<[RenderedPattern]> = restricting
            .filter_map(|id| Some(self.render(id, text(id)?.widened(&variables)?)))
            .collect();
        let restricted = self.restricted_by_values(&roles, &templates, &widened);
        let is_server = self
            .settings
            .dashboards
            .as_ref()
            .is_some_and(|dashboards| *dashboards.server == *subject.name);
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

    /// The set of these roles. It is made while no lock is held, since that takes a while if
    /// patterns match many names. If two threads make it at once, one drops it.
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

    fn render(&self, template: u32, pattern: Pattern) -> RenderedPattern {
        let direct = matches_of(&pattern, &self.inventory);
        let effective = self.effective(direct.clone());
        RenderedPattern { template, pattern, direct, effective }
    }

    /// These names, and the indices of the aliases and data streams among them.
    fn effective(&self, mut names: RoaringBitmap) -> RoaringBitmap {
        for group in &names & (&self.inventory.aliases | &self.inventory.data_streams) {
            names.extend(self.inventory.members(group));
        }
        names
    }
}

/// Numbers the patterns and templates that permissions share.
#[derive(Default)]
struct Compiler<'c> {
    actions: ActionSets,
    patterns: Interner<'c, Pattern>,
    templates: Interner<'c, Template>,
}

/// Numbers values; equal ones have the same number.
struct Interner<'c, T>(HashMap<&'c T, u32>);

impl<T> Default for Interner<'_, T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<'c, T: Eq + Hash> Interner<'c, T> {
    fn number(&mut self, value: &'c T) -> u32 {
        let next = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        *self.0.entry(value).or_insert(next)
    }

    /// The values in the order of their numbers.
    fn into_values(self) -> Vec<&'c T> {
        let mut values: Vec<_> = self.0.into_iter().collect();
        values.sort_unstable_by_key(|(_, number)| *number);
        values.into_iter().map(|(value, _)| value).collect()
    }
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
                IndexPattern::Static(pattern) => patterns.push(self.patterns.number(pattern)),
                IndexPattern::Template(template) => templates.push(self.templates.number(template)),
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

impl CompiledRole {
    /// Whether an action is granted on any index at all.
    pub(crate) fn grants_anywhere(&self, action: Action) -> bool {
        self.grants.iter().any(|grant| grant.actions.contains(action) && grant.has_patterns())
    }
}

impl Grant {
    fn has_patterns(&self) -> bool {
        !(self.patterns.is_empty() && self.templates.is_empty())
    }

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
            let mut names = RoaringBitmap::new();
            for pattern in patterns {
                names |= matches_of(pattern, inventory);
            }
            let indices = &names & (&inventory.open | &inventory.closed);
            for index in indices {
                names.extend(inventory.related(index));
            }
            names
        };
        let mut odd = (0..inventory.len())
            .filter(|number| Pattern::is_odd(inventory.name(*number)))
            .collect();
        for number in &RoaringBitmap::clone(&odd) {
            odd.extend(inventory.related(number));
        }
        let mut dashboards = RoaringBitmap::new();
        if let Some(number) =
            settings.dashboards.as_ref().and_then(|dashboards| inventory.number(&dashboards.index))
        {
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
