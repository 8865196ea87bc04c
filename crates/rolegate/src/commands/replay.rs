//! `rolegate replay`: evaluates the requests of a decision log again, and prints the answers that
//! another policy would change.
//!
//! A log may be larger than memory: it is read line by line, and the results are bounded.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use authorizer::Authorizer;
use serde::Serialize;
use serde_json::{Value, json};

use super::decision_lines::{DecisionLines, LineNumbers};
use super::logged::{Answer, LoggedDecision};
use crate::cli::{Format, ReplayArgs};
use crate::error::{CommandError, Exit};
use crate::output::Output;

/// Maximum number of different changes.
const MAX_CHANGES: usize = 10_000;
/// Maximum number of callers that are counted for each change.
const MAX_CALLERS: usize = 100;
/// Maximum number of requests that are kept as examples of each change.
const MAX_EXAMPLES: usize = 3;
/// Maximum number of callers that are printed for people.
const MAX_PRINTED: usize = 8;

/// Evaluates each line of the log, and prints the changes.
pub(crate) fn run(args: &ReplayArgs, output: &mut Output) -> Result<Exit, CommandError> {
    let compiled = args.policy.load(output)?;
    let mut lines = DecisionLines::open(&args.log)?;
    let mut replay = Replay::default();
    // A log that cannot be read to its end has another exit code than a log that cannot be opened.
    while let Some((number, decision)) = lines.next_decision().map_err(CommandError::failed)? {
        replay.add(number, &decision, &compiled.authorizer);
    }
    replay.unreadable = lines.unreadable;
    let log = args.log.display();
    if replay.lines == 0 {
        return Err(CommandError::arguments(format_args!("`{log}` has no line of a decision log")));
    }
    if replay.allowed == 0 {
        output.warning(format_args!(
            "`{log}` has no allowed request, so nothing can show as `now denied`: \
             `rolegate serve` logs only denials unless `--decision-log all` is set"
        ));
    }
    if let Some(warning) = replay.identity_warning {
        output.warning(warning);
    }
    match output.format {
        Format::Text => output.line(&replay),
        Format::Json => output.json(&replay.report()),
    }
    Ok(if replay.changed_requests() == 0 { Exit::Success } else { Exit::No })
}

/// The changes by a policy, and counts of lines.
#[derive(Default)]
struct Replay {
    /// Lines that are decisions.
    lines: u64,
    allowed: u64,
    /// Lines that were not evaluated because they are cut or masked.
    inexact: u64,
    /// Lines that do not say enough to be evaluated.
    not_repeatable: u64,
    /// Lines whose callers may have more roles or groups under this policy than the line says.
    perhaps_more_roles: u64,
    /// The warning that this policy has no `identity`. The answers assume that the callers in the
    /// log can sign in.
    identity_warning: Option<&'static str>,
    not_evaluated: BTreeMap<Cow<'static, str>, LineNumbers>,
    /// Lines that are allowed or denied as before, but by another rule or for another reason.
    other_cause: u64,
    unreadable: LineNumbers,
    changes: BTreeMap<Change, ChangedRequests>,
    /// Changed requests that are only counted, because there are too many different changes.
    not_grouped: u64,
}

/// A change of the answer. `was` and `is` have the rule that allows, or the reason of the denial.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct Change {
    /// Whether this policy allows the request.
    now_allowed: bool,
    was: String,
    is: String,
    method: String,
}

/// Requests with the same change.
#[derive(Clone, Debug, Default, Serialize)]
struct ChangedRequests {
    count: u64,
    callers: BTreeMap<String, u64>,
    /// Requests of further callers.
    of_others: u64,
    examples: Vec<Example>,
}

#[derive(Clone, Debug, Serialize)]
struct Example {
    line: u64,
    method: String,
    host: String,
    path: String,
}

/// A change with its requests, as JSON.
#[derive(Serialize)]
struct ChangeReport<'a> {
    #[serde(flatten)]
    change: &'a Change,
    #[serde(flatten)]
    requests: &'a ChangedRequests,
}

impl Replay {
    fn changed_requests(&self) -> u64 {
        self.changes.values().map(|requests| requests.count).sum::<u64>() + self.not_grouped
    }

