//! Everything that is wrong now: the conditions of `runtime`, and those that follow from the
//! counters of the last minutes.

use runtime::conditions::{Condition, Severity};
use runtime::counters::ErrorKind;

use crate::RunsIn;
use crate::history::{Counts, Window, count_of};

/// Minimum number of denials in the last minute for a warning that their share has risen.
const MIN_DENIALS: u64 = 20;

/// The state of this instance.
#[derive(Clone, Debug)]
pub(crate) struct InstanceState<'a> {
    pub(crate) runs_in: RunsIn,
    /// Whether this instance is ready, or why not.
    pub(crate) ready: Result<(), String>,
    pub(crate) conditions: &'a [Condition],
    pub(crate) has_shadow: bool,
    pub(crate) minute: &'a Window,
    pub(crate) five_minutes: &'a Window,
}

/// Everything that is wrong, the worst first.
pub(crate) fn all_conditions(state: &InstanceState<'_>) -> Vec<Condition> {
    let InstanceState { runs_in, ready, conditions, has_shadow, minute, five_minutes } = state;
    let mut all = Vec::new();
    all.extend(ready.as_ref().err().map(|why| not_ready(why, *runs_in)));
    all.extend(errors(&minute.counts, *runs_in));
    all.extend(conditions.iter().cloned());
    all.extend(no_capacity(&minute.counts, *runs_in));
    all.extend(more_denials(minute, five_minutes));
    all.extend(five_minutes.counts.failure_counts.iter().map(|((what, hint), count)| {
        let text = format!("{what}: {count} in the last minutes");
        Condition::new("failures", Severity::Warning, text, *hint)
    }));
    if *has_shadow {
        all.extend(shadow_disagrees(&five_minutes.counts));
    }
    let lost = minute.counts.lines_dropped;
    if lost > 0 {
        all.push(Condition::new(
            "lines_lost",
            Severity::Warning,
            format!("{lost} lines of the decision log, or spans, were lost in the last minute"),
            "The reader of the log or the collector is too slow, or the disk is full. Requests never \
             wait for them.",
        ));
    }
    all.sort_by_key(|condition| condition.severity);
    all
}

fn not_ready(why: &str, runs_in: RunsIn) -> Condition {
    if why == "draining" {
        let text = "This instance is draining: it was asked to stop";
        let hint = "Requests in flight are still answered. Envoy should be using another instance.";
        return Condition::new("draining", Severity::Warning, text, hint);
    }
    let hint = match runs_in {
        RunsIn::OwnProcess => {
            "Health checks fail, so Envoy and Kubernetes should send it no requests. Without a \
             policy, requests get an error. Without keys, tokens of their issuers get 401. Without \
             an inventory, patterns and aliases of indices are permitted only where roles cover \
             them by name."
        }
        RunsIn::Envoy => {
            "`/readyz` fails; Envoy's own `/ready` does not. Without a policy, each request gets \
             503. Without an inventory, patterns and aliases of indices are permitted only where \
             roles cover them by name."
        }
    };
    Condition::new(
        "not_ready",
        Severity::Problem,
        format!("This instance is not ready: {why}"),
        hint,
    )
}

fn errors(minute: &Counts, runs_in: RunsIn) -> Option<Condition> {
    let errors = minute.all_errors();
    if errors == 0 {
        return None;
    }
    let only_cancelled = minute.errors.iter().all(|(kind, _)| *kind == ErrorKind::Cancelled);
    let severity = if only_cancelled { Severity::Warning } else { Severity::Problem };
    let checks = minute.checks();
    let text =
        format!("{errors} of {checks} checks in the last minute got an error and no decision");
    let hint = match (runs_in, only_cancelled) {
        (RunsIn::OwnProcess, true) => {
            "If the client has disconnected, nobody waits for an answer. After a timeout Envoy \
             answers with its `status_on_error`, or lets the request pass with \
             `failure_mode_allow: true`."
        }
        (RunsIn::OwnProcess, false) => {
            "Envoy answers these requests with its `status_on_error` (503 in the shipped \
             configurations), or lets them pass with `failure_mode_allow: true`."
        }
        (RunsIn::Envoy, _) => "These requests got 503: none was let through.",
    };
    let details = minute.errors.iter();
    let details =
        details.map(|(kind, count)| format!("{count} × {}: {}", kind.name(), meaning(*kind)));
    Some(Condition::new("check_errors", severity, text, hint).with_details(details))
}

