//! What conditions take away: rules and roles that count only for some requests of a caller.
//!
//! Rules without a condition, of roles that no condition takes from anybody, are in rows as if
//! there were no conditions. The others are candidates: the walk over the trie finds them, and
//! their conditions decide whether they count. So a request pays for the conditions of the rules
//! that match it, not for those of the policy.

use std::collections::{HashMap, HashSet};

use condition::{
    Attribute, CallerInputs, CallerParts, Condition, Constant, Expression, Fault, Inputs,
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
    /// The ids of the expressions by how `Debug` shows them.
    ids: HashMap<String, ConditionId>,
    guards: IdVec<GuardId, Guard>,
    /// The roles that a condition may take from a caller, each after the roles that extend it.
    roles: Vec<ConditionalRole>,
    conditional: HashSet<RoleId>,
    /// The placeholders that conditions of roles and grants read.
    read_by_roles: HashSet<Attribute>,
}

/// A host and a path of a rule.
struct Guard {
    /// The host, if the trie does not tell whether it matches.
    scope: Option<Scope>,
    path: PlaceholderIndices,
    host: PlaceholderIndices,
    when: Option<ConditionId>,
}

/// A role that a condition may take from a caller.
struct ConditionalRole {
    role: RoleId,
    when: Option<ConditionId>,
    sources: Vec<(RoleId, SourceKind)>,
}

/// How a caller has a role, if it is in a set that contains the source.
#[derive(Clone, Copy)]
enum SourceKind {
    /// The source is a grant without a condition, or the like.
    Certain,
    /// The source is a grant with a condition.
    Grant(ConditionId),
    /// The source is a role that extends it.
    Role,
}

/// The data of conditions for a caller, computed once for all its requests.
#[derive(Debug)]
pub struct CallerConditions {
    /// The values of the parts that depend on the caller alone.
    values: Box<[Result<Constant, Fault>]>,
    /// The roles that a condition may take from it, each after the roles that extend it.
    roles: Box<[HeldRole]>,
    /// Those of its roles that it may not have, sorted.
    uncertain: Box<[RoleId]>,
}

#[derive(Debug)]
struct HeldRole {
    role: RoleId,
    when: Option<ConditionId>,
    sources: SmallVec<[HeldSource; 2]>,
}

#[derive(Clone, Copy, Debug)]
enum HeldSource {
    Certain,
    Condition(ConditionId),
    /// The index of the role that extends it.
    Role(usize),
}

/// The variables of a request, and the data of its caller.
#[derive(Clone, Copy, Default)]
pub struct ConditionInputs<'a> {
    /// The variables. The method, the host and the path are taken from the request.
    pub request: RequestInputs<'a>,
    /// The caller's data; `None` if it has none: then no condition on it can be computed.
    pub caller: Option<&'a CallerConditions>,
}

/// The conditional rules that a request has met.
pub(crate) struct Candidates<'r> {
    conditions: &'r Conditions,
    request: AccessRequest<'r>,
    inputs: &'r ConditionInputs<'r>,
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
            let when = when.as_ref().map(|when| self.add_of_role(when));
            let mut sources = Vec::new();
            sources.extend(graph.direct(role).map(|direct| (direct, SourceKind::Certain)));
            for (source, grant) in graph.conditional_grants(role) {
                let when = policy.grants.get(grant).and_then(|grant| grant.when.as_ref());
                let kind = when
                    .map_or(SourceKind::Certain, |when| SourceKind::Grant(self.add_of_role(when)));
                sources.push((source, kind));
            }
            for other in extending.remove(&role).unwrap_or_default() {
                let is_conditional = self.conditional.contains(&other);
                let kind = if is_conditional { SourceKind::Role } else { SourceKind::Certain };
                sources.push((other, kind));
            }
            self.conditional.insert(role);
            self.roles.push(ConditionalRole { role, when, sources });
        }
    }

    fn add_of_role(&mut self, when: &Condition) -> ConditionId {
        let attributes = when.expression.attributes().into_iter();
        self.read_by_roles.extend(attributes.filter(|read| read.is_placeholder()).cloned());
        self.add(when)
    }

    /// The guard of a rule for one of its hosts and one of its paths.
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
    /// needs a guard, so that the roles of its requests are known.
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

    /// The data of a caller with these roles. `caller` has all variables but the roles, which
    /// `role_name` names.
    pub(crate) fn of_caller<'n>(
        &self,
        roles: &RoleSet,
        caller: CallerInputs<'n>,
        role_name: impl Fn(RoleId) -> Option<&'n str>,
    ) -> CallerConditions {
        let mut held: Vec<HeldRole> = Vec::new();
        let mut places: HashMap<RoleId, usize> = HashMap::new();
        let mut is_certain: Vec<bool> = Vec::new();
        for ConditionalRole { role, when, sources } in &self.roles {
            if !roles.contains(*role) {
                continue;
            }
            let sources = sources.iter().filter(|(source, _)| roles.contains(*source));
            let sources: SmallVec<[HeldSource; 2]> = sources
                .filter_map(|(source, kind)| match kind {
                    SourceKind::Certain => Some(HeldSource::Certain),
                    SourceKind::Grant(condition) => Some(HeldSource::Condition(*condition)),
                    SourceKind::Role => places.get(source).copied().map(HeldSource::Role),
                })
                .collect();
            let has_certain = sources.iter().any(|source| match source {
                HeldSource::Certain => true,
                HeldSource::Condition(_) => false,
                HeldSource::Role(index) => is_certain.get(*index) == Some(&true),
            });
            places.insert(*role, held.len());
            is_certain.push(when.is_none() && has_certain);
            held.push(HeldRole { role: *role, when: *when, sources });
        }
        let uncertain = held.iter().zip(is_certain).filter(|(_, is_certain)| !is_certain);
        let mut uncertain: Vec<RoleId> = uncertain.map(|(held, _)| held.role).collect();
        uncertain.sort_unstable();
        let certain = roles.iter().filter(|role| uncertain.binary_search(role).is_err());
        let names = certain.filter_map(role_name);
        let names = names.filter(|name| ![ANYONE, AUTHENTICATED].contains(name)).collect();
        let caller = CallerInputs { roles: names, ..caller };
        CallerConditions {
            values: self.caller_parts.values(&caller),
            roles: held.into(),
            uncertain: uncertain.into(),
        }
    }
}

