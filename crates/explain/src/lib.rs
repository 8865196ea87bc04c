//! Answers questions of people about a policy: why a request is answered as it is, who may make it,
//! and what a caller may do. Runs the test cases of a policy, too.
//!
//! Everything here is slow and clear. It reads the policy itself, with the places of its rules, and
//! asks the authorizer for each verdict: nothing here allows a request.
//!
//! * `explanation`: why a request is answered as it is;
//! * `who_can`, `what_can`: who may make a request, and what a caller may do;
//! * `matched`: the rules that match a request; `extending`: which roles extend a role;
//! * `notes`: likely mistakes in a request and in a token;
//! * `subjects`, `named`: callers that are named and not authenticated, and which of the names are
//!   likely mistakes;
//! * `mappings`: the role mappings of a search cluster, by role;
//! * `case`: runs the test cases of a policy (`cases.yaml`); `case_names`: the names in one that
//!   are probably mistakes.

#![deny(clippy::wildcard_enum_match_arm)]

mod case;
mod case_names;
mod explanation;
mod extending;
mod mappings;
mod matched;
mod named;
mod notes;
mod one_line;
mod subjects;
mod what_can;
mod who_can;

use authorizer::{Authorizer, Backend, Cluster};
use policy::Policy;

pub use case::CaseOutcome;
pub use explanation::{
    ExplainedCluster, ExplainedFilter, ExplainedGrant, ExplainedNeed, ExplainedRole,
    ExplainedSubject, Explanation, MissingPrivilege, NearRule, PermittingRole, RoleSource,
};
pub use matched::{ExplainedRule, MissingRole};
pub use named::{ImpossibleCaller, NamedCaller, impossible_user, split_target, unknown_roles};
pub use one_line::OneLine;
pub use what_can::{
    AskedClusterRoles, ClusterPermission, ClusterRole, ClusterRoles, HeldRule, MappedRole, WhatCan,
};
pub use who_can::{Attribute, CallerSource, Callers, MatchingRule, WhoCan};

/// The maximum number of names, roles, patterns and users of a search cluster that are looked at
/// for a question on a page. A policy for which that takes too long must not stop the console.
const STEPS_PER_PAGE: usize = 2_000_000;

/// The same for a command, whose reader may wait longer.
const STEPS_PER_COMMAND: usize = 100 * STEPS_PER_PAGE;

/// Answers questions about the policy of an authorizer.
#[derive(Clone, Copy, Debug)]
pub struct Explainer<'a> {
    authorizer: &'a Authorizer,
}

impl<'a> Explainer<'a> {
    /// About the policy of this authorizer.
    #[must_use]
    pub const fn new(authorizer: &'a Authorizer) -> Self {
        Self { authorizer }
    }

    /// The policy.
    #[must_use]
    pub fn policy(self) -> &'a Policy {
        &self.authorizer.loaded().policy
    }

    /// The search cluster, if it decides about requests to this host.
    fn cluster_of(self, host: &[u8]) -> Option<&'a Cluster> {
        match self.authorizer.backend(host) {
            Backend::Cluster(cluster) => Some(cluster),
            Backend::Rules(_) => None,
        }
    }
}

/// A text that may not be UTF-8, for people.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}
