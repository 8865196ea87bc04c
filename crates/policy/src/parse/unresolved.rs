//! A policy as written in its files, before names are resolved.

use std::sync::Arc;

use crate::model::{AllowResponse, AuthZen, DenyResponse, Identity, IdentityHeader, Rule, Search};
use document::{Mark, Place};

/// The contents of all files of a policy.
#[derive(Debug, Default)]
pub(crate) struct UnresolvedPolicy {
    pub(crate) conditions: Option<(Place, NamedConditions)>,
    pub(crate) roles: Vec<UnresolvedRole>,
    pub(crate) grants: Vec<UnresolvedGrant>,
    pub(crate) identity: Option<(Place, Identity)>,
    pub(crate) allow_response: Option<(Place, AllowResponse)>,
    pub(crate) deny_response: Option<(Place, DenyResponse)>,
    pub(crate) identity_header: Option<(Place, IdentityHeader)>,
    pub(crate) search: Option<(Place, Search)>,
    pub(crate) authzen: Option<(Place, AuthZen)>,
    /// Whether roles may be missing, because a part of the policy could not be read. Then no role is
    /// reported as unknown.
    pub(crate) roles_incomplete: bool,
    /// Whether users, issuers or their settings may be missing.
    pub(crate) identity_incomplete: bool,
}

/// A role whose references are still names.
#[derive(Debug)]
pub(crate) struct UnresolvedRole {
    pub(crate) name: Arc<str>,
    pub(crate) extends: Vec<NameRef>,
    pub(crate) allow: Vec<UnresolvedRule>,
    pub(crate) deny: Vec<UnresolvedRule>,
    /// The sources of `{user.id}` in rules that do not name their own.
    pub(crate) user_id_from: Option<NameRefs>,
    pub(crate) when: Option<UnresolvedCondition>,
    pub(crate) at: Place,
}

/// Conditions with their names, in file order.
pub(crate) type NamedConditions = Vec<(Arc<str>, UnresolvedCondition)>;

/// A condition as written, in which other conditions are still names.
#[derive(Clone, Debug)]
pub struct UnresolvedCondition {
    /// The text.
    pub text: Arc<str>,
    /// Its place.
    pub at: Place,
    /// The columns from its place to its first character; `None` if its lines are not those of the
    /// file.
    pub quote: Option<u32>,
}

/// A rule whose sources are still names.
#[derive(Debug)]
pub(crate) struct UnresolvedRule {
    pub(crate) rule: Rule,
    pub(crate) user_id_from: Option<NameRefs>,
    pub(crate) when: Option<UnresolvedCondition>,
}

/// A list of names, and the place of its key.
#[derive(Debug)]
pub(crate) struct NameRefs {
    pub(crate) names: Vec<NameRef>,
    pub(crate) at: Mark,
}

/// A grant whose role is still a name.
#[derive(Clone, Debug)]
pub struct UnresolvedGrant {
    /// The role.
    pub role: Arc<str>,
    /// The users.
    pub users: Vec<NameRef>,
    /// The groups.
    pub groups: Vec<NameRef>,
    /// Its condition.
    pub when: Option<UnresolvedCondition>,
    /// The place of the role under `grants`.
    pub at: Place,
}

/// The name of a role, user, group or source in a list, and its place in the file.
#[derive(Clone, Debug)]
pub struct NameRef {
    /// The name.
    pub name: Arc<str>,
    /// The place of the item.
    pub at: Mark,
}
