//! What must be filtered in the indices of a request.

use std::sync::Arc;

use roaring::RoaringBitmap;

use super::decide::Denied;
use super::filtered::Filtered;
use super::role_set::RoleSet;
use super::{Caller, Grant, Privileges, Rendered};
use crate::action::Action;
use crate::answer::{Answer, MAX_FILTERS, Missing, Restrictions, denied_by_all};
use crate::config::{IndexPattern, IndexPermission};
use crate::filtering::{Filtering, may_be_of_any, strictest};
use crate::need::Need;
use crate::pattern::Pattern;
use crate::resolve::Unknown;

impl Privileges {
    /// Names on which roles restrict documents or fields; `None` if none does so by a pattern with values of the caller, and the roles have
    /// all of these names.
    pub(super) fn restricted_by_values(
        &self,
        roles: &RoleSet,
        templates: &[Rendered],
        widened: &[Rendered],
    ) -> Option<RoaringBitmap> {
        if roles.restricting_templates.is_empty() && widened.is_empty() {
            return None;
        }
        let is_restricting = |one: &&Rendered| roles.restricting_templates.contains(one.template);
        let mut names = RoaringBitmap::new();
        for rendered in templates.iter().filter(is_restricting).chain(widened) {
            names |= &rendered.effective;
        }
        Some(self.with_groups(names) | &roles.restricted)
    }

