//! The filters of the indices of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::role_set::RoleSet;
use super::{Caller, Grant, Privileges, RenderedPattern};
use crate::action::Action;
use crate::answer::{Answer, Denied, Filter, MAX_FILTERS, Reason};
use crate::config::{IndexPattern, IndexPermission, Variables};
use crate::filtering::{Filtering, denied_by_all, may_be_of_any, strictest};
use crate::need::Need;
use crate::pattern::Pattern;
use crate::resolve::Unknown;
use crate::settings::EvaluationSettings;

/// The evaluation of a request of a caller.
pub(super) struct Evaluation<'e> {
    pub(super) privileges: &'e Privileges,
    pub(super) caller: &'e Caller,
    pub(super) answer: Answer,
    /// Names whose filters are in the answer.
    pub(super) filtered: BTreeMap<Filtering, FilteredNames>,
}

/// Names whose filters are in the answer. A client may name the same alias hundreds of times.
#[derive(Default)]
pub(super) struct FilteredNames {
    names: RoaringBitmap,
    /// Aliases and data streams with all of their indices.
    groups: RoaringBitmap,
}

/// The restrictions of one index by the permissions of a caller.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    filter: Filter,
    /// A query has a variable that the subject lacks.
    is_missing: bool,
    /// Whether a permission hides no document, no field, and masks none.
    shows_all: [bool; 3],
    /// The same three, if a permission may do so, or two of one role do so differently. The plugin
    /// then joins them, or uses the last, depending on their patterns.
    is_uncertain: [bool; 3],
    /// The role whose permission was added last, and the texts of its query, fields and masks.
    last: Option<(usize, [Vec<Arc<str>>; 3])>,
}

impl Restrictions {
    /// Adds a permission that is for the index, or may be. Those of one role must follow each
    /// other.
    pub(super) fn add(
        &mut self,
        role: usize,
        permission: &IndexPermission,
        variables: &Variables,
        is_certain: bool,
    ) {
        let query = permission.document_query.iter().map(|query| query.text().into()).collect();
        let restricted = [query, permission.fields.clone(), permission.masked_fields.clone()];
        let (_, before) = match &mut self.last {
            Some(last) if last.0 == role => last,
            last => last.insert((role, [const { Vec::new() }; 3])),
        };
        let kinds =
            restricted.into_iter().zip(before).zip(&mut self.shows_all).zip(&mut self.is_uncertain);
        for (((restricted, before), shows_all), is_uncertain) in kinds {
            if restricted.is_empty() {
                *shows_all |= is_certain;
            } else {
                *is_uncertain |= !is_certain || (!before.is_empty() && *before != restricted);
                *before = restricted;
            }
        }
        match permission.document_query.as_ref().map(|query| query.query(variables)) {
            None => {}
            Some(Some(query)) => drop(self.filter.queries.insert(query)),
            Some(None) => self.is_missing = true,
        }
        self.filter.fields.extend(permission.fields.iter().cloned());
        self.filter.masked_fields.extend(permission.masked_fields.iter().cloned());
    }

    /// The filter of the index with this name, if any. The name is known if the inventory has it.
    /// Another may be a pattern, or that of an alias.
    ///
    /// # Errors
    /// Why the request must be denied.
    pub(super) fn filter(
        mut self,
        name: &str,
        settings: &EvaluationSettings,
        filtering: Filtering,
        is_known: bool,
    ) -> Result<Option<Filter>, Reason> {
        let filter = &mut self.filter;
        let [shows_documents, shows_fields, shows_values] =
            self.shows_all.map(|shows_all| shows_all && settings.empty_overrides_all);
        if shows_documents {
            filter.queries.clear();
            (self.is_missing, self.is_uncertain[0]) = (false, false);
        }
        if shows_fields {
            filter.fields.clear();
            self.is_uncertain[1] = false;
        }
        if shows_values {
            filter.masked_fields.clear();
            self.is_uncertain[2] = false;
        }
        // If some fields are hidden, visible ones do not count.
        if filter.fields.iter().any(|field| field.starts_with('~')) {
            filter.fields.retain(|field| field.starts_with('~'));
        }
        let hides_documents = !filter.queries.is_empty();
        if !self.is_missing
            && !hides_documents
            && filter.fields.is_empty()
            && filter.masked_fields.is_empty()
        {
            return Ok(None);
        }
        if filtering == Filtering::Impossible {
            Err(Reason::CannotFilter)
        } else if self.is_missing {
            Err(Reason::MissingVariable)
        } else if !settings.hands_over_filters || !is_known {
            Err(Reason::NeedsFilter)
        } else if filtering == Filtering::PossibleForFields && hides_documents {
            Err(Reason::HiddenTerms)
        } else if self.is_uncertain.contains(&true) {
            Err(Reason::UncertainFilter)
        } else {
            name.clone_into(&mut self.filter.name);
            Ok(Some(self.filter))
        }
    }
}

