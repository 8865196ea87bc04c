//! Tenants of OpenSearch Dashboards: who may use the index with the objects of the global tenant.
//!
//! For a request about this index alone, the security plugin also asks for a privilege on the
//! tenant (`PrivilegesInterceptorImpl`). It does so by default, with or without Dashboards.

use std::sync::{Arc, LazyLock};

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
    /// A role may name it, by a pattern that is not supported.
    Uncertain,
    Read,
    Write,
    /// Dashboards itself, in every tenant.
    Server,
}

/// Actions that are permitted to those who may only read the tenant.
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
/// Actions that are performed on one index after the other.
const ONE_BY_ONE: &[Action] =
    &[Action::of("indices:data/read/field_caps"), Action::of("indices:admin/mappings/fields/get")];
const WRITING: &str = "kibana:saved_objects/*/write";
/// The built-in role of those who use Dashboards.
pub(crate) const KIBANA_USER: &str = "kibana_user";
const GLOBAL: &str = "global_tenant";

impl TenantAccess {
    /// The rights that a role gives by itself.
    pub(crate) fn from_role(role: &Role, config: &SecurityConfig) -> Self {
        // The plugin looks for the privilege to write by its name: no pattern gives it.
        let writes = |allowed: &[Arc<str>]| {
            let mut allowed = allowed.iter();
            allowed.any(|text| **text == *WRITING || config.action_groups.has_member(text, WRITING))
        };
        let mut access = Self::None;
        for permission in &role.tenant_permissions {
            // A pattern with a variable counts for nobody, which denies more.
            for text in permission.patterns.iter().filter(|text| !text.contains("${")) {
                access = access.max(match Pattern::parse(text) {
                    Ok(pattern) if !pattern.matches(GLOBAL) => Self::None,
                    Ok(_) if writes(&permission.allowed_actions) => Self::Write,
                    Ok(_) => Self::Read,
                    Err(_) => Self::Uncertain,
                });
            }
        }
        access
    }

    /// The rights of a caller whose roles give these. With `legacy`, the role `kibana_user` permits
    /// writing unless another role names the tenant.
    pub(crate) fn from_roles(
        all: impl Iterator<Item = Self>,
        is_kibana_user: bool,
        evaluation: EvaluationType,
    ) -> Self {
        match (all.max().unwrap_or_default(), evaluation) {
            (Self::None, EvaluationType::Legacy) if is_kibana_user => Self::Write,
            (most, EvaluationType::Legacy | EvaluationType::V4) => most,
        }
    }

    pub(crate) fn permits(self, action: Action) -> bool {
        match self {
            Self::None | Self::Uncertain => false,
            Self::Read => READING.contains(action),
            Self::Write | Self::Server => true,
        }
    }

    /// Whether an action of a need about the index is permitted. For `v4`, a copy is no reading.
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

/// Dashboards, on a cluster with these contents.
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

    /// The indices that the plugin leaves out of the answer to a request about more indices: some
    /// actions are performed on one index after the other, each time on that alone.
    pub(crate) fn left_out(&self, actions: &[Action], access: TenantAccess) -> RoaringBitmap {
        let mut one_by_one =
            actions.iter().filter(|action| ONE_BY_ONE.contains(*action)).peekable();
        let is_asked = access != TenantAccess::Server && one_by_one.peek().is_some();
        let Some(inventory) = self.inventory.filter(|_| is_asked) else {
            return RoaringBitmap::new();
        };
        let is_permitted = one_by_one.all(|action| access.permits(*action));
        let is_left_out = |number: &u32| {
            inventory.is_index(*number)
                && !(is_permitted && self.is_of_global_tenant(inventory, *number))
        };
        match self.evaluation {
            EvaluationType::Legacy => {
                inventory.number(self.index()).into_iter().filter(is_left_out).collect()
            }
            EvaluationType::V4 => inventory.with_prefix(self.index()).filter(is_left_out).collect(),
        }
    }

