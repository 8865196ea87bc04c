//! The input and the result of an evaluation. The reference evaluator and the engine share both.

use crate::model::RuleId;

/// A request in canonical form, reduced to the three things that rules match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// For HTTP: the method.
    pub action: &'a [u8],
    /// For HTTP: the host in lower case, without port and trailing dot. Not a scope of OAuth.
    pub scope: &'a [u8],
    /// For HTTP: the canonical path.
    pub resource: &'a [u8],
}

/// The result of an evaluation. If several rules decide alike, it names the one with the lowest [`RuleId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Allowed by this rule.
    Allowed(RuleId),
    /// Denied by this `deny` rule.
    Denied(RuleId),
    /// Denied because no rule allows it.
    NotAllowed,
}