/// The meaning of an error, and where to look.
fn meaning(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotReady => "no policy is active",
        ErrorKind::Malformed => {
            "the message is no check of an HTTP request: see Envoy's configuration"
        }
        ErrorKind::Framing => {
            "a call had not exactly one gRPC message: see what is between Envoy and rolegate"
        }
        ErrorKind::Compressed => "Envoy compresses its gRPC messages: turn that off",
        ErrorKind::Unanswerable => {
            "the answer cannot be written as headers: see what the policy sets"
        }
        ErrorKind::Internal => "a bug in rolegate: the log has its place",
        ErrorKind::Cancelled => {
            "the client disconnected, or Envoy's timeout passed, before the answer: see that \
             timeout, and p99 below"
        }
    }
}

/// Denials for lack of capacity.
fn no_capacity(minute: &Counts, runs_in: RunsIn) -> Option<Condition> {
    let [overloaded, late] =
        ["overloaded", "deadline_exceeded"].map(|reason| count_of(&minute.denied, &reason));
    let denied = overloaded + late;
    if denied == 0 {
        return None;
    }
    // Other causes of `overloaded` have no counter here.
    let details = [
        (
            minute.hashes_denied,
            "the hash queue was full: too many passwords at once, perhaps guesses: see \
             denials with `bad_password`",
        ),
        (late, "the request was not complete, or not verified, in time"),
    ];
    let details = details.into_iter().filter(|(count, _)| *count > 0);
    let text = format!("{denied} requests got 503 in the last minute for lack of capacity");
    let hint = match runs_in {
        RunsIn::OwnProcess => {
            "For `overloaded`, `rolegate_checks_overloaded_total` and the log say which limit was \
             reached and what to do. The usual cause is a client that tries many passwords: limit \
             it in Envoy. For `deadline_exceeded`, see `rolegate_hash_queue_length` and Envoy's \
             `timeout`. More instances or cores help."
        }
        RunsIn::Envoy => {
            "For `overloaded`, the usual cause is a client that tries many passwords: limit it in \
             Envoy by a filter before rolegate. For `deadline_exceeded`, see \
             `rolegate_hash_queue_length`, `hash-threads` and `hash-timeout`. More cores help."
        }
    };
    let condition = Condition::new("no_capacity", Severity::Problem, text, hint);
    Some(condition.with_details(details.map(|(count, why)| format!("{count} × {why}"))))
}

/// A rise in denials. The last minute has at least [`MIN_DENIALS`] of them, and their share of the
/// checks is at least a tenth, and at least twice the share in the minutes before.
fn more_denials(minute: &Window, five_minutes: &Window) -> Option<Condition> {
    let (now, before) = (&minute.counts, five_minutes.counts.minus(&minute.counts));
    let (now_percent, before_percent) = (now.percent_denied()?, before.percent_denied()?);
    let rose =
        now.all_denied() >= MIN_DENIALS && now_percent >= 10 && now_percent >= 2 * before_percent;
    let (reason, count) = now.denied.iter().max_by_key(|(_, count)| *count).filter(|_| rose)?;
    let text = format!(
        "{now_percent} % of the checks in the last minute were denied, {before_percent} % in the \
         minutes before"
    );
    let hint = "Do the last denials below have a caller or a path in common? The policy or a \
                client has changed, or it is an attack.";
    let condition = Condition::new("more_denials", Severity::Warning, text, hint);
    Some(condition.with_details([format!("{count} × {reason}")]))
}

fn shadow_disagrees(counts: &Counts) -> Option<Condition> {
    let [denies, allows] =
        ["would_deny", "would_allow"].map(|result| count_of(&counts.shadow, &result));
    let text = format!(
        "The shadow policy disagrees: in the last minutes it would have denied {denies} allowed \
         requests, and allowed {allows} denied ones"
    );
    let hint = "No answer was changed. The difference is below; the log has samples.";
    (denies + allows > 0).then(|| Condition::new("shadow_disagrees", Severity::Warning, text, hint))
}

#[cfg(test)]
mod tests;
