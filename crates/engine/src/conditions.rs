//! Rules and roles that count only for some requests of a caller, because they have a condition.
//!
//! Some rules have a guard in their row: the walk over the trie finds the rule, then the guard
//! decides whether it counts. So a request pays for the conditions of the rules that match it, not
//! for all those of the policy. A rule has a guard if
//!
//! * it has a condition, or a condition may take its role from a caller
//! * one of its hosts has a placeholder: the trie compares only the end of such a host
//! * the condition of any role or grant reads one of its placeholders: such conditions decide which
//!   roles a caller has for a request that this rule allows
//!
//! Each other rule is in its row as if there were no conditions.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use condition::{
    Attribute, CachedPart, CallerInputs, CallerParts, Condition, Constant, Expression, Inputs,
    Placeholders, RequestInputs, and, holds, or,
};
use policy::ids::{IdVec, id_types};
use policy::model::{ANYONE, AUTHENTICATED, Role, RoleId, Rule};
use policy::pattern::{Pattern, PlaceholderIndices, Scope};
use policy::{AccessRequest, Policy};
use smallvec::SmallVec;

use crate::callers::RoleGraph;
use crate::roles::RoleSet;

id_types! {
    /// A condition.
    pub(crate) struct ConditionId;

    /// The conditions under which a rule counts for requests that match one of its patterns.
    pub(crate) struct GuardId;
}

/// The conditions of a policy.
#[derive(Default)]
pub(crate) struct Conditions {
    /// The parts that depend on the caller alone.
    caller_parts: CallerParts,
    expressions: IdVec<ConditionId, Expression>,
    /// The ids of the expressions by their `Debug` text.
    ids: HashMap<String, ConditionId>,
    guards: IdVec<GuardId, Guard>,
    /// The roles that a condition may take from a caller, each after the roles that extend it.
    roles: Vec<ConditionalRole>,
    conditional: HashSet<RoleId>,
    /// The placeholders that conditions of roles and grants read.
    read_by_roles: HashSet<Attribute>,
}

/// The condition of a rule, with the placeholders of one of its hosts and of one of its paths.
struct Guard {
    /// The host, if it has placeholders: the walk to the guard has compared only its end.
    scope: Option<Scope>,
    path: PlaceholderIndices,
    host: PlaceholderIndices,
    when: Option<ConditionId>,
}

/// A role that a condition may take from a caller.
struct ConditionalRole {
    role: RoleId,
    when: Option<ConditionId>,
    /// The nodes of the role graph that give this role. A caller that has one of these nodes has
    /// the role, unless a condition takes it.
    origins: Vec<(RoleId, OriginKind)>,
}

/// A kind of node that gives a role to a caller.
#[derive(Clone, Copy)]
enum OriginKind {
    /// This gives the role for all requests, unless the role itself has a condition. It is a grant
    /// without a condition, the token, a reserved role, or an extending role that no condition
    /// takes.
    Certain,
    /// A grant with this condition.
    Grant(ConditionId),
    /// A role that extends it, and that a condition may take from the caller.
    Role,
}

/// The data that decisions need about a caller besides its roles, computed once for all its
/// requests.
#[derive(Debug)]
pub struct CallerConditions {
    /// The values of the parts that depend on the caller alone.
    values: Box<[CachedPart]>,
    /// How the caller has its roles.
    held: HeldRoles,
    /// If it is a user for whom an actor calls, the two of them.
    parties: Option<Box<[Party; 2]>>,
}

/// How a caller has the roles that a condition may take from it.
#[derive(Debug, Default)]
struct HeldRoles {
    /// These roles, each after the roles that extend it.
    roles: Box<[HeldRole]>,
    /// The roles that the caller has only for some requests, sorted.
    uncertain: Box<[RoleId]>,
}

/// Either a user for whom an actor calls, or this actor.
#[derive(Debug)]
pub(crate) struct Party {
    /// All its roles, with those that the other party has too.
    pub(crate) roles: RoleSet,
    held: HeldRoles,
}

#[derive(Debug)]
struct HeldRole {
    role: RoleId,
    when: Option<ConditionId>,
    origins: SmallVec<[HeldOrigin; 2]>,
}

/// An [`OriginKind`] of a role that a caller has.
#[derive(Clone, Copy, Debug)]
enum HeldOrigin {
    Certain,
    Grant(ConditionId),
    /// The index of the role that extends it.
    Role(usize),
}

/// The variables of a request, and the data of its caller.
#[derive(Clone, Copy, Default)]
pub struct ConditionInputs<'a> {
    /// The variables. The method, host and path are ignored: those of the [`AccessRequest`] count.
    pub request: RequestInputs<'a>,
    /// The caller's data. Without it, no condition on the caller can be computed.
    pub caller: Option<&'a CallerConditions>,
    /// The steps that are left to all conditions: see [`Inputs::steps_left`].
    pub steps_left: Option<&'a Cell<usize>>,
}

