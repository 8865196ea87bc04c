//! Finds the filters that the cluster must apply to a request: document queries, fields and masks.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::role_set::RoleSet;
use super::{Caller, Grant, Privileges, RenderedPattern};
use crate::action::Action;
use crate::answer::{Answer, Denied, Filter, MAX_FILTERS, Reason};
use crate::config::{IndexPattern, IndexPermission, Variables};
use crate::filtering::{Filtering, denied_by_hidden, may_show_unknown_name, strictest_filtering};
use crate::need::Need;
use crate::pattern::{Pattern, has_astral_or_control};
use crate::resolve::Unknown;
use crate::settings::EvaluationSettings;

/// The check of all needs without the fast path of [`Privileges::permits`], with the answer so far.
pub(super) struct FullCheck<'e> {
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
    /// The names among them that have no members, or whose members are all among them.
    complete: RoaringBitmap,
}

/// The name of a filter.
#[derive(Clone, Copy, Debug)]
pub(super) enum FilterName<'n> {
    /// A name of the inventory.
    Known(&'n str),
    /// A pattern, or a name that the inventory lacks: in the cluster it may be an alias.
    Unknown(&'n str),
}

/// Whether the plugin certainly applies a permission to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Applies {
    Certainly,
    /// rolegate cannot tell.
    Possibly,
}

/// The restrictions on an index from the permissions of a caller.
#[derive(Debug, Default)]
pub(super) struct Restrictions<'p> {
    filter: Filter,
    /// Whether a query has a variable that the subject lacks.
    lacks_variable: bool,
    /// The restrictions of documents, of fields, and by masks.
    kinds: [Restriction<'p>; 3],
}

/// The restrictions of documents, of fields, or by masks.
#[derive(Debug, Default)]
struct Restriction<'p> {
    /// Whether the plugin certainly applies a permission that restricts nothing.
    shows_all: bool,
    /// Whether it is uncertain what the plugin applies. This is so if a restricting permission is
    /// [`Applies::Possibly`], or if two restricting permissions of a role differ. The plugin joins
    /// two such permissions, or uses the last, depending on their patterns.
    is_uncertain: bool,
    /// The last permission that restricts: its role, and its query, fields or masks.
    last: Option<(&'p str, Vec<Arc<str>>)>,
}

impl<'n> FilterName<'n> {
    const fn text(self) -> &'n str {
        match self {
            Self::Known(text) | Self::Unknown(text) => text,
        }
    }
}

impl<'p> Restriction<'p> {
    fn add(&mut self, role: &'p str, texts: Vec<Arc<str>>, applies: Applies) {
        if texts.is_empty() {
            self.shows_all |= applies == Applies::Certainly;
            return;
        }
        let last = self.last.as_ref().filter(|(last_role, _)| *last_role == role);
        self.is_uncertain |=
            applies == Applies::Possibly || last.is_some_and(|(_, last)| *last != texts);
        self.last = Some((role, texts));
    }
}

impl<'p> Restrictions<'p> {
    /// Adds a permission that applies to the index. The permissions of a role must be added one
    /// after the other.
    pub(super) fn add(
        &mut self,
        role: &'p str,
        permission: &IndexPermission,
        variables: &Variables,
        applies: Applies,
    ) {
        let IndexPermission { document_query, fields, masked_fields, .. } = permission;
        let query = document_query.iter().map(|query| query.text().into()).collect();
        let texts = [query, fields.clone(), masked_fields.clone()];
        for (kind, texts) in self.kinds.iter_mut().zip(texts) {
            kind.add(role, texts, applies);
        }
        match document_query.as_ref().map(|query| query.query(variables)) {
            None => {}
            Some(Some(query)) => drop(self.filter.queries.insert(query)),
            Some(None) => self.lacks_variable = true,
        }
        self.filter.fields.extend(fields.iter().cloned());
        self.filter.masked_fields.extend(masked_fields.iter().cloned());
    }

