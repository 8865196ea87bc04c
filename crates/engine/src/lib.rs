//! The evaluator that serves requests: an index that gives the same decisions as the reference
//! evaluator in `policy`. It knows no HTTP messages: actions (methods), scopes (canonical hosts;
//! not the scopes of OAuth) and resources (canonical paths) are byte strings to it.
//!
//! Read [`Engine`] and `compile` (policy → index) first, then the modules in the order in which a
//! decision uses them:
//!
//! * `callers` (subject → roles) and `roles` (sets of roles);
//! * `actions` (action → id) and `scopes` (scope → tries);
//! * `trie` (resource → the nodes at which matching patterns end), with `segments` (splits the
//!   resource), `literals` and `globs` (the edges of the trie);
//! * `rows` (each of these nodes has a row of rules: action and roles → the deciding rule);
//! * `conditions` (the rules and roles that count only for some requests).
//!
//! `ids` has the ids that several modules use, `interner` gives ids to byte strings, `first_bytes`
//! compares short byte strings as integers, and `cost` counts steps in tests.

#![deny(clippy::wildcard_enum_match_arm)]

mod actions;
mod callers;
mod compile;
mod conditions;
mod cost;
mod first_bytes;
mod globs;
mod ids;
mod interner;
mod literals;
mod roles;
mod rows;
mod scopes;
mod segments;
mod trie;

pub use conditions::{CallerConditions, ConditionInputs};
pub use policy::pattern::PatternSubject;
pub use policy::{AccessRequest, Decision};
pub use roles::RoleSet;

use std::fmt;

use condition::CallerInputs;
use policy::Policy;

use crate::actions::Actions;
use crate::callers::Callers;
use crate::conditions::{Candidates, Conditions, Party};
use crate::rows::{Rows, Search};
use crate::scopes::Scopes;
use crate::trie::{Trie, Walk};

/// A policy compiled into an index. Immutable.
pub struct Engine {
    callers: Callers,
    conditions: Conditions,
    actions: Actions,
    scopes: Scopes,
    trie: Trie,
    rows: Rows,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Compiles a policy.
    ///
    /// # Panics
    /// If the policy has 2³¹ or more trie nodes (distinct prefixes of patterns) or entries of short
    /// rows, or 2³² - 1 or more of anything else that gets an id. An id that wrapped around would
    /// stand for two things, and a request could be allowed by the wrong rule.
    #[must_use]
    pub fn compile(policy: &Policy) -> Self {
        compile::compile(policy)
    }

    /// The roles of an anonymous request.
    #[must_use]
    pub fn anonymous(&self) -> &RoleSet {
        self.callers.anonymous()
    }