impl Evaluation<'_> {
    /// Adds the filters of permitted names, and of the aliases by which these are reached.
    pub(super) fn filter_names(
        &mut self,
        need: &Need<'_>,
        (known, replaced): (&RoaringBitmap, &RoaringBitmap),
        unknown: &[Unknown<'_>],
    ) -> Result<(), Denied> {
        let Self { privileges, caller, answer, filtered } = self;
        let Some((action, filtering)) = strictest(need) else { return Ok(()) };
        if caller.roles.is_unrestricted {
            return Ok(());
        }
        // If a role hides something of every index, changes by reading are denied, whatever others
        // show.
        let hides_of_all = caller.roles.hides_of_all;
        if let Some(reason) = hides_of_all.and_then(|documents| denied_by_all(filtering, documents))
        {
            let known = known.min().map(|number| privileges.inventory.name(number));
            let first = known.or_else(|| unknown.first().map(|unknown| unknown.text()));
            return first.map_or(Ok(()), |name| answer.deny([&action], name, reason));
        }
        let restricted = caller.restricted.as_ref().unwrap_or(&caller.roles.restricted);
        let filtered = filtered.entry(filtering).or_default();
        let mut add = |name: (&str, bool), applies: &dyn Fn(&Grant) -> Option<bool>| {
            privileges.add_filter(caller, (action, filtering), name, applies, answer)
        };
        for group in (known & restricted) - &filtered.groups {
            let members = privileges.inventory.members(group);
            // A filter is added for the group, too: it may have got further indices since.
            for number in std::iter::once(&group).chain(members).copied() {
                if filtered.names.contains(number) {
                    continue;
                }
                let applies =
                    |grant: &Grant| match privileges.applies_to_known(caller, grant, number) {
                        true => Some(true),
                        // Whether something may be hidden is found with the indices.
                        false if number == group && !members.is_empty() => None,
                        false => privileges.may_hide(caller, grant, number).then_some(false),
                    };
                if !add((privileges.inventory.name(number), true), &applies)? {
                    return Ok(());
                }
                filtered.names.insert(number);
            }
            filtered.groups.insert(group);
        }
        for unknown in unknown {
            let applies = |grant: &Grant| {
                let may_apply = (may_be_of_any(action) && grant.is_restricted())
                    || privileges.matches_unknown(caller, grant, *unknown);
                let is_certain = |pattern: &Pattern| unknown.is_covered_by(pattern);
                may_apply.then(|| privileges.any_pattern(caller, grant, is_certain))
            };
            add((unknown.text(), false), &applies)?;
        }
        for alias in (replaced & restricted) - &filtered.names {
            let applies =
                |grant: &Grant| privileges.applies_to_known(caller, grant, alias).then_some(true);
            if !add((privileges.inventory.name(alias), true), &applies)? {
                return Ok(());
            }
            filtered.names.insert(alias);
        }
        Ok(())
    }
}

impl Privileges {
    /// Names on which roles restrict documents or fields. `None` if no pattern with values of the
    /// caller does so: the roles then have all of these names.
    pub(super) fn restricted_by_values(
        &self,
        roles: &RoleSet,
        templates: &[RenderedPattern],
        widened: &[RenderedPattern],
    ) -> Option<RoaringBitmap> {
        if roles.restricting_templates.is_empty() && widened.is_empty() {
            return None;
        }
        let mut names = RoaringBitmap::new();
        let restricting = templates
            .iter()
            .filter(|rendered| roles.restricting_templates.contains(rendered.template));
        for rendered in restricting.chain(widened) {
            names |= &rendered.effective;
        }
        Some(self.with_groups(names) | &roles.restricted)
    }

