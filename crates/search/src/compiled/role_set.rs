//! The privileges of a set of roles.

use std::sync::OnceLock;

use roaring::RoaringBitmap;

use super::name_set::NameSet;
use super::{CompiledRole, Grant, Privileges};
use crate::action::Action;
use crate::action_set::{ActionSet, SYSTEM_INDEX};
use crate::filtering::HiddenPart;
use crate::pattern::Pattern;
use crate::tenants::{KIBANA_USER, TenantAccess};

/// A set of roles.
#[derive(Debug, Default)]
pub(crate) struct RoleSet {
    roles: Box<[u32]>,
    pub(super) cluster: ActionSet,
    pub(super) tenant: TenantAccess,
    /// The part that a role hides of every index. If roles hide both fields and documents, this is
    /// documents, which is worse.
    pub(super) hidden_everywhere: Option<HiddenPart>,
    /// For each action, the names on which the roles grant it. Made when first needed.
    granted: Box<[OnceLock<Box<GrantedNames>>]>,
    /// The patterns with variables of the roles.
    pub(super) templates: RoaringBitmap,
    /// Names on which a role restricts documents or fields.
    pub(super) restricted: RoaringBitmap,
    /// The patterns with variables by which a role restricts documents or fields.
    pub(super) restricting_templates: RoaringBitmap,
    /// Whether no role restricts documents or fields anywhere.
    pub(super) is_unrestricted: bool,
}

/// The names on which a set of roles grants an action.
#[derive(Debug)]
pub(crate) struct GrantedNames {
    /// The granted names of the inventory that need no more than the grant.
    pub(super) permitted: NameSet,
    /// The granted names of the inventory that need more: they are
    /// [protected](RoleSet::protected).
    pub(super) only_granted: RoaringBitmap,
    /// Patterns of the permissions that grant the action.
    pub(super) patterns: RoaringBitmap,
    /// The globs and regular expressions among `patterns`. Each must be compared with a name; the
    /// matches among the other patterns are found in maps.
    pub(super) compared: Box<[Pattern]>,
    /// Patterns with variables of the permissions that grant the action.
    pub(crate) templates: RoaringBitmap,
}

impl GrantedNames {
    /// Whether a permission grants the action on any index at all.
    pub(super) fn grants_anywhere(&self) -> bool {
        !(self.patterns.is_empty() && self.templates.is_empty())
    }
}

impl RoleSet {
    pub(super) fn new(privileges: &Privileges, roles: &[u32]) -> Self {
        let mut set = Self {
            roles: roles.into(),
            granted: Action::all().map(|_| OnceLock::new()).collect(),
            is_unrestricted: true,
            ..Self::default()
        };
        for role in roles.iter().filter_map(|role| privileges.roles.get(*role as usize)) {
            set.cluster.extend(&role.cluster);
            for grant in &role.grants {
                set.templates.extend(&*grant.templates);
                if grant.is_restricted() {
                    let mut patterns = grant.patterns.iter();
                    if patterns.any(|id| privileges.patterns.is_anything(*id)) {
                        set.hidden_everywhere = set.hidden_everywhere.max(grant.hidden_part());
                    }
                    set.is_unrestricted &= !grant.has_patterns();
                    set.restricting_templates.extend(&*grant.templates);
                }
            }
        }
        let kibana_user = privileges.role_ids.get(KIBANA_USER);
        set.tenant = TenantAccess::from_roles(
            set.compiled_roles(privileges).map(|role| role.tenant),
            kibana_user.is_some_and(|id| roles.contains(id)),
            privileges.settings.evaluation,
        );
        let inventory = &privileges.inventory;
        set.restricted = inventory.with_parents(set.restricted_by_patterns(privileges));
        // A role that hides anything also hides it of each name that patterns of the plugin may
        // match differently from those of rolegate.
        if !set.is_unrestricted {
            set.restricted |= inventory.with_parents(privileges.special.astral_or_control.clone());
        }
        set
    }

    /// Names on which a pattern restricts documents or fields. With `empty_overrides_all`, a
    /// pattern that shows everything of a name prevails.
    fn restricted_by_patterns(&self, privileges: &Privileges) -> RoaringBitmap {
        let mut restricted = RoaringBitmap::new();
        // The kinds of a restriction: it hides documents, hides fields, or masks fields.
        for kind in 0..3 {
            let (mut hidden, mut shown) = (RoaringBitmap::new(), RoaringBitmap::new());
            for grant in self.grants(privileges) {
                if grant.restricts.get(kind) == Some(&true) {
                    hidden.extend(&*grant.patterns);
                } else if privileges.settings.empty_overrides_all {
                    shown.extend(&*grant.patterns);
                }
            }
            restricted |= privileges.matching(&hidden) - privileges.matching(&shown);
        }
        restricted
    }

    pub(crate) const fn ids(&self) -> &[u32] {
        &self.roles
    }

    pub(crate) fn grants<'p>(
        &'p self,
        privileges: &'p Privileges,
    ) -> impl Iterator<Item = &'p Grant> {
        self.compiled_roles(privileges).flat_map(|role| &role.grants)
    }

    fn compiled_roles<'p>(
        &'p self,
        privileges: &'p Privileges,
    ) -> impl Iterator<Item = &'p CompiledRole> {
        self.roles.iter().filter_map(|role| privileges.roles.get(*role as usize))
    }

    /// The names on which an action is granted; `None` only if there is no such action.
    pub(crate) fn granted(&self, privileges: &Privileges, action: Action) -> Option<&GrantedNames> {
        let names = self.granted.get(action.number())?;
        Some(names.get_or_init(|| Box::new(self.find_granted_names(privileges, action))))
    }

    fn find_granted_names(&self, privileges: &Privileges, action: Action) -> GrantedNames {
        let (mut patterns, mut templates) = (RoaringBitmap::new(), RoaringBitmap::new());
        for grant in self.grants(privileges).filter(|grant| grant.actions.contains(action)) {
            patterns.extend(&*grant.patterns);
            templates.extend(&*grant.templates);
        }
        let granted = privileges.matching(&patterns);
        let only_granted = &granted & self.protected(privileges, action);
        GrantedNames {
            permitted: NameSet::new(granted - &only_granted),
            only_granted,
            compared: privileges.patterns.compared(&patterns),
            patterns,
            templates,
        }
    }

    /// Names that need more than a grant of the action: system indices, unless the roles grant
    /// [`SYSTEM_INDEX`] on them, and the index of the security configuration.
    fn protected(&self, privileges: &Privileges, action: Action) -> RoaringBitmap {
        let special = &privileges.special;
        if action == SYSTEM_INDEX {
            return RoaringBitmap::new();
        }
        let mut names = special.system.clone();
        if !names.is_empty()
            && let Some(explicit) = self.granted(privileges, SYSTEM_INDEX)
        {
            names -= explicit.permitted.names();
        }
        names | &special.security
    }
}

impl Privileges {
    /// The names that these patterns match, with the indices of aliases and data streams.
    fn matching(&self, patterns: &RoaringBitmap) -> RoaringBitmap {
        let mut names = RoaringBitmap::new();
        for matches in patterns.iter().filter_map(|pattern| self.patterns.matches(pattern)) {
            names |= matches;
        }
        self.inventory.with_members(names)
    }
}
