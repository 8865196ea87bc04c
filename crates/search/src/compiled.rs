//! The evaluator: decides by looking names up in bitmaps.
//!
//! Compiling makes two tables: the names of the inventory that each pattern matches, and the
//! actions that each permission grants. Two kinds of bitmaps are made when first needed, and kept:
//! the names on which a set of roles permits an action, and the names that an expression with a
//! pattern stands for. A request is permitted if the names of its expression are a subset of the
//! permitted names, however many roles and indices there are. Names that the inventory lacks are
//! looked up among the patterns.

mod bound;
mod decide;
mod expressions;
mod filters;
mod forward;
mod name_set;
mod patterns;
mod permits;
mod role_set;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use indexmap::{IndexMap, IndexSet};
use roaring::RoaringBitmap;

use crate::action::Action;
use crate::action_set::{ActionSet, ActionSets};
use crate::config::{
    EvaluationType, IndexPattern, IndexPermission, SecurityConfig, Template, Variables,
};
use crate::filtering::HiddenPart;
use crate::inventory::Inventory;
use crate::need::Need;
use crate::pattern::{Pattern, has_astral_or_control};
use crate::resolve::{Names, resolve_need};
use crate::settings::{EvaluationSettings, SECURITY_INDEX};
use crate::subject::Subject;
use crate::tenants::TenantAccess;

use expressions::Expressions;
use patterns::{PatternId, Patterns, matching_names};
use role_set::RoleSet;

/// The most sets of roles that are kept. Beyond this, each caller has a set of its own.
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
    /// The templates of the roles, filled in with the values of this subject.
    templates: Box<[RenderedPattern]>,
    /// The [wider patterns](Template::hiding_pattern) by which the plugin hides documents and
    /// fields. In these, a wildcard in a value of the subject counts as a wildcard. A template has
    /// such a pattern only if it differs from the one in `templates`.
    hiding: Box<[RenderedPattern]>,
    /// Names on which roles restrict documents or fields. `None` if no template does so: the names
    /// of the [`RoleSet`] then apply.
    restricted: Option<RoaringBitmap>,
    pub(crate) variables: Variables,
    is_service: bool,
    tenant: TenantAccess,
    caches: Caches,
}

/// Whether decisions use the caches, whose locks other threads may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caches {
    Used,
    Bypassed,
}

/// A template with the values of a subject.
#[derive(Debug)]
struct RenderedPattern {
    template: u32,
    pattern: Pattern,
    /// The names of the inventory that it matches.
    direct: RoaringBitmap,
    /// `direct`, with the indices of the aliases and data streams among these names.
    with_members: RoaringBitmap,
}

#[derive(Debug)]
pub(crate) struct CompiledRole {
    pub(crate) cluster: ActionSet,
    pub(crate) grants: Box<[Grant]>,
    pub(crate) tenant: TenantAccess,
}

#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) actions: ActionSet,
    pub(crate) patterns: Box<[PatternId]>,
    pub(crate) templates: Box<[u32]>,
    pub(crate) role: Arc<str>,
    /// The position of the permission in the role.
    position: usize,
    /// Whether it hides documents, whether it hides fields, and whether it masks fields.
    restricts: [bool; 3],
}

/// Names of the inventory to which special rules apply.
#[derive(Debug, Default)]
pub(crate) struct Special {
    /// The index of the security configuration, with its aliases.
    pub(crate) security: RoaringBitmap,
    /// System indices, with their aliases and data streams.
    pub(crate) system: RoaringBitmap,
    /// Names with a control character or a character above U+FFFF, which the plugin
    /// [may match differently](has_astral_or_control). Also the indices of the aliases and data
    /// streams with such a name, and the aliases and data streams of the indices with such a name.
    astral_or_control: RoaringBitmap,
    /// The index or alias of Dashboards, and aliases for that index alone.
    dashboards: RoaringBitmap,
}

