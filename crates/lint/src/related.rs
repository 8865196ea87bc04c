//! The roles that callers with a certain role have as well.

use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Policy, RoleId};

use crate::trie::RoleRule;
use crate::warnings::Steps;

/// The reserved roles that the policy defines.
pub(crate) fn reserved(policy: &Policy) -> impl Iterator<Item = RoleId> {
    [ANYONE, AUTHENTICATED].into_iter().filter_map(|name| policy.role(name))
}

/// Some roles of a policy, and all roles that they extend.
pub(crate) struct Roles(IdVec<RoleId, bool>);

impl Roles {
    pub(crate) fn with_extended(policy: &Policy, roles: impl IntoIterator<Item = RoleId>) -> Self {
        let mut has: IdVec<RoleId, bool> = vec![false; policy.roles.len()].into();
        let mut unvisited: Vec<RoleId> = roles.into_iter().collect();
        while let Some(role) = unvisited.pop() {
            if !std::mem::replace(has.at_mut(role), true) {
                unvisited.extend(&policy.roles.at(role).extends);
            }
        }
        Self(has)
    }

    pub(crate) fn contains(&self, role: RoleId) -> bool {
        *self.0.at(role)
    }
}

/// The roles that each caller with the role `start` has.
pub(crate) struct RolesOf<'r, 'p> {
    pub(crate) related: &'r RelatedRoles<'p>,
    start: RoleId,
}

impl RolesOf<'_, '_> {
    pub(crate) fn has(&self, role: RoleId) -> bool {
        *self.related.reached_from.at(role) == Some(self.start)
    }
}

/// Computes which roles a caller with a role certainly has.
pub(crate) struct RelatedRoles<'p> {
    policy: &'p Policy,
    anyone: Option<RoleId>,
    authenticated: Option<RoleId>,
    /// The role of the last [`Self::roles_of`].
    start: Option<RoleId>,
    /// For each role, the last start from which it was reached.
    reached_from: IdVec<RoleId, Option<RoleId>>,
    /// The roles that every caller has.
    of_everyone: Roles,
    /// The roles that every authenticated caller has.
    of_authenticated: Roles,
}

impl<'p> RelatedRoles<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let (anyone, authenticated) = (policy.role(ANYONE), policy.role(AUTHENTICATED));
        Self {
            policy,
            anyone,
            authenticated,
            start: None,
            reached_from: vec![None; policy.roles.len()].into(),
            of_everyone: Roles::with_extended(policy, anyone),
            of_authenticated: Roles::with_extended(policy, reserved(policy)),
        }
    }

    /// The roles that each caller with this role has. Some are missing if no steps are left.
    pub(crate) fn roles_of(&mut self, role: RoleId, steps: &mut Steps) -> RolesOf<'_, 'p> {
        if self.start.replace(role) != Some(role) {
            self.find_from(role, steps);
        }
        RolesOf { related: self, start: role }
    }

    fn find_from(&mut self, role: RoleId, steps: &mut Steps) {
        // An anonymous caller has only the roles of `anyone`: a caller with another role is
        // authenticated.
        let authenticated = self.authenticated.filter(|_| !self.everyone_has(role));
        let mut unvisited: Vec<RoleId> =
            [role].into_iter().chain(self.anyone).chain(authenticated).collect();
        while let Some(next) = unvisited.pop() {
            if !steps.take(1) {
                return;
            }
            if self.reached_from.at_mut(next).replace(role) != Some(role) {
                unvisited.extend(&self.policy.roles.at(next).extends);
            }
        }
    }

    /// Whether every caller has either both roles or neither.
    pub(crate) fn have_same_callers(&self, a: RoleId, b: RoleId) -> bool {
        let [callers_a, callers_b] = [a, b]
            .map(|role| (self.of_everyone.contains(role), self.of_authenticated.contains(role)));
        a == b || callers_a == callers_b && callers_a != (false, false)
    }

    /// Whether every caller has this role, even an anonymous caller.
    pub(crate) fn everyone_has(&self, role: RoleId) -> bool {
        self.of_everyone.contains(role)
    }

    /// Whether each caller with the role `a` has `b`, or each caller with the role `b` has `a`.
    pub(crate) fn one_includes_other(&mut self, a: RoleId, b: RoleId, steps: &mut Steps) -> bool {
        self.roles_of(a, steps).has(b) || self.roles_of(b, steps).has(a)
    }

    /// Whether a `deny` rule restricts callers with the role `allow`. False for two roles that are
    /// only granted to the same callers: grants are not compared.
    pub(crate) fn restricts(
        &mut self,
        deny: &RoleRule<'_>,
        allow: RoleId,
        steps: &mut Steps,
    ) -> bool {
        self.one_includes_other(deny.role_id, allow, steps)
            || [ANYONE, AUTHENTICATED].contains(&&*deny.role.name)
    }
}
