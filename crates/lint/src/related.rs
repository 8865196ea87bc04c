//! The roles that callers have together.

use crate::roles::with_extended;
use crate::trie::Ruled;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Policy, RoleId};

/// The roles that a caller with a given role also has.
pub(crate) struct Related<'p> {
    policy: &'p Policy,
    anyone: Option<RoleId>,
    authenticated: Option<RoleId>,
    current: Option<RoleId>,
    /// For each role, the last role from which it was reached.
    reached_from: IdVec<RoleId, Option<RoleId>>,
    /// Which roles every caller has.
    of_everybody: IdVec<RoleId, bool>,
    /// Which roles every authenticated caller has.
    of_authenticated: IdVec<RoleId, bool>,
}

impl<'p> Related<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let (anyone, authenticated) = (policy.role(ANYONE), policy.role(AUTHENTICATED));
        Self {
            policy,
            anyone,
            authenticated,
            current: None,
            reached_from: vec![None; policy.roles.len()].into(),
            of_everybody: with_extended(policy, anyone),
            of_authenticated: with_extended(policy, anyone.into_iter().chain(authenticated)),
        }
    }

    /// Computes the roles that come with a role.
    pub(crate) fn find_from(&mut self, role: RoleId, left: &mut usize) {
        if self.current == Some(role) {
            return;
        }
        self.current = Some(role);
        // An anonymous caller has the roles of `anyone` only; whoever has another one is
        // authenticated.
        let authenticated = self.authenticated.filter(|_| !self.is_everybodys(role));
        let mut open: Vec<RoleId> =
            [role].into_iter().chain(self.anyone).chain(authenticated).collect();
        while let Some(next) = open.pop() {
            *left = left.saturating_sub(1);
            if *left == 0 {
                return;
            }
            if self.reached_from.at_mut(next).replace(role) != Some(role) {
                open.extend(&self.policy.roles.at(next).extends);
            }
        }
    }

    /// Whether every caller has either both roles or neither.
    pub(crate) fn are_equals(&self, one: RoleId, other: RoleId) -> bool {
        let reach = |role| (*self.of_everybody.at(role), *self.of_authenticated.at(role));
        one == other || reach(one) == reach(other) && reach(one) != (false, false)
    }

    /// Whether every caller has this role, also an anonymous one.
    pub(crate) fn is_everybodys(&self, role: RoleId) -> bool {
        *self.of_everybody.at(role)
    }

    /// Whether callers with one of these roles have the other one, too.
    pub(crate) fn come_together(&mut self, one: RoleId, other: RoleId, left: &mut usize) -> bool {
        self.find_from(one, left);
        let comes_with = self.has(other);
        self.find_from(other, left);
        comes_with || self.has(one)
    }

    /// Whether this `deny` rule is about what the role `allow` allows. Of roles that are only
    /// granted to the same callers this is not known.
    pub(crate) fn are_together(
        &mut self,
        deny: &Ruled<'_>,
        allow: RoleId,
        left: &mut usize,
    ) -> bool {
        self.come_together(deny.role, allow, left)
            || [ANYONE, AUTHENTICATED].contains(&&*deny.named.name)
    }

    /// Whether a caller with the role of the last [`Self::find_from`] has this one, too.
    pub(crate) fn has(&self, role: RoleId) -> bool {
        self.current.is_some() && *self.reached_from.at(role) == self.current
    }
}