impl ConditionInputs<'_> {
    /// No variable and no caller: no condition can be computed.
    pub(crate) const NONE: Self =
        Self { request: RequestInputs::NONE, caller: None, steps_left: None };
}

/// Decides whether the rules with guards count, during the search for the rules that match a
/// request. It has only references, because every search needs one, even if the policy has no
/// conditions.
pub(crate) struct Candidates<'r> {
    conditions: &'r Conditions,
    request: &'r AccessRequest<'r>,
    inputs: &'r ConditionInputs<'r>,
    /// The user or the actor, if the search is for all roles of one of them. `None` for a single
    /// caller, or for the roles that both have.
    party: Option<&'r Party>,
}

impl Conditions {
    pub(crate) fn is_empty(&self) -> bool {
        self.guards.is_empty() && self.roles.is_empty()
    }

    /// The id of this condition. A new condition is added.
    pub(crate) fn add(&mut self, condition: &Condition) -> ConditionId {
        let residual = self.caller_parts.split(&condition.expression);
        *self.ids.entry(format!("{residual:?}")).or_insert_with(|| self.expressions.push(residual))
    }

    /// Adds the roles that a condition may take from a caller.
    pub(crate) fn add_roles(&mut self, policy: &Policy, graph: &RoleGraph) {
        let mut extending: HashMap<RoleId, Vec<RoleId>> = HashMap::new();
        for (other, Role { extends, .. }) in policy.roles.entries() {
            for role in extends {
                extending.entry(*role).or_default().push(other);
            }
        }
        for role in graph.conditional_roles() {
            let when = &policy.roles.at(role).when;
            let when = when.as_ref().map(|when| self.add_for_role(when));
            let mut origins = Vec::new();
            origins.extend(graph.direct(role).map(|direct| (direct, OriginKind::Certain)));
            for (node, grant) in graph.conditional_grants(role) {
                let when = policy.grants.get(grant).and_then(|grant| grant.when.as_ref());
                let kind = when
                    .map_or(OriginKind::Certain, |when| OriginKind::Grant(self.add_for_role(when)));
                origins.push((node, kind));
            }
            for other in extending.remove(&role).unwrap_or_default() {
                let is_conditional = self.conditional.contains(&other);
                let kind = if is_conditional { OriginKind::Role } else { OriginKind::Certain };
                origins.push((other, kind));
            }
            self.conditional.insert(role);
            self.roles.push(ConditionalRole { role, when, origins });
        }
    }

    fn add_for_role(&mut self, when: &Condition) -> ConditionId {
        let attributes = when.expression.attributes().into_iter();
        self.read_by_roles.extend(attributes.filter(|read| read.is_placeholder()).cloned());
        self.add(when)
    }

    /// The guard of a rule for a host and a path of the rule.
    pub(crate) fn guard(
        &mut self,
        rule: &Rule,
        scope: Option<&Scope>,
        pattern: &Pattern,
    ) -> GuardId {
        let when = rule.when.as_ref().map(|when| self.add(when));
        self.guards.push(Guard {
            scope: scope.filter(|scope| matches!(scope, Scope::Labels(_))).cloned(),
            path: pattern.placeholders(),
            host: scope.map(Scope::placeholders).unwrap_or_default(),
            when,
        })
    }

    /// Whether the condition of a role or a grant reads a placeholder of this rule. Then the rule
    /// needs a guard, from which these conditions read the placeholder.
    pub(crate) fn reads_placeholders(&self, rule: &Rule) -> bool {
        if self.read_by_roles.is_empty() {
            return false;
        }
        let path = rule.resources.iter().flat_map(Pattern::placeholders);
        let path = path.map(|(name, _)| Attribute::PathPlaceholder(name));
        let host = rule.scopes.iter().flat_map(Scope::placeholders);
        let host = host.map(|(name, _)| Attribute::HostPlaceholder(name));
        path.chain(host).any(|placeholder| self.read_by_roles.contains(&placeholder))
    }

    /// Whether a condition may take this role from a caller.
    pub(crate) fn is_conditional(&self, role: RoleId) -> bool {
        self.conditional.contains(&role)
    }

