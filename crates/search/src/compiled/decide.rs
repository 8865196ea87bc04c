//! Decides in full about a request that [`Privileges::permits`] does not permit at once: missing
//! privileges, permitted names, filters.
//!
//! An action that roles *grant* is *permitted*, unless a rule for special indices or service
//! accounts forbids it.

use std::collections::{BTreeMap, BTreeSet};

use roaring::RoaringBitmap;

use super::filters::FullCheck;
use super::role_set::GrantedNames;
use super::{Caller, Privileges, RenderedPattern};
use crate::action::Action;
use crate::action_set::SYSTEM_INDEX;
use crate::answer::{
    Answer, Denied, MAX_MISSING, MAX_REDUCED_NAMES, Missing, Part as PermittedPart, Reason, Verdict,
};
use crate::config::EvaluationType;
use crate::need::{Need, Target};
use crate::resolve::{Names, Unknown, hidden_outside, is_checked};
use crate::tenants::{TenantAccess, Tenants};

/// `Ok(None)` if a need is permitted as it is, or else the names to which it must be reduced.
type Outcome = Result<Option<Vec<String>>, Denied>;

/// The names of a need on which all of its actions are permitted.
struct PermittedNames<'t> {
    known: RoaringBitmap,
    unknown: Vec<Unknown<'t>>,
    /// Whether a denied name is a system index, or the index of the security configuration.
    denies_special: bool,
}

impl Privileges {
    /// Decides about the needs of a request.
    #[must_use]
    pub fn decide(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        if self.permits(caller, needs) {
            return Answer { verdict: Verdict::Permitted, ..Answer::default() };
        }
        self.decide_in_full(caller, needs)
    }

    /// Decides in full, without the fast path of [`Self::permits`].
    pub(super) fn decide_in_full(&self, caller: &Caller, needs: &[Need<'_>]) -> Answer {
        let (answer, filtered) = (Answer::default(), BTreeMap::new());
        let mut full_check = FullCheck { privileges: self, caller, answer, filtered };
        let (mut parts, mut is_denied) = (Vec::new(), false);
        for (position, need) in needs.iter().enumerate() {
            match full_check.check(need) {
                Ok(None) => {}
                Ok(Some(names)) => parts.push(PermittedPart { need: position, names }),
                Err(Denied) => is_denied = true,
            }
        }
        let Answer { missing, filters, .. } = full_check.answer;
        match is_denied {
            true => Answer { verdict: Verdict::Denied, missing, filters: BTreeSet::new() },
            false if parts.is_empty() => Answer { verdict: Verdict::Permitted, missing, filters },
            false => Answer { verdict: Verdict::PermittedInPart(parts), missing, filters },
        }
    }

    /// The tenants of Dashboards and their indices, if multitenancy is on.
    pub(crate) fn tenants(&self) -> Option<Tenants<'_>> {
        let dashboards = self.settings.dashboards.as_ref()?;
        Some(Tenants { dashboards, inventory: self.inventory(), evaluation: self.evaluation() })
    }

    /// The indices of Dashboards that the plugin leaves out of the answer to a need.
    pub(crate) fn dashboards_left_out(
        &self,
        need: &Need<'_>,
        access: TenantAccess,
    ) -> RoaringBitmap {
        self.tenants().map(|tenants| tenants.left_out(need.actions, access)).unwrap_or_default()
    }

    /// The names among these on which an action is permitted.
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

    /// The names among these on which roles grant an action, without the checks for system indices
    /// and service accounts.
    pub(crate) fn granted(
        &self,
        caller: &Caller,
        action: Action,
        names: &RoaringBitmap,
    ) -> RoaringBitmap {
        let Some(by_role) = caller.roles.granted(self, action) else { return RoaringBitmap::new() };
        let mut granted = (by_role.permitted.names() & names) | (&by_role.only_granted & names);
        for rendered in caller.rendered(&by_role.templates) {
            granted |= &rendered.with_members & names;
        }
        granted
    }

    /// Why an action is not permitted on a name of the inventory.
    fn reason(&self, caller: &Caller, id: u32) -> Reason {
        let is_system = self.special.system.contains(id);
        let name = RoaringBitmap::from_iter([id]);
        if self.special.security.contains(id) {
            Reason::SecurityIndex
        } else if is_system && self.granted(caller, SYSTEM_INDEX, &name).is_empty() {
            Reason::SystemIndex
        } else if caller.is_service && !is_system {
            Reason::ServiceAccount
        } else {
            Reason::NotGranted
        }
    }

    /// Whether an action is permitted on an unknown name or pattern, or the reason why not.
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
        let Some(granted) = caller.roles.granted(self, action) else { return false };
        let (patterns, others) = (&granted.patterns, granted.compared.iter());
        let rendered = caller.rendered(&granted.templates).map(|rendered| &rendered.pattern);
        let is_granted_by_look_up = match unknown {
            Unknown::Name(name) => self.patterns.finds_match(patterns, name),
            Unknown::Pattern(text) => self.patterns.finds_cover(patterns, text),
        };
        is_granted_by_look_up
            || others.chain(rendered).any(|pattern| unknown.is_covered_by(pattern))
    }
}

