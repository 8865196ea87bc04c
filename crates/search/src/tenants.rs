//! Tenants of OpenSearch Dashboards: who may use the index with the objects of the global tenant.
//!
//! For a request about this index alone, the security plugin also asks for a privilege on the
//! tenant (`PrivilegesInterceptorImpl`). It does so by default, with or without Dashboards.

use std::ops::Range;
use std::sync::LazyLock;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::action_set::ActionSet;
use crate::config::{Dashboards, EvaluationType, Role, SecurityConfig};
use crate::expression::{Expression, Part};
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::resolve::{Names, Unknown};

/// The rights of a caller in the global tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TenantAccess {
    /// No role names the tenant.
    #[default]
    None,
    /// A role has a pattern that rolegate does not support, and that may match the tenant.
    Uncertain,
    Read,
    Write,
    /// Dashboards itself, in every tenant.
    Server,
}

/// Actions that [`TenantAccess::Read`] permits.
static READING: LazyLock<ActionSet> = LazyLock::new(|| {
    ActionSet::matching(&[
        "indices:admin/get",
        "indices:data/read/get",
        "indices:data/read/search",
        "indices:data/read/msearch",
        "indices:data/read/mget",
        "indices:data/read/mget[shard]",
    ])
});
/// Actions that are performed on each index in turn.
const IN_TURN: &[Action] = &[
    Action::new("indices:data/read/field_caps"),
    Action::new("indices:admin/mappings/fields/get"),
];
const WRITING: &str = "kibana:saved_objects/*/write";
/// The built-in role of people who use Dashboards.
pub(crate) const KIBANA_USER: &str = "kibana_user";
const GLOBAL: &str = "global_tenant";

impl TenantAccess {
    /// The rights that a role gives alone.
    pub(crate) fn from_role(role: &Role, config: &SecurityConfig) -> Self {
        let mut access = Self::None;
        for permission in &role.tenant_permissions {
            // The plugin looks for this very text: a pattern such as `*` does not grant writing.
            let writes = permission
                .allowed_actions
                .iter()
                .any(|text| **text == *WRITING || config.action_groups.has_member(text, WRITING));
            // Patterns with variables are ignored, which denies more.
            for text in permission.patterns.iter().filter(|text| !text.contains("${")) {
                access = access.max(match Pattern::parse(text) {
                    Ok(pattern) if !pattern.matches(GLOBAL) => Self::None,
                    Ok(_) if writes => Self::Write,
                    Ok(_) => Self::Read,
                    Err(_) => Self::Uncertain,
                });
            }
        }
        access
    }

    /// The rights of a caller whose roles give these rights. With `legacy`, the role `kibana_user`
    /// permits writing unless another role names the tenant.
    pub(crate) fn from_roles(
        roles: impl Iterator<Item = Self>,
        is_kibana_user: bool,
        evaluation: EvaluationType,
    ) -> Self {
        match (roles.max().unwrap_or_default(), evaluation) {
            (Self::None, EvaluationType::Legacy) if is_kibana_user => Self::Write,
            (access, EvaluationType::Legacy | EvaluationType::V4) => access,
        }
    }

    pub(crate) fn permits(self, action: Action) -> bool {
        match self {
            Self::None | Self::Uncertain => false,
            Self::Read => READING.contains(action),
            Self::Write | Self::Server => true,
        }
    }

    /// Whether an action of a need about the index is permitted. With `v4`, copying documents needs
    /// the right to write.
    pub(crate) fn permits_need(
        self,
        need: &Need<'_>,
        action: Action,
        evaluation: EvaluationType,
    ) -> bool {
        match evaluation {
            EvaluationType::V4 if need.is_copied => self >= Self::Write,
            EvaluationType::Legacy | EvaluationType::V4 => self.permits(action),
        }
    }
}

/// The tenants of Dashboards and their indices, on a cluster with these contents.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tenants<'c> {
    pub(crate) dashboards: &'c Dashboards,
    pub(crate) inventory: Option<&'c Inventory>,
    pub(crate) evaluation: EvaluationType,
}

