//! Evaluates a request that look-ups do not permit: missing privileges, permitted names, filters.

use std::collections::BTreeMap;

use roaring::RoaringBitmap;

use super::filters::Evaluation;
use super::role_set::Allowed;
use super::{Caller, Privileges, RenderedPattern};
use crate::action::Action;
use crate::action_set::SYSTEM_INDEX;
use crate::answer::{
    Answer, Denied, MAX_MISSING, MAX_NAMES, Missing, Part as PermittedPart, Reason, Verdict,
};
use crate::config::EvaluationType;
use crate::need::{Need, Target};
use crate::resolve::{Names, Unknown, counts, hidden_beside};
use crate::tenants::{TenantAccess, Tenants};

/// `Ok` with the names that a need must be reduced to, or without if it is permitted as it is.
type Outcome = Result<Option<Vec<String>>, Denied>;

/// The names of a need on which all of its actions are permitted.
struct PermittedNames<'t> {
    known: RoaringBitmap,
    unknown: Vec<Unknown<'t>>,
    /// Whether another name is a system index, or the index of the security configuration.
    lacks_special: bool,
}

impl Privileges {
    /// Decides about the needs of a request.
    #[must_use]
    pub fn decide(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        if self.permits(caller, needs) {
            return Answer { verdict: Verdict::Permitted, ..Answer::default() };
        }
        self.evaluate(caller, needs)
    }

    /// The same without look-ups.
    pub(super) fn evaluate(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        let (answer, filtered) = (Answer::default(), BTreeMap::new());
        let mut evaluation = Evaluation { privileges: self, caller, answer, filtered };
        let (mut parts, mut is_denied) = (Vec::new(), false);
        for (number, need) in needs.iter().enumerate() {
            match evaluation.evaluate(need) {
                Ok(None) => {}
                Ok(Some(names)) => parts.push(PermittedPart { need: number, names }),
                Err(Denied) => is_denied = true,
            }
        }
        let mut answer = evaluation.answer;
        answer.verdict = match is_denied {
            true => Verdict::Denied,
            false if parts.is_empty() => Verdict::Permitted,
            false => Verdict::PermittedInPart(parts),
        };
        if is_denied {
            answer.filters.clear();
        }
        answer
    }

    /// Dashboards, if its tenants count.
    pub(crate) fn tenants(&self) -> Option<Tenants<'_>> {
        let dashboards = self.settings.dashboards.as_ref()?;
        Some(Tenants { dashboards, inventory: self.inventory(), evaluation: self.evaluation() })
    }

    /// The indices of Dashboards that are left out of the answer to a need.
    pub(crate) fn left_out(&self, need: &Need<'_>, access: TenantAccess) -> RoaringBitmap {
        self.tenants().map(|tenants| tenants.left_out(need.actions, access)).unwrap_or_default()
    }

    /// Whether an action is granted on any index at all.
    fn on_any_index(&self, caller: &Caller, action: Action) -> bool {
        caller.roles.allowed(self, action).is_some_and(Allowed::anywhere)
    }

    /// Those of these names on which an action is permitted.
    fn permitted(&self, caller: &Caller, action: Action, names: &RoaringBitmap) -> RoaringBitmap {
        let mut permitted = self.granted(caller, action, names);
        permitted -= &self.special.security;
        let system = &permitted & &self.special.system;
        if !system.is_empty() {
            permitted -= &system - self.granted(caller, SYSTEM_INDEX, &system);
        }
        if caller.is_service {
            permitted &= &self.special.system;
        }
        permitted
    }

    /// Those of these names on which roles grant an action, whatever else they need.
    pub(crate) fn granted(
        &self,
        caller: &Caller,
        action: Action,
        names: &RoaringBitmap,
    ) -> RoaringBitmap {
        let Some(allowed) = caller.roles.allowed(self, action) else { return RoaringBitmap::new() };
        let mut granted = allowed.known.names() & names;
        granted |= &allowed.withheld & names;
        for rendered in caller.rendered(&allowed.templates) {
            granted |= &rendered.effective & names;
        }
        granted
    }

    /// Why an action is not permitted on a name of the inventory.
    fn reason(&self, caller: &Caller, number: u32) -> Reason {
        let is_system = self.special.system.contains(number);
        let name = RoaringBitmap::from_iter([number]);
        if self.special.security.contains(number) {
            Reason::SecurityIndex
        } else if is_system && self.granted(caller, SYSTEM_INDEX, &name).is_empty() {
            Reason::SystemIndex
        } else if caller.is_service && !is_system {
            Reason::ServiceAccount
        } else {
            Reason::NotGranted
        }
    }

    /// Whether an action is permitted on an unknown name or pattern.
    pub(super) fn permits_unknown(
        &self,
        caller: &Caller,
        action: Action,
        unknown: Unknown<'_>,
    ) -> Result<(), Reason> {
        match unknown.special_reason(&self.settings) {
            Some(Reason::SystemIndex) if self.grants_unknown(caller, SYSTEM_INDEX, unknown) => {}
            Some(reason) => return Err(reason),
            None if caller.is_service => return Err(Reason::ServiceAccount),
            None => {}
        }
        if self.grants_unknown(caller, action, unknown) { Ok(()) } else { Err(Reason::NotGranted) }
    }

    /// Whether roles grant an action on an unknown name or pattern.
    pub(crate) fn grants_unknown(
        &self,
        caller: &Caller,
        action: Action,
        unknown: Unknown<'_>,
    ) -> bool {
        let Some(allowed) = caller.roles.allowed(self, action) else { return false };
        let is_among = match unknown {
            Unknown::Name(name) => self.patterns.any_matches(&allowed.patterns, name),
            Unknown::Pattern(text) => self.patterns.any_covers(&allowed.patterns, text),
        };
        let rendered = caller.rendered(&allowed.templates).map(|rendered| &rendered.pattern);
        is_among
            || allowed.others.iter().chain(rendered).any(|pattern| unknown.is_covered_by(pattern))
    }
}