impl FullCheck<'_> {
    fn check(&mut self, need: &Need<'_>) -> Outcome {
        if !is_checked(self.privileges.evaluation(), need) {
            return Ok(None);
        }
        let reduced = match self.privileges.names(need) {
            Some(names) => self.check_names(need, &names)?,
            None if need.target == Target::Cluster => self.check_cluster(need)?,
            // An index that exists already is not created.
            None => None,
        };
        // A need that adds names, or may reach newer names, may show everything that a role hides.
        // So it is denied even if its names are permitted.
        let Some(missing) = self.caller.missing_for_new_names(need) else { return Ok(reduced) };
        self.answer.missing.insert(missing);
        Err(Denied)
    }

    fn check_cluster(&mut self, need: &Need<'_>) -> Outcome {
        let Caller { roles, is_service, .. } = self.caller;
        let (is_service, cluster) = (*is_service, &roles.cluster);
        let missing = need.actions.iter().filter(|a| is_service || !cluster.contains(**a));
        let reason = if is_service { Reason::ServiceAccount } else { Reason::NotGranted };
        self.answer.deny_if_any(missing, "", reason).map(|()| None)
    }

    fn check_names(&mut self, need: &Need<'_>, names: &Names<'_>) -> Outcome {
        let Self { privileges, caller, .. } = *self;
        if privileges.settings.changes_all(need) {
            return self.deny_each_action(need, Reason::AllIndices);
        }
        if names.is_empty() {
            return self.check_empty(need, names);
        }
        self.check_tenant(need, names)?;
        let PermittedNames { mut known, unknown, denies_special } =
            self.permitted_names(need, names);
        let keeps_unknown = unknown.len() == names.unknown.len();
        let denied = &names.known - &known;
        let is_permitted = denied.is_empty() && keeps_unknown;
        let left_out = privileges.dashboards_left_out(need, caller.tenant);
        if is_permitted && known.is_disjoint(&left_out) {
            // The aliases by which the request reaches these names.
            let aliases = (&names.replaced_aliases - &known).into_iter().filter(|alias| {
                let mut members = privileges.inventory.members(*alias).iter();
                members.any(|member| known.contains(*member))
            });
            self.add_filters(need, (&known, &aliases.collect()), &unknown)?;
            return Ok(None);
        }
        known -= left_out;
        // The plugin forwards the patterns of a permitted request. With them, the cluster reaches
        // all of `known`, apart from the names that it excludes.
        known -=
            if is_permitted { &names.left_out_if_permitted } else { &names.left_out_if_reduced };
        // `known` has hidden indices, because `legacy` checks them, too. If the plugin denies a
        // name, it forwards names, with the hidden indices. If it denies none, it forwards the
        // patterns, which do not reach hidden indices. The plugin may deny none even though
        // rolegate denies some: maybe it does not check the names of `left_out_if_reduced`.
        if keeps_unknown
            && denied.is_subset(&names.left_out_if_reduced)
            && let Some(inventory) = privileges.inventory()
        {
            known -= hidden_outside(inventory, &need.target);
        }
        let count = known.len().saturating_add(unknown.len() as u64);
        if !(is_permitted || self.may_reduce(need, names, denies_special, count == 0))
            || count > MAX_REDUCED_NAMES as u64
            || !matches!(need.target, Target::Indices(_))
        {
            return Err(Denied);
        }
        // The reduced request names indices in place of the replaced aliases, which need no
        // filters.
        self.add_filters(need, (&known, &RoaringBitmap::new()), &unknown)?;
        let known = known.iter().map(|id| privileges.inventory.name(id));
        let unknown = unknown.iter().map(|unknown| unknown.text());
        Ok(Some(known.chain(unknown).map(str::to_owned).collect()))
    }

    /// Finds the names on which all actions are permitted. Adds the missing privileges to the
    /// answer.
    fn permitted_names<'t>(&mut self, need: &Need<'_>, names: &Names<'t>) -> PermittedNames<'t> {
        let Self { privileges, caller, .. } = *self;
        let special = &privileges.special;
        let (mut known, mut denies_special) = (names.known.clone(), false);
        let mut denied_unknown = BTreeSet::new();
        for action in need.actions {
            let missing = &names.known - privileges.permitted(caller, *action, &names.known);
            known -= &missing;
            let system = &missing & &special.system;
            denies_special |= !missing.is_disjoint(&special.security)
                || !system.is_subset(&privileges.granted(caller, SYSTEM_INDEX, &system));
            let mut reasons: Vec<(&str, Reason)> = missing
                .iter()
                .take(MAX_MISSING)
                .map(|name| (privileges.inventory.name(name), privileges.reason(caller, name)))
                .collect();
            for (position, unknown) in names.unknown.iter().enumerate() {
                if let Err(reason) = privileges.permits_unknown(caller, *action, *unknown) {
                    denied_unknown.insert(position);
                    denies_special |= matches!(reason, Reason::SystemIndex | Reason::SecurityIndex);
                    if reasons.len() < MAX_MISSING {
                        reasons.push((unknown.text(), reason));
                    }
                }
            }
            self.answer.missing.extend(reasons.into_iter().map(|(name, reason)| Missing {
                action: *action,
                name: name.to_owned(),
                reason,
            }));
        }
        let unknown = names.unknown.iter().enumerate();
        let unknown = unknown.filter(|(position, _)| !denied_unknown.contains(position));
        PermittedNames { known, unknown: unknown.map(|(_, name)| *name).collect(), denies_special }
    }

    fn deny_each_action(&mut self, need: &Need<'_>, reason: Reason) -> Outcome {
        self.answer.deny_if_any(need.actions, need.target.text(), reason).and(Err(Denied))
    }

    /// A need for no name: `legacy` permits it, `v4` if a role grants it on any index.
    ///
    /// If its exclusions leave no name, it is never forwarded as it is, because the cluster may
    /// have newer indices. A reading need is then reduced to nothing. Another need is denied.
    fn check_empty(&mut self, need: &Need<'_>, names: &Names<'_>) -> Outcome {
        let Self { privileges, caller, .. } = *self;
        let settings = &privileges.settings;
        if settings.evaluation == EvaluationType::V4 {
            let mut missing = need.actions.to_vec();
            missing.retain(|action| !caller.is_granted_anywhere(privileges, *action));
            self.answer.deny_if_any(&missing, "", Reason::NotGranted)?;
        }
        match names.is_emptied_by_exclusions {
            false => Ok(None),
            true if settings.may_find_nothing(need) => Ok(Some(Vec::new())),
            true => self.deny_each_action(need, Reason::NotGranted),
        }
    }

    /// Denies a need about the index of Dashboards if its tenant is not permitted.
    fn check_tenant(&mut self, need: &Need<'_>, names: &Names<'_>) -> Result<(), Denied> {
        let (access, evaluation) = (self.caller.tenant, self.privileges.evaluation());
        let tenants = self.privileges.tenants().filter(|_| access != TenantAccess::Server);
        let Some(tenants) = tenants else { return Ok(()) };
        let index = &tenants.dashboards.index;
        // Each action is denied for one reason at most.
        let (not_granted, other_actions): (Vec<&Action>, Vec<&Action>) =
            need.actions.iter().partition(|action| {
                !access.permits_need(need, **action, evaluation)
                    && tenants.is_about_dashboards(&need.target, names)
            });
        let mut result = self.answer.deny_if_any(not_granted, index, Reason::TenantNotGranted);
        if tenants.is_of_other_tenant(&need.target, names) {
            result = result.and(self.answer.deny_if_any(other_actions, index, Reason::OtherTenant));
        }
        result
    }

    /// Whether a need may be reduced to the permitted names; `is_empty` if there are none. A need
    /// with a pattern that could not be expanded may not.
    fn may_reduce(
        &self,
        need: &Need<'_>,
        names: &Names<'_>,
        denies_special: bool,
        is_empty: bool,
    ) -> bool {
        let settings = &self.privileges.settings;
        let mut actions = need.actions.iter();
        !names.unknown.iter().any(|unknown| matches!(unknown, Unknown::Pattern(_)))
            && match settings.evaluation {
                EvaluationType::Legacy => {
                    settings.do_not_fail_on_forbidden
                        && actions.all(|action| settings.reduces(*action))
                        // The plugin denies special indices that are named, but leaves them out of
                        // a request for all indices.
                        && (!denies_special || names.is_all)
                        && (!is_empty || settings.do_not_fail_on_forbidden_empty)
                }
                EvaluationType::V4 => {
                    settings.ignore_unauthorized_indices
                        && names.is_reducible
                        && (!is_empty
                            || (names.may_be_empty
                                && actions.all(|action| {
                                    self.caller.is_granted_anywhere(self.privileges, *action)
                                })))
                }
            }
    }
}

impl Caller {
    /// Whether an action is granted on any index at all.
    fn is_granted_anywhere(&self, privileges: &Privileges, action: Action) -> bool {
        self.roles.granted(privileges, action).is_some_and(GrantedNames::grants_anywhere)
    }

    /// The rendered patterns of these templates.
    pub(super) fn rendered<'c>(
        &'c self,
        among: &'c RoaringBitmap,
    ) -> impl Iterator<Item = &'c RenderedPattern> {
        self.templates.iter().filter(|rendered| among.contains(rendered.template))
    }
}