    /// Adds the filters that permitted names need, and those of the aliases by which these are reached.
    pub(super) fn filters(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        (known, replaced): (&RoaringBitmap, &RoaringBitmap),
        unknown: &[Unknown<'_>],
        answer: &mut Answer,
        filtered: &mut Filtered,
    ) -> Result<(), Denied> {
        let Some((action, filtering)) = strictest(need) else { return Ok(()) };
        if caller.roles.is_unrestricted() {
            return Ok(());
        }
        // Whoever may not see all of every index changes nothing by what is read, even where another role shows all.
        let hides_of_all = caller.roles.hides_of_all;
        if let Some(reason) = hides_of_all.and_then(|documents| denied_by_all(filtering, documents)) {
            let known = known.min().map(|number| self.name(number));
            let Some(name) = known.or_else(|| unknown.first().map(|unknown| unknown.text())) else {
                return Ok(());
            };
            answer.missing.insert(Missing { action, name: name.to_owned(), reason });
            return Err(Denied);
        }
        let restricted = caller.restricted.as_ref().unwrap_or(&caller.roles.restricted);
        // Single names, and those of aliases and data streams with all of their indices.
        let [single, whole] = filtered.of(filtering);
        for group in (known & restricted) - &*whole {
            let members = self.members(group);
            // What hides something of an alias or data stream is said for its name, too: it may have got further indices since.
            for row in std::iter::once(&group).chain(members) {
                if single.contains(*row) {
                    continue;
                }
                if answer.filters.len() > MAX_FILTERS {
                    return Ok(());
                }
                let applies = |grant: &Grant| match self.applies_to_known(caller, grant, *row) {
                    true => Some(true),
                    // Whether something may be hidden is found with the indices.
                    false if *row == group && !members.is_empty() => None,
                    false => self.may_hide(caller, grant, *row).then_some(false),
                };
                self.filter(caller, (action, filtering), (self.name(*row), true), applies, answer)?;
                single.insert(*row);
            }
            whole.insert(group);
        }
        for unknown in unknown {
            let applies = |grant: &Grant| {
                let may_apply = (may_be_of_any(action) && grant.is_restricted())
                    || self.matches_unknown(caller, grant, *unknown);
                may_apply.then(|| self.covers_unknown(caller, grant, *unknown))
            };
            self.filter(caller, (action, filtering), (unknown.text(), false), applies, answer)?;
        }
        for alias in (replaced & restricted) - &*single {
            if answer.filters.len() > MAX_FILTERS {
                return Ok(());
            }
            let applies = |grant: &Grant| self.applies_to_known(caller, grant, alias).then_some(true);
            self.filter(caller, (action, filtering), (self.name(alias), true), applies, answer)?;
            single.insert(alias);
        }
        Ok(())
    }

    pub(crate) fn applies_to_known(&self, caller: &Caller, grant: &Grant, number: u32) -> bool {
        self.with_parents(number).any(|number| {
            let by_pattern =
                |id: &u32| self.patterns.matches(*id).is_some_and(|names| names.contains(number));
            let by_template = |rendered: &Rendered| {
                grant.templates.contains(&rendered.template) && rendered.direct.contains(number)
            };
            grant.patterns.iter().any(by_pattern) || caller.templates.iter().any(by_template)
        })
    }

    /// Whether the plugin may read a pattern of a permission so that it hides something of a name, though it does not match it here.
    pub(crate) fn may_hide(&self, caller: &Caller, grant: &Grant, number: u32) -> bool {
        let mut widened = caller.widened.iter().filter(|one| grant.templates.contains(&one.template));
        grant.is_restricted()
            && (self.special.odd.contains(number)
                || widened.any(|one| self.with_parents(number).any(|number| one.direct.contains(number))))
    }

    /// A name and, for an index, those of its aliases and data streams.
    fn with_parents(&self, number: u32) -> impl Iterator<Item = u32> {
        std::iter::once(number).chain(self.groups(number).iter().copied())
    }

    /// Whether a permission may be for names that the inventory lacks: for those that its patterns match. Without an inventory, a name may be
    /// that of an alias, for an index with any name.
    pub(crate) fn matches_unknown(&self, caller: &Caller, grant: &Grant, unknown: Unknown<'_>) -> bool {
        self.inventory.is_none()
            || self.any_pattern(caller, grant, |pattern| unknown.may_match(pattern))
            || (grant.is_restricted() && self.may_hide_unknown(caller, grant, unknown))
    }

    fn may_hide_unknown(&self, caller: &Caller, grant: &Grant, unknown: Unknown<'_>) -> bool {
        let mut widened = caller.widened.iter().filter(|one| grant.templates.contains(&one.template));
        Pattern::is_odd(unknown.text()) || widened.any(|one| unknown.may_match(&one.pattern))
    }

    fn covers_unknown(&self, caller: &Caller, grant: &Grant, unknown: Unknown<'_>) -> bool {
        match unknown {
            Unknown::Name(name) => self.any_pattern(caller, grant, |pattern| pattern.matches(name)),
            Unknown::Pattern(text) => self.any_pattern(caller, grant, |pattern| pattern.covers(text)),
        }
    }

    /// Whether this is so for one of the patterns of a permission.
    fn any_pattern(&self, caller: &Caller, grant: &Grant, is_so: impl Fn(&Pattern) -> bool) -> bool {
        let mut rendered = caller.templates.iter().filter(|one| grant.templates.contains(&one.template));
        rendered.any(|one| is_so(&one.pattern))
            || self.permission(grant).is_some_and(|permission| {
                permission.patterns.iter().any(|pattern| match pattern {
                    IndexPattern::Static(pattern) => is_so(pattern),
                    IndexPattern::Template(_) => false,
                })
            })
    }

    pub(crate) fn permission(&self, grant: &Grant) -> Option<&IndexPermission> {
        let (role, number) = &grant.permission;
        self.config.roles.get(role)?.index_permissions.get(*number)
    }

    /// Adds the filter of one name, or denies it. `applies` says of a permission whether it is certainly for that name;
    /// `None` if it is not.
    fn filter(
        &self,
        caller: &Caller,
        (action, filtering): (Action, Filtering),
        (name, is_known): (&str, bool),
        applies: impl Fn(&Grant) -> Option<bool>,
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let mut restrictions = Restrictions::default();
        // What shows all counts only if the rules say so.
        let counts = |grant: &&Grant| self.settings.empty_overrides_all || grant.is_restricted();
        for grant in caller.roles.grants(self).filter(counts) {
            if let (Some(is_certain), Some(permission)) = (applies(grant), self.permission(grant)) {
                let role = Arc::as_ptr(&grant.permission.0).addr();
                restrictions.add(role, permission, &caller.variables, is_certain);
            }
        }
        match restrictions.filter(name, &self.settings, filtering, is_known) {
            Ok(filter) => {
                answer.filters.extend(filter);
                Ok(())
            }
            Err(reason) => {
                answer.missing.insert(Missing { action, name: name.to_owned(), reason });
                Err(Denied)
            }
        }
    }
}