    /// The roles of a subject with verified credentials. Compilation precomputes the role sets of
    /// each granted user and each group. Only another combination, such as that of two groups of a
    /// token, is computed here and allocates.
    pub fn roles_of<'n>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'n str>,
        roles: impl IntoIterator<Item = &'n str>,
    ) -> RoleSet {
        self.callers.roles_of(user, groups, roles)
    }

    /// The names of the roles in a set, in policy order.
    pub fn role_names<'e>(&'e self, roles: &RoleSet) -> impl Iterator<Item = &'e str> {
        self.callers.role_names(roles)
    }

    /// The data that conditions need about a caller with these roles: the values that are the same
    /// for all its requests, and the roles that it may have for some requests only, with their
    /// conditions. `None` if the policy has no conditions. `caller` has all variables except the
    /// roles.
    #[must_use]
    pub fn caller_conditions<'n>(
        &'n self,
        roles: &RoleSet,
        caller: CallerInputs<'n>,
    ) -> Option<CallerConditions> {
        (!self.conditions.is_empty())
            .then(|| self.conditions.for_caller(roles, caller, |role| self.callers.role_name(role)))
    }

    /// The roles that both a user and the actor that calls for it have, and the data that decisions
    /// need about the two. Without this data, the `deny` rules of roles that only the user or only
    /// the actor has do not count. `caller` has all variables of the user except the roles.
    pub fn both<'n>(
        &'n self,
        user: &RoleSet,
        actor: &RoleSet,
        caller: CallerInputs<'n>,
    ) -> (RoleSet, CallerConditions) {
        self.conditions.for_both([user, actor], caller, |role| self.callers.role_name(role))
    }

    /// The names of the roles that the caller has for every request, in policy order.
    pub fn certain_role_names<'e>(
        &'e self,
        roles: &RoleSet,
        conditions: Option<&CallerConditions>,
    ) -> Vec<&'e str> {
        let certain = roles
            .iter()
            .filter(|role| !conditions.is_some_and(|conditions| conditions.is_uncertain(*role)));
        certain.filter_map(|role| self.callers.role_name(role)).collect()
    }

    /// The names of the roles that the caller has for this allowed request, in policy order.
    /// Conditions see the placeholders of the rule that allows it.
    pub fn held_role_names<'e>(
        &'e self,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
        request: AccessRequest<'_>,
        inputs: &ConditionInputs<'_>,
    ) -> Vec<&'e str> {
        let mut search = self.search((roles, None), subject, &request, inputs);
        let held = roles.iter().filter(|role| {
            !inputs.caller.is_some_and(|caller| caller.is_uncertain(*role))
                || search.has_role(*role)
        });
        held.filter_map(|role| self.callers.role_name(role)).collect()
    }

    /// Evaluates a request as if no condition could be computed: see [`Self::decide_with`].
    #[must_use]
    pub fn decide(
        &self,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
        request: AccessRequest<'_>,
    ) -> Decision {
        self.decide_with(roles, subject, request, &ConditionInputs::NONE)
    }

    /// Evaluates a request. Allocates only if a segment reaches more than sixteen trie nodes.
    ///
    /// Walks over the resource once, and searches each row that it reaches. So the number of steps
    /// depends on the resource and on how many patterns overlap on it (globs, `{id}` beside
    /// literals), not on the number of other rules, roles and users (`cost/tests.rs`). Repeated
    /// requests take tens of nanoseconds, random requests up to a few hundred (November 2026; `make
    /// bench BENCH=decide`).
    ///
    /// Every row is searched, even after a rule that allows: a later row may have a `deny` rule. If
    /// several rules lead to the same decision, the decision names the lowest `RuleId`.
    ///
    /// `subject` is `None` for an anonymous caller; `{user}` in a pattern matches its name, and
    /// `{user.id}` its name without the prefix of its identity source (`basic` or a JWT issuer).
    /// `roles` must come from this engine: role ids differ between engines. `inputs` must have the
    /// data of the same caller.
    #[must_use]
    pub fn decide_with(
        &self,
        roles: &RoleSet,
        subject: Option<PatternSubject<'_>>,
        request: AccessRequest<'_>,
        inputs: &ConditionInputs<'_>,
    ) -> Decision {
        let decision = self.search((roles, None), subject, &request, inputs).decision();
        let Some(parties) = inputs.caller.and_then(CallerConditions::parties) else {
            return decision;
        };
        // Roles that only one of the two has allow nothing, but what they deny stays denied.
        // Otherwise a user who is blocked by a role would be let in by an actor without it.
        let denials = parties.iter().filter_map(|party| {
            let search = self.search((&party.roles, Some(party)), subject, &request, inputs);
            match search.decision() {
                Decision::Denied(rule) => Some(rule),
                Decision::Allowed(_) | Decision::ConditionFailed(_) | Decision::NotAllowed => None,
            }
        });
        denials.min().map_or(decision, Decision::Denied)
    }

    /// Searches the rules of these roles. `party` is the user or the actor if `roles` are all roles
    /// of one of them; `None` for the roles of a single caller, or those that both have.
    #[inline]
    fn search<'r>(
        &'r self,
        (roles, party): (&'r RoleSet, Option<&'r Party>),
        subject: Option<PatternSubject<'_>>,
        request: &'r AccessRequest<'r>,
        inputs: &'r ConditionInputs<'r>,
    ) -> Search<'r> {
        let candidates = Candidates::new(&self.conditions, request, inputs, party);
        let mut search = Search::new(roles, self.actions.find(request.action), candidates);
        if let Some(mut walk) = Walk::new(request.resource, subject) {
            self.scopes.roots(request.scope, |roots| walk.add_roots(roots));
            self.trie.walk(&mut walk, &mut |row| self.rows.search(row, &mut search));
        }
        search
    }
}
