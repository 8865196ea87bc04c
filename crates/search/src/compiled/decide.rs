//! Decides: first by look-ups that only find out whether all is permitted, then, if it is not, what is missing.

use roaring::RoaringBitmap;

use super::actions::SYSTEM_INDEX;
use super::role_set::Allowed;
use super::{Caller, Grant, Privileges, Rendered};
use crate::action::Action;
use crate::answer::{
    Answer, Cell, Filter, Filtering, MAX_MISSING, MAX_NAMES, Part as PermittedPart, Reason, Verdict, changes,
    strictest,
};
use crate::config::EvaluationType;
use crate::expression::{Expression, Part};
use crate::inventory::{Inventory, Kind};
use crate::need::{Need, Target};
use crate::resolve::{Names, Unknown, resolve};

/// A need that is not permitted.
struct Denied;

impl Privileges {
    /// Whether the needs of a request are permitted as they are. For a caller and an action that have been seen it
    /// allocates nothing.
    #[must_use]
    pub fn permits<'n>(&self, caller: &Caller, needs: impl IntoIterator<Item = &'n Need<'n>>) -> bool {
        needs.into_iter().all(|need| self.permits_need(caller, need))
    }

    /// Whether the needs of a request are permitted, what is missing, and what must be filtered.
    #[must_use]
    pub fn decide(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        if self.permits(caller, needs) {
            return Answer { verdict: Verdict::Permitted, ..Answer::default() };
        }
        let mut answer = Answer { verdict: Verdict::Permitted, ..Answer::default() };
        let (mut parts, mut is_denied) = (Vec::new(), false);
        for (number, need) in needs.iter().enumerate() {
            let outcome = match resolve(self.inventory.as_deref(), self.rules.evaluation, &need.target) {
                Some(names) => self.on_indices(caller, need, &names, &mut answer),
                None if need.target == Target::Cluster => self.on_cluster(caller, need, &mut answer),
                None => Ok(None),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(names)) => parts.push(PermittedPart { need: number, names }),
                Err(Denied) => is_denied = true,
            }
        }
        if is_denied {
            answer.verdict = Verdict::Denied;
            answer.filters.clear();
        } else if !parts.is_empty() {
            answer.verdict = Verdict::PermittedInPart(parts);
        }
        answer
    }

    fn permits_need(&self, caller: &Caller, need: &Need<'_>) -> bool {
        match &need.target {
            Target::Cluster => {
                !caller.is_service && need.actions.iter().all(|action| caller.roles.cluster.contains(*action))
            }
            Target::Name(name) => self.permits_name(caller, need.actions, name),
            Target::Missing(name) => {
                self.number(name).is_some() || self.permits_name(caller, need.actions, name)
            }
            Target::NewAlias(name) => match self.rules.evaluation {
                EvaluationType::Legacy => true,
                EvaluationType::V4 => self.permits_name(caller, need.actions, name),
            },
            Target::Indices(expression) | Target::Fixed(expression) => {
                self.permits_expression(caller, need.actions, expression)
            }
        }
    }

    fn permits_expression(&self, caller: &Caller, actions: &[Action], expression: &Expression<'_>) -> bool {
        let has_pattern = expression.parts().any(|part| !matches!(part, Part::Name(_)));
        if !has_pattern {
            return expression.parts().all(|part| match part {
                Part::Name(name) => {
                    // With a name that does not exist, `legacy` does not replace an alias by its members. That they
                    // are permitted does not imply that the alias is.
                    let is_alias = self.rules.evaluation == EvaluationType::Legacy
                        && self.number(name).is_some_and(|number| self.is_alias(number));
                    (!is_alias || self.all_known(expression)) && self.permits_name(caller, actions, name)
                }
                Part::Pattern(_) | Part::Except(_) => false,
            });
        }
        let Some(inventory) = self.inventory.as_deref() else {
            return self.permits_unexpanded(caller, actions, expression);
        };
        if !expression.options.expands() {
            return false;
        }
        let names = self.expressions.names(expression, || self.resolve_known(inventory, expression));
        let Some(names) =
            names.filter(|names| !names.is_empty() || self.rules.evaluation == EvaluationType::Legacy)
        else {
            return false;
        };
        actions.iter().all(|action| {
            caller.roles.allowed(self, *action).is_some_and(|allowed| names.is_subset(&allowed.known))
        }) && !caller.is_service
            && self.is_unfiltered(caller, actions, |restricted| !restricted.is_disjoint(&names))
    }

    /// The names that an expression stands for, if the inventory has all of them.
    fn resolve_known(&self, inventory: &Inventory, expression: &Expression<'_>) -> Option<RoaringBitmap> {
        let target = Target::Indices(expression.clone());
        let names = resolve(Some(inventory), self.rules.evaluation, &target)?;
        names.unknown.is_empty().then_some(names.known)
    }

    /// Without an inventory: whether each pattern is covered by one that is granted.
    fn permits_unexpanded(&self, caller: &Caller, actions: &[Action], expression: &Expression<'_>) -> bool {
        expression.options.expands()
            && expression.parts().all(|part| match part {
                Part::Name(name) => self.permits_name(caller, actions, name),
                Part::Except(_) => true,
                Part::Pattern(pattern) => {
                    let unknown = Unknown::Pattern(pattern);
                    actions.iter().all(|action| self.unknown_cell(caller, *action, unknown).is_ok())
                        && strictest(actions).is_none_or(|_| caller.roles.is_unrestricted())
                }
            })
    }

    /// Whether actions are permitted on one name, without a filter.
    fn permits_name(&self, caller: &Caller, actions: &[Action], name: &str) -> bool {
        let Some(number) = self.number(name) else {
            let unknown = Unknown::Name(name);
            return actions.iter().all(|action| self.unknown_cell(caller, *action, unknown).is_ok())
                && strictest(actions).is_none_or(|_| caller.roles.is_unrestricted());
        };
        if caller.is_service {
            return false;
        }
        let members = match (self.rules.evaluation, self.inventory.as_deref()) {
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
        }) && self
            .is_unfiltered(caller, actions, |restricted| rows.iter().any(|row| restricted.contains(*row)))
    }

    /// Whether nothing must be filtered, if `touches` says whether these restricted names are needed.
    fn is_unfiltered(
        &self,
        caller: &Caller,
        actions: &[Action],
        touches: impl Fn(&RoaringBitmap) -> bool,
    ) -> bool {
        caller.roles.is_unrestricted()
            || strictest(actions).is_none()
            || (caller.roles.restricting_templates.is_empty() && !touches(&caller.roles.restricted))
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

    /// Whether the inventory has each name of an expression.
    fn all_known(&self, expression: &Expression<'_>) -> bool {
        expression.parts().all(|part| match part {
            Part::Name(name) => self.number(name).is_some(),
            Part::Pattern(_) | Part::Except(_) => true,
        })
    }

    fn on_cluster(&self, caller: &Caller, need: &Need<'_>, answer: &mut Answer) -> Outcome {
        let mut outcome = Ok(None);
        for action in need.actions {
            let reason = match (caller.is_service, caller.roles.cluster.contains(*action)) {
                (true, _) => Reason::ServiceAccount,
                (false, true) => continue,
                (false, false) => Reason::NotGranted,
            };
            answer.missing.insert(Cell { action: *action, name: String::new(), reason });
            outcome = Err(Denied);
        }
        outcome
    }

    fn on_indices(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        names: &Names<'_>,
        answer: &mut Answer,
    ) -> Outcome {
        if names.known.is_empty() && names.unknown.is_empty() {
            return self.on_no_index(caller, need, answer);
        }
        let mut known = names.known.clone();
        let mut unknown = names.unknown.clone();
        let mut is_special = false;
        for action in need.actions {
            let permitted = self.permitted(caller, *action, &names.known);
            let missing = &names.known - &permitted;
            known &= permitted;
            let system = &missing & &self.special.system;
            is_special |= !missing.is_disjoint(&self.special.security)
                || !system.is_subset(&self.granted(caller, SYSTEM_INDEX, &system));
            let cells = missing
                .iter()
                .map(|number| (self.name(number).to_owned(), self.reason(caller, *action, number)));
            let unknown_cells = names.unknown.iter().filter_map(|name| {
                let reason = self.unknown_cell(caller, *action, *name).err()?;
                Some((name.text().to_owned(), reason))
            });
            let unknown_cells: Vec<_> = unknown_cells.collect();
            is_special |= unknown_cells
                .iter()
                .any(|(_, reason)| matches!(reason, Reason::SystemIndex | Reason::SecurityIndex));
            unknown.retain(|name| !unknown_cells.iter().any(|(missing, _)| missing == name.text()));
            for (name, reason) in cells.chain(unknown_cells).take(MAX_MISSING) {
                answer.missing.insert(Cell { action: *action, name, reason });
            }
        }
        // A name that is missing for one action is missing for the need, however often it is named.
        let is_whole = known.len() == names.known.len() && unknown.len() == names.unknown.len();
        let reduced = if is_whole {
            None
        } else {
            let count = usize::try_from(known.len()).unwrap_or(usize::MAX).saturating_add(unknown.len());
            self.may_reduce(caller, need, names, is_special, count == 0)?;
            if count > MAX_NAMES {
                return Err(Denied);
            }
            let known = known.iter().map(|number| self.name(number).to_owned());
            Some(known.chain(unknown.iter().map(|name| name.text().to_owned())).collect())
        };
        self.filters(caller, need, &known, &unknown, answer)?;
        Ok(reduced)
    }

    fn on_no_index(&self, caller: &Caller, need: &Need<'_>, answer: &mut Answer) -> Outcome {
        if self.rules.evaluation == EvaluationType::Legacy {
            return Ok(None);
        }
        let mut outcome = Ok(None);
        for action in need.actions.iter().filter(|action| !self.on_any_index(caller, **action)) {
            answer.missing.insert(Cell { action: *action, name: String::new(), reason: Reason::NotGranted });
            outcome = Err(Denied);
        }
        outcome
    }

    fn on_any_index(&self, caller: &Caller, action: Action) -> bool {
        caller.roles.allowed(self, action).is_some_and(|allowed| allowed.any)
    }

    fn may_reduce(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        names: &Names<'_>,
        is_special: bool,
        is_empty: bool,
    ) -> Result<(), Denied> {
        let rules = &self.rules;
        let any = || need.actions.iter().all(|action| self.on_any_index(caller, *action));
        let may = matches!(need.target, Target::Indices(_))
            && !names.unknown.iter().any(|unknown| matches!(unknown, Unknown::Pattern(_)))
            && match rules.evaluation {
                EvaluationType::Legacy => {
                    rules.do_not_fail_on_forbidden
                        && need.actions.iter().all(|action| rules.reduces(*action))
                        && (!is_special || names.is_all)
                        && (!is_empty || rules.do_not_fail_on_forbidden_empty)
                }
                EvaluationType::V4 => {
                    rules.ignore_unauthorized_indices
                        && names.is_reducible
                        && (!is_empty || (names.may_be_empty && any()))
                }
            };
        if may { Ok(()) } else { Err(Denied) }
    }

    /// Those of these names on which an action is permitted.
    fn permitted(&self, caller: &Caller, action: Action, names: &RoaringBitmap) -> RoaringBitmap {
        let mut permitted = self.granted(caller, action, names);
        permitted -= &self.special.security;
        let system = &permitted & &self.special.system;
        if !system.is_empty() {
            permitted -= &system - self.granted(caller, SYSTEM_INDEX, &system);
        }
        if changes(action) && !caller.roles.may_change_protected {
            permitted -= &self.special.protected;
        }
        if caller.is_service {
            permitted &= &self.special.system;
        }
        permitted
    }

    /// Those of these names on which roles grant an action, whatever else they need.
    fn granted(&self, caller: &Caller, action: Action, names: &RoaringBitmap) -> RoaringBitmap {
        let Some(allowed) = caller.roles.allowed(self, action) else { return RoaringBitmap::new() };
        let mut granted = (&allowed.known | &allowed.withheld) & names;
        for rendered in caller.rendered(&allowed.templates) {
            granted |= &rendered.effective & names;
        }
        granted
    }

    fn name(&self, number: u32) -> &str {
        self.inventory.as_deref().map_or("", |inventory| inventory.name(number))
    }

    /// Why an action is not permitted on a name of the inventory.
    fn reason(&self, caller: &Caller, action: Action, number: u32) -> Reason {
        let one = RoaringBitmap::from_iter([number]);
        if self.special.security.contains(number) {
            Reason::SecurityIndex
        } else if self.special.system.contains(number) && self.granted(caller, SYSTEM_INDEX, &one).is_empty()
        {
            Reason::SystemIndex
        } else if caller.is_service && !self.special.system.contains(number) {
            Reason::ServiceAccount
        } else if changes(action)
            && !caller.roles.may_change_protected
            && self.special.protected.contains(number)
        {
            Reason::ProtectedIndex
        } else {
            Reason::NotGranted
        }
    }

    /// Whether an action is permitted on what the inventory does not have.
    fn unknown_cell(&self, caller: &Caller, action: Action, unknown: Unknown<'_>) -> Result<(), Reason> {
        let rules = &self.rules;
        let (special, is_protected) = match unknown {
            Unknown::Name(name) => (rules.special(name), changes(action) && rules.is_protected(name)),
            Unknown::Pattern(text) => {
                let overlaps = |pattern: &crate::pattern::Pattern| pattern.may_overlap(text);
                (rules.special_pattern(text), changes(action) && rules.protected_indices.iter().any(overlaps))
            }
        };
        match special {
            Some(Reason::SystemIndex) if self.grants_unknown(caller, SYSTEM_INDEX, unknown) => {}
            Some(reason) => return Err(reason),
            None if caller.is_service => return Err(Reason::ServiceAccount),
            None => {}
        }
        if is_protected && !caller.roles.may_change_protected {
            return Err(Reason::ProtectedIndex);
        }
        if self.grants_unknown(caller, action, unknown) { Ok(()) } else { Err(Reason::NotGranted) }
    }

    fn grants_unknown(&self, caller: &Caller, action: Action, unknown: Unknown<'_>) -> bool {
        let Some(Allowed { patterns, others, templates, .. }) = caller.roles.allowed(self, action) else {
            return false;
        };
        let rendered = caller.rendered(templates).map(|rendered| &rendered.pattern);
        let mut asked = others.iter().chain(rendered);
        match unknown {
            Unknown::Name(name) => {
                self.patterns.any_matches(patterns, name) || asked.any(|pattern| pattern.matches(name))
            }
            Unknown::Pattern(text) => {
                self.patterns.any_covers(patterns, text) || asked.any(|pattern| pattern.covers(text))
            }
        }
    }

    /// Adds the filters that permitted names need.
    fn filters(
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

    fn applies_to_known(&self, caller: &Caller, grant: &Grant, number: u32) -> bool {
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

    fn applies_to_unknown(&self, caller: &Caller, grant: &Grant, unknown: Unknown<'_>) -> bool {
        let applies = |pattern: &crate::pattern::Pattern| match unknown {
            Unknown::Name(name) => pattern.matches(name),
            Unknown::Pattern(text) => pattern.may_overlap(text),
        };
        let mut rendered = caller.templates.iter().filter(|one| grant.templates.contains(&one.template));
        rendered.any(|one| applies(&one.pattern))
            || self.restriction(grant).is_some_and(|permission| {
                permission.patterns.iter().any(|pattern| match pattern {
                    crate::config::IndexPattern::Static(pattern) => applies(pattern),
                    crate::config::IndexPattern::Template(_) => false,
                })
            })
    }

    fn restriction(&self, grant: &Grant) -> Option<&crate::config::IndexPermission> {
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

/// `Ok` with the names that a need must be reduced to, or without if it is permitted as it is.
type Outcome = Result<Option<Vec<String>>, Denied>;

impl Caller {
    /// The patterns of these templates.
    fn rendered<'c>(&'c self, among: &'c RoaringBitmap) -> impl Iterator<Item = &'c Rendered> {
        self.templates.iter().filter(|rendered| among.contains(rendered.template))
    }
}