impl Evaluation<'_> {
    fn evaluate(&mut self, need: &Need<'_>) -> Outcome {
        let evaluation = self.privileges.settings.evaluation;
        if !counts(evaluation, need) {
            return Ok(None);
        }
        let reduced = match self.privileges.names(need) {
            Some(names) => self.evaluate_names(need, &names)?,
            None if need.target == Target::Cluster => self.evaluate_cluster(need)?,
            None => None,
        };
        match self.privileges.reaches_new(self.caller, need) {
            Some(missing) => {
                self.answer.missing.insert(missing);
                Err(Denied)
            }
            None => Ok(reduced),
        }
    }

    fn evaluate_cluster(&mut self, need: &Need<'_>) -> Outcome {
        let Caller { roles, is_service, .. } = self.caller;
        let missing =
            need.actions.iter().filter(|action| *is_service || !roles.cluster.contains(**action));
        let reason = if *is_service { Reason::ServiceAccount } else { Reason::NotGranted };
        self.answer.deny(missing, "", reason).map(|()| None)
    }

    fn evaluate_names(&mut self, need: &Need<'_>, names: &Names<'_>) -> Outcome {
        let Self { privileges, caller, .. } = *self;
        if privileges.settings.changes_all(need) {
            return self.deny_all(need, Reason::AllIndices);
        }
        if names.is_nothing() {
            return self.evaluate_nothing(need, names);
        }
        self.evaluate_tenant(need, names)?;
        let PermittedNames { mut known, unknown, lacks_special } =
            self.permitted_names(need, names);
        let keeps_unknown = unknown.len() == names.unknown.len();
        let is_permitted = known.len() == names.known.len() && keeps_unknown;
        // The plugin may not ask about names that are left out. Then it reduces nothing.
        let may_be_whole = keeps_unknown && (&names.known - &known).is_subset(&names.left_out);
        let left_out = privileges.left_out(need, caller.tenant);
        if is_permitted && known.is_disjoint(&left_out) {
            let replaced = self.replaced(names, &known);
            self.filter_names(need, (&known, &replaced), &unknown)?;
            return Ok(None);
        }
        known -= left_out;
        known -= if is_permitted { &names.taken_out } else { &names.left_out };
        // A request that the plugin does not reduce shows no hidden indices, but `legacy` checks
        // them.
        if let Some(inventory) = privileges.inventory().filter(|_| may_be_whole) {
            known -= hidden_beside(inventory, &need.target);
        }
        let count =
            usize::try_from(known.len()).unwrap_or(usize::MAX).saturating_add(unknown.len());
        if !(is_permitted || self.may_reduce(need, names, lacks_special, count == 0))
            || count > MAX_NAMES
            || !matches!(need.target, Target::Indices(_))
        {
            return Err(Denied);
        }
        // The names take the place of aliases.
        self.filter_names(need, (&known, &RoaringBitmap::new()), &unknown)?;
        let known = known.iter().map(|number| privileges.inventory.name(number).to_owned());
        Ok(Some(known.chain(unknown.iter().map(|name| name.text().to_owned())).collect()))
    }

    /// Finds the names on which all actions are permitted, and adds what is missing on the others.
    fn permitted_names<'t>(&mut self, need: &Need<'_>, names: &Names<'t>) -> PermittedNames<'t> {
        let Self { privileges, caller, .. } = *self;
        let (mut known, mut lacks_special) = (names.known.clone(), false);
        let mut is_permitted = vec![true; names.unknown.len()];
        for action in need.actions {
            let missing = &names.known - privileges.permitted(caller, *action, &names.known);
            known -= &missing;
            let mut reasons: Vec<(&str, Reason)> = Vec::new();
            for number in missing.iter().take(MAX_MISSING) {
                reasons
                    .push((privileges.inventory.name(number), privileges.reason(caller, number)));
            }
            let system = &missing & &privileges.special.system;
            lacks_special |= !missing.is_disjoint(&privileges.special.security)
                || !system.is_subset(&privileges.granted(caller, SYSTEM_INDEX, &system));
            for (name, is_permitted) in names.unknown.iter().zip(&mut is_permitted) {
                if let Err(reason) = privileges.permits_unknown(caller, *action, *name) {
                    *is_permitted = false;
                    lacks_special |= matches!(reason, Reason::SystemIndex | Reason::SecurityIndex);
                    if reasons.len() < MAX_MISSING {
                        reasons.push((name.text(), reason));
                    }
                }
            }
            let missing =
                |(name, reason): (&str, _)| Missing { action: *action, name: name.into(), reason };
            self.answer.missing.extend(reasons.into_iter().map(missing));
        }
        let unknown =
            names.unknown.iter().zip(is_permitted).filter(|(_, is_permitted)| *is_permitted);
        PermittedNames { known, unknown: unknown.map(|(name, _)| *name).collect(), lacks_special }
    }

    fn deny_all(&mut self, need: &Need<'_>, reason: Reason) -> Outcome {
        self.answer.deny(need.actions, need.target.text(), reason).and(Err(Denied))
    }

    /// The aliases by which a request reaches one of these names.
    fn replaced(&self, names: &Names<'_>, known: &RoaringBitmap) -> RoaringBitmap {
        let is_reached = |alias: &u32| {
            self.privileges.inventory.members(*alias).iter().any(|member| known.contains(*member))
        };
        (&names.replaced - known).into_iter().filter(is_reached).collect()
    }

    /// A need that names no index: `legacy` permits it, `v4` if a role grants it on any index.
    ///
    /// If its exclusions leave nothing of the inventory, it is never forwarded as it is: the
    /// cluster may have further indices. Reading then finds nothing, and other actions are denied.
    fn evaluate_nothing(&mut self, need: &Need<'_>, names: &Names<'_>) -> Outcome {
        let Privileges { settings, .. } = self.privileges;
        if settings.evaluation == EvaluationType::V4 {
            let is_missing =
                |action: &&Action| !self.privileges.on_any_index(self.caller, **action);
            self.answer.deny(need.actions.iter().filter(is_missing), "", Reason::NotGranted)?;
        }
        match names.is_emptied {
            false => Ok(None),
            true if settings.may_find_nothing(need) => Ok(Some(Vec::new())),
            true => self.deny_all(need, Reason::NotGranted),
        }
    }

    /// Adds the missing privileges of a need about the index of Dashboards.
    fn evaluate_tenant(&mut self, need: &Need<'_>, names: &Names<'_>) -> Result<(), Denied> {
        let (tenant, evaluation) = (self.caller.tenant, self.privileges.evaluation());
        let tenants = self.privileges.tenants().filter(|_| tenant != TenantAccess::Server);
        let Some(tenants) = tenants else { return Ok(()) };
        let is_missing = |action: &&Action| !tenant.permits_need(need, **action, evaluation);
        let mut missing = need.actions.iter().filter(is_missing).peekable();
        let is_meant = missing.peek().is_some() && tenants.is_meant(&need.target, names);
        let index = &tenants.dashboards.index;
        let mut result = Ok(());
        if is_meant {
            result = self.answer.deny(missing, index, Reason::TenantNotGranted);
        }
        if tenants.is_of_other_tenant(&need.target, names) {
            let others = need.actions.iter().filter(|action| !(is_meant && is_missing(action)));
            result = result.and(self.answer.deny(others, index, Reason::OtherTenant));
        }
        result
    }

    /// Whether a need may be reduced to the permitted names: not if a pattern could not be
    /// expanded.
    fn may_reduce(
        &self,
        need: &Need<'_>,
        names: &Names<'_>,
        lacks_special: bool,
        is_empty: bool,
    ) -> bool {
        let settings = &self.privileges.settings;
        let on_any_index =
            || need.actions.iter().all(|action| self.privileges.on_any_index(self.caller, *action));
        !names.unknown.iter().any(|unknown| matches!(unknown, Unknown::Pattern(_)))
            && match settings.evaluation {
                EvaluationType::Legacy => {
                    settings.do_not_fail_on_forbidden
                        && need.actions.iter().all(|action| settings.reduces(*action))
                        && (!lacks_special || names.is_all)
                        && (!is_empty || settings.do_not_fail_on_forbidden_empty)
                }
                EvaluationType::V4 => {
                    settings.ignore_unauthorized_indices
                        && names.is_reducible
                        && (!is_empty || (names.may_be_empty && on_any_index()))
                }
            }
    }
}

impl Caller {
    /// The patterns of these templates.
    pub(super) fn rendered<'c>(
        &'c self,
        among: &'c RoaringBitmap,
    ) -> impl Iterator<Item = &'c RenderedPattern> {
        self.templates.iter().filter(|rendered| among.contains(rendered.template))
    }
}