impl CallerConditions {
    /// The bytes that it has allocated on the heap.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        let values = self.values.iter().map(|value| match value {
            Ok(constant) => constant.heap_size(),
            Err(_) => 0,
        });
        let sources = self.roles.iter().filter(|role| role.sources.spilled());
        size_of_val(&*self.values)
            + values.sum::<usize>()
            + size_of_val(&*self.roles)
            + size_of_val(&*self.uncertain)
            + sources.map(|role| role.sources.len() * size_of::<HeldSource>()).sum::<usize>()
    }

    /// Whether a condition may take some of its roles.
    #[must_use]
    pub fn has_uncertain_roles(&self) -> bool {
        !self.uncertain.is_empty()
    }

    pub(crate) fn is_uncertain(&self, role: RoleId) -> bool {
        self.uncertain.binary_search(&role).is_ok()
    }
}

impl<'r> Candidates<'r> {
    pub(crate) fn new(
        conditions: &'r Conditions,
        request: AccessRequest<'r>,
        inputs: &'r ConditionInputs<'r>,
    ) -> Self {
        Self { conditions, request, inputs }
    }

    fn inputs<'p>(&self, placeholders: Placeholders<'p>) -> Inputs<'p>
    where
        'r: 'p,
    {
        let AccessRequest { action: method, scope: host, resource: path } = self.request;
        let request = RequestInputs { method, host, path, ..self.inputs.request };
        let cached = self.inputs.caller.map_or(&[][..], |caller| &caller.values);
        Inputs { request, cached, placeholders, caller: None }
    }

    /// Whether the caller has a role, where conditions see the placeholders of this guard.
    pub(crate) fn has(&self, role: RoleId, guard: Option<GuardId>) -> bool {
        let guard = guard.map(|guard| self.conditions.guards.at(guard));
        let placeholders = guard.map(|guard| Placeholders { path: &guard.path, host: &guard.host });
        let inputs = self.inputs(placeholders.unwrap_or_default());
        self.has_role(role, &inputs) == Some(true)
    }

    /// Whether a rule of a role that the caller may have matches the host, and whether it counts;
    /// `None` if that cannot be computed.
    pub(crate) fn truth(&self, role: RoleId, guard: GuardId) -> Option<Option<bool>> {
        let guard = self.conditions.guards.at(guard);
        if let Some(scope) = &guard.scope
            && !scope.matches(self.request.scope)
        {
            return None;
        }
        let placeholders = Placeholders { path: &guard.path, host: &guard.host };
        let inputs = self.inputs(placeholders);
        let when = guard.when.map_or(Some(true), |when| self.is_true(when, &inputs));
        if when == Some(false) {
            return Some(when);
        }
        Some(and(when, self.has_role(role, &inputs)))
    }

    /// Whether the caller has a role, where the conditions of roles see these placeholders.
    fn has_role(&self, role: RoleId, inputs: &Inputs<'_>) -> Option<bool> {
        let Some(caller) = self.inputs.caller else {
            // Without the caller's data only roles that no condition can take are certain.
            return (!self.conditions.is_conditional(role)).then_some(true);
        };
        let Some(index) = caller.roles.iter().position(|held| held.role == role) else {
            return Some(true);
        };
        // The role and the conditional roles that extend it, which stand before it.
        let mut needed: SmallVec<[usize; 8]> = SmallVec::from_elem(index, 1);
        let mut next = 0;
        while let Some(held) = needed.get(next).and_then(|index| caller.roles.get(*index)) {
            next += 1;
            for source in &held.sources {
                if let HeldSource::Role(index) = source
                    && !needed.contains(index)
                {
                    needed.push(*index);
                }
            }
        }
        needed.sort_unstable();
        let mut has: SmallVec<[Option<bool>; 8]> = SmallVec::new();
        for held in needed.iter().filter_map(|index| caller.roles.get(*index)) {
            let mut is_given = Some(false);
            for source in &held.sources {
                let by_source = match source {
                    HeldSource::Certain => Some(true),
                    HeldSource::Condition(condition) => self.is_true(*condition, inputs),
                    HeldSource::Role(index) => {
                        let place = needed.binary_search(index).ok();
                        place.and_then(|place| has.get(place).copied()).flatten()
                    }
                };
                is_given = or(is_given, by_source);
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