    /// The data of a caller with these roles. `caller` has all variables except the roles, which
    /// `role_name` names.
    pub(crate) fn for_caller<'n>(
        &self,
        roles: &RoleSet,
        caller: CallerInputs<'n>,
        role_name: impl Fn(RoleId) -> Option<&'n str>,
    ) -> CallerConditions {
        let held = self.held_roles(roles);
        let values = self.values(roles, &held.uncertain, caller, role_name);
        CallerConditions { values, held, parties: None }
    }

    /// The data of a user with the first set of roles, for whom an actor with the second set calls,
    /// and the roles that both have. Conditions are about the user: `caller` has its variables.
    pub(crate) fn for_both<'n>(
        &self,
        parties: [&RoleSet; 2],
        caller: CallerInputs<'n>,
        role_name: impl Fn(RoleId) -> Option<&'n str>,
    ) -> (RoleSet, CallerConditions) {
        let [user, actor] = parties;
        let common = user.intersection(actor);
        let parties =
            parties.map(|roles| Party { roles: roles.clone(), held: self.held_roles(roles) });
        let uncertain = parties.iter().flat_map(|party| &party.held.uncertain).copied();
        let mut uncertain: Vec<RoleId> = uncertain.filter(|role| common.contains(*role)).collect();
        uncertain.sort_unstable();
        uncertain.dedup();
        let values = self.values(&common, &uncertain, caller, role_name);
        let held = HeldRoles { roles: Box::default(), uncertain: uncertain.into() };
        (common, CallerConditions { values, held, parties: Some(Box::new(parties)) })
    }

    /// The values of the parts that depend on the caller alone. Only the roles that are not
    /// uncertain are in the variable `roles`.
    fn values<'n>(
        &self,
        roles: &RoleSet,
        uncertain: &[RoleId],
        caller: CallerInputs<'n>,
        role_name: impl Fn(RoleId) -> Option<&'n str>,
    ) -> Box<[CachedPart]> {
        let certain = roles.iter().filter(|role| uncertain.binary_search(role).is_err());
        let names = certain.filter_map(role_name);
        let names = names.filter(|name| ![ANYONE, AUTHENTICATED].contains(name)).collect();
        self.caller_parts.values(&CallerInputs { roles: names, ..caller })
    }

    /// How a caller with these roles has the roles that a condition may take from it.
    fn held_roles(&self, roles: &RoleSet) -> HeldRoles {
        let mut held: Vec<HeldRole> = Vec::new();
        let mut indices: HashMap<RoleId, usize> = HashMap::new();
        let mut is_certain: Vec<bool> = Vec::new();
        for ConditionalRole { role, when, origins } in &self.roles {
            if !roles.contains(*role) {
                continue;
            }
            let origins = origins.iter().filter(|(node, _)| roles.contains(*node));
            let origins: SmallVec<[HeldOrigin; 2]> = origins
                .filter_map(|(node, kind)| match kind {
                    OriginKind::Certain => Some(HeldOrigin::Certain),
                    OriginKind::Grant(condition) => Some(HeldOrigin::Grant(*condition)),
                    OriginKind::Role => indices.get(node).copied().map(HeldOrigin::Role),
                })
                .collect();
            let has_certain = origins.iter().any(|origin| match origin {
                HeldOrigin::Certain => true,
                HeldOrigin::Grant(_) => false,
                HeldOrigin::Role(index) => is_certain.get(*index) == Some(&true),
            });
            indices.insert(*role, held.len());
            is_certain.push(when.is_none() && has_certain);
            held.push(HeldRole { role: *role, when: *when, origins });
        }
        let uncertain = held.iter().zip(is_certain).filter(|(_, is_certain)| !is_certain);
        let mut uncertain: Vec<RoleId> = uncertain.map(|(held, _)| held.role).collect();
        uncertain.sort_unstable();
        HeldRoles { roles: held.into(), uncertain: uncertain.into() }
    }
}

impl CallerConditions {
    /// The bytes that it has allocated on the heap.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let values = self.values.iter().flat_map(|part| &part.value).map(Constant::heap_size);
        let parties = self.parties.as_ref().map_or(0, |parties| {
            let held = parties.iter().map(|party| party.roles.heap_size() + party.held.heap_size());
            size_of_val(&**parties) + held.sum::<usize>()
        });
        size_of_val(&*self.values) + values.sum::<usize>() + self.held.heap_size() + parties
    }

    /// If it is a user for whom an actor calls, the two of them.
    pub(crate) fn parties(&self) -> Option<&[Party; 2]> {
        self.parties.as_deref()
    }

    /// Whether it has a role only for some requests.
    #[must_use]
    pub fn has_uncertain_roles(&self) -> bool {
        !self.held.uncertain.is_empty()
    }

    pub(crate) fn is_uncertain(&self, role: RoleId) -> bool {
        self.held.uncertain.binary_search(&role).is_ok()
    }
}

impl HeldRoles {
    fn heap_size(&self) -> usize {
        let spilled = self.roles.iter().filter(|role| role.origins.spilled());
        size_of_val(&*self.roles)
            + size_of_val(&*self.uncertain)
            + spilled.map(|role| role.origins.len() * size_of::<HeldOrigin>()).sum::<usize>()
    }
}

