//! Forwards names in place of patterns that are permitted only because the inventory says what they stand for.
//!
//! The cluster resolves a pattern again, after indices were created of which the inventory does not know yet. A pattern that
//! the roles grant whatever it stands for is forwarded as it is.

use std::borrow::Cow;

use roaring::RoaringBitmap;

use crate::action::Action;
use crate::answer::{Missing, Reason, changes};
use crate::concrete::Concrete;
use crate::expression::{Expression, Part};
use crate::filtering::{may_be_of_any, strictest};
use crate::narrow::with_values;
use crate::need::{Need, Target};
use crate::reading::Request;
use crate::request::find;
use crate::resolve::{NOTHING, Unknown, resolve};

use super::actions::SYSTEM_INDEX;
use super::expressions::Names;
use super::{Caller, Privileges};

impl Privileges {
    /// The path and query with which a request with these needs, which is permitted as it is, is forwarded: with the names that
    /// its patterns stand for, if they are permitted only by what the inventory says. `None` if it is forwarded as it is, which
    /// is also so where its operation does not take names in place of patterns, where an alias may have a filter and cannot be
    /// replaced by its indices, where its body may reach all indices, and where it would be longer than a node accepts.
    ///
    /// The new path reaches no index that the old one does not. Its needs are not read and decided about again: it has the same route,
    /// and the names are those that were decided about.
    #[must_use]
    pub fn forwarded(&self, caller: &Caller, request: &Request<'_>, needs: &[Need<'_>]) -> Option<String> {
        self.inventory.as_ref()?;
        // All of them are the same parameter.
        let expression = needs.iter().find_map(|need| match &need.target {
            Target::Indices(expression) => Some(expression),
            Target::Cluster
            | Target::Name(_)
            | Target::Fixed(_)
            | Target::Missing(_)
            | Target::AddedName(_) => None,
        })?;
        // What a body does to the same indices.
        let is_same = |need: &&Need<'_>| match &need.target {
            Target::Indices(_) => true,
            Target::Fixed(other) => other == expression,
            Target::Cluster | Target::Name(_) | Target::Missing(_) | Target::AddedName(_) => false,
        };
        let mut same = needs.iter().filter(is_same);
        if same.all(|need| self.is_certain(caller, need, expression)) {
            return None;
        }
        self.with_names(request, needs, expression, caller.caches)
    }

    /// The path and query of a request with names in place of the patterns of `expression`, which are worked out once if `caches` is
    /// set. `None` if that is not possible.
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

    /// What is missing for a request that is permitted, and is forwarded with its patterns as they are: they may stand for an index or alias
    /// that was made since, of which a role hides something from the caller. (Patterns that are never replaced are decided about with
    /// the needs.)
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

    /// The names that an expression stands for. One that does not exist any more is left out as a pattern would leave it out: unless
    /// the request names others itself, or asks for closed indices, of which `ignore_unavailable` leaves out too many. `decided` is what it
    /// was decided about as, where that is kept.
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

    /// The index of the security configuration does not count: there is one only where the cluster itself has the plugin, and this
    /// protects it.
    fn is_certain_pattern(&self, caller: &Caller, need: &Need<'_>, pattern: &str) -> bool {
        let actions = need.actions;
        let unknown = Unknown::Pattern(pattern);
        let is_protected = || {
            let mut protected = self.settings.protected_indices.iter();
            protected.any(|protected| protected.may_overlap(pattern))
        };
        let is_system = || self.settings.all_system_indices().any(|system| system.may_overlap(pattern));
        let grants = |action: Action| self.grants_unknown(caller, action, unknown);
        let may_change =
            |action: Action| !changes(action) || caller.roles.may_change_protected || !is_protected();
        !caller.is_service
            && actions.iter().all(|action| grants(*action) && may_change(*action))
            && (!is_system() || grants(SYSTEM_INDEX))
            // An alias that was made since may match, for an index with any name of which a role hides something.
            && (strictest(need).is_none() || caller.roles.is_unrestricted())
            && !self
                .dashboards_closed_to(caller)
                .is_some_and(|one| one.is_part(None, self.settings.evaluation, Part::Pattern(pattern)))
    }
}

/// The action by which a pattern of a need may show what a role hides of an index that it stands for since.
pub(crate) fn shown_by_pattern(need: &Need<'_>) -> Option<Action> {
    let Target::Indices(expression) = &need.target else { return None };
    let (action, _) = strictest(need).filter(|(action, _)| may_be_of_any(*action))?;
    expression.parts().any(|part| matches!(part, Part::Pattern(_))).then_some(action)
}

/// Whether a need is about all indices, whatever the path names: a body may look documents up in any.
fn reaches_all(need: &Need<'_>) -> bool {
    matches!(&need.target, Target::Fixed(expression) if expression.is_all())
}
