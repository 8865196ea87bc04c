//! The result of a review: what nobody used comes first.

use std::collections::BTreeMap;

use serde::Serialize;

use super::usage::Usage;
use super::{AccessReview, CountedGrant, CountedRule};
use crate::holders::{Grantee, Holder, RoleGrant};
use crate::utc;

/// The maximum number of revisions of other policies that are named.
pub(super) const MAX_REVISIONS: usize = 8;

/// What of a policy was used, and who could use it.
#[derive(Clone, Debug, Serialize)]
pub struct AccessReport {
    /// The revision of the policy.
    pub policy: String,
    /// What the logs cover.
    pub log: LogSummary,
    /// What the result does not show.
    pub notes: Vec<String>,
    /// The grants and `allow` rules that no line has used, in the order of the policy.
    pub unused: Vec<AccessRow>,
    /// The others.
    pub used: Vec<AccessRow>,
    /// Rules that have allowed requests, and that the policy does not have.
    pub not_in_policy: Vec<UnknownRule>,
    /// Roles in the tokens of permitted requests to a search cluster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_roles: Vec<UnknownRule>,
}

/// What logs cover.
#[derive(Clone, Debug, Serialize)]
pub struct LogSummary {
    /// The time of the first line, if a line has a time.
    pub from: Option<String>,
    /// The time of the last line.
    pub to: Option<String>,
    /// How many lines are decisions of the period.
    pub lines: u64,
    /// How many of them allow a request.
    pub allowed: u64,
    /// How many lines are older than the period.
    pub before: u64,
    /// How many lines are no decisions.
    pub unreadable: u64,
}

/// A grant or a rule.
#[derive(Clone, Debug, Serialize)]
pub struct AccessRow {
    /// Which of the two.
    pub kind: Kind,
    /// Its role.
    pub role: String,
    /// To whom a grant gives the role, or the name of a rule.
    pub name: String,
    /// Whether it was used.
    pub status: Status,
    /// How often and by whom.
    #[serde(flatten)]
    pub usage: UsageCounts,
    /// Who could use it.
    pub who: Vec<Holder>,
    /// Its place in the policy, as `file:line:column`.
    pub at: String,
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A role that is given to a user, a group or tokens.
    Grant,
    /// A rule that allows.
    Rule,
}

/// Whether something was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It was used.
    Used,
    /// Nobody used it.
    Unused,
    /// No line of the sample has used it.
    NotInSample,
    /// No line has used it, but lines with masked users may have.
    NotSeenMasked,
}

/// How often something was used.
#[derive(Clone, Debug, Serialize)]
pub struct UsageCounts {
    /// The number of decisions.
    pub uses: u64,
    /// Whether it is estimated from a sample.
    pub is_estimated: bool,
    /// The number of different callers that are known.
    pub callers: usize,
    /// Whether there may be more.
    pub has_more_callers: bool,
    /// When it was used last.
    pub last_used: Option<String>,
}

/// A rule that the policy does not have, or a role of a search cluster.
#[derive(Clone, Debug, Serialize)]
pub struct UnknownRule {
    /// The rule as `role: rule`, or the role.
    pub name: String,
    /// How often and by whom it was used.
    #[serde(flatten)]
    pub usage: UsageCounts,
}

impl Status {
    /// The status in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Unused => "unused",
            Self::NotInSample => "not seen in the sample",
            Self::NotSeenMasked => "not seen: users are masked",
        }
    }
}