    /// The filter of the index with this name, if any.
    ///
    /// # Errors
    /// Why the request must be denied.
    pub(super) fn filter(
        mut self,
        name: FilterName<'_>,
        settings: &EvaluationSettings,
        filtering: Filtering,
    ) -> Result<Option<Filter>, Reason> {
        let filter = &mut self.filter;
        for kind in &mut self.kinds {
            kind.shows_all &= settings.empty_overrides_all;
        }
        let [documents, fields, masks] = &self.kinds;
        if documents.shows_all {
            filter.queries.clear();
            self.lacks_variable = false;
        }
        if fields.shows_all {
            filter.fields.clear();
        }
        if masks.shows_all {
            filter.masked_fields.clear();
        }
        // If some fields are hidden, all other fields are visible.
        if filter.fields.iter().any(|field| field.starts_with('~')) {
            filter.fields.retain(|field| field.starts_with('~'));
        }
        let hides_documents = !filter.queries.is_empty();
        if !self.lacks_variable
            && !hides_documents
            && filter.fields.is_empty()
            && filter.masked_fields.is_empty()
        {
            return Ok(None);
        }
        if filtering == Filtering::Impossible {
            Err(Reason::CannotFilter)
        } else if self.lacks_variable {
            Err(Reason::MissingVariable)
        } else if !settings.hands_over_filters || matches!(name, FilterName::Unknown(_)) {
            Err(Reason::NeedsFilter)
        } else if filtering == Filtering::PossibleForFields && hides_documents {
            Err(Reason::HiddenTerms)
        } else if self.kinds.iter().any(|kind| kind.is_uncertain && !kind.shows_all) {
            Err(Reason::UncertainFilter)
        } else {
            name.text().clone_into(&mut self.filter.name);
            Ok(Some(self.filter))
        }
    }
}

impl FullCheck<'_> {
    /// Adds the filters of permitted names, and of the aliases by which the request reaches them.
    pub(super) fn add_filters(
        &mut self,
        need: &Need<'_>,
        (known, aliases): (&RoaringBitmap, &RoaringBitmap),
        unknown: &[Unknown<'_>],
    ) -> Result<(), Denied> {
        let Self { privileges, caller, answer, filtered } = self;
        let Some((action, filtering)) = strictest_filtering(need) else { return Ok(()) };
        if caller.roles.is_unrestricted {
            return Ok(());
        }
        let inventory = &privileges.inventory;
        // If a role hides something of every index, two kinds of operations are denied, even if
        // another role shows all: those that read in order to write, and searches that show hidden
        // terms. The answer lists the first name in place of all.
        let hidden_everywhere = caller.roles.hidden_everywhere;
        if let Some(reason) =
            hidden_everywhere.and_then(|hidden| denied_by_hidden(filtering, hidden))
        {
            let name = known.min().map(|id| inventory.name(id));
            let name = name.or_else(|| unknown.first().map(|unknown| unknown.text()));
            return name.map_or(Ok(()), |name| answer.deny_if_any([&action], name, reason));
        }
        let restricted = caller.restricted.as_ref().unwrap_or(&caller.roles.restricted);
        let filtered = filtered.entry(filtering).or_default();
        for name in (known & restricted) - &filtered.complete {
            let members = inventory.members(name);
            // A filter is added for the alias or data stream, too: it may have newer indices.
            for id in std::iter::once(&name).chain(members).copied() {
                if filtered.names.contains(id) {
                    continue;
                }
                let filter_name = FilterName::Known(inventory.name(id));
                privileges.add_filter(
                    caller,
                    (action, filtering),
                    filter_name,
                    answer,
                    |grant| match privileges.applies_to_known(caller, grant, id) {
                        true => Some(Applies::Certainly),
                        // For an alias or data stream, `may_hide` is called for each index.
                        false if id == name && !members.is_empty() => None,
                        false => {
                            privileges.may_hide(caller, grant, id).then_some(Applies::Possibly)
                        }
                    },
                )?;
                filtered.names.insert(id);
            }
            filtered.complete.insert(name);
        }
        for unknown in unknown {
            let filter_name = FilterName::Unknown(unknown.text());
            privileges.add_filter(caller, (action, filtering), filter_name, answer, |grant| {
                // The name may be a newer alias of a restricted index.
                let may_apply = (may_show_unknown_name(action) && grant.is_restricted())
                    || privileges.may_apply_to_unknown(caller, grant, *unknown);
                if !may_apply {
                    return None;
                }
                let is_certain =
                    privileges.any_pattern(caller, grant, |pattern| unknown.is_covered_by(pattern));
                Some(if is_certain { Applies::Certainly } else { Applies::Possibly })
            })?;
        }
        for alias in (aliases & restricted) - &filtered.names {
            let filter_name = FilterName::Known(inventory.name(alias));
            privileges.add_filter(caller, (action, filtering), filter_name, answer, |grant| {
                let applies = privileges.applies_to_known(caller, grant, alias);
                applies.then_some(Applies::Certainly)
            })?;
            filtered.names.insert(alias);
        }
        Ok(())
    }
}

