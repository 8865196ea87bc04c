//! What a set of roles permits.

use std::sync::OnceLock;

use roaring::RoaringBitmap;

use super::actions::{ActionSet, SYSTEM_INDEX};
use super::name_set::NameSet;
use super::{Grant, Privileges};
use crate::action::Action;
use crate::answer::changes;
use crate::builtin::KIBANA_USER;
use crate::pattern::Pattern;
use crate::tenants::TenantAccess;

/// A set of roles.
#[derive(Debug)]
pub(crate) struct RoleSet {
    /// Their ids.
    roles: Box<[u32]>,
    pub(super) cluster: ActionSet,
    pub(super) may_change_protected: bool,
    pub(super) tenant: TenantAccess,
    /// If a role hides something of every index: whether one hides documents.
    pub(super) hides_of_all: Option<bool>,
    /// What they permit for each action: made when first needed.
    allowed: Box<[OnceLock<Box<Allowed>>]>,
    /// The templates of their patterns.
    templates: RoaringBitmap,
    /// Names on which a role restricts documents or fields.
    pub(super) restricted: RoaringBitmap,
    /// The same for names that the inventory lacks: patterns.
    pub(super) restricting_patterns: RoaringBitmap,
    pub(super) restricting_templates: RoaringBitmap,
}

/// On what a set of roles permits an action.
#[derive(Debug)]
pub(crate) struct Allowed {
    /// Names of the inventory on which it is permitted.
    pub(super) known: NameSet,
    /// Names of the inventory on which it is granted, but which need more than that.
    pub(super) withheld: RoaringBitmap,
    /// Patterns that grant it.
    pub(super) patterns: RoaringBitmap,
    /// Those of them that must be asked one by one about a name that the inventory lacks.
    pub(super) others: Box<[Pattern]>,
    /// Templates that grant it.
    pub(crate) templates: RoaringBitmap,
    /// Whether a permission grants it at all.
    pub(super) any: bool,
}

impl RoleSet {
    pub(super) fn new(privileges: &Privileges, roles: &[u32], may_change_protected: bool) -> Self {
        let mut set = Self {
            roles: roles.into(),
            cluster: ActionSet::default(),
            may_change_protected,
            tenant: TenantAccess::None,
            hides_of_all: None,
            allowed: Action::all().map(|_| OnceLock::new()).collect(),
            templates: RoaringBitmap::new(),
            restricted: RoaringBitmap::new(),
            restricting_patterns: RoaringBitmap::new(),
            restricting_templates: RoaringBitmap::new(),
        };
        for role in roles.iter().filter_map(|role| privileges.roles.get(*role as usize)) {
            set.cluster.extend(&role.cluster);
            for grant in &role.grants {
                set.templates.extend(&*grant.templates);
                if grant.is_restricted() {
                    let mut patterns = grant.patterns.iter();
                    if patterns.any(|id| privileges.patterns.is_anything(*id)) {
                        set.hides_of_all =
                            Some(grant.hides_documents() || set.hides_of_all.unwrap_or_default());
                    }
                    set.restricting_patterns.extend(&*grant.patterns);
                    set.restricting_templates.extend(&*grant.templates);
                }
            }
        }
        let tenants = roles.iter().filter_map(|role| Some(privileges.roles.get(*role as usize)?.tenant));
        let kibana_user = privileges.role_ids.get(KIBANA_USER);
        let is_kibana_user = kibana_user.is_some_and(|id| roles.contains(id));
        set.tenant = TenantAccess::of_roles(tenants, is_kibana_user, privileges.settings.evaluation);
        set.restricted = privileges.with_groups(set.restricted_by_patterns(privileges));
        if !set.is_unrestricted() {
            set.restricted |= privileges.with_groups(privileges.special.odd.clone());
        }
        set
    }

