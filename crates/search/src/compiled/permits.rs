//! The fast path: finds out by bitmaps whether a request is permitted as it is. If that is not
//! simple, the answer is no, and [`Privileges::decide_in_full`] decides.

use std::cell::LazyCell;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::expressions::ExpandedNames;
use super::{Caches, Caller, Privileges};
use crate::answer::Missing;
use crate::config::EvaluationType;
use crate::expression::{Expression, Part};
use crate::filtering::{denied_by_hidden, missing_if_restricted, strictest_filtering};
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::resolve::{
    NOTHING, Unknown, alias_pattern, is_checked, is_unresolved, names_of, resolve, shows_members,
};
use crate::tenants::{TenantAccess, Tenants};

/// The check of a need by look-ups in bitmaps.
#[derive(Clone, Copy)]
struct FastCheck<'p> {
    privileges: &'p Privileges,
    caller: &'p Caller,
    need: &'p Need<'p>,
    /// Dashboards, if the caller may not use all of its indices.
    tenants: Option<Tenants<'p>>,
}

impl Privileges {
    /// Whether the needs of a request are permitted as they are. Nothing is allocated if the caches
    /// have the names on which the roles grant the actions, and the names of the expressions.
    #[must_use]
    pub fn permits<'n>(
        &'n self,
        caller: &'n Caller,
        needs: impl IntoIterator<Item = &'n Need<'n>>,
    ) -> bool {
        let tenants = self.restricted_tenants(caller);
        needs
            .into_iter()
            .all(|need| FastCheck { privileges: self, caller, need, tenants }.permits())
    }

    /// The names of an expression, if the inventory has all of them.
    pub(super) fn expanded(
        &self,
        inventory: &Inventory,
        expression: &Expression<'_>,
        caches: Caches,
    ) -> Option<Arc<ExpandedNames>> {
        match caches {
            Caches::Used => {
                self.expressions.names(expression, || self.expand(inventory, expression))
            }
            Caches::Bypassed => self.expand(inventory, expression).map(Arc::new),
        }
    }

    fn expand(&self, inventory: &Inventory, expression: &Expression<'_>) -> Option<ExpandedNames> {
        let target = Target::Indices(expression.clone());
        let names = resolve(Some(inventory), self.settings.evaluation, &target)?;
        if !names.unknown.is_empty() {
            return None;
        }
        let is_of_dashboards = self.tenants().is_some_and(|tenants| {
            tenants.may_be_named_by(expression) || tenants.is_alone_in(&names.known)
        });
        Some(ExpandedNames::new(names.known, names.replaced_aliases, is_of_dashboards))
    }

    /// Dashboards, if a caller may not do everything with its index, or (`v4`) with the indices of
    /// other tenants.
    pub(super) fn restricted_tenants(&self, caller: &Caller) -> Option<Tenants<'_>> {
        let least = match self.settings.evaluation {
            EvaluationType::Legacy => TenantAccess::Write,
            EvaluationType::V4 => TenantAccess::Server,
        };
        self.tenants().filter(|_| caller.tenant < least)
    }
}

impl Caller {
    /// The missing privilege of a need that gives names to new indices, or may reach newer indices.
    /// `None` for another need, or if no role hides anything from this caller.
    pub(super) fn missing_for_new_names(&self, need: &Need<'_>) -> Option<Missing> {
        if self.roles.is_unrestricted { None } else { missing_if_restricted(need) }
    }

    /// Whether the roles hide nothing that a need may show, on any name.
    pub(super) fn is_unfiltered_anywhere(&self, need: &Need<'_>) -> bool {
        self.roles.is_unrestricted || strictest_filtering(need).is_none()
    }
}

