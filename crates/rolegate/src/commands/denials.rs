//! `rolegate explain --decision` with several lines: the denials of a log in groups, each with the
//! permissions that are missing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

use authorizer::{Authorizer, Reason};
use explain::{Explanation, OneLine};
use serde::Serialize;

use super::decision_lines::DecisionLines;
use super::logged::{ExplainedDecision, LoggedDecision};
use super::request::Body;
use crate::error::CommandError;
use crate::output::counted;
use runtime::clock;

/// Maximum number of groups of denials that are printed.
const MAX_GROUPS: usize = 20;
/// Maximum size of the lines in memory, in bytes. Each group has a line. Denials of further groups
/// are only counted.
const MAX_BYTES: usize = 64 << 20;
/// Maximum number of rules that are printed for each group.
const MAX_RULES: usize = 3;

/// The denials of a log.
#[derive(Debug, Serialize)]
pub(super) struct Denials {
    decisions: u64,
    denied: u64,
    /// The most frequent first.
    groups: Vec<DenialGroup>,
    /// Number of denials that are in no printed group.
    other_denials: u64,
    /// Number of lines that are no decisions.
    unreadable: u64,
    /// The warning that this policy has no `identity`. The answers assume that the callers in the
    /// log can sign in.
    #[serde(skip)]
    pub(super) identity_warning: Option<&'static str>,
}

/// Denials that are probably alike. If the rules or a search cluster decided, the denials have the
/// same reason, actions, origin of the caller, method, host and path. If the requests or their
/// credentials are not valid, the denials only have the same reason.
#[derive(Debug, Serialize)]
struct DenialGroup {
    count: u64,
    first_line: u64,
    /// The request of the first line; `None` if only the reason is the same.
    request: Option<String>,
    reason: String,
    /// The user of the first line. The other lines may have others.
    first_user: Option<String>,
    /// The first line explained; `None` if this program does not know its reason.
    explanation: Option<ExplainedDecision>,
}

/// A group before its first line is explained.
struct LineGroup {
    count: u64,
    first_line: u64,
    decision: LoggedDecision,
}

impl Denials {
    /// Reads a log to its end. Only the printed groups are explained: each costs work that is
    /// linear in the policy. `None` if the log has no decision.
    pub(super) fn read(
        mut lines: DecisionLines,
        authorizer: &Authorizer,
    ) -> Result<Option<Self>, CommandError> {
        let mut groups: HashMap<Vec<String>, LineGroup> = HashMap::new();
        let (mut decisions, mut denied, mut kept_bytes) = (0, 0, 0);
        let mut identity_warning = None;
        while let Some((number, decision)) = lines.next_decision()? {
            decisions += 1;
            if decision.is_allowed() {
                continue;
            }
            denied += 1;
            identity_warning = identity_warning.or_else(|| decision.identity_warning(authorizer));
            match groups.entry(key(&decision)) {
                Entry::Occupied(mut group) => group.get_mut().count += 1,
                Entry::Vacant(entry) => {
                    kept_bytes += lines.line_size;
                    if kept_bytes <= MAX_BYTES {
                        entry.insert(LineGroup { count: 1, first_line: number, decision });
                    }
                }
            }
        }
        if decisions == 0 {
            return Ok(None);
        }
        let mut groups: Vec<LineGroup> = groups.into_values().collect();
        groups.sort_by_key(|group| (u64::MAX - group.count, group.first_line));
        groups.truncate(MAX_GROUPS);
        let other_denials = denied - groups.iter().map(|group| group.count).sum::<u64>();
        let groups = groups.into_iter().map(|group| DenialGroup::new(group, authorizer)).collect();
        let unreadable = lines.unreadable.count;
        Ok(Some(Self { decisions, denied, groups, other_denials, unreadable, identity_warning }))
    }
}

fn is_about_request(decision: &LoggedDecision) -> bool {
    decision.is_by_rules() || decision.is_by_cluster()
}

/// The values that the denials of a group have in common.
fn key(decision: &LoggedDecision) -> Vec<String> {
    let reason = decision.cause();
    if !is_about_request(decision) {
        return [reason].into();
    }
    let LoggedDecision { method, host, path, .. } = decision;
    let [method, host, path] = [method, host, path].map(Clone::clone);
    [reason, decision.outcome.actions.join(","), decision.origin(), method, host, path].into()
}

