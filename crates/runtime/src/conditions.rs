//! Conditions: what is wrong now, in the words of `/readyz`, the console, the log and the metric
//! `rolegate_condition`.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use document::Place;

use crate::lines::Counts;
use crate::status::{BundleResult, Facts, KeyFacts};

/// Remaining validity of the TLS certificate below which a condition warns.
const MIN_CERTIFICATE_TIME: Duration = Duration::from_secs(7 * 86_400);

/// A fault of the process or its surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// A name that does not change, for alerts.
    pub name: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What is wrong, in one line. It stays the same for as long as the condition does.
    pub text: String,
    /// Details, such as the duration or the problems of a policy.
    pub details: Vec<String>,
    /// The consequence, and what helps.
    pub hint: String,
}

/// How bad a condition is: the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Requests get a wrong answer, or soon may.
    Problem,
    /// Somebody should know.
    Warning,
}

impl Severity {
    /// The severity as a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
        }
    }
}

impl Condition {
    /// A condition without details.
    pub fn new(
        name: &'static str,
        severity: Severity,
        text: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { name, severity, text: text.into(), details: Vec::new(), hint: hint.into() }
    }

    /// The same condition, with these details.
    #[must_use]
    pub fn with_details(self, details: impl IntoIterator<Item = String>) -> Self {
        Self { details: details.into_iter().collect(), ..self }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.text, self.hint)
    }
}

/// The facts that conditions are about.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The status of the policy, its keys, its inventory and its bundle.
    pub facts: &'a Facts,
    /// The status of the shadow policy, if any.
    pub shadow: Option<&'a Facts>,
    /// The counts of lines of the decision log.
    pub decision_lines: &'a Counts,
    /// How long the TLS certificate is still valid; `None` without TLS.
    pub certificate: Option<Duration>,
}

/// Everything that is wrong, the worst first.
#[must_use]
pub fn conditions(observed: &Observed<'_>) -> Vec<Condition> {
    let mut conditions = policy_conditions(observed.facts);
    conditions.extend(observed.certificate.and_then(expiring));
    if observed.decision_lines.is_failing() {
        conditions.push(Condition::new(
            "decision_log_failing",
            Severity::Problem,
            "the decision log cannot be written: its lines are lost",
            "requests are still answered. See the free space and the permissions of \
             `decision-log-file`",
        ));
    }
    if let Some(shadow) = observed.shadow {
        conditions.extend(not_loaded(shadow, "shadow policy"));
        conditions.extend(shadow.keys.values().filter_map(bad_keys).map(shadow_keys));
    }
    conditions.sort_by_key(|condition| condition.severity);
    conditions
}

/// The conditions of the policy, its keys, its inventory and its bundle.
pub(crate) fn policy_conditions(facts: &Facts) -> Vec<Condition> {
    let mut conditions = Vec::from_iter(not_loaded(facts, "policy"));
    conditions.extend(facts.keys.values().filter_map(bad_keys));
    conditions.extend(facts.inventory.as_ref().and_then(bad_inventory));
    let is_uncached = facts.bundle.as_ref().is_some_and(|bundle| bundle.cached == Some(false));
    if is_uncached && facts.policy.revision.is_some() {
        conditions.push(Condition::new(
            "bundle_not_cached",
            Severity::Warning,
            "the active bundle is not in the cache",
            "after a restart no policy is active until the server of the bundle answers. The log says \
             why it is not cached",
        ));
    }
    conditions
}

/// The condition of a policy that does not load; `None` if it loads. `which` is "policy" or "shadow
/// policy". The shadow policy never decides, so its condition is a warning.
fn not_loaded(facts: &Facts, which: &str) -> Option<Condition> {
    let policy = &facts.policy;
    let since = policy.failing_since?;
    let is_shadow = which == "shadow policy";
    let place = policy.problems.first().and_then(|problem| short_place(&problem.at));
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    let (name, text) = match &facts.bundle {
        _ if policy.hangs => {
            ("file_system_hangs", format!("the file system of the {which} does not answer"))
        }
        None => ("policy_not_loaded", format!("the changed {which} does not load{place}")),
        Some(bundle) => {
            let last = bundle.last.map_or("none yet", BundleResult::name);
            let text =
                format!("no new bundle of the {which} is accepted, last fetch: {last}{place}");
            ("bundle_not_accepted", text)
        }
    };
    let stale = if policy.stale { ", although older than `max-policy-age`" } else { "" };
    let help = match policy.hangs {
        true => "its files are read as soon as it answers",
        false => "`rolegate check` and the log say what is wrong",
    };
    let hint = match &policy.revision {
        Some(_) if is_shadow => {
            "no answer is affected: requests are compared with the last good one".to_owned()
        }
        None if is_shadow => "no answer is affected, and nothing is compared".to_owned(),
        Some(revision) => {
            let revision = &revision.policy;
            format!("{revision} is still active{stale}, and newer changes have no effect; {help}")
        }
        None => format!("no policy is active, and every request gets an error; {help}"),
    };
    let problems = policy.problems.iter().map(|problem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {}{help}", problem.at, problem.message)
    });
    let details = [format!("for {}", rough(since.elapsed()))].into_iter().chain(problems);
    let (name, severity) = match is_shadow {
        true => ("shadow_policy_not_loaded", Severity::Warning),
        false => (name, Severity::Problem),
    };
    Some(Condition::new(name, severity, text, hint).with_details(details))
}

