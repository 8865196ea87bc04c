//! Tenants of OpenSearch Dashboards: who may use the index in which Dashboards keeps the objects of the
//! global tenant.
//!
//! For a request that is about this index alone, the security plugin asks for a privilege on the tenant,
//! beside those on the index (its `PrivilegesInterceptorImpl`). It does so by default, also where Dashboards
//! is not used.

use std::sync::Arc;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::config::{Dashboards, EvaluationType, Role, SecurityConfig};
use crate::expression::{Expression, Part};
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::pattern::Pattern;
use crate::resolve::{Names, Unknown};

/// What a caller may do in the global tenant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TenantAccess {
    /// No role names the tenant.
    #[default]
    None,
    /// A role may name it, by a pattern that is not supported.
    Uncertain,
    Read,
    Write,
    /// That of Dashboards itself, in every tenant.
    Server,
}

/// Actions that are permitted to whom may only read the tenant.
const READING: &[&str] = &[
    "indices:admin/get",
    "indices:data/read/get",
    "indices:data/read/search",
    "indices:data/read/msearch",
    "indices:data/read/mget",
    "indices:data/read/mget[shard]",
];
/// Actions that are performed on one index after the other.
const ONE_BY_ONE: &[Action] =
    &[Action::of("indices:data/read/field_caps"), Action::of("indices:admin/mappings/fields/get")];
const WRITING: &str = "kibana:saved_objects/*/write";
const GLOBAL: &str = "global_tenant";

impl TenantAccess {
    /// That of a role by itself.
    pub(crate) fn of(role: &Role, config: &SecurityConfig) -> Self {
        // The plugin looks for the privilege to write by its name: no pattern gives it. Anything else is
        // reading.
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

    /// That of a caller whose roles have these. With `legacy`, the role `kibana_user` lets it write unless
    /// another role names the tenant.
    pub(crate) fn of_roles(
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
            Self::Read => READING.contains(&action.name()),
            Self::Write | Self::Server => true,
        }
    }

    /// Whether an action of a need about the index of Dashboards is permitted. With `v4`, copying documents
    /// (`_reindex`) is no reading.
    pub(crate) fn permits_need(self, need: &Need<'_>, action: Action, evaluation: EvaluationType) -> bool {
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
    fn is_legacy(&self) -> bool {
        self.evaluation == EvaluationType::Legacy
    }

    /// The index, or alias of it, in which Dashboards keeps the objects of the global tenant.
    fn index(&self) -> &str {
        &self.dashboards.index
    }

    /// The indices that the plugin leaves out of the answer to a request about more than them: some actions
    /// are performed on one index after the other, and each time on that alone.
    pub(crate) fn left_out(&self, actions: &[Action], access: TenantAccess) -> RoaringBitmap {
        let mut one_by_one = actions.iter().filter(|action| ONE_BY_ONE.contains(*action)).peekable();
        let Some(inventory) = self.inventory.filter(|_| access != TenantAccess::Server) else {
            return RoaringBitmap::new();
        };
        if one_by_one.peek().is_none() {
            return RoaringBitmap::new();
        }
        let is_permitted = one_by_one.all(|action| access.permits(*action));
        let is_left_out = |number: &u32| {
            inventory.is_index(*number) && !(is_permitted && self.is_of_global_tenant(inventory, *number))
        };
        match self.evaluation {
            EvaluationType::Legacy => {
                inventory.number(self.index()).into_iter().filter(is_left_out).collect()
            }
            EvaluationType::V4 => inventory.with_prefix(self.index()).filter(is_left_out).collect(),
        }
    }

    /// Whether the plugin may take a request for one that is about this index alone. It does so for some that
    /// name other indices, too.
    pub(crate) fn is_meant(&self, target: &Target<'_>, names: &Names<'_>) -> bool {
        match target {
            Target::Cluster => false,
            Target::Name(name) | Target::Missing(name) => self.is_named(name),
            // Beside the index that gets it, a name that just begins so does not count.
            Target::AddedName(name) => Tenants { evaluation: EvaluationType::Legacy, ..*self }.is_named(name),
            Target::Fixed(expression) if self.is_unseen(expression) => true,
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.is_in(expression) || (names.unknown.is_empty() && self.is_all_of(&names.known))
            }
        }
    }

