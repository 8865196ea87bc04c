//! Finds out by look-ups whether a request is permitted as it is. If that is not simple, the answer
//! is no: then [`Privileges::evaluate`] works it out.

use std::cell::LazyCell;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::expressions::ExpandedNames;
use super::{Caller, Privileges};
use crate::answer::Missing;
use crate::config::EvaluationType;
use crate::expression::{Expression, Part};
use crate::filtering::{denied_by_all, reaches_new, strictest};
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::resolve::{
    NOTHING, Unknown, counts, is_unresolved, pattern_of_aliases, resolve, shows_members,
};
use crate::tenants::{TenantAccess, Tenants};

impl Privileges {
    /// Whether the needs of a request are permitted as they are. For a known action, nothing is
    /// allocated.
    #[must_use]
    pub fn permits<'n>(
        &self,
        caller: &Caller,
        needs: impl IntoIterator<Item = &'n Need<'n>>,
    ) -> bool {
        needs.into_iter().all(|need| self.permits_need(caller, need))
    }

    fn permits_need(&self, caller: &Caller, need: &Need<'_>) -> bool {
        if self.settings.changes_all(need) || self.reaches_new(caller, need).is_some() {
            return false;
        }
        match &need.target {
            Target::Cluster => {
                let permits = |action| !caller.is_service && caller.roles.cluster.contains(action);
                !counts(self.settings.evaluation, need) || need.actions.iter().copied().all(permits)
            }
            Target::Name(name) => self.permits_name(caller, need, name),
            Target::Missing(name) => {
                self.inventory.number(name).is_some() || self.permits_name(caller, need, name)
            }
            Target::AddedName(_) if self.settings.evaluation == EvaluationType::Legacy => true,
            Target::AddedName(name) => match pattern_of_aliases(name) {
                Some(pattern) => self.permits_unknown_name(caller, need, Unknown::Pattern(pattern)),
                None => self.permits_name(caller, need, name),
            },
            Target::Fixed(expression)
                if self
                    .closed_tenants(caller)
                    .is_some_and(|tenants| tenants.is_unseen(expression)) =>
            {
                false
            }
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.permits_expression(caller, need, expression)
            }
        }
    }

    /// The missing privilege of a need that may reach future names, if a role hides something.
    pub(super) fn reaches_new(&self, caller: &Caller, need: &Need<'_>) -> Option<Missing> {
        if caller.roles.is_unrestricted { None } else { reaches_new(need) }
    }

    fn permits_expression(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        expression: &Expression<'_>,
    ) -> bool {
        let (evaluation, tenants) = (self.settings.evaluation, self.closed_tenants(caller));
        if tenants.is_some_and(|tenants| !tenants.left_out(need.actions, caller.tenant).is_empty())
        {
            return false;
        }
        if expression.parts().all(|part| matches!(part, Part::Name(_))) {
            return self.permits_names(caller, need, expression);
        }
        let Some(inventory) = self.inventory() else {
            return !tenants.is_some_and(|tenants| tenants.is_in(expression))
                && self.permits_unexpanded(caller, need, expression);
        };
        if shows_members(evaluation, need.actions)
            || caller.is_service
            || (evaluation == EvaluationType::V4 && !expression.options.expands())
        {
            return false;
        }
        let Some(expanded) = self.expanded(inventory, expression, caller.caches) else {
            return false;
        };
        if tenants.is_some() && expanded.is_of_dashboards {
            return false;
        }
        // `v4` asks for grants on any index. An expression that exclusions emptied is not
        // forwarded.
        let is_emptied = || expression.text() != NOTHING && expression.excludes();
        if expanded.names.is_empty() && (evaluation == EvaluationType::V4 || is_emptied()) {
            return false;
        }
        need.actions.iter().all(|action| {
            let allowed = caller.roles.allowed(self, *action);
            allowed.is_some_and(|allowed| expanded.names.is_subset(allowed.known.names()))
        }) && self.is_unfiltered(caller, need, |restricted| {
            [&expanded.names, &expanded.replaced].iter().any(|names| !restricted.is_disjoint(names))
        })
    }

    /// Whether actions are permitted on each name of a list.
    fn permits_names(&self, caller: &Caller, need: &Need<'_>, expression: &Expression<'_>) -> bool {
        // Asked for each alias, and the same for all.
        let is_unresolved = LazyCell::new(|| is_unresolved(self.inventory(), expression));
        expression.parts().all(|part| match part {
            Part::Name(name) => {
                // `legacy` then does not replace an alias by its members.
                let is_alias = self.settings.evaluation == EvaluationType::Legacy
                    && self
                        .inventory
                        .number(name)
                        .is_some_and(|number| self.inventory.aliases.contains(number));
                !(is_alias && *is_unresolved) && self.permits_name(caller, need, name)
            }
            Part::Pattern(_) | Part::Except(_) => false,
        })
    }

    /// The names of an expression, if the inventory has all. They are kept if `caches` is set.
    pub(super) fn expanded(
        &self,
        inventory: &Inventory,
        expression: &Expression<'_>,
        caches: bool,
    ) -> Option<Arc<ExpandedNames>> {
        let expand = || self.expand(inventory, expression);
        if caches { self.expressions.names(expression, expand) } else { expand().map(Arc::new) }
    }

    fn expand(&self, inventory: &Inventory, expression: &Expression<'_>) -> Option<ExpandedNames> {
        let target = Target::Indices(expression.clone());
        let names = resolve(Some(inventory), self.settings.evaluation, &target)?;
        if !names.unknown.is_empty() {
            return None;
        }
        let is_of_dashboards = self
            .tenants()
            .is_some_and(|tenants| tenants.is_in(expression) || tenants.is_all_of(&names.known));
        Some(ExpandedNames::new(names.known, names.replaced, is_of_dashboards))
    }

    /// Without an inventory: whether each pattern is covered by one that is granted.
    fn permits_unexpanded(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        expression: &Expression<'_>,
    ) -> bool {
        // The same for all parts, of which there may be thousands.
        let takes_text = LazyCell::new(|| is_unresolved(None, expression));
        expression.options.expands()
            && expression.parts().all(|part| match part {
                Part::Name(name) => self.permits_name(caller, need, name),
                Part::Except(_) => self.settings.evaluation == EvaluationType::V4 || !*takes_text,
                Part::Pattern(pattern) => {
                    self.permits_unknown_name(caller, need, Unknown::Pattern(pattern))
                }
            })
    }

    /// Whether actions are permitted on an unknown name or pattern, without a filter.
    fn permits_unknown_name(&self, caller: &Caller, need: &Need<'_>, unknown: Unknown<'_>) -> bool {
        need.actions.iter().all(|action| self.permits_unknown(caller, *action, unknown).is_ok())
            && (caller.roles.is_unrestricted || strictest(need).is_none())
    }

    /// Whether actions are permitted on one name, without a filter.
    fn permits_name(&self, caller: &Caller, need: &Need<'_>, name: &str) -> bool {
        let tenants = self.closed_tenants(caller);
        if tenants.is_some_and(|tenants| tenants.begins(name)) {
            return false;
        }
        let Some(number) = self.inventory.number(name) else {
            return self.permits_unknown_name(caller, need, Unknown::Name(name));
        };
        if caller.is_service || (tenants.is_some() && self.special.dashboards.contains(number)) {
            return false;
        }
        let members = match self.settings.evaluation {
            EvaluationType::Legacy if self.inventory.aliases.contains(number) => {
                self.inventory.members(number)
            }
            EvaluationType::Legacy | EvaluationType::V4 => &[],
        };
        let rows = if members.is_empty() { std::slice::from_ref(&number) } else { members };
        need.actions.iter().all(|action| {
            let Some(allowed) = caller.roles.allowed(self, *action) else { return false };
            rows.iter().all(|row| {
                allowed.known.contains(*row)
                    || (!allowed.templates.is_empty()
                        && !self.special.security.contains(*row)
                        && !self.special.system.contains(*row)
                        && caller
                            .rendered(&allowed.templates)
                            .any(|rendered| rendered.effective.contains(*row)))
            })
        }) && self.is_unfiltered(caller, need, |restricted| {
            rows.iter().chain([&number]).any(|row| restricted.contains(*row))
        })
    }

    /// Whether nothing must be filtered. `touches` returns whether one of these names is needed.
    fn is_unfiltered(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        touches: impl Fn(&RoaringBitmap) -> bool,
    ) -> bool {
        caller.roles.is_unrestricted
            || strictest(need).is_none_or(|(_, filtering)| {
                let hides_of_all = caller.roles.hides_of_all;
                hides_of_all.is_none_or(|documents| denied_by_all(filtering, documents).is_none())
                    && caller.roles.restricting_templates.is_empty()
                    && !touches(&caller.roles.restricted)
            })
    }

    /// Dashboards, if a caller may not do everything with its index, or those of other tenants
    /// (`v4`).
    pub(super) fn closed_tenants(&self, caller: &Caller) -> Option<Tenants<'_>> {
        let least = match self.settings.evaluation {
            EvaluationType::Legacy => TenantAccess::Write,
            EvaluationType::V4 => TenantAccess::Server,
        };
        self.tenants().filter(|_| caller.tenant < least)
    }
}
