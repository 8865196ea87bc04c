//! The same meaning as `policy`'s reference evaluator, fast: an index whose decisions cost the same however large the
//! policy. It knows nothing of HTTP: an action, a scope and a resource are bytes.

use policy::Policy;
use policy::model::RuleId;

/// A policy compiled into an index. It never changes.
#[derive(Debug)]
pub struct Engine {}

/// All the roles of one caller, interned: granted, carried, reserved, and what these extend.
#[derive(Clone, Debug)]
pub struct RoleSet {}

/// What is asked, in canonical form.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// For HTTP the method.
    pub action: &'a [u8],
    /// For HTTP the host.
    pub scope: &'a [u8],
    /// For HTTP the path.
    pub resource: &'a [u8],
}

/// The answer, with the rule that gave it: of several the one with the lowest number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Yes, by this rule.
    Allowed(RuleId),
    /// No, by this `deny` rule.
    Denied(RuleId),
    /// No, as nothing allows it.
    NotAllowed,
}

impl Engine {
    /// Compiles a policy.
    #[must_use]
    pub fn compile(policy: &Policy) -> Self {
        let _ = policy;
        todo!()
    }

    /// The roles of an anonymous caller.
    #[must_use]
    pub fn anonymous(&self) -> &RoleSet {
        todo!()
    }

    /// The roles of a caller with a verified proof.
    pub fn roles_of<'n>(
        &self,
        user: &str,
        groups: impl IntoIterator<Item = &'n str>,
        roles: impl IntoIterator<Item = &'n str>,
    ) -> RoleSet {
        let _ = (user, groups.into_iter(), roles.into_iter());
        todo!()
    }

    /// The names of the roles in a set, in the order of the policy.
    pub fn names<'e>(&'e self, roles: &RoleSet) -> impl Iterator<Item = &'e str> {
        let _ = roles;
        std::iter::empty()
    }

    /// Decides one question. `owner` is the caller's user name, as it is, if it has one.
    #[must_use]
    pub fn decide(&self, roles: &RoleSet, owner: Option<&[u8]>, question: Question<'_>) -> Decision {
        let _ = (roles, owner, question);
        todo!()
    }
}