    /// Whether `v4` denies a request to all but Dashboards itself: it is about one index or alias alone whose
    /// name begins with that of the index, and that is not of the global tenant. Without an inventory that is
    /// not known.
    pub(crate) fn is_of_other_tenant(&self, target: &Target<'_>, names: &Names<'_>) -> bool {
        if self.is_legacy() || matches!(target, Target::Cluster | Target::AddedName(_)) {
            return false;
        }
        let excludes = target.expression().is_some_and(Expression::excludes);
        let mut unknown = names.unknown.iter();
        let first = unknown.next();
        let count = names.known.len() + u64::from(first.is_some());
        // Names are excluded only if that is certain: so there may be more than the plugin finds.
        let is_alone = (count == 1 && unknown.all(|other| Some(other) == first))
            || (excludes && first.is_none() && self.is_all_of(&names.known));
        if !is_alone {
            return false;
        }
        let is_known = self.inventory.is_some_and(|inventory| {
            let begins = |number: &u32| inventory.name(*number).starts_with(self.index());
            names.known.iter().filter(begins).any(|number| !self.is_of_global_tenant(inventory, number))
        });
        let is_unknown = |unknown: &Unknown<'_>| match unknown {
            Unknown::Name(name) => name.starts_with(self.index()) && *name != self.index(),
            Unknown::Pattern(pattern) => *pattern != "*" && may_begin(pattern, self.index()),
        };
        is_known || names.unknown.iter().any(is_unknown)
    }

    /// Whether a name that begins with that of the index is of the global tenant: the name itself, or an
    /// index for which it is the only alias that begins so.
    fn is_of_global_tenant(&self, inventory: &Inventory, number: u32) -> bool {
        let groups = inventory.groups(number).iter().map(|group| inventory.name(*group));
        let mut beginning = groups.filter(|group| group.starts_with(self.index()));
        inventory.name(number) == self.index()
            || (beginning.next() == Some(self.index()) && beginning.next().is_none())
    }

    /// Whether a request about these names of the inventory is about nothing else than this index. With `v4`,
    /// all whose names begin with its name are of a tenant.
    pub(crate) fn is_all_of(&self, names: &RoaringBitmap) -> bool {
        let (Some(inventory), Some(first), Some(last)) = (self.inventory, names.min(), names.max()) else {
            return false;
        };
        match self.evaluation {
            EvaluationType::Legacy => first == last && Some(first) == inventory.number(self.index()),
            EvaluationType::V4 => {
                let range = inventory.with_prefix(self.index());
                range.contains(&first) && range.contains(&last)
            }
        }
    }

    /// Whether it may be looked up by something that is not seen, such as a stored query, for which all
    /// indices are needed.
    pub(crate) fn is_unseen(&self, expression: &Expression<'_>) -> bool {
        let Expression { options, .. } = expression;
        expression.is_all()
            && options.closed
            && options.hidden
            && self.inventory.is_none_or(|inventory| match self.evaluation {
                EvaluationType::Legacy => inventory.number(self.index()).is_some(),
                EvaluationType::V4 => !inventory.with_prefix(self.index()).is_empty(),
            })
    }

    /// Whether a part of an expression stands for this index, or may be taken for it.
    pub(crate) fn is_in(&self, expression: &Expression<'_>) -> bool {
        // `legacy` goes by the aliases that match any part, whatever is excluded. All indices are none of its
        // business.
        let is_only_alias = || {
            self.inventory.is_none_or(|inventory| {
                let number = inventory.number(self.index());
                inventory.aliases.len() == 1 && inventory.aliases.min() == number
            })
        };
        expression.parts().any(|part| self.is_part(part))
            || (self.is_legacy()
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
                None if !self.is_legacy() => may_begin(pattern, self.index()),
                Some(_) | None => crate::expression::matches(pattern, self.index()),
            },
        }
    }

    /// Whether a name is that of the index, or of an alias for it alone. With `v4`, also if it just begins
    /// with that.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        let is_alias = || {
            let inventory = self.inventory?;
            let (index, number) = (inventory.number(self.index())?, inventory.number(name)?);
            Some(inventory.members(number) == [index])
        };
        self.begins(name) || is_alias().unwrap_or_default()
    }

    /// Whether a name by itself is that of the index, or with `v4` begins with it.
    pub(crate) fn begins(&self, name: &str) -> bool {
        if self.is_legacy() { name == self.index() } else { name.starts_with(self.index()) }
    }
}

/// Whether a pattern may match a name that begins with this.
fn may_begin(pattern: &str, prefix: &str) -> bool {
    let start = pattern.split('*').next().unwrap_or_default();
    start.starts_with(prefix) || prefix.starts_with(start)
}

#[cfg(test)]
mod tests;
