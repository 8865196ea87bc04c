//! Forwards names in place of patterns that are permitted only because of the inventory.
//!
//! A pattern may be permitted because roles grant each index that it matches in the inventory. But
//! the cluster resolves a forwarded pattern itself, maybe to indices that are newer than the
//! inventory. So the matching names are forwarded instead. A pattern is forwarded as it is if roles
//! grant every index that it could match.

use std::sync::Arc;

use crate::action::Action;
use crate::action_set::SYSTEM_INDEX;
use crate::answer::{Missing, Reason};
use crate::expression::{Expression, Part};
use crate::filtering::{may_show_unknown_name, strictest_filtering};
use crate::narrow::with_values;
use crate::need::{Need, Target};
use crate::reading::Request;
use crate::request::find_route;
use crate::resolve::{Unknown, resolve};
use crate::tenants::Tenants;

use super::expressions::ExpandedNames;
use super::{Caches, Caller, Privileges};

impl Privileges {
    /// The path and query with which a permitted request is forwarded: with names in place of its
    /// patterns, if these are permitted only because of the inventory. `None` if it is forwarded as
    /// it is. A request is also forwarded as it is if its operation does not take names, if it has
    /// an alias that cannot be replaced, if its body may reach all indices, or if the path would
    /// get too long.
    ///
    /// The new path has the same route, and only names that were checked, so it is not checked
    /// again.
    #[must_use]
    pub fn with_names_for_patterns(
        &self,
        caller: &Caller,
        request: &Request<'_>,
        needs: &[Need<'_>],
    ) -> Option<String> {
        self.inventory()?;
        // If several needs have names from the path or the query, these are the same names: a
        // request has them in one parameter.
        let expression = needs.iter().find_map(listed)?;
        // The body may cause further needs on the same names.
        let mut replaced = needs
            .iter()
            .filter(|need| listed(need).is_some() || need.target.expression() == Some(expression));
        if replaced.all(|need| self.may_forward(caller, need, expression)) {
            return None;
        }
        self.with_names(request, needs, expression, caller.caches)
    }

    /// Whether a permitted request may show hidden documents by a pattern that cannot be replaced
    /// with names, and so may be forwarded with the pattern.
    pub(crate) fn may_keep_patterns(&self, request: &Request<'_>, needs: &[Need<'_>]) -> bool {
        let showing = needs.iter().filter(|need| shown_by_pattern(need).is_some());
        showing.filter_map(listed).any(|expression| {
            self.with_names(request, needs, expression, Caches::Bypassed).is_none()
        })
    }

    /// The path and query of a request with names in place of the patterns of `expression`. `None`
    /// if the patterns cannot be replaced.
    fn with_names(
        &self,
        request: &Request<'_>,
        needs: &[Need<'_>],
        expression: &Expression<'_>,
        caches: Caches,
    ) -> Option<String> {
        let inventory = self.inventory()?;
        if needs.iter().any(may_reach_all) {
            return None;
        }
        let matched = find_route(request)
            .filter(|matched| matched.route.operation.patterns_are_replaceable)?;
        let expanded = self.expanded(inventory, expression, caches).or_else(|| {
            let target = Target::Indices(expression.clone());
            let names = resolve(Some(inventory), self.settings.evaluation, &target)?;
            Some(Arc::new(ExpandedNames::new(names.known, names.replaced_aliases, false)))
        })?;
        let names = expanded.in_place(inventory, expression)?;
        // In the cluster, a pattern does not match a hidden alias, but the name of the alias would
        // reach it. An alias that a pattern matches in the inventory may be hidden. So only a
        // request that reads is forwarded with the name of such an alias.
        let mut actions = needs.iter().flat_map(|need| need.actions);
        if names.has_matched_alias && !actions.all(|action| self.settings.reduces(*action)) {
            return None;
        }
        let values = [("index", &*names.list), ("ignore_unavailable", "true")];
        let count = if names.may_be_missing { 2 } else { 1 };
        let target = with_values(request.target, &matched, values.get(..count)?)?;
        // The only index of `/view*` may be `views`, and `/views` is another operation.
        let forwarded = find_route(&Request { target: &target, ..*request })?;
        std::ptr::eq(forwarded.route, matched.route).then_some(target)
    }

    /// The missing privilege of a permitted request that is forwarded with its patterns. They may
    /// match a newer index or alias, of which a role hides something from the caller.
    ///
    /// This concerns patterns in the path or the query. Patterns that are never replaced (those of
    /// [`Target::Fixed`]) are already checked with the needs.
    #[must_use]
    pub fn missing_if_patterns_stay(&self, caller: &Caller, needs: &[Need<'_>]) -> Option<Missing> {
        if caller.roles.is_unrestricted {
            return None;
        }
        needs.iter().find_map(|need| {
            let action = shown_by_pattern(need)?;
            let name = need.target.text().to_owned();
            Some(Missing { action, name, reason: Reason::NeedsFilter })
        })
    }

    /// Whether the patterns of an expression are permitted whatever indices the cluster has.
    fn may_forward(&self, caller: &Caller, need: &Need<'_>, expression: &Expression<'_>) -> bool {
        expression.parts().all(|part| match part {
            Part::Name(_) | Part::Except(_) => true,
            Part::Pattern(pattern) => self.may_forward_pattern(caller, need, pattern),
        })
    }

    /// Whether a pattern is permitted whatever indices the cluster has, apart from the index of the
    /// security configuration, which the plugin protects.
    fn may_forward_pattern(&self, caller: &Caller, need: &Need<'_>, pattern: &str) -> bool {
        let unknown = Unknown::Pattern(pattern);
        let mut system_indices = self.settings.all_system_indices();
        let tenants = self.restricted_tenants(caller);
        !caller.is_service
            && need.actions.iter().all(|action| self.grants_unknown(caller, *action, unknown))
            && (!system_indices.any(|system| system.may_overlap(pattern))
                || self.grants_unknown(caller, SYSTEM_INDEX, unknown))
            // The pattern may match a newer alias of an index of which a role hides something.
            && caller.is_unfiltered_anywhere(need)
            && !tenants.is_some_and(|tenants| {
                Tenants { inventory: None, ..tenants }.is_named_by(Part::Pattern(pattern))
            })
    }
}

/// Whether the body may look documents up in any index, whatever the path names.
fn may_reach_all(need: &Need<'_>) -> bool {
    matches!(&need.target, Target::Fixed(expression) if expression.is_empty_or_all())
}

/// The indices that a need takes from the path or the query.
fn listed<'n>(need: &'n Need<'_>) -> Option<&'n Expression<'n>> {
    let Target::Indices(expression) = &need.target else { return None };
    Some(expression)
}

/// The action by which a pattern of a need may show hidden documents of a newer index.
fn shown_by_pattern(need: &Need<'_>) -> Option<Action> {
    let (action, _) =
        strictest_filtering(need).filter(|(action, _)| may_show_unknown_name(*action))?;
    listed(need)?.has_pattern().then_some(action)
}
