//! Forwards names in place of patterns that are permitted only because of the inventory.
//!
//! The cluster resolves a pattern again. Indices may have been created since that the inventory lacks. A
//! pattern that the roles grant whatever it stands for is forwarded as it is.

use std::borrow::Cow;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::{Missing, Reason};
use crate::concrete::Concrete;
use crate::expression::{Expression, Part};
use crate::filtering::{may_be_of_any, strictest};
use crate::narrow::with_values;
use crate::need::{Need, Target};
use crate::reading::Request;
use crate::request::find;
use crate::resolve::{NOTHING, Unknown, resolve};
use crate::tenants::Tenants;

use super::actions::SYSTEM_INDEX;
use super::expressions::Names;
use super::{Caller, Privileges};

impl Privileges {
    /// The path and query with which a request is forwarded that is permitted as it is: with names in place of
    /// its patterns, if they are permitted only because of the inventory. `None` if it is forwarded as it is.
    /// That is so, too, where its operation does not take names in place of patterns, where an alias may have
    /// a filter and cannot be replaced by its indices, where its body may reach all indices, and where it
    /// would be longer than a node accepts.
    ///
    /// The new path reaches no index that the old one does not. It is not decided about again: it has the same
    /// route, and the names are those that were decided about.
    #[must_use]
    pub fn forwarded(&self, caller: &Caller, request: &Request<'_>, needs: &[Need<'_>]) -> Option<String> {
        self.inventory.as_ref()?;
        // All lists of a request are the same parameter.
        let is_list = |need: &&Need<'_>| matches!(need.target, Target::Indices(_));
        let expression = needs.iter().find(is_list)?.target.expression()?;
        // Also what a body does to the same indices.
        let mut same =
            needs.iter().filter(|need| is_list(need) || need.target.expression() == Some(expression));
        if same.all(|need| self.is_certain(caller, need, expression)) {
            return None;
        }
        self.with_names(request, needs, expression, caller.caches)
    }

    /// The path and query of a request with names in place of the patterns of `expression`. They are worked out
    /// once if `caches` is set. `None` if that is not possible.
    pub(crate) fn with_names(
        &self,
        request: &Request<'_>,
        needs: &[Need<'_>],
        expression: &Expression<'_>,
        caches: bool,
    ) -> Option<String> {
        let inventory = self.inventory.as_deref()?;
        if needs.iter().any(reaches_all) {
            return None;
        }
        let found = find(request).filter(|found| found.group.takes_names)?;
        // What changes something reaches a hidden alias neither by its pattern nor by its name.
        let changes_something =
            !needs.iter().flat_map(|need| need.actions).all(|action| self.settings.reduces(*action));
        let with = |names: &Names| {
            if names.has_matched_alias && changes_something {
                return None;
            }
            let missing = ("ignore_unavailable", "true");
            let values = [("index", &*names.list), missing];
            let count = if names.may_be_missing { 2 } else { 1 };
            let target = with_values(request.target, &found, values.get(..count)?)?;
            // The only index of `/view*` may be `views`, and `/views` is another operation.
            let is_same = find(&Request { target: &target, ..*request })
                .is_some_and(|again| std::ptr::eq(again.route, found.route));
            is_same.then_some(target)
        };
        let expand = || self.expand(inventory, expression);
        match caches.then(|| self.expressions.names(expression, expand)).flatten() {
            Some(expanded) => {
                with(expanded.names_in_place(|| self.names(expression, Some(&expanded.names)))?)
            }
            None => with(&self.names(expression, None)?),
        }
    }

    /// What is missing for a request that is permitted, and is forwarded with its patterns as they are: they
    /// may stand for an index or alias that was made since, of which a role hides something from the caller.
    /// (Patterns that are never replaced are decided about with the needs.)
    #[must_use]
    pub fn shown_by_patterns(&self, caller: &Caller, needs: &[Need<'_>]) -> Option<Missing> {
        if caller.roles.is_unrestricted() {
            return None;
        }
        needs.iter().find_map(|need| {
            let action = shown_by_pattern(need)?;
            Some(Missing { action, name: need.target.text().to_owned(), reason: Reason::NeedsFilter })
        })
    }

    /// The names that an expression stands for. The cluster is told to leave out a name that does not exist any
    /// more, as a pattern would, unless the request itself names others, or asks for closed indices, of which
    /// `ignore_unavailable` leaves out too many. `decided` are the names that were decided about, if they are
    /// kept.
    fn names(&self, expression: &Expression<'_>, decided: Option<&RoaringBitmap>) -> Option<Names> {
        let inventory = self.inventory.as_deref()?;
        let concrete = Concrete::of(inventory, expression)?;
        let decided = match decided {
            Some(names) => Cow::Borrowed(names),
            None => {
                let target = Target::Indices(expression.clone());
                Cow::Owned(resolve(Some(inventory), self.settings.evaluation, &target)?.known)
            }
        };
        // Never more than was decided about: two ways to work out the same could differ.
        let list = match concrete.is_within(inventory, &decided) {
            true => concrete.encoded(inventory)?,
            false => NOTHING.to_owned(),
        };
        Some(Names {
            list: list.into(),
            may_be_missing: concrete.is_of_patterns && !expression.options.closed,
            has_matched_alias: concrete.has_matched_alias,
        })
    }

    /// Whether the patterns of an expression are permitted whatever indices there are.
    fn is_certain(&self, caller: &Caller, need: &Need<'_>, expression: &Expression<'_>) -> bool {
        expression.parts().all(|part| match part {
            Part::Name(_) | Part::Except(_) => true,
            Part::Pattern(pattern) => self.is_certain_pattern(caller, need, pattern),
        })
    }

    /// The index of the security configuration does not count: there is one only where the cluster itself has
    /// the plugin, which protects it.
    fn is_certain_pattern(&self, caller: &Caller, need: &Need<'_>, pattern: &str) -> bool {
        let unknown = Unknown::Pattern(pattern);
        let is_system = || self.settings.all_system_indices().any(|system| system.may_overlap(pattern));
        let tenants = self.closed_tenants(caller);
        !caller.is_service
            && need.actions.iter().all(|action| self.grants_unknown(caller, *action, unknown))
            && (!is_system() || self.grants_unknown(caller, SYSTEM_INDEX, unknown))
            // An alias that was made since may match, for an index of which a role hides something.
            && (caller.roles.is_unrestricted() || strictest(need).is_none())
            && !tenants.is_some_and(|tenants| {
                Tenants { inventory: None, ..tenants }.is_part(Part::Pattern(pattern))
            })
    }
}

/// The action by which a pattern of a need may show what a role hides of an index that it stands for since.
pub(crate) fn shown_by_pattern(need: &Need<'_>) -> Option<Action> {
    let Target::Indices(expression) = &need.target else { return None };
    let (action, _) = strictest(need).filter(|(action, _)| may_be_of_any(*action))?;
    expression.has_pattern().then_some(action)
}

/// Whether a need is about all indices, whatever the path names: a body may look documents up in any.
fn reaches_all(need: &Need<'_>) -> bool {
    matches!(&need.target, Target::Fixed(expression) if expression.is_all())
}