impl DenialGroup {
    fn new(LineGroup { count, first_line, decision }: LineGroup, authorizer: &Authorizer) -> Self {
        let LoggedDecision { method, host, path, user, .. } = &decision;
        let request = is_about_request(&decision).then(|| format!("{method} {host}{path}"));
        let (reason, first_user) = (decision.cause(), user.as_ref().map(|_| decision.caller()));
        let explanation = decision.explain(authorizer, (&Body::default(), false), clock::now());
        Self { count, first_line, request, reason, first_user, explanation }
    }
}

impl fmt::Display for Denials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in &self.groups {
            writeln!(f, "{group}")?;
        }
        if self.other_denials > 0 {
            writeln!(f, "and {} denials of other requests", self.other_denials)?;
        }
        if self.unreadable > 0 {
            writeln!(f, "not decisions: {}", counted(self.unreadable, "line"))?;
        }
        if let Some(DenialGroup { first_line, .. }) = self.groups.first() {
            writeln!(
                f,
                "details of a group: `sed -n {first_line}p LOG | rolegate explain --policy POLICY \
                 --decision -`"
            )?;
        }
        write!(f, "{} decisions, {} denied", self.decisions, self.denied)
    }
}

impl fmt::Display for DenialGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { count, first_line, request, reason, first_user, explanation: explained } = self;
        write!(f, "{count:5} × ")?;
        if let Some(request) = request {
            write!(f, "{}: ", request.escape_debug())?;
        }
        write!(f, "{}, first in line {first_line}", reason.escape_debug())?;
        if let Some(user) = first_user {
            let user = user.escape_debug();
            match count {
                1 => write!(f, ", by {user}")?,
                _ => write!(f, " (by {user})")?,
            }
        }
        let Some(explained) = explained else {
            return f.write_str(
                "\n        note:    the reason is not known: is the line from another version of \
                 rolegate?",
            );
        };
        let explanation = &explained.explanation;
        if !explained.same {
            let answer = if explanation.status == 200 {
                "allowed"
            } else {
                explanation.reason.unwrap_or("denied")
            };
            write!(f, "\n        here:    {} {answer}", explanation.status)?;
            if let Some(detail) = &explanation.detail {
                write!(f, ": {}", OneLine(detail))?;
            }
        }
        write_missing(explanation, *count, f)
    }
}

fn write_missing(explanation: &Explanation, count: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Explanation { detail, rule, conditions, missing, nearly, cluster, notes, .. } = explanation;
    let of_first = if count > 1 { " (the first of them)" } else { "" };
    if let Some(detail) = detail {
        write!(f, "\n        because: {}{of_first}", OneLine(detail))?;
    }
    if let Some(rule) = rule {
        write!(f, "\n        rule:    {rule}")?;
    }
    for condition in conditions.iter().take(MAX_RULES) {
        write!(f, "\n        when:    {condition}{of_first}")?;
    }
    for missing in missing.iter().take(MAX_RULES) {
        write!(f, "\n        missing: {missing}")?;
    }
    if let Some(more @ 1..) = missing.len().checked_sub(MAX_RULES) {
        write!(f, "\n        missing: or one of {more} more")?;
    }
    for near in nearly {
        write!(f, "\n        nearly:  {}{of_first}", OneLine(near))?;
    }
    let by_rules =
        [Reason::NotAllowed, Reason::MissingCredentials].map(|reason| Some(reason.name()));
    if cluster.is_none()
        && rule.is_none()
        && notes.is_empty()
        && missing.is_empty()
        && nearly.is_empty()
        && by_rules.contains(&explanation.reason)
    {
        f.write_str("\n        missing: a rule: none matches")?;
    }
    for missing in cluster.iter().flat_map(|cluster| &cluster.missing).take(MAX_RULES) {
        let name = if missing.name.is_empty() { "the cluster" } else { &missing.name };
        write!(
            f,
            "\n        missing: {} on {} ({})",
            missing.action,
            OneLine(name),
            missing.because
        )?;
    }
    for note in notes {
        write!(f, "\n        note:    {}{of_first}", OneLine(note))?;
    }
    Ok(())
}
