//! The roles that callers have together.

use crate::trie::Ruled;
use policy::ids::IdVec;
use policy::model::{ANYONE, AUTHENTICATED, Policy, RoleId};

/// The maximum number of steps from a reserved role.
const BUDGET: usize = 4_000_000;

/// The roles that a caller with a given role also has.
pub(crate) struct Related<'p> {
    policy: &'p Policy,
    anyone: Option<RoleId>,
    authenticated: Option<RoleId>,
    current: Option<RoleId>,
    /// For each role, the last role from which it was reached.
    reached_from: IdVec<RoleId, Option<RoleId>>,
    /// Which roles every caller has.
    everybody: IdVec<RoleId, bool>,
    /// Which roles every authenticated caller has, but not every anonymous one.
    authenticated_only: IdVec<RoleId, bool>,
}

impl<'p> Related<'p> {
    pub(crate) fn new(policy: &'p Policy) -> Self {
        let anyone = policy.role(ANYONE);
        let mut related = Self {
            policy,
            anyone,
            authenticated: policy.role(AUTHENTICATED),
            current: None,
            reached_from: vec![None; policy.roles.len()].into(),
            everybody: vec![false; policy.roles.len()].into(),
            authenticated_only: vec![false; policy.roles.len()].into(),
        };
        if let Some(anyone) = anyone {
            related.find_from(anyone, &mut BUDGET.clone());
            related.everybody = related.reached_from.iter().map(|from| *from == Some(anyone)).collect();
        }
        if let Some(authenticated) = related.authenticated {
            related.find_from(authenticated, &mut BUDGET.clone());
            let reached = related.reached_from.iter().zip(related.everybody.iter());
            related.authenticated_only =
                reached.map(|(from, everybody)| *from == Some(authenticated) && !everybody).collect();
        }
        related
    }

    /// Computes the roles that come with a role.
    pub(crate) fn find_from(&mut self, role: RoleId, budget: &mut usize) {
        if self.current == Some(role) {
            return;
        }
        self.current = Some(role);
        // An anonymous caller has the roles of `anyone` only; whoever has another one is authenticated.
        let is_everybodys = self.anyone == Some(role) || *self.everybody.at(role);
        let authenticated = self.authenticated.filter(|_| !is_everybodys);
        let mut open: Vec<RoleId> = [role].into_iter().chain(self.anyone).chain(authenticated).collect();
        while let Some(next) = open.pop() {
            *budget = budget.saturating_sub(1);
            if *budget == 0 {
                return;
            }
            if self.reached_from.at_mut(next).replace(role) != Some(role) {
                open.extend(&self.policy.roles.at(next).extends);
            }
        }
    }

    /// Whether every caller has either both roles or neither.
    pub(crate) fn are_equals(&self, one: RoleId, other: RoleId) -> bool {
        let both = |had: &IdVec<RoleId, bool>| *had.at(one) && *had.at(other);
        one == other || both(&self.everybody) || both(&self.authenticated_only)
    }

    /// Whether every caller has this role, also an anonymous one.
    pub(crate) fn is_everybodys(&self, role: RoleId) -> bool {
        *self.everybody.at(role)
    }

    /// Whether callers with one of these roles have the other one, too, so that this `deny` rule is about what the role
    /// `allow` allows. Of roles that are only granted to the same callers this is not known.
    pub(crate) fn are_together(&mut self, deny: &Ruled<'_>, allow: RoleId, budget: &mut usize) -> bool {
        self.find_from(deny.role, budget);
        let comes_with = self.has(allow);
        self.find_from(allow, budget);
        comes_with || self.has(deny.role) || [ANYONE, AUTHENTICATED].contains(&&*deny.named.name)
    }

    /// Whether a caller with the role of the last [`Self::find_from`] has this one, too.
    pub(crate) fn has(&self, role: RoleId) -> bool {
        self.current.is_some() && *self.reached_from.at(role) == self.current
    }
}
