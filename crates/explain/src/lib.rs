//! Answers questions of people about a policy: why a request is answered as it is, who may make it,
//! and what a caller may do. Also runs the test cases of a policy.
//!
//! The code is written for clarity, not for speed. It reads the policy as it is written, and knows
//! the file and line of each rule. Each verdict comes from the authorizer: no code here allows a
//! request.
//!
//! A *search cluster* is an OpenSearch cluster. Its own role files decide about its requests, not
//! the rules of the policy.
//!
//! * `explanation`: why a request is answered as it is;
//! * `fixes`: which change of the policy would allow a denied request;
//! * `who_can`, `what_can`: who may make a request, and what a caller may do;
//! * `rules`: the rules that match a request, and the roles that extend a role;
//! * `notes`: likely mistakes in a request and in a token; `names`: unknown names;
//! * `subjects`: subjects without authentication; `named`: callers as a person names them;
//! * `ways`: the conditions under which a rule counts for a caller; `conditions`: their parts;
//! * `mappings`: the role mappings of a search cluster, that is, who has each of its roles;
//! * `recorded`: the request of a line of the decision log;
//! * `access_review`: which parts of a policy were used; `holders`: who has what it grants;
//! * `case`: runs the test cases of a policy (`cases.yaml`); `case_doubts`: what they leave open.

#![deny(clippy::wildcard_enum_match_arm)]

mod access_review;
mod case;
mod case_doubts;
mod conditions;
mod explanation;
mod fixes;
mod holders;
mod mappings;
mod metadata;
mod named;
mod names;
mod notes;
mod one_line;
mod recorded;
mod rules;
mod subjects;
mod ways;
mod what_can;
mod who_can;

use std::sync::Arc;

use authorizer::Authorizer;
use identity::UnixTime;
use jiff::Timestamp;
use policy::Policy;

pub use access_review::{
    AccessReport, AccessReview, AccessRow, Kind as AccessKind, LogSummary, LoggedAccess,
    Status as AccessStatus, UnknownRule, UsageCounts,
};
pub use case::CaseOutcome;
pub use conditions::{ExplainedCondition, ExplainedPart};
pub use explanation::{
    ExplainedCaller, ExplainedCluster, ExplainedFilter, ExplainedGrant, ExplainedNeed,
    ExplainedRole, ExplainedSubject, Explanation, MissingPrivilege, NearRule, PermittingRole,
    RoleSource,
};
pub use fixes::{Fixes, Proposal};
pub use holders::Holder;
pub use named::{ImpossibleCaller, NamedCaller};
pub use names::{missing_prefix_message, unknown_role_messages};
pub use one_line::OneLine;
pub use recorded::RestoredInputs;
pub use review::CallerSource;
pub use rules::{ExplainedRule, MissingRole};
pub use subjects::{split_target, unverified_subject};
pub use what_can::{
    CallerRule, ClusterPermission, ClusterRole, ClusterRoleQuery, ClusterRoles, MappedRole, WhatCan,
};
pub use who_can::{Attribute, Callers, Condition, MatchingRule, WhoCan};

/// The maximum number of steps for an answer on a page of the console. In a step, a name, role,
/// pattern or user of a search cluster is visited. A large cluster must not stall the console.
const STEPS_PER_PAGE: usize = 2_000_000;

/// The same for a command, which may take longer.
const STEPS_PER_COMMAND: usize = 100 * STEPS_PER_PAGE;

/// Answers questions about the policy of an authorizer.
#[derive(Clone, Copy, Debug)]
pub struct Explainer<'a> {
    authorizer: &'a Authorizer,
    /// The time of the requests, if somebody named it.
    time: Option<UnixTime>,
}

impl<'a> Explainer<'a> {
    /// About the policy of this authorizer.
    #[must_use]
    pub const fn new(authorizer: &'a Authorizer) -> Self {
        Self { authorizer, time: None }
    }

    /// For requests at this time.
    #[must_use]
    pub const fn at(self, time: Option<UnixTime>) -> Self {
        Self { time, ..self }
    }

    /// The policy.
    #[must_use]
    pub fn policy(self) -> &'a Policy {
        &self.authorizer.loaded().policy
    }
}

/// A text that may not be UTF-8, for people.
fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// A time in UTC (RFC 3339), to the second.
fn utc(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "unknown".to_owned(), |time| time.to_string())
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}