impl Caller {
    /// Whether decisions about it use the caches. Those about an
    /// [uncached caller](Privileges::uncached_caller) do not.
    #[must_use]
    pub const fn uses_caches(&self) -> bool {
        matches!(self.caches, Caches::Used)
    }

    /// Its bytes on the heap, without the set of roles, which callers share.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let rendered = self.templates.iter().chain(&self.hiding);
        rendered.map(RenderedPattern::size).sum::<usize>()
            + self.restricted.as_ref().map_or(0, RoaringBitmap::serialized_size)
            + self.variables.heap_size()
    }
}

impl RenderedPattern {
    fn size(&self) -> usize {
        size_of_val(self)
            + self.pattern.text().len()
            + self.direct.serialized_size()
            + self.with_members.serialized_size()
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
        let mut compiler = Compiler {
            actions: ActionSets::new(&config.action_groups),
            patterns: IndexMap::default(),
            templates: IndexSet::default(),
        };
        let mut role_ids = HashMap::with_capacity(config.roles.len());
        let mut roles = Vec::with_capacity(config.roles.len());
        for (id, (name, role)) in (0..).zip(&config.roles) {
            let permissions = (0..).zip(&role.index_permissions);
            role_ids.insert(name.clone(), id);
            roles.push(CompiledRole {
                cluster: compiler.actions.set(&role.cluster_permissions),
                grants: permissions
                    .map(|(position, permission)| compiler.grant(name, position, permission))
                    .collect(),
                tenant: TenantAccess::from_role(role, &config),
            });
        }
        let Compiler { patterns, templates, .. } = compiler;
        let has_inventory = inventory.is_some();
        let inventory = inventory.unwrap_or_default();
        Self {
            special: Special::new(&settings, &inventory),
            settings,
            role_ids,
            roles: roles.into(),
            patterns: Patterns::new(patterns.values().copied(), &inventory),
            templates: templates.into_iter().cloned().collect(),
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

    /// The names of a need: see [`resolve_need`].
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
        self.prepare(subject, Caches::Used)
    }

    /// Prepares to explain decisions, without locks and caches. Explanations run at a low priority:
    /// a lock that an explanation holds could block the threads that decide.
    #[must_use]
    pub fn uncached_caller(&self, subject: &Subject) -> Caller {
        self.prepare(subject, Caches::Bypassed)
    }

    fn prepare(&self, subject: &Subject, caches: Caches) -> Caller {
        let names = self.config.roles_of(subject);
        // The ids are sorted: the names are sorted, and the ids follow the order of the names.
        // Roles that do not exist are left out.
        let ids = names.iter().filter_map(|name| self.role_ids.get(name).copied()).collect();
        let roles = match caches {
            Caches::Used => self.cached_role_set(ids),
            Caches::Bypassed => Arc::new(RoleSet::new(self, &ids)),
        };
        let variables = subject.variables(&names, self.settings.evaluation);
        let templates = self.render(&roles.templates, |template| template.pattern(&variables));
        let hiding = self
            .render(&roles.restricting_templates, |template| template.hiding_pattern(&variables));
        let restricted = self.restricted_by_templates(&roles, &templates, &hiding);
        let dashboards = self.settings.dashboards.as_ref();
        let is_server = dashboards.is_some_and(|dashboards| *dashboards.server == *subject.name);
        let tenant = if is_server { TenantAccess::Server } else { roles.tenant };
        let is_service = subject.is_service;
        Caller { roles, templates, hiding, restricted, variables, is_service, tenant, caches }
    }

    /// A caller with these roles, but without a name, attributes and rights in tenants.
    pub(crate) fn nameless_caller(&self, roles: &[u32]) -> Caller {
        Caller {
            roles: Arc::new(RoleSet::new(self, roles)),
            templates: Box::default(),
            hiding: Box::default(),
            restricted: None,
            variables: Variables::default(),
            is_service: false,
            tenant: TenantAccess::None,
            caches: Caches::Bypassed,
        }
    }

    /// The set of these roles. It is made while no lock is held, since making it takes long if
    /// patterns match many names. If two threads make the same set at once, one set is dropped.
    fn cached_role_set(&self, ids: Box<[u32]>) -> Arc<RoleSet> {
        let cached = self.lock_role_sets().get(&ids).cloned();
        cached.unwrap_or_else(|| {
            let set = Arc::new(RoleSet::new(self, &ids));
            let mut sets = self.lock_role_sets();
            if sets.len() < MAX_ROLE_SETS || sets.contains_key(&ids) {
                return sets.entry(ids).or_insert(set).clone();
            }
            set
        })
    }

    fn lock_role_sets(&self) -> MutexGuard<'_, HashMap<Box<[u32]>, Arc<RoleSet>>> {
        self.role_sets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The patterns that `pattern` returns for these templates, each with the names that it
    /// matches.
    fn render(
        &self,
        templates: &RoaringBitmap,
        pattern: impl Fn(&Template) -> Option<Pattern>,
    ) -> Box<[RenderedPattern]> {
        let rendered = templates.iter().filter_map(|template| {
            let pattern = pattern(self.templates.get(template as usize)?)?;
            let direct = matching_names(&pattern, &self.inventory);
            let with_members = self.inventory.with_members(direct.clone());
            Some(RenderedPattern { template, pattern, direct, with_members })
        });
        rendered.collect()
    }
}

/// Compiles permissions, and gives ids to the patterns and templates that they share.
struct Compiler<'c> {
    actions: ActionSets<'c>,
    /// By their texts.
    patterns: IndexMap<&'c str, &'c Pattern, RandomState>,
    templates: IndexSet<&'c Template, RandomState>,
}