impl Privileges {
    /// The names for [`Caller::restricted`].
    pub(super) fn restricted_by_templates(
        &self,
        roles: &RoleSet,
        templates: &[RenderedPattern],
        hiding: &[RenderedPattern],
    ) -> Option<RoaringBitmap> {
        let restricting = &roles.restricting_templates;
        if restricting.is_empty() {
            return None;
        }
        let templates = templates.iter().filter(|pattern| restricting.contains(pattern.template));
        let mut names = RoaringBitmap::new();
        for pattern in templates.chain(hiding) {
            names |= &pattern.with_members;
        }
        Some(self.inventory.with_parents(names) | &roles.restricted)
    }

    /// Adds the filter of a name, or denies the name. `applies` returns `None` for a permission
    /// that does not apply to the name.
    fn add_filter(
        &self,
        caller: &Caller,
        (action, filtering): (Action, Filtering),
        name: FilterName<'_>,
        answer: &mut Answer,
        applies: impl Fn(&Grant) -> Option<Applies>,
    ) -> Result<(), Denied> {
        // The caller of [`Privileges::decide`] denies a request with more filters.
        if answer.filters.len() > MAX_FILTERS {
            return Ok(());
        }
        let mut restrictions = Restrictions::default();
        for grant in caller.roles.grants(self) {
            // A permission that shows all matters only if the settings say so.
            if (self.settings.empty_overrides_all || grant.is_restricted())
                && let Some(applies) = applies(grant)
                && let Some(permission) = self.permission(grant)
            {
                restrictions.add(&grant.role, permission, &caller.variables, applies);
            }
        }
        match restrictions.filter(name, &self.settings, filtering) {
            Ok(filter) => answer.filters.extend(filter),
            Err(reason) => answer.deny_if_any([&action], name.text(), reason)?,
        }
        Ok(())
    }

    /// Whether a permission applies to a name of the inventory, or to its alias or data stream.
    pub(crate) fn applies_to_known(&self, caller: &Caller, grant: &Grant, id: u32) -> bool {
        self.name_and_parents(id).any(|name| {
            let patterns = grant.patterns.iter();
            let mut matches = patterns.filter_map(|pattern| self.patterns.matches(*pattern));
            matches.any(|names| names.contains(name))
                || rendered_for(&caller.templates, grant)
                    .any(|pattern| pattern.direct.contains(name))
        })
    }

    /// Whether a permission is restricting and the plugin may apply it to a name, although rolegate
    /// does not. The plugin reads wildcards in values of the caller, and matches some characters
    /// differently.
    pub(crate) fn may_hide(&self, caller: &Caller, grant: &Grant, id: u32) -> bool {
        grant.is_restricted()
            && (self.special.astral_or_control.contains(id)
                || rendered_for(&caller.hiding, grant).any(|pattern| {
                    self.name_and_parents(id).any(|name| pattern.direct.contains(name))
                }))
    }

    /// A name and, for an index, its aliases and data streams.
    fn name_and_parents(&self, id: u32) -> impl Iterator<Item = u32> {
        std::iter::once(id).chain(self.inventory.parents(id).iter().copied())
    }

    /// Whether the plugin may apply a permission to a name that the inventory lacks. Without an
    /// inventory, the name may be an alias of any index.
    pub(crate) fn may_apply_to_unknown(
        &self,
        caller: &Caller,
        grant: &Grant,
        unknown: Unknown<'_>,
    ) -> bool {
        !self.has_inventory
            || self.any_pattern(caller, grant, |pattern| unknown.may_match(pattern))
            || (grant.is_restricted()
                && (has_astral_or_control(unknown.text())
                    || rendered_for(&caller.hiding, grant)
                        .any(|rendered| unknown.may_match(&rendered.pattern))))
    }

    /// Whether a condition is true for a pattern of a permission.
    fn any_pattern(
        &self,
        caller: &Caller,
        grant: &Grant,
        condition: impl Fn(&Pattern) -> bool,
    ) -> bool {
        let permission = self.permission(grant).into_iter();
        rendered_for(&caller.templates, grant).any(|rendered| condition(&rendered.pattern))
            || permission.flat_map(|permission| &permission.patterns).any(|pattern| match pattern {
                IndexPattern::Static(pattern) => condition(pattern),
                IndexPattern::Template(_) => false,
            })
    }

    /// The permission in the configuration.
    pub(crate) fn permission(&self, grant: &Grant) -> Option<&IndexPermission> {
        self.config.roles.get(&grant.role)?.index_permissions.get(grant.position)
    }
}

/// The rendered patterns that a permission has.
fn rendered_for<'r>(
    rendered: &'r [RenderedPattern],
    grant: &Grant,
) -> impl Iterator<Item = &'r RenderedPattern> {
    rendered.iter().filter(|rendered| grant.templates.contains(&rendered.template))
}
