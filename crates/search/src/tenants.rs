//! Tenants of OpenSearch Dashboards: who may use the index in which Dashboards keeps the objects of the global tenant.
//!
//! For a request that is about this index alone, the security plugin asks for a privilege on the tenant, beside those on the index
//! (its `PrivilegesInterceptorImpl`). It does so by default, also where Dashboards is not used.

use std::sync::Arc;

use crate::action::Action;
use crate::config::{Dashboards, EvaluationType, Role, SecurityConfig};
use crate::expression::{Expression, Part};
use crate::inventory::{Inventory, Kind};
use crate::need::Target;
use crate::pattern::Pattern;
use crate::resolve::Names;

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
const GLOBAL: &str = "global_tenant";

impl TenantAccess {
    /// That of a role by itself.
    pub(crate) fn of(role: &Role, config: &SecurityConfig) -> Self {
        // The plugin looks for the privilege to write by its name: no pattern gives it. Whatever else is allowed is reading.
        let writes = |allowed: &[Arc<str>]| {
            let mut texts = config.action_groups.resolve(allowed).into_iter();
            texts.any(|text| **text == *"kibana:saved_objects/*/write")
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

    /// That of a caller whose roles have these. With `legacy`, the role `kibana_user` lets it write unless a role names the tenant: one
    /// that only reads there takes writing away.
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
            Self::Write => true,
        }
    }
}

impl Dashboards {
    /// The index that the plugin leaves out of the answer to a request about more than it: some actions are performed on one index after
    /// the other, and each time on this one alone.
    pub(crate) fn left_out(
        &self,
        inventory: Option<&Inventory>,
        actions: &[Action],
        access: TenantAccess,
    ) -> Option<u32> {
        let number = inventory?.number(&self.index)?;
        let is_index = inventory?.kind(number).is_some_and(Kind::is_index);
        let is_left_out = |action: &&Action| ONE_BY_ONE.contains(*action) && !access.permits(**action);
        (is_index && actions.iter().any(|action| is_left_out(&action))).then_some(number)
    }

    /// Whether the plugin may take a request for one that is about this index alone. It is also so for some that name others, too.
    pub(crate) fn is_meant(
        &self,
        inventory: Option<&Inventory>,
        evaluation: EvaluationType,
        target: &Target<'_>,
        names: &Names<'_>,
    ) -> bool {
        match target {
            Target::Cluster => false,
            Target::Name(name) | Target::Missing(name) | Target::NewAlias(name) => {
                self.is_named(inventory, name)
            }
            Target::Fixed(expression) if self.is_unseen(inventory, expression) => true,
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.is_in(inventory, evaluation, expression)
                    || inventory.and_then(|inventory| inventory.number(&self.index)).is_some_and(|index| {
                        names.known.len() == 1 && names.known.contains(index) && names.unknown.is_empty()
                    })
            }
        }
    }

    /// Whether it may be looked up in something that is not seen, such as a stored query, for which all indices are needed.
    pub(crate) fn is_unseen(&self, inventory: Option<&Inventory>, expression: &Expression<'_>) -> bool {
        let options = expression.options;
        let is_of_unseen = expression.is_all() && options.closed && options.hidden;
        is_of_unseen && inventory.is_none_or(|inventory| inventory.number(&self.index).is_some())
    }

    /// Whether a part of an expression stands for this index, or may be taken for it.
    pub(crate) fn is_in(
        &self,
        inventory: Option<&Inventory>,
        evaluation: EvaluationType,
        expression: &Expression<'_>,
    ) -> bool {
        // `legacy` goes by the aliases that match any part, whatever other parts take out. All indices are none of its business.
        let is_only_alias = || {
            inventory.is_none_or(|inventory| {
                let number = inventory.number(&self.index);
                inventory.aliases().len() == 1 && number.is_some_and(|one| inventory.aliases().contains(one))
            })
        };
        expression.parts().any(|part| self.is_part(inventory, part))
            || (evaluation == EvaluationType::Legacy
                && !expression.is_of_all()
                && expression.parts().any(|part| part == Part::Pattern("*"))
                && is_only_alias())
    }

    /// Whether a part of an expression stands for this index, but not because it stands for all.
    pub(crate) fn is_part(&self, inventory: Option<&Inventory>, part: Part<'_>) -> bool {
        match part {
            Part::Name(name) => self.is_named(inventory, name),
            Part::Pattern(pattern) => {
                pattern != "*"
                    && inventory.is_none_or(|inventory| inventory.number(&self.index).is_some())
                    && crate::expression::matches(pattern, &self.index)
            }
            Part::Except(_) => false,
        }
    }

    /// Whether a name is that of the index, or of an alias for it alone.
    pub(crate) fn is_named(&self, inventory: Option<&Inventory>, name: &str) -> bool {
        let is_alias = || {
            let inventory = inventory?;
            let (index, number) = (inventory.number(&self.index)?, inventory.number(name)?);
            let is_group = matches!(inventory.kind(number)?, Kind::Alias | Kind::DataStream);
            Some(is_group && inventory.related(number) == [index])
        };
        *name == *self.index || is_alias().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