impl FastCheck<'_> {
    fn permits(self) -> bool {
        let Self { privileges, caller, need, tenants } = self;
        if privileges.settings.changes_all(need) || caller.missing_for_new_names(need).is_some() {
            return false;
        }
        match &need.target {
            Target::Cluster => {
                let cluster = &caller.roles.cluster;
                !is_checked(privileges.evaluation(), need)
                    || (!caller.is_service && need.actions.iter().all(|a| cluster.contains(*a)))
            }
            Target::CreatedIfMissing(name) if privileges.inventory.id(name).is_some() => true,
            Target::Name(name) | Target::CreatedIfMissing(name) => self.permits_name(name),
            Target::AliasOrNewIndex(name) => {
                privileges.evaluation() == EvaluationType::Legacy
                    || match alias_pattern(name) {
                        Some(pattern) => self.permits_unknown(Unknown::Pattern(pattern)),
                        None => self.permits_name(name),
                    }
            }
            Target::Indices(expression) => self.permits_expression(expression),
            Target::Fixed(expression) => {
                !tenants.is_some_and(|tenants| tenants.may_include_dashboards(expression))
                    && self.permits_expression(expression)
            }
        }
    }

    fn permits_expression(self, expression: &Expression<'_>) -> bool {
        let Self { privileges, caller, need, tenants } = self;
        let evaluation = privileges.evaluation();
        if tenants.is_some_and(|tenants| !tenants.left_out(need.actions, caller.tenant).is_empty())
        {
            return false;
        }
        if expression.parts().all(|part| matches!(part, Part::Name(_))) {
            return self.permits_parts(expression);
        }
        let Some(inventory) = privileges.inventory() else {
            return !tenants.is_some_and(|tenants| tenants.may_be_named_by(expression))
                && self.permits_parts(expression);
        };
        if shows_members(evaluation, need.actions)
            || caller.is_service
            || (evaluation == EvaluationType::V4 && !expression.options.expands())
        {
            return false;
        }
        let Some(expanded) = privileges.expanded(inventory, expression, caller.caches) else {
            return false;
        };
        let ExpandedNames { names, replaced_aliases, is_of_dashboards, .. } = &*expanded;
        if tenants.is_some() && *is_of_dashboards {
            return false;
        }
        // For an expression without names, `v4` asks for a grant on any index at all, which is not
        // looked up here. If its exclusions leave no name, the expression is not forwarded.
        if names.is_empty()
            && (evaluation == EvaluationType::V4
                || (expression.text() != NOTHING && expression.excludes()))
        {
            return false;
        }
        need.actions.iter().all(|action| {
            let granted = caller.roles.granted(privileges, *action);
            granted.is_some_and(|granted| granted.permitted.contains_all(names))
        }) && self.is_unfiltered(|restricted| {
            !restricted.is_disjoint(names) || !restricted.is_disjoint(replaced_aliases)
        })
    }

    /// Whether the actions are permitted on each name, and each pattern, whatever it matches.
    fn permits_parts(self, expression: &Expression<'_>) -> bool {
        let Privileges { inventory, settings, .. } = self.privileges;
        let is_legacy = settings.evaluation == EvaluationType::Legacy;
        // Computed once: there may be thousands of parts.
        let is_unresolved =
            LazyCell::new(|| is_legacy && is_unresolved(self.privileges.inventory(), expression));
        expression.parts().all(|part| match part {
            Part::Name(name) => {
                let is_alias = is_legacy
                    && inventory.id(name).is_some_and(|id| inventory.aliases.contains(id));
                // An alias of an unresolved expression is not replaced by its members.
                !(is_alias && *is_unresolved) && self.permits_name(name)
            }
            Part::Except(_) => !*is_unresolved,
            Part::Pattern(pattern) => {
                expression.options.expands() && self.permits_unknown(Unknown::Pattern(pattern))
            }
        })
    }

    /// Whether the actions are permitted on an unknown name or pattern, without a filter.
    fn permits_unknown(self, unknown: Unknown<'_>) -> bool {
        let Self { privileges, caller, need, .. } = self;
        let mut actions = need.actions.iter();
        actions.all(|action| privileges.permits_unknown(caller, *action, unknown).is_ok())
            && caller.is_unfiltered_anywhere(need)
    }

    /// Whether the actions are permitted on a name, without a filter.
    fn permits_name(self, name: &str) -> bool {
        let Self { privileges, caller, need, tenants } = self;
        let Privileges { inventory, special, .. } = privileges;
        if tenants.is_some_and(|tenants| tenants.is_dashboards_name(name)) {
            return false;
        }
        let Some(id) = inventory.id(name) else {
            return self.permits_unknown(Unknown::Name(name));
        };
        if caller.is_service || (tenants.is_some() && special.dashboards.contains(id)) {
            return false;
        }
        let names = names_of(inventory, privileges.evaluation(), &id);
        need.actions.iter().all(|action| {
            let Some(granted) = caller.roles.granted(privileges, *action) else { return false };
            names.iter().all(|name| {
                granted.permitted.contains(*name)
                    || (!granted.templates.is_empty()
                        && !special.security.contains(*name)
                        && !special.system.contains(*name)
                        && caller
                            .rendered(&granted.templates)
                            .any(|rendered| rendered.with_members.contains(*name)))
            })
        }) && self.is_unfiltered(|restricted| {
            names.iter().chain([&id]).any(|name| restricted.contains(*name))
        })
    }

    /// Whether the roles hide nothing of the names of the need. `touches` returns whether the need
    /// has any of these names.
    fn is_unfiltered(self, touches: impl Fn(&RoaringBitmap) -> bool) -> bool {
        let roles = &self.caller.roles;
        roles.is_unrestricted
            || strictest_filtering(self.need).is_none_or(|(_, filtering)| {
                let hidden = roles.hidden_everywhere;
                hidden.is_none_or(|hidden| denied_by_hidden(filtering, hidden).is_none())
                    && roles.restricting_templates.is_empty()
                    && !touches(&roles.restricted)
            })
    }
}