    /// Whether the plugin may take a request for one about this index alone.
    pub(crate) fn is_meant(&self, target: &Target<'_>, names: &Names<'_>) -> bool {
        match target {
            Target::Cluster => false,
            Target::Name(name) | Target::Missing(name) => self.is_named(name),
            // An added name that only begins so does not count.
            Target::AddedName(name) => {
                Tenants { evaluation: EvaluationType::Legacy, ..*self }.is_named(name)
            }
            Target::Fixed(expression) if self.is_unseen(expression) => true,
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.is_in(expression) || (names.unknown.is_empty() && self.is_all_of(&names.known))
            }
        }
    }

    /// Whether `v4` denies a request to all but Dashboards itself: one about a single index or
    /// alias whose name begins so, and which is not of the global tenant. Unknown without an
    /// inventory.
    pub(crate) fn is_of_other_tenant(&self, target: &Target<'_>, names: &Names<'_>) -> bool {
        if self.evaluation == EvaluationType::Legacy
            || matches!(target, Target::Cluster | Target::AddedName(_))
        {
            return false;
        }
        let excludes = target.expression().is_some_and(Expression::excludes);
        let mut unknown = names.unknown.iter();
        let first = unknown.next();
        let count = names.known.len() + u64::from(first.is_some());
        // Names are excluded only if that is certain. So there may be more than the plugin finds.
        let is_alone = (count == 1 && unknown.all(|other| Some(other) == first))
            || (excludes && first.is_none() && self.is_all_of(&names.known));
        if !is_alone {
            return false;
        }
        let is_known = self.inventory.is_some_and(|inventory| {
            let begins = |number: &u32| inventory.name(*number).starts_with(self.index());
            names
                .known
                .iter()
                .filter(begins)
                .any(|number| !self.is_of_global_tenant(inventory, number))
        });
        let is_unknown = |unknown: &Unknown<'_>| match unknown {
            Unknown::Name(name) => name.starts_with(self.index()) && *name != self.index(),
            Unknown::Pattern(pattern) => *pattern != "*" && may_begin(pattern, self.index()),
        };
        is_known || names.unknown.iter().any(is_unknown)
    }

    /// Whether a name that begins with that of the index is of the global tenant: the index itself,
    /// or one for which it is the only alias that begins so.
    fn is_of_global_tenant(&self, inventory: &Inventory, number: u32) -> bool {
        let groups = inventory.groups(number).iter().map(|group| inventory.name(*group));
        let mut beginning = groups.filter(|group| group.starts_with(self.index()));
        inventory.name(number) == self.index()
            || (beginning.next() == Some(self.index()) && beginning.next().is_none())
    }

    /// Whether these names are this index alone; for `v4`, whether all begin with its name.
    pub(crate) fn is_all_of(&self, names: &RoaringBitmap) -> bool {
        let (Some(inventory), Some(first), Some(last)) = (self.inventory, names.min(), names.max())
        else {
            return false;
        };
        match self.evaluation {
            EvaluationType::Legacy => {
                first == last && Some(first) == inventory.number(self.index())
            }
            EvaluationType::V4 => {
                let range = inventory.with_prefix(self.index());
                range.contains(&first) && range.contains(&last)
            }
        }
    }

    /// Whether a query that is not seen may read the index.
    pub(crate) fn is_unseen(&self, expression: &Expression<'_>) -> bool {
        expression.is_all()
            && expression.options.closed
            && expression.options.hidden
            && self.inventory.is_none_or(|inventory| match self.evaluation {
                EvaluationType::Legacy => inventory.number(self.index()).is_some(),
                EvaluationType::V4 => !inventory.with_prefix(self.index()).is_empty(),
            })
    }

    /// Whether a part of an expression stands for this index, or may be taken for it.
    pub(crate) fn is_in(&self, expression: &Expression<'_>) -> bool {
        // `legacy` goes by the aliases that match any part, even excluded ones, but not by `_all`.
        let is_only_alias = || {
            self.inventory.is_none_or(|inventory| {
                let number = inventory.number(self.index());
                inventory.aliases.len() == 1 && inventory.aliases.min() == number
            })
        };
        expression.parts().any(|part| self.is_part(part))
            || (self.evaluation == EvaluationType::Legacy
                && !expression.is_of_all()
                && expression.parts().any(|part| part == Part::Pattern("*"))
                && is_only_alias())
    }

    /// Whether a part of an expression stands for this index, but not because it stands for all.
    pub(crate) fn is_part(&self, part: Part<'_>) -> bool {
        match part {
            Part::Name(name) => self.is_named(name),
            Part::Pattern("*") | Part::Except(_) => false,
            Part::Pattern(pattern) => match self.inventory {
                Some(inventory) if inventory.number(self.index()).is_none() => false,
                None if self.evaluation == EvaluationType::V4 => may_begin(pattern, self.index()),
                Some(_) | None => crate::expression::matches(pattern, self.index()),
            },
        }
    }

    /// Whether a name is that of the index, of an alias for it alone, or begins so (`v4`).
    pub(crate) fn is_named(&self, name: &str) -> bool {
        let is_alias = || {
            let inventory = self.inventory?;
            let (index, number) = (inventory.number(self.index())?, inventory.number(name)?);
            Some(inventory.members(number) == [index])
        };
        self.begins(name) || is_alias().unwrap_or_default()
    }

    /// Whether a name by itself is that of the index, or for `v4` begins with it.
    pub(crate) fn begins(&self, name: &str) -> bool {
        match self.evaluation {
            EvaluationType::Legacy => name == self.index(),
            EvaluationType::V4 => name.starts_with(self.index()),
        }
    }
}

/// Whether a pattern may match a name that begins with this.
fn may_begin(pattern: &str, prefix: &str) -> bool {
    let start = pattern.split('*').next().unwrap_or_default();
    start.starts_with(prefix) || prefix.starts_with(start)
}

#[cfg(test)]
mod tests;
