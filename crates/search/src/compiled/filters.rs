//! What must be filtered in the indices of a request.

use roaring::RoaringBitmap;

use super::decide::Denied;
use super::{Caller, Grant, Privileges, Rendered};
use crate::action::Action;
use crate::answer::{Answer, Cell, Filter, Filtering, Reason, strictest};
use crate::config::{IndexPattern, IndexPermission};
use crate::inventory::Kind;
use crate::need::Need;
use crate::pattern::Pattern;
use crate::resolve::Unknown;

impl Privileges {
    /// Adds the filters that permitted names need.
    pub(super) fn filters(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        known: &RoaringBitmap,
        unknown: &[Unknown<'_>],
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let Some((action, filtering)) = strictest(need.actions) else { return Ok(()) };
        if caller.roles.is_unrestricted() {
            return Ok(());
        }
        let mut restricted = caller.roles.restricted.clone();
        for rendered in caller.rendered(&caller.roles.restricting_templates) {
            restricted |= self.with_groups(rendered.effective.clone());
        }
        for row in known & restricted {
            let members = match self.inventory.as_deref() {
                Some(inventory) if !inventory.kind(row).is_some_and(Kind::is_index) => inventory.related(row),
                Some(_) | None => &[],
            };
            let rows = if members.is_empty() { std::slice::from_ref(&row) } else { members };
            for row in rows {
                let applies = |grant: &Grant| self.applies_to_known(caller, grant, *row);
                self.filter(caller, (action, filtering), self.name(*row), false, applies, answer)?;
            }
        }
        for unknown in unknown {
            let applies = |grant: &Grant| self.applies_to_unknown(caller, grant, *unknown);
            let is_pattern = matches!(unknown, Unknown::Pattern(_));
            self.filter(caller, (action, filtering), unknown.text(), is_pattern, applies, answer)?;
        }
        Ok(())
    }

    pub(super) fn applies_to_known(&self, caller: &Caller, grant: &Grant, number: u32) -> bool {
        let parents = match self.inventory.as_deref() {
            Some(inventory) if inventory.kind(number).is_some_and(Kind::is_index) => {
                inventory.related(number)
            }
            Some(_) | None => &[],
        };
        std::iter::once(&number).chain(parents).any(|number| {
            let by_pattern =
                |id: &u32| self.patterns.matches(*id).is_some_and(|names| names.contains(*number));
            let by_template = |rendered: &Rendered| {
                grant.templates.contains(&rendered.template) && rendered.direct.contains(*number)
            };
            grant.patterns.iter().any(by_pattern) || caller.templates.iter().any(by_template)
        })
    }

    pub(super) fn applies_to_unknown(&self, caller: &Caller, grant: &Grant, unknown: Unknown<'_>) -> bool {
        let applies = |pattern: &Pattern| match unknown {
            Unknown::Name(name) => pattern.matches(name),
            Unknown::Pattern(text) => pattern.may_overlap(text),
        };
        let mut rendered = caller.templates.iter().filter(|one| grant.templates.contains(&one.template));
        rendered.any(|one| applies(&one.pattern))
            || self.restriction(grant).is_some_and(|permission| {
                permission.patterns.iter().any(|pattern| match pattern {
                    IndexPattern::Static(pattern) => applies(pattern),
                    IndexPattern::Template(_) => false,
                })
            })
    }

    pub(super) fn restriction(&self, grant: &Grant) -> Option<&IndexPermission> {
        let (role, number) = grant.restriction.as_ref()?;
        self.config.roles.get(role)?.index_permissions.get(*number)
    }

    /// Adds the filter of one name, or denies it.
    fn filter(
        &self,
        caller: &Caller,
        (action, filtering): (Action, Filtering),
        name: &str,
        is_pattern: bool,
        applies: impl Fn(&Grant) -> bool,
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let mut filter = Filter { name: name.to_owned(), ..Filter::default() };
        let (mut is_needed, mut is_missing) = (false, false);
        for grant in caller.roles.grants(self).filter(|grant| grant.restriction.is_some() && applies(grant)) {
            let Some(permission) = self.restriction(grant) else { continue };
            is_needed = true;
            match permission.document_query.as_ref().map(|query| query.query(&caller.variables)) {
                None => {}
                Some(Some(query)) => drop(filter.queries.insert(query)),
                Some(None) => is_missing = true,
            }
            filter.fields.extend(permission.fields.iter().cloned());
            filter.masked_fields.extend(permission.masked_fields.iter().cloned());
        }
        if !is_needed {
            return Ok(());
        }
        let reason = match filtering {
            Filtering::Impossible => Reason::CannotFilter,
            _ if is_missing => Reason::MissingVariable,
            _ if !self.rules.hands_over_filters || is_pattern => Reason::NeedsFilter,
            Filtering::NotNeeded | Filtering::Possible => {
                answer.filters.insert(filter);
                return Ok(());
            }
        };
        answer.missing.insert(Cell { action, name: filter.name, reason });
        Err(Denied)
    }
}