impl AccessReview<'_> {
    /// The result. `unreadable` lines of the logs were no decisions.
    #[must_use]
    pub fn report(&self, unreadable: u64) -> AccessReport {
        let grants: Vec<RoleGrant<'_>> = self.grants.iter().map(|counted| counted.grant).collect();
        let mut rows = Vec::new();
        for CountedGrant { grant, usage } in &self.grants {
            let is_of_user = matches!(grant.to, Grantee::User(_));
            let (Some(at), Some(name)) = (grant.at, grantee(&grant.to)) else { continue };
            rows.push(AccessRow {
                kind: Kind::Grant,
                role: self.policy.roles.at(grant.role).name.to_string(),
                name,
                status: self.status(usage, is_of_user),
                usage: usage.into(),
                who: self.holders.by_grant(grant),
                at: at.to_string(),
            });
        }
        for CountedRule { role, rule, usage, .. } in &self.rules {
            rows.push(AccessRow {
                kind: Kind::Rule,
                role: self.policy.roles.at(*role).name.to_string(),
                name: rule.name.to_string(),
                status: self.status(usage, false),
                usage: usage.into(),
                who: self.holders.with_rule(&grants, *role, rule),
                at: rule.at.to_string(),
            });
        }
        let (used, unused) = rows.into_iter().partition(|row| row.status == Status::Used);
        AccessReport {
            policy: self.revision.clone(),
            log: LogSummary {
                from: self.log.period.map(|(first, _)| utc(first)),
                to: self.log.period.map(|(_, last)| utc(last)),
                lines: self.log.lines,
                allowed: self.log.allowed,
                before: self.log.before,
                unreadable,
            },
            notes: self.notes(),
            unused,
            used,
            not_in_policy: by_name(&self.unknown_rules),
            cluster_roles: by_name(&self.cluster_roles),
        }
    }

    fn status(&self, usage: &Usage, is_of_user: bool) -> Status {
        if usage.is_used() {
            Status::Used
        } else if self.log.sampled > 0 {
            Status::NotInSample
        } else if is_of_user && self.log.masked_users > 0 {
            Status::NotSeenMasked
        } else {
            Status::Unused
        }
    }

    fn notes(&self) -> Vec<String> {
        let log = &self.log;
        let mut notes = Vec::new();
        if log.of_other_revisions > 0 {
            let revisions: Vec<&str> = log.other_revisions.iter().map(String::as_str).collect();
            notes.push(format!(
                "{} of the lines were decided by other revisions of the policy ({}{}): what is not \
                 used may be newer than they are",
                log.of_other_revisions,
                revisions.join(", "),
                if revisions.len() >= MAX_REVISIONS { ", …" } else { "" }
            ));
        }
        if log.sampled > 0 {
            notes.push(format!(
                "{} of the lines are samples: counts are estimates, and what is not in the sample \
                 may have been used",
                log.sampled
            ));
        }
        if log.masked_users > 0 {
            notes.push(format!(
                "{} of the allowed lines have masked users: they show no use of grants to users",
                log.masked_users
            ));
        }
        if log.without_grant > 0 {
            notes.push(format!(
                "{} of the allowed lines are of callers to whom no grant of this policy gives the \
                 rule, as far as the line names them",
                log.without_grant
            ));
        }
        if log.more_unknown > 0 {
            notes.push(format!(
                "{} of the allowed lines have further rules that this policy does not have",
                log.more_unknown
            ));
        }
        if log.by_cluster > 0 {
            notes.push(format!(
                "{} of the lines are requests to a search cluster: its role files decide them, and \
                 are not reviewed here",
                log.by_cluster
            ));
        }
        if log.without_time > 0 {
            let left_out = if self.since.is_some() { ", and are left out" } else { "" };
            notes.push(format!("{} of the lines have no time{left_out}", log.without_time));
        }
        notes
    }
}

/// To whom a role is given, in words; `None` for the reserved roles.
fn grantee(to: &Grantee<'_>) -> Option<String> {
    match to {
        Grantee::Everyone | Grantee::Authenticated => None,
        Grantee::User(name) => Some(format!("user {name}")),
        Grantee::Group(name) => Some(format!("group {name}")),
        Grantee::Tokens(issuer) => Some(format!("tokens of {} that name it", issuer.issuer)),
    }
}

fn by_name(names: &BTreeMap<String, Usage>) -> Vec<UnknownRule> {
    let names = names.iter();
    names.map(|(name, usage)| UnknownRule { name: name.clone(), usage: usage.into() }).collect()
}

impl From<&Usage> for UsageCounts {
    fn from(usage: &Usage) -> Self {
        Self {
            // Rounds the number. If it is too large, the maximum stands for it.
            uses: format!("{:.0}", usage.count).parse().unwrap_or(u64::MAX),
            is_estimated: usage.is_estimated,
            callers: usage.callers(),
            has_more_callers: usage.has_more_callers,
            last_used: usage.last.map(utc),
        }
    }
}