impl<'r> Candidates<'r> {
    pub(crate) fn new(
        conditions: &'r Conditions,
        request: &'r AccessRequest<'r>,
        inputs: &'r ConditionInputs<'r>,
        party: Option<&'r Party>,
    ) -> Self {
        Self { conditions, request, inputs, party }
    }

    fn inputs<'p>(&self, placeholders: Placeholders<'p>) -> Inputs<'p>
    where
        'r: 'p,
    {
        let AccessRequest { action: method, scope: host, resource: path } = *self.request;
        let request = RequestInputs { method, host, path, ..self.inputs.request };
        // The expressions have the caller's variables only as cached values: see `add`.
        let cached = self.inputs.caller.map_or(&[][..], |caller| &caller.values);
        let steps_left = self.inputs.steps_left;
        Inputs { request, cached, placeholders, caller: None, steps_left }
    }

    /// Whether the caller has a role for the request. Conditions read the guard's placeholders.
    pub(crate) fn has(&self, role: RoleId, guard: Option<GuardId>) -> bool {
        let guard = guard.map(|guard| self.conditions.guards.at(guard));
        let placeholders = guard.map(|guard| Placeholders { path: &guard.path, host: &guard.host });
        let inputs = self.inputs(placeholders.unwrap_or_default());
        self.has_role(role, &inputs) == Some(true)
    }

    pub(crate) fn matches_host(&self, guard: GuardId) -> bool {
        let scope = self.conditions.guards.at(guard).scope.as_ref();
        scope.is_none_or(|scope| scope.matches(self.request.scope))
    }

    /// Whether a rule of this role counts: its condition holds, and the caller has the role for the
    /// request. `None` if that cannot be computed.
    pub(crate) fn truth(&self, role: RoleId, guard: GuardId) -> Option<bool> {
        let guard = self.conditions.guards.at(guard);
        let placeholders = Placeholders { path: &guard.path, host: &guard.host };
        let inputs = self.inputs(placeholders);
        let when = guard.when.map_or(Some(true), |when| self.is_true(when, &inputs));
        if when == Some(false) {
            return when;
        }
        and(when, self.has_role(role, &inputs))
    }

    /// Whether the caller has a role for the request; `None` if that cannot be computed. Of a user
    /// and an actor, both must have it, unless the search is for one of them.
    fn has_role(&self, role: RoleId, inputs: &Inputs<'_>) -> Option<bool> {
        let Some(caller) = self.inputs.caller else {
            // Only the roles that no condition can take are certain.
            return (!self.conditions.is_conditional(role)).then_some(true);
        };
        match (self.party, caller.parties()) {
            (Some(party), _) => self.is_held(role, &party.held, inputs),
            (None, None) => self.is_held(role, &caller.held, inputs),
            (None, Some([user, actor])) => {
                and(self.is_held(role, &user.held, inputs), self.is_held(role, &actor.held, inputs))
            }
        }
    }

    /// Whether a caller has this role for the request. `held` tells how it has the roles that a
    /// condition may take; it has its other roles for all requests.
    fn is_held(&self, role: RoleId, held: &HeldRoles, inputs: &Inputs<'_>) -> Option<bool> {
        let HeldRoles { roles, .. } = held;
        let Some(index) = roles.iter().position(|held| held.role == role) else {
            return Some(true);
        };
        // The indices of the role and of all conditional roles that extend it, also indirectly.
        // They are not above the index of the role, which is therefore the last one when sorted.
        let mut needed: SmallVec<[usize; 8]> = SmallVec::from_elem(index, 1);
        let mut next = 0;
        while let Some(held) = needed.get(next).and_then(|index| roles.get(*index)) {
            next += 1;
            for origin in &held.origins {
                if let HeldOrigin::Role(index) = origin
                    && !needed.contains(index)
                {
                    needed.push(*index);
                }
            }
        }
        needed.sort_unstable();
        let mut has: SmallVec<[Option<bool>; 8]> = SmallVec::new();
        for held in needed.iter().filter_map(|index| roles.get(*index)) {
            let mut is_given = Some(false);
            for origin in &held.origins {
                let by_origin = match origin {
                    HeldOrigin::Certain => Some(true),
                    HeldOrigin::Grant(condition) => self.is_true(*condition, inputs),
                    HeldOrigin::Role(index) => {
                        let place = needed.binary_search(index).ok();
                        place.and_then(|place| has.get(place).copied()).flatten()
                    }
                };
                is_given = or(is_given, by_origin);
            }
            let when = held.when.map_or(Some(true), |when| self.is_true(when, inputs));
            has.push(and(is_given, when));
        }
        has.last().copied().flatten()
    }

    fn is_true(&self, condition: ConditionId, inputs: &Inputs<'_>) -> Option<bool> {
        holds(self.conditions.expressions.at(condition), inputs)
    }
}