impl<'c> Compiler<'c> {
    fn grant(
        &mut self,
        role: &Arc<str>,
        position: usize,
        permission: &'c IndexPermission,
    ) -> Grant {
        let (mut patterns, mut templates) = (Vec::new(), Vec::new());
        for pattern in &permission.patterns {
            let (ids, id) = match pattern {
                IndexPattern::Static(pattern) => {
                    (&mut patterns, self.patterns.insert_full(pattern.text(), pattern).0)
                }
                IndexPattern::Template(template) => {
                    (&mut templates, self.templates.insert_full(template).0)
                }
            };
            ids.push(u32::try_from(id).unwrap_or(u32::MAX));
        }
        Grant {
            actions: self.actions.set(&permission.allowed_actions),
            patterns: patterns.into(),
            templates: templates.into(),
            role: role.clone(),
            position,
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

    /// The part that it hides. `None` if it hides nothing. If it hides both documents and fields,
    /// this is `Documents`. Masked fields count as hidden fields.
    fn hidden_part(&self) -> Option<HiddenPart> {
        let part = if self.restricts[0] { HiddenPart::Documents } else { HiddenPart::Fields };
        self.is_restricted().then_some(part)
    }
}

impl Special {
    fn new(settings: &EvaluationSettings, inventory: &Inventory) -> Self {
        let mut system = RoaringBitmap::new();
        for pattern in settings.all_system_indices() {
            system |= matching_names(pattern, inventory);
        }
        let astral_or_control: RoaringBitmap =
            (0..inventory.len()).filter(|id| has_astral_or_control(inventory.name(*id))).collect();
        let mut dashboards = RoaringBitmap::new();
        if let Some(id) =
            settings.dashboards.as_ref().and_then(|dashboards| inventory.id(&dashboards.index))
        {
            let parents = inventory.parents(id).iter();
            dashboards.extend(parents.filter(|parent| inventory.members(**parent) == [id]));
            dashboards.insert(id);
        }
        Self {
            security: inventory.with_parents(matching_names(&SECURITY_INDEX, inventory)),
            system: inventory.with_parents(system),
            astral_or_control: inventory.with_parents(astral_or_control.clone())
                | inventory.with_members(astral_or_control),
            dashboards,
        }
    }
}

#[cfg(test)]
mod tests;
