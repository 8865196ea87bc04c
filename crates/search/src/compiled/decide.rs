//! Decides what is missing, what remains and what must be filtered, where look-ups do not find all permitted.

use roaring::RoaringBitmap;

use super::actions::SYSTEM_INDEX;
use super::filtered::Filtered;
use super::role_set::Allowed;
use super::{Caller, Privileges, Rendered};
use crate::action::Action;
use crate::answer::{
    Answer, MAX_MISSING, MAX_NAMES, Missing, Part as PermittedPart, Reason, Verdict, changes,
};
use crate::config::EvaluationType;
use crate::need::{Need, Target};
use crate::resolve::{Names, Unknown, counts, hidden_beside, resolve_need};
use crate::tenants::TenantAccess;

/// A need that is not permitted.
pub(super) struct Denied;

impl Privileges {
    /// Whether the needs of a request are permitted, what is missing, and what must be filtered.
    #[must_use]
    pub fn decide(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        if self.permits(caller, needs) {
            return Answer { verdict: Verdict::Permitted, ..Answer::default() };
        }
        self.evaluate(caller, needs)
    }

    /// The same without look-ups: it works out the names of each need.
    pub(super) fn evaluate(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        let mut answer = Answer { verdict: Verdict::Permitted, ..Answer::default() };
        let (mut parts, mut is_denied) = (Vec::new(), false);
        let mut filtered = Filtered::default();
        let all = needs.iter().enumerate();
        for (number, need) in all.filter(|(_, need)| counts(self.settings.evaluation, need)) {
            let outcome = match resolve_need(self.inventory.as_deref(), self.settings.evaluation, need) {
                Some(names) => self.on_indices(caller, need, &names, &mut answer, &mut filtered),
                None if need.target == Target::Cluster => self.on_cluster(caller, need, &mut answer),
                None => Ok(None),
            };
            let outcome = match self.reaches_new(caller, need).filter(|_| outcome.is_ok()) {
                Some(missing) => {
                    answer.missing.insert(missing);
                    Err(Denied)
                }
                None => outcome,
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

    fn on_cluster(&self, caller: &Caller, need: &Need<'_>, answer: &mut Answer) -> Outcome {
        let mut outcome = Ok(None);
        for action in need.actions {
            let reason = match (caller.is_service, caller.roles.cluster.contains(*action)) {
                (true, _) => Reason::ServiceAccount,
                (false, true) => continue,
                (false, false) => Reason::NotGranted,
            };
            answer.missing.insert(Missing { action: *action, name: String::new(), reason });
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
        filtered: &mut Filtered,
    ) -> Outcome {
        if self.settings.changes_all(need) {
            let (name, reason) = (need.target.text(), Reason::AllIndices);
            let missing = |action: &Action| Missing { action: *action, name: name.to_owned(), reason };
            answer.missing.extend(need.actions.iter().map(missing));
            return Err(Denied);
        }
        if names.known.is_empty() && names.unknown.is_empty() {
            self.on_no_index(caller, need, answer)?;
            return self.on_emptied(need, names, answer);
        }
        self.in_tenant(caller, need, names, answer)?;
        let mut known = names.known.clone();
        // For each unknown name, whether all actions so far are permitted on it.
        let mut is_kept = vec![true; names.unknown.len()];
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
            let mut unknown_cells = Vec::new();
            for (name, is_kept) in names.unknown.iter().zip(&mut is_kept) {
                if let Err(reason) = self.unknown_cell(caller, *action, *name) {
                    *is_kept = false;
                    is_special |= matches!(reason, Reason::SystemIndex | Reason::SecurityIndex);
                    if unknown_cells.len() < MAX_MISSING {
                        unknown_cells.push((name.text().to_owned(), reason));
                    }
                }
            }
            for (name, reason) in cells.chain(unknown_cells).take(MAX_MISSING) {
                answer.missing.insert(Missing { action: *action, name, reason });
            }
        }
        let kept = names.unknown.iter().zip(&is_kept).filter_map(|(name, is_kept)| is_kept.then_some(*name));
        let unknown: Vec<Unknown<'_>> = kept.collect();
        let is_permitted = known.len() == names.known.len() && unknown.len() == names.unknown.len();
        // The plugin may not ask about what is left out, and then it reduces nothing.
        let may_be_whole =
            unknown.len() == names.unknown.len() && (&names.known - &known).is_subset(&names.left_out);
        let left_out = self.left_out(need, caller.tenant);
        let is_left_out = !known.is_disjoint(&left_out);
        known -= left_out;
        let reduced = if is_permitted && !is_left_out {
            None
        } else {
            known -= if is_permitted { &names.taken_out } else { &names.left_out };
            // A request that the plugin does not reduce does not show hidden indices, with which `legacy` decides.
            if let Some(inventory) = self.inventory.as_deref().filter(|_| may_be_whole) {
                known -= hidden_beside(inventory, &need.target);
            }
            let count = usize::try_from(known.len()).unwrap_or(usize::MAX).saturating_add(unknown.len());
            if !is_permitted {
                self.may_reduce(caller, need, names, is_special, count == 0)?;
            }
            if count > MAX_NAMES || !matches!(need.target, Target::Indices(_)) {
                return Err(Denied);
            }
            let known = known.iter().map(|number| self.name(number).to_owned());
            Some(known.chain(unknown.iter().map(|name| name.text().to_owned())).collect())
        };
        let replaced = match &reduced {
            None => self.replaced(names, &known),
            // The names take the place of the aliases.
            Some(_) => RoaringBitmap::new(),
        };
        self.filters(caller, need, (&known, &replaced), &unknown, answer, filtered)?;
        Ok(reduced)
    }

    /// The aliases by which a request reaches one of these names.
    fn replaced(&self, names: &Names<'_>, known: &RoaringBitmap) -> RoaringBitmap {
        let Some(inventory) = self.inventory.as_deref() else { return RoaringBitmap::new() };
        let aliases = (&names.replaced - known).into_iter();
        aliases.filter(|alias| inventory.related(*alias).iter().any(|one| known.contains(*one))).collect()
    }

    fn on_no_index(&self, caller: &Caller, need: &Need<'_>, answer: &mut Answer) -> Outcome {
        if self.settings.evaluation == EvaluationType::Legacy {
            return Ok(None);
        }
        let mut outcome = Ok(None);
        for action in need.actions.iter().filter(|action| !self.on_any_index(caller, **action)) {
            answer.missing.insert(Missing {
                action: *action,
                name: String::new(),
                reason: Reason::NotGranted,
            });
            outcome = Err(Denied);
        }
        outcome
    }

    /// A need whose exclusions leave nothing of the inventory is never forwarded as it is: if the cluster left something, it would be
    /// shown without a decision. Reading finds nothing, and the rest is denied.
    fn on_emptied(&self, need: &Need<'_>, names: &Names<'_>, answer: &mut Answer) -> Outcome {
        if !names.is_emptied {
            return Ok(None);
        }
        if self.settings.may_find_nothing(need) {
            return Ok(Some(Vec::new()));
        }
        let reason = Reason::NotGranted;
        answer.missing.extend(need.actions.iter().map(|action| Missing {
            action: *action,
            name: need.target.text().to_owned(),
            reason,
        }));
        Err(Denied)
    }

    /// What is missing if the need is about the index of Dashboards.
    fn in_tenant(
        &self,
        caller: &Caller,
        need: &Need<'_>,
        names: &Names<'_>,
        answer: &mut Answer,
    ) -> Result<(), Denied> {
        let Some(dashboards) = self.settings.dashboards.as_ref() else { return Ok(()) };
        if caller.tenant == TenantAccess::Server {
            return Ok(());
        }
        let (inventory, evaluation) = (self.inventory.as_deref(), self.settings.evaluation);
        let permits = |action: &Action| caller.tenant.permits_need(need, *action, evaluation);
        let is_permitted = need.actions.iter().all(permits);
        let is_meant = !is_permitted && dashboards.is_meant(inventory, evaluation, &need.target, names);
        let is_of_other = dashboards.is_of_other_tenant(inventory, evaluation, &need.target, names);
        if !is_meant && !is_of_other {
            return Ok(());
        }
        for action in need.actions {
            let reason = match (is_meant && !permits(action), is_of_other) {
                (true, _) => Reason::TenantNotGranted,
                (false, true) => Reason::OtherTenant,
                (false, false) => continue,
            };
            answer.missing.insert(Missing { action: *action, name: dashboards.index.to_string(), reason });
        }
        Err(Denied)
    }

    /// The indices of Dashboards that are left out of what a need shows.
    pub(crate) fn left_out(&self, need: &Need<'_>, access: TenantAccess) -> RoaringBitmap {
        let dashboards = self.settings.dashboards.as_ref();
        let (inventory, evaluation) = (self.inventory.as_deref(), self.settings.evaluation);
        dashboards.map(|one| one.left_out(inventory, evaluation, need.actions, access)).unwrap_or_default()
    }

    pub(crate) fn on_any_index(&self, caller: &Caller, action: Action) -> bool {
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
        let settings = &self.settings;
        let any = || need.actions.iter().all(|action| self.on_any_index(caller, *action));
        let may = matches!(need.target, Target::Indices(_))
            && !names.unknown.iter().any(|unknown| matches!(unknown, Unknown::Pattern(_)))
            && match settings.evaluation {
                EvaluationType::Legacy => {
                    settings.do_not_fail_on_forbidden
                        && need.actions.iter().all(|action| settings.reduces(*action))
                        && (!is_special || names.is_all)
                        && (!is_empty || settings.do_not_fail_on_forbidden_empty)
                }
                EvaluationType::V4 => {
                    settings.ignore_unauthorized_indices
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
    pub(crate) fn granted(&self, caller: &Caller, action: Action, names: &RoaringBitmap) -> RoaringBitmap {
        let Some(allowed) = caller.roles.allowed(self, action) else { return RoaringBitmap::new() };
        let mut granted = allowed.known.names() & names;
        granted |= &allowed.withheld & names;
        for rendered in caller.rendered(&allowed.templates) {
            granted |= &rendered.effective & names;
        }
        granted
    }

    pub(crate) fn name(&self, number: u32) -> &str {
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
    pub(super) fn unknown_cell(
        &self,
        caller: &Caller,
        action: Action,
        unknown: Unknown<'_>,
    ) -> Result<(), Reason> {
        match self.settings.special_unknown(unknown) {
            Some(Reason::SystemIndex) if self.grants_unknown(caller, SYSTEM_INDEX, unknown) => {}
            Some(reason) => return Err(reason),
            None if caller.is_service => return Err(Reason::ServiceAccount),
            None => {}
        }
        let is_protected = changes(action) && self.settings.is_protected_unknown(unknown);
        if is_protected && !caller.roles.may_change_protected {
            return Err(Reason::ProtectedIndex);
        }
        if self.grants_unknown(caller, action, unknown) { Ok(()) } else { Err(Reason::NotGranted) }
    }

    pub(crate) fn grants_unknown(&self, caller: &Caller, action: Action, unknown: Unknown<'_>) -> bool {
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
}

/// `Ok` with the names that a need must be reduced to, or without if it is permitted as it is.
type Outcome = Result<Option<Vec<String>>, Denied>;

impl Caller {
    /// The patterns of these templates.
    pub(super) fn rendered<'c>(&'c self, among: &'c RoaringBitmap) -> impl Iterator<Item = &'c Rendered> {
        self.templates.iter().filter(|rendered| among.contains(rendered.template))
    }
}