/// A place without most of its folders. The log has the whole path.
fn short_place(at: &Place) -> Option<String> {
    let mut name = at.file.file_name()?.to_string_lossy().into_owned();
    // Included files in two folders may have the same name.
    let folder = at.file.parent().and_then(Path::file_name).filter(|_| name != "policy.yaml");
    if let Some(folder) = folder {
        name = format!("{}/{name}", folder.to_string_lossy());
    }
    Some(format!("{}:{}:{}", name.escape_debug(), at.line, at.column))
}

fn bad_keys(keys: &KeyFacts) -> Option<Condition> {
    let issuers = &keys.issuers;
    let (name, severity, text, hint) = if !keys.loaded {
        let old = if keys.stale { ": the last ones are older than `max-keys-age`" } else { "" };
        let hint = "their tokens get 401. See whether rolegate reaches the URL of the keys: DNS, \
                    proxy, certificates, NetworkPolicy";
        ("keys_missing", Severity::Problem, format!("no keys of {issuers}{old}"), hint)
    } else if keys.stale || keys.failing.is_some() {
        let old = if keys.stale { "; the last ones are older than `max-keys-age`" } else { "" };
        let text = format!("newer keys of {issuers} cannot be fetched, or are not usable{old}");
        let hint =
            "the last good ones are used. Tokens that the issuer signs with a new key get 401";
        ("keys_old", Severity::Warning, text, hint)
    } else {
        return None;
    };
    Some(Condition::new(name, severity, text, hint).with_details(failing(keys)))
}

fn shadow_keys(condition: Condition) -> Condition {
    let hint = "no answer is affected: requests with tokens of these issuers are compared by the \
                last good keys, or not at all";
    let text = format!("for the shadow policy: {}", condition.text);
    Condition::new("shadow_keys", Severity::Warning, text, hint).with_details(condition.details)
}

fn bad_inventory(inventory: &KeyFacts) -> Option<Condition> {
    let (name, text, hint) = if !inventory.loaded {
        (
            "inventory_missing",
            "no inventory of the search cluster",
            "patterns and aliases are permitted only where roles cover them by name",
        )
    } else if inventory.failing.is_some() {
        (
            "inventory_old",
            "the inventory of the search cluster cannot be fetched again",
            "the last one is used until its `max_age`. Newer indices are missing in it",
        )
    } else {
        return None;
    };
    Some(Condition::new(name, Severity::Warning, text, hint).with_details(failing(inventory)))
}

fn failing(keys: &KeyFacts) -> Option<String> {
    keys.failing.as_ref().map(|(since, why)| format!("for {}: {why}", rough(since.elapsed())))
}

fn expiring(time: Duration) -> Option<Condition> {
    let hint =
        "Envoy does not connect with an expired one: replace `tls-certificate` and `tls-key`";
    if time.is_zero() {
        let text = "the TLS certificate has expired";
        return Some(Condition::new("certificate_expired", Severity::Problem, text, hint));
    }
    let text = "the TLS certificate expires within a week";
    let condition = Condition::new("certificate_expires", Severity::Warning, text, hint);
    let details = [format!("in {}", rough(time))];
    (time < MIN_CERTIFICATE_TIME).then(|| condition.with_details(details))
}

/// A duration, rounded down, in the largest unit that it has at least two of, or else in seconds:
/// `90 s`, `12 min`, `3 h`, `4 days`.
#[must_use]
pub fn rough(duration: Duration) -> String {
    match duration.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Logs when conditions begin and end. A condition is logged when two calls in a row have it. So a
/// condition that lasts only for a moment, as before the first fetch of keys, is not logged.
#[derive(Debug, Default)]
pub(crate) struct ConditionLog {
    /// The texts of the conditions of the last call.
    last: Vec<String>,
    /// The texts of the conditions that were logged and have not ended.
    logged: Vec<String>,
}

impl ConditionLog {
    pub(crate) fn log_changes(&mut self, conditions: &[Condition]) {
        for Condition { name, severity, text, hint, .. } in conditions {
            if !self.last.contains(text) || self.logged.contains(text) {
                continue;
            }
            match severity {
                Severity::Problem => tracing::error!(condition = name, hint, "{text}"),
                Severity::Warning => tracing::warn!(condition = name, hint, "{text}"),
            }
            self.logged.push(text.clone());
        }
        self.last = conditions.iter().map(|condition| condition.text.clone()).collect();
        for text in self.logged.extract_if(.., |text| !self.last.contains(text)) {
            tracing::info!("no longer: {text}");
        }
    }
}

#[cfg(test)]
mod tests;