impl Tenants<'_> {
    /// The index with the objects of the global tenant, or its alias.
    fn index(&self) -> &str {
        &self.dashboards.index
    }

    /// The ids of the names that are [names of the index](Self::is_dashboards_name).
    fn ids(&self, inventory: &Inventory) -> Range<u32> {
        match self.evaluation {
            EvaluationType::Legacy => inventory.id(self.index()).map_or(0..0, |id| id..id + 1),
            EvaluationType::V4 => inventory.with_prefix(self.index()),
        }
    }

    /// The indices of Dashboards that the plugin leaves out of the answer to a request about
    /// further indices: some actions are performed on each index in turn, as if the request named
    /// it alone.
    pub(crate) fn left_out(&self, actions: &[Action], access: TenantAccess) -> RoaringBitmap {
        let mut in_turn = actions.iter().filter(|action| IN_TURN.contains(*action)).peekable();
        let Some(inventory) = self.inventory else { return RoaringBitmap::new() };
        if access == TenantAccess::Server || in_turn.peek().is_none() {
            return RoaringBitmap::new();
        }
        let is_permitted = in_turn.all(|action| access.permits(*action));
        self.ids(inventory)
            .filter(|id| {
                let is_visible = is_permitted && self.is_of_global_tenant(inventory, *id);
                inventory.is_index(*id) && !is_visible
            })
            .collect()
    }

    /// Whether the plugin may treat a request as about the index of Dashboards alone.
    pub(crate) fn is_about_dashboards(&self, target: &Target<'_>, names: &Names<'_>) -> bool {
        match target {
            Target::Cluster => false,
            Target::Name(name) | Target::CreatedIfMissing(name) => self.is_index_or_alias(name),
            // Here even `v4` compares whole names, not their beginnings.
            Target::AliasOrNewIndex(name) => {
                Tenants { evaluation: EvaluationType::Legacy, ..*self }.is_index_or_alias(name)
            }
            Target::Fixed(expression) if self.may_include_dashboards(expression) => true,
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.may_be_named_by(expression)
                    || (names.unknown.is_empty() && self.is_alone_in(&names.known))
            }
        }
    }

    /// Whether `v4` denies a request to everybody but Dashboards itself. It does so if the request
    /// is about a single name, this name begins with the name of the index of Dashboards, and it
    /// does not belong to the global tenant. If the inventory lacks the name, it is enough that it
    /// may be such a name.
    pub(crate) fn is_of_other_tenant(&self, target: &Target<'_>, names: &Names<'_>) -> bool {
        if self.evaluation == EvaluationType::Legacy
            || matches!(target, Target::Cluster | Target::AliasOrNewIndex(_))
        {
            return false;
        }
        let first = names.unknown.first();
        let is_alone = match first {
            None => {
                // `names` lacks names that a node certainly excludes. The plugin may exclude more.
                let excludes = target.expression().is_some_and(Expression::excludes);
                names.known.len() == 1 || (excludes && self.is_alone_in(&names.known))
            }
            Some(first) => names.known.is_empty() && names.unknown.iter().all(|name| name == first),
        };
        is_alone
            && (self.inventory.is_some_and(|inventory| {
                names.known.iter().any(|id| {
                    inventory.name(id).starts_with(self.index())
                        && !self.is_of_global_tenant(inventory, id)
                })
            }) || names.unknown.iter().any(|unknown| match unknown {
                Unknown::Name(name) => name.starts_with(self.index()) && *name != self.index(),
                Unknown::Pattern(pattern) => *pattern != "*" && may_begin(pattern, self.index()),
            }))
    }

    /// Whether a name that begins with the name of the index belongs to the global tenant. It does
    /// if it is this name. It also does if it has exactly one alias or data stream that begins so,
    /// and this one has the name of the index.
    fn is_of_global_tenant(&self, inventory: &Inventory, id: u32) -> bool {
        let parents = inventory.parents(id).iter().map(|parent| inventory.name(*parent));
        inventory.name(id) == self.index()
            || parents.filter(|parent| parent.starts_with(self.index())).eq([self.index()])
    }

    /// Whether these names are the index alone; for `v4`, whether all begin with its name.
    pub(crate) fn is_alone_in(&self, names: &RoaringBitmap) -> bool {
        let (Some(inventory), Some(first), Some(last)) = (self.inventory, names.min(), names.max())
        else {
            return false;
        };
        let ids = self.ids(inventory);
        ids.contains(&first) && ids.contains(&last)
    }

    /// Whether an expression stands for indices that the request does not name, and the index may
    /// be among them.
    pub(crate) fn may_include_dashboards(&self, expression: &Expression<'_>) -> bool {
        expression.is_empty_or_all()
            && expression.options.closed
            && expression.options.hidden
            && self.inventory.is_none_or(|inventory| !self.ids(inventory).is_empty())
    }

    /// Whether a part of an expression stands for this index, or the plugin may read it so.
    pub(crate) fn may_be_named_by(&self, expression: &Expression<'_>) -> bool {
        if expression.parts().any(|part| self.is_named_by(part)) {
            return true;
        }
        // `legacy` resolves a request to the aliases that match any of its parts, even to excluded
        // aliases. If the index is the only alias, `*` stands for it; `_all` does not.
        self.evaluation == EvaluationType::Legacy
            && !expression.is_all()
            && expression.parts().any(|part| part == Part::Pattern("*"))
            && self.inventory.is_none_or(|inventory| {
                let aliases = &inventory.aliases;
                aliases.len() == 1 && aliases.min() == inventory.id(self.index())
            })
    }

    /// Whether a part of an expression stands for this index. `*` does not.
    pub(crate) fn is_named_by(&self, part: Part<'_>) -> bool {
        match part {
            Part::Name(name) => self.is_index_or_alias(name),
            Part::Pattern("*") | Part::Except(_) => false,
            Part::Pattern(pattern) => match self.inventory {
                Some(inventory) if inventory.id(self.index()).is_none() => false,
                None if self.evaluation == EvaluationType::V4 => may_begin(pattern, self.index()),
                Some(_) | None => crate::expression::matches(pattern, self.index()),
            },
        }
    }

    /// Whether a name is a [name of the index](Self::is_dashboards_name), or an alias of this index
    /// alone.
    pub(crate) fn is_index_or_alias(&self, name: &str) -> bool {
        self.is_dashboards_name(name)
            || self.inventory.is_some_and(|inventory| {
                match (inventory.id(self.index()), inventory.id(name)) {
                    (Some(index), Some(id)) => inventory.members(id) == [index],
                    (None, _) | (_, None) => false,
                }
            })
    }

    /// Whether a name is the name of the index, or for `v4` begins with it.
    pub(crate) fn is_dashboards_name(&self, name: &str) -> bool {
        match self.evaluation {
            EvaluationType::Legacy => name == self.index(),
            EvaluationType::V4 => name.starts_with(self.index()),
        }
    }
}

/// Whether a pattern may match a name that begins with a prefix.
fn may_begin(pattern: &str, prefix: &str) -> bool {
    let start = pattern.split('*').next().unwrap_or_default();
    start.starts_with(prefix) || prefix.starts_with(start)
}

#[cfg(test)]
mod tests;
