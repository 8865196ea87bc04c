//! Finds out by look-ups whether a request is permitted as it is.

use std::cell::LazyCell;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::expressions::Expanded;
use super::{Caller, Privileges};
use crate::answer::{Missing, denied_by_all, reaches_new};
use crate::config::{Dashboards, EvaluationType};
use crate::expression::{Expression, Part};
use crate::filtering::strictest;
use crate::inventory::{Inventory, Kind};
use crate::need::{Need, Target};
use crate::resolve::{NOTHING, Unknown, counts, is_unresolved, pattern_of_aliases, resolve, shows_members};
use crate::tenants::TenantAccess;

impl Privileges {
    /// Whether the needs of a request are permitted as they are. For a caller and an action that have been seen it
    /// allocates nothing.
    #[must_use]
    pub fn permits<'n>(&self, caller: &Caller, needs: impl IntoIterator<Item = &'n Need<'n>>) -> bool {
        needs.into_iter().all(|need| self.permits_need(caller, need))
    }

    fn permits_need(&self, caller: &Caller, need: &Need<'_>) -> bool {
        if self.settings.changes_all(need) || self.reaches_new(caller, need).is_some() {
            return false;
        }
        match &need.target {
            Target::Cluster => {
                !counts(self.settings.evaluation, need)
                    || !caller.is_service
                        && need.actions.iter().all(|action| caller.roles.cluster.contains(*action))
            }
            Target::Name(name) => self.permits_name(caller, need, name),
            Target::Missing(name) => self.number(name).is_some() || self.permits_name(caller, need, name),
            Target::AddedName(name) => match self.settings.evaluation {
                EvaluationType::Legacy => true,
                EvaluationType::V4 => match pattern_of_aliases(name) {
                    Some(pattern) => self.permits_pattern(caller, need, pattern),
                    None => self.permits_name(caller, need, name),
                },
            },
            Target::Fixed(expression)
                if self.dashboards_closed_to(caller).is_some_and(|one| {
                    one.is_unseen(self.inventory.as_deref(), self.settings.evaluation, expression)
                }) =>
            {
                false
            }
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.permits_expression(caller, need, expression)
            }
        }
    }

    /// What is missing for a need that may reach what the inventory lacks, if a role hides something from the caller.
    pub(super) fn reaches_new(&self, caller: &Caller, need: &Need<'_>) -> Option<Missing> {
        if caller.roles.is_unrestricted() { None } else { reaches_new(need) }
    }

    fn permits_expression(&self, caller: &Caller, need: &Need<'_>, expression: &Expression<'_>) -> bool {
        let dashboards = self.dashboards_closed_to(caller);
        if dashboards.is_some() && !self.left_out(need, caller.tenant).is_empty() {
            return false;
        }
        let has_pattern = expression.parts().any(|part| !matches!(part, Part::Name(_)));
        if !has_pattern {
            // Asked for each alias, and the same for all.
            let is_unresolved = LazyCell::new(|| is_unresolved(self.inventory.as_deref(), expression));
            return expression.parts().all(|part| match part {
                Part::Name(name) => {
                    // `legacy` then does not replace an alias by its members. That they are permitted does not imply that the
                    // alias is.
                    let is_alias = self.settings.evaluation == EvaluationType::Legacy
                        && self.number(name).is_some_and(|number| self.is_alias(number));
                    !(is_alias && *is_unresolved) && self.permits_name(caller, need, name)
                }
                Part::Pattern(_) | Part::Except(_) => false,
            });
        }
        let evaluation = self.settings.evaluation;
        let Some(inventory) = self.inventory.as_deref() else {
            return !dashboards.is_some_and(|one| one.is_in(None, evaluation, expression))
                && self.permits_unexpanded(caller, need, expression);
        };
        if (evaluation == EvaluationType::V4 && !expression.options.expands())
            || shows_members(evaluation, need.actions)
        {
            return false;
        }
        let expand = || self.expand(inventory, expression);
        let expanded = match caller.caches {
            true => self.expressions.names(expression, expand),
            false => expand().map(Arc::new),
        };
        let Some(expanded) = expanded else { return false };
        if dashboards.is_some() && expanded.is_of_dashboards {
            return false;
        }
        // Whether exclusions have left nothing is worked out with what is missing.
        if expanded.names.is_empty()
            && expression.text() != NOTHING
            && expression.parts().any(|part| matches!(part, Part::Except(_)))
        {
            return false;
        }
        if caller.is_service || (expanded.names.is_empty() && self.settings.evaluation == EvaluationType::V4)
        {
            return false;
        }
        need.actions.iter().all(|action| {
            let allowed = caller.roles.allowed(self, *action);
            allowed.is_some_and(|allowed| expanded.is_subset(allowed.known.names()))
        }) && self.is_unfiltered(caller, need, |restricted| {
            [&expanded.names, &expanded.replaced].iter().any(|names| !restricted.is_disjoint(names))
        })
    }

    /// What an expression stands for, if the inventory has all of its names.
    pub(super) fn expand(&self, inventory: &Inventory, expression: &Expression<'_>) -> Option<Expanded> {
        let evaluation = self.settings.evaluation;
        let target = Target::Indices(expression.clone());
        let names = resolve(Some(inventory), evaluation, &target)?;
        if !names.unknown.is_empty() {
            return None;
        }
        let is_of_dashboards = self.settings.dashboards.as_ref().is_some_and(|one| {
            one.is_in(Some(inventory), evaluation, expression)
                || one.is_all_of(inventory, evaluation, &names.known)
        });
        Some(Expanded::new(names.known, names.replaced, is_of_dashboards))
    }

    /// Without an inventory: whether each pattern is covered by one that is granted.
    fn permits_unexpanded(&self, caller: &Caller, need: &Need<'_>, expression: &Expression<'_>) -> bool {
        // The same for all parts, of which there may be thousands.
        let takes_text = LazyCell::new(|| is_unresolved(None, expression));
        expression.options.expands()
            && expression.parts().all(|part| match part {
                Part::Name(name) => self.permits_name(caller, need, name),
                Part::Except(_) => self.settings.evaluation == EvaluationType::V4 || !*takes_text,
                Part::Pattern(pattern) => self.permits_pattern(caller, need, pattern),
            })
    }

    /// Whether actions are permitted on whatever a pattern stands for, without a filter.
    fn permits_pattern(&self, caller: &Caller, need: &Need<'_>, pattern: &str) -> bool {
        let unknown = Unknown::Pattern(pattern);
        need.actions.iter().all(|action| self.unknown_cell(caller, *action, unknown).is_ok())
            && strictest(need).is_none_or(|_| caller.roles.is_unrestricted())
    }

    /// Whether actions are permitted on one name, without a filter.
    fn permits_name(&self, caller: &Caller, need: &Need<'_>, name: &str) -> bool {
        let dashboards = self.dashboards_closed_to(caller);
        if dashboards.is_some_and(|one| one.begins(self.settings.evaluation, name)) {
            return false;
        }
        let actions = need.actions;
        let Some(number) = self.number(name) else {
            let unknown = Unknown::Name(name);
            return actions.iter().all(|action| self.unknown_cell(caller, *action, unknown).is_ok())
                && strictest(need).is_none_or(|_| caller.roles.is_unrestricted());
        };
        if caller.is_service || (dashboards.is_some() && self.special.dashboards.contains(number)) {
            return false;
        }
        let members = match (self.settings.evaluation, self.inventory.as_deref()) {
            (EvaluationType::Legacy, Some(inventory)) if self.is_alias(number) => inventory.related(number),
            (EvaluationType::Legacy | EvaluationType::V4, _) => &[],
        };
        let rows = if members.is_empty() { std::slice::from_ref(&number) } else { members };
        actions.iter().all(|action| {
            let Some(allowed) = caller.roles.allowed(self, *action) else { return false };
            rows.iter().all(|row| {
                allowed.known.contains(*row)
                    || (!allowed.templates.is_empty()
                        && !self.is_special(*row)
                        && caller
                            .rendered(&allowed.templates)
                            .any(|rendered| rendered.effective.contains(*row)))
            })
        }) && self.is_unfiltered(caller, need, |restricted| {
            rows.iter().chain([&number]).any(|row| restricted.contains(*row))
        })
    }

    /// Whether nothing must be filtered, if `touches` says whether these restricted names are needed.
    fn is_unfiltered(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        touches: impl Fn(&RoaringBitmap) -> bool,
    ) -> bool {
        caller.roles.is_unrestricted()
            || strictest(need).is_none_or(|(_, filtering)| {
                let hides_of_all = caller.roles.hides_of_all;
                hides_of_all.is_none_or(|documents| denied_by_all(filtering, documents).is_none())
                    && caller.roles.restricting_templates.is_empty()
                    && !touches(&caller.roles.restricted)
            })
    }

    /// Dashboards, if a caller may not do everything with whatever counts as its index. With `v4` some of that is of other tenants.
    pub(super) fn dashboards_closed_to(&self, caller: &Caller) -> Option<&Dashboards> {
        let is_open = match self.settings.evaluation {
            EvaluationType::Legacy => caller.tenant >= TenantAccess::Write,
            EvaluationType::V4 => caller.tenant == TenantAccess::Server,
        };
        self.settings.dashboards.as_ref().filter(|_| !is_open)
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.inventory.as_deref()?.number(name)
    }

    fn is_alias(&self, number: u32) -> bool {
        self.inventory.as_deref().and_then(|inventory| inventory.kind(number)) == Some(Kind::Alias)
    }

    fn is_special(&self, number: u32) -> bool {
        let special = &self.special;
        special.security.contains(number)
            || special.system.contains(number)
            || special.protected.contains(number)
    }
}