    /// Names for which a pattern hides documents or fields. With `empty_overrides_all`, no other pattern shows all of them.
    fn restricted_by_patterns(&self, privileges: &Privileges) -> RoaringBitmap {
        let mut restricted = RoaringBitmap::new();
        for kind in 0..3 {
            let (mut hidden, mut shown) = (RoaringBitmap::new(), RoaringBitmap::new());
            for grant in self.grants(privileges) {
                if grant.restricts.get(kind) == Some(&true) {
                    hidden.extend(&*grant.patterns);
                } else if privileges.settings.empty_overrides_all {
                    shown.extend(&*grant.patterns);
                }
            }
            let names = |patterns: &RoaringBitmap| {
                let mut all = RoaringBitmap::new();
                for pattern in patterns {
                    let matching = privileges.patterns.matches(pattern);
                    matching.into_iter().for_each(|names| names.add_to(&mut all));
                }
                privileges.effective(all)
            };
            let mut hidden = names(&hidden);
            hidden -= names(&shown);
            restricted |= hidden;
        }
        restricted
    }

    /// The ids of the roles.
    pub(crate) const fn ids(&self) -> &[u32] {
        &self.roles
    }

    /// The grants of the roles.
    pub(crate) fn grants<'p>(&'p self, privileges: &'p Privileges) -> impl Iterator<Item = &'p Grant> {
        let roles = self.roles.iter().filter_map(|role| privileges.roles.get(*role as usize));
        roles.flat_map(|role| &role.grants)
    }

    /// Whether no role restricts documents or fields anywhere.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.restricting_patterns.is_empty() && self.restricting_templates.is_empty()
    }

    pub(super) fn templates(&self) -> impl Iterator<Item = u32> {
        self.templates.iter()
    }

    /// On what an action is permitted; `None` only if there is no such action.
    pub(crate) fn allowed(&self, privileges: &Privileges, action: Action) -> Option<&Allowed> {
        let entry = self.allowed.get(action.number())?;
        Some(entry.get_or_init(|| Box::new(self.allow(privileges, action))))
    }

    fn allow(&self, privileges: &Privileges, action: Action) -> Allowed {
        let (mut patterns, mut templates, mut any) = (RoaringBitmap::new(), RoaringBitmap::new(), false);
        for grant in self.grants(privileges).filter(|grant| grant.actions.contains(action)) {
            patterns.extend(&*grant.patterns);
            templates.extend(&*grant.templates);
            any |= !(grant.patterns.is_empty() && grant.templates.is_empty());
        }
        let mut granted = RoaringBitmap::new();
        for pattern in &patterns {
            privileges.patterns.matches(pattern).into_iter().for_each(|names| names.add_to(&mut granted));
        }
        let granted = privileges.effective(granted);
        let blocked = self.blocked(privileges, action);
        let withheld = &granted & &blocked;
        let known = NameSet::new(granted - &withheld);
        Allowed { known, withheld, others: privileges.patterns.others(&patterns), patterns, templates, any }
    }

    /// Names that need more than a grant of the action.
    fn blocked(&self, privileges: &Privileges, action: Action) -> RoaringBitmap {
        let special = &privileges.special;
        let mut blocked = RoaringBitmap::new();
        if action == SYSTEM_INDEX {
            return blocked;
        }
        if !special.system.is_empty() {
            blocked |= &special.system;
            if let Some(explicit) = self.allowed(privileges, SYSTEM_INDEX) {
                blocked -= explicit.known.names();
            }
        }
        blocked |= &special.security;
        if changes(action) && !self.may_change_protected {
            blocked |= &special.protected;
        }
        blocked
    }
}

impl Privileges {
    /// These names, and the aliases and data streams that have one of the indices among them.
    pub(super) fn with_groups(&self, mut names: RoaringBitmap) -> RoaringBitmap {
        if let Some(inventory) = self.inventory.as_deref() {
            for index in &names & (inventory.open() | inventory.closed()) {
                names.extend(inventory.related(index));
            }
        }
        names
    }
}