    /// Adds the filter of one name, or denies it. `applies` returns whether a permission is
    /// certainly for the name, or `None` if it is not for it. `Ok(false)` if there are too many
    /// filters.
    fn add_filter(
        &self,
        caller: &Caller,
        (action, filtering): (Action, Filtering),
        (name, is_known): (&str, bool),
        applies: &dyn Fn(&Grant) -> Option<bool>,
        answer: &mut Answer,
    ) -> Result<bool, Denied> {
        if answer.filters.len() > MAX_FILTERS {
            return Ok(false);
        }
        let mut restrictions = Restrictions::default();
        // A permission that shows all counts only if the rules say so.
        let counts = |grant: &&Grant| self.settings.empty_overrides_all || grant.is_restricted();
        for grant in caller.roles.grants(self).filter(counts) {
            if let (Some(is_certain), Some(permission)) = (applies(grant), self.permission(grant)) {
                let role = Arc::as_ptr(&grant.permission.0).addr();
                restrictions.add(role, permission, &caller.variables, is_certain);
            }
        }
        match restrictions.filter(name, &self.settings, filtering, is_known) {
            Ok(filter) => answer.filters.extend(filter),
            Err(reason) => answer.deny([&action], name, reason)?,
        }
        Ok(true)
    }

    /// Whether a permission is for a name of the inventory, or an alias or data stream of it.
    pub(crate) fn applies_to_known(&self, caller: &Caller, grant: &Grant, number: u32) -> bool {
        self.with_parents(number).any(|number| {
            let matches =
                |id: &u32| self.patterns.matches(*id).is_some_and(|names| names.contains(number));
            grant.patterns.iter().any(matches)
                || rendered_for(&caller.templates, grant)
                    .any(|rendered| rendered.direct.contains(number))
        })
    }

    /// Whether the plugin may take a pattern of a permission to hide something of a name.
    pub(crate) fn may_hide(&self, caller: &Caller, grant: &Grant, number: u32) -> bool {
        let matches = |rendered: &RenderedPattern| {
            self.with_parents(number).any(|number| rendered.direct.contains(number))
        };
        grant.is_restricted()
            && (self.special.odd.contains(number)
                || rendered_for(&caller.widened, grant).any(matches))
    }

    /// A name and, for an index, those of its aliases and data streams.
    fn with_parents(&self, number: u32) -> impl Iterator<Item = u32> {
        std::iter::once(number).chain(self.inventory.groups(number).iter().copied())
    }

    /// Whether a permission may be for names that the inventory lacks: those that its patterns
    /// match. Without an inventory, a name may be that of an alias, for an index with any name.
    pub(crate) fn matches_unknown(
        &self,
        caller: &Caller,
        grant: &Grant,
        unknown: Unknown<'_>,
    ) -> bool {
        let may_hide = || {
            Pattern::is_odd(unknown.text())
                || rendered_for(&caller.widened, grant)
                    .any(|rendered| unknown.may_match(&rendered.pattern))
        };
        !self.has_inventory
            || self.any_pattern(caller, grant, |pattern| unknown.may_match(pattern))
            || (grant.is_restricted() && may_hide())
    }

    /// Whether this is so for one of the patterns of a permission.
    fn any_pattern(
        &self,
        caller: &Caller,
        grant: &Grant,
        is_so: impl Fn(&Pattern) -> bool,
    ) -> bool {
        let is_static = |pattern: &IndexPattern| match pattern {
            IndexPattern::Static(pattern) => is_so(pattern),
            IndexPattern::Template(_) => false,
        };
        rendered_for(&caller.templates, grant).any(|rendered| is_so(&rendered.pattern))
            || self
                .permission(grant)
                .is_some_and(|permission| permission.patterns.iter().any(is_static))
    }

    /// The permission of the configuration.
    pub(crate) fn permission(&self, grant: &Grant) -> Option<&IndexPermission> {
        let (role, number) = &grant.permission;
        self.config.roles.get(role)?.index_permissions.get(*number)
    }
}

/// Those of these patterns that a permission has.
fn rendered_for<'r>(
    rendered: &'r [RenderedPattern],
    grant: &Grant,
) -> impl Iterator<Item = &'r RenderedPattern> {
    rendered.iter().filter(|rendered| grant.templates.contains(&rendered.template))
}