    /// The result as JSON. Programs read its keys: `otherwise` and `without_caller` are older than
    /// the names of their fields.
    fn report(&self) -> Value {
        let not_evaluated = self.not_evaluated.iter().map(|(why, lines)| {
            json!({ "why": why, "count": lines.count, "first_lines": lines.first_lines })
        });
        let changes =
            self.changes.iter().map(|(change, requests)| ChangeReport { change, requests });
        json!({
            "lines": self.lines,
            "allowed": self.allowed,
            "changes": self.changed_requests(),
            "otherwise": self.other_cause,
            "inexact": self.inexact,
            "without_caller": self.not_repeatable,
            "perhaps_more_roles": self.perhaps_more_roles,
            "not_evaluated": not_evaluated.collect::<Vec<_>>(),
            "unreadable": self.unreadable.count,
            "first_unreadable": self.unreadable.first_lines,
            "not_grouped": self.not_grouped,
            "groups": changes.collect::<Vec<_>>(),
        })
    }

    fn add(&mut self, number: u64, decision: &LoggedDecision, authorizer: &Authorizer) {
        self.lines += 1;
        self.allowed += u64::from(decision.is_allowed());
        if decision.outcome.inexact {
            self.inexact += 1;
            self.not_evaluated.entry("values were cut or replaced".into()).or_default().add(number);
            return;
        }
        let (now_allowed, is) = match decision.answer(authorizer) {
            Answer::NotRepeatable(why) => {
                self.not_repeatable += 1;
                self.not_evaluated.entry(why).or_default().add(number);
                return;
            }
            Answer::Allowed(rule) => (true, rule),
            Answer::Denied(reason) => (false, reason),
        };
        self.identity_warning =
            self.identity_warning.or_else(|| decision.identity_warning(authorizer));
        self.perhaps_more_roles += u64::from(decision.may_have_more_roles(authorizer));
        let was = decision.cause();
        if now_allowed == decision.is_allowed() {
            self.other_cause += u64::from(was != is);
            return;
        }
        let change = Change { now_allowed, was, is, method: decision.method.clone() };
        if !self.changes.contains_key(&change) && self.changes.len() >= MAX_CHANGES {
            self.not_grouped += 1;
            return;
        }
        self.changes.entry(change).or_default().add(number, decision);
    }
}

impl ChangedRequests {
    fn add(&mut self, line: u64, decision: &LoggedDecision) {
        self.count += 1;
        let caller = decision.caller();
        if self.callers.len() < MAX_CALLERS || self.callers.contains_key(&caller) {
            *self.callers.entry(caller).or_default() += 1;
        } else {
            self.of_others += 1;
        }
        let LoggedDecision { method, host, path, .. } = decision;
        let is_new = self.examples.iter().all(|e| e.path != *path || e.host != *host);
        if is_new && self.examples.len() < MAX_EXAMPLES {
            let [method, host, path] = [method, host, path].map(Clone::clone);
            self.examples.push(Example { line, method, host, path });
        }
    }
}

impl fmt::Display for ChangedRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut callers: Vec<(&String, &u64)> = self.callers.iter().collect();
        callers.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let (printed, omitted) = callers.split_at(callers.len().min(MAX_PRINTED));
        let printed = printed.iter().map(|(caller, count)| format!("{caller} ({count})"));
        let omitted = omitted.iter().map(|(_, count)| **count).sum::<u64>() + self.of_others;
        let omitted = (omitted > 0).then(|| format!("others ({omitted})"));
        writeln!(f, "  callers: {}", printed.chain(omitted).collect::<Vec<_>>().join(", "))?;
        for Example { line, method, host, path } in &self.examples {
            writeln!(f, "  line {line}: {method} {host}{path}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (change, requests) in &self.changes {
            let Change { now_allowed, was, is, method } = change;
            let answer = if *now_allowed { "now allowed" } else { "now denied" };
            writeln!(f, "{answer}: {} {method} (was: {was}; is: {is})", requests.count)?;
            write!(f, "{requests}")?;
        }
        for (count, label) in [
            (self.not_grouped, "further changes in no group"),
            (self.other_cause, "with the same answer by another rule or for another reason"),
        ] {
            if count > 0 {
                writeln!(f, "{count} {label}")?;
            }
        }
        for (why, lines) in &self.not_evaluated {
            writeln!(f, "{} not evaluated, because {why}: {lines}", lines.count)?;
        }
        if self.perhaps_more_roles > 0 {
            writeln!(
                f,
                "{} evaluated with the roles and groups in the log, for callers whose tokens may \
                 have more: if this policy takes more, run `rolegate diff` of both policies",
                self.perhaps_more_roles
            )?;
        }
        if self.unreadable.count > 0 {
            writeln!(f, "{} not readable: {}", self.unreadable.count, self.unreadable)?;
        }
        write!(f, "{} of {} decisions would change", self.changed_requests(), self.lines)
    }
}
