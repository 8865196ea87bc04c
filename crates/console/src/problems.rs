//! What is wrong now, the worst first, each with what it means and what helps.

use std::time::{Duration, Instant};

use runtime::counters::ErrorKind;
use runtime::status::{BundleResult, Facts, KeyFacts};

use crate::RunsIn;
use crate::history::{Counts, Window};
use crate::times::rough;

/// Denials in the last minute from which on a rise is worth a warning.
const MANY_DENIALS: u64 = 20;

/// Time before the certificate of TLS expires at which somebody should know.
const SOON: Duration = Duration::from_secs(7 * 86_400);

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub(crate) severity: Severity,
    /// What is wrong, in one line.
    pub(crate) what: String,
    /// More about it, such as the problems of a policy.
    pub(crate) more: Vec<String>,
    /// What it means, and what helps.
    pub(crate) hint: String,
}

/// How bad it is: the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    /// Requests get a wrong answer, or soon may.
    Problem,
    /// Somebody should know.
    Warning,
}

impl Severity {
    /// In words: a colour alone says nothing to many.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Problem => "Problem",
            Self::Warning => "Warning",
        }
    }
}

/// What is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Observed<'a> {
    pub(crate) runs_in: RunsIn,
    /// Whether this instance is ready, or why not.
    pub(crate) ready: Result<(), String>,
    pub(crate) facts: &'a Facts,
    pub(crate) shadow: Option<&'a Facts>,
    pub(crate) minute: &'a Window,
    pub(crate) five_minutes: &'a Window,
    /// How long the certificate of TLS is still valid.
    pub(crate) certificate: Option<Duration>,
}

/// Everything that is wrong, the worst first.
pub(crate) fn troubles(observed: &Observed<'_>) -> Vec<Trouble> {
    let Observed { runs_in, ready, facts, shadow, minute, five_minutes, certificate } = observed;
    let mut troubles = Vec::new();
    troubles.extend(ready.as_ref().err().map(|why| not_ready(why, *runs_in)));
    troubles.extend(errors(&minute.counts, *runs_in));
    troubles.extend(not_loaded(facts, "the policy"));
    troubles.extend(facts.keys.values().filter_map(keys));
    troubles.extend(no_capacity(&minute.counts, *runs_in));
    troubles.extend(facts.inventory.as_ref().and_then(inventory));
    troubles.extend(more_denials(minute, five_minutes));
    troubles.extend(certificate.and_then(expiring));
    troubles.extend(five_minutes.counts.failure_counts.iter().map(|((what, hint), count)| Trouble {
        severity: Severity::Warning,
        what: format!("{what}: {count} in the last minutes"),
        more: Vec::new(),
        hint: (*hint).to_owned(),
    }));
    troubles.extend(not_cached(facts));
    if let Some(shadow) = shadow {
        troubles.extend(shadow_disagrees(&five_minutes.counts));
        troubles.extend(not_loaded(shadow, "the shadow policy").map(of_shadow));
        troubles.extend(shadow.keys.values().filter_map(keys_of_shadow));
    }
    if minute.counts.lines_dropped > 0 {
        troubles.push(Trouble {
            severity: Severity::Warning,
            what: format!("{} lines of the decision log, or spans, were lost in the last minute", minute.counts.lines_dropped),
            more: Vec::new(),
            hint: "Whoever reads the log is too slow, its disk is full, or the collector does not take them: requests never wait for it."
                .to_owned(),
        });
    }
    troubles.sort_by_key(|trouble| trouble.severity);
    troubles
}

fn not_ready(why: &str, runs_in: RunsIn) -> Trouble {
    if why == "draining" {
        return Trouble {
            severity: Severity::Warning,
            what: "This instance is draining: it was asked to stop".to_owned(),
            more: Vec::new(),
            hint: "Requests in flight are still answered. Envoy should be using another instance.".to_owned(),
        };
    }
    Trouble {
        severity: Severity::Problem,
        what: format!("This instance is not ready: {why}"),
        more: Vec::new(),
        hint: match runs_in {
            RunsIn::OwnProcess => {
                "Health checks fail, so Envoy and Kubernetes should send it no requests. Without a policy those that come get an \
                 error; if only keys or an inventory are missing they are decided: tokens of these issuers get 401, and patterns and \
                 aliases of indices are permitted only where roles cover them by name."
            }
            RunsIn::Envoy => {
                "`/readyz` fails; Envoy's own `/ready` does not. Without a policy each request gets 503; without an inventory patterns \
                 and aliases of indices are permitted only where roles cover them by name."
            }
        }
        .to_owned(),
    }
}

fn errors(minute: &Counts, runs_in: RunsIn) -> Option<Trouble> {
    let all = minute.all_errors();
    let only_cancelled = minute.errors.iter().all(|(kind, _)| *kind == ErrorKind::Cancelled);
    (all > 0).then(|| Trouble {
        severity: if only_cancelled { Severity::Warning } else { Severity::Problem },
        what: format!("{all} of {} checks in the last minute got an error and no decision", minute.checks()),
        more: minute
            .errors
            .iter()
            .map(|(kind, count)| format!("{count} × {}: {}", kind.name(), meaning(*kind)))
            .collect(),
        hint: match (runs_in, only_cancelled) {
            (RunsIn::OwnProcess, true) => {
                "Where the client has left, nobody waits for an answer. After a timeout Envoy answers with its `status_on_error`, or \
                 lets the request pass with `failure_mode_allow: true`."
            }
            (RunsIn::OwnProcess, false) => {
                "Envoy answers these requests with its `status_on_error` (503 in the shipped configurations), and lets them pass with \
                 `failure_mode_allow: true`."
            }
            (RunsIn::Envoy, _) => "These requests got 503: none was let through.",
        }
        .to_owned(),
    })
}

/// What an error means, and where to look.
fn meaning(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotReady => "no policy is active",
        ErrorKind::Malformed => "the message is no check of an HTTP request: see Envoy's configuration",
        ErrorKind::Framing => {
            "a call had not exactly one gRPC message: see what is between Envoy and rolegate"
        }
        ErrorKind::Compressed => "Envoy compresses its gRPC messages: turn that off",
        ErrorKind::Unanswerable => "the answer cannot be written as headers: see what the policy sets",
        ErrorKind::Internal => "a bug in rolegate: the log has its place",
        ErrorKind::Cancelled => {
            "the client left, or Envoy's timeout passed, before the answer: see that timeout, and p99 below"
        }
    }
}

fn not_loaded(facts: &Facts, which: &str) -> Option<Trouble> {
    let since = facts.policy.failing_since?;
    let age = age(since);
    let what = match facts.bundle.as_ref().map(|bundle| bundle.last.map(BundleResult::name)) {
        None => format!("A change of {which} has not loaded for {age}"),
        Some(last) => {
            let last = last.map(|last| format!(" (last fetch: {last})")).unwrap_or_default();
            format!("No bundle of {which} was accepted for {age}{last}")
        }
    };
    let hint = match (&facts.policy.revision, facts.policy.stale) {
        (None, _) => "No policy is active: every check gets an error.".to_owned(),
        (Some(revision), stale) => {
            let stale = if stale { " It is older than `max-policy-age`." } else { "" };
            format!(
                "The last good one, {}, still decides: newer changes have no effect.{stale}",
                revision.policy
            )
        }
    };
    let more = facts.policy.problems.iter().map(|problem| {
        let help = problem.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}: {}{help}", problem.at, problem.message)
    });
    Some(Trouble { severity: Severity::Problem, what, more: more.collect(), hint })
}

fn keys(keys: &KeyFacts) -> Option<Trouble> {
    let issuers = &keys.issuers;
    let failing = keys.failing.as_ref().map(|(since, why)| format!("for {}: {why}", age(*since)));
    let more = failing.into_iter().collect();
    if !keys.loaded {
        let what = if keys.stale { "are too old and no longer used" } else { "are not fetched" };
        return Some(Trouble {
            severity: Severity::Problem,
            what: format!("The keys of {issuers} {what}: all its tokens get 401"),
            more,
            hint:
                "See whether rolegate reaches the URL of the keys: DNS, proxy, certificates, NetworkPolicy."
                    .to_owned(),
        });
    }
    let what = match (keys.stale, &keys.failing) {
        (true, _) => format!("The keys of {issuers} are older than `max-keys-age`"),
        (false, Some(_)) => format!("The keys of {issuers} cannot be fetched again"),
        (false, None) => return None,
    };
    Some(Trouble {
        severity: Severity::Warning,
        what,
        more,
        hint: "The last good keys are still used. Tokens that the issuer signs with a new key get 401."
            .to_owned(),
    })
}

/// What concerns the shadow policy only: it never decides.
fn of_shadow(trouble: Trouble) -> Trouble {
    let hint = "No answer is affected: the active policy decides. A shadow policy that was never loaded is not compared, another \
                one as it was when it last loaded.";
    Trouble { severity: Severity::Warning, hint: hint.to_owned(), ..trouble }
}

fn keys_of_shadow(of: &KeyFacts) -> Option<Trouble> {
    let what = format!("For the shadow policy: the keys of {} are missing or old", of.issuers);
    keys(of).map(|trouble| of_shadow(Trouble { what, ..trouble }))
}

fn inventory(inventory: &KeyFacts) -> Option<Trouble> {
    let failing = inventory.failing.as_ref().map(|(since, why)| format!("for {}: {why}", age(*since)));
    (!inventory.loaded || inventory.failing.is_some()).then(|| Trouble {
        severity: Severity::Warning,
        what: match inventory.loaded {
            true => "The inventory of the search cluster cannot be fetched again",
            false => "There is no inventory of the search cluster",
        }
        .to_owned(),
        more: failing.into_iter().collect(),
        hint: match inventory.loaded {
            true => {
                "The last one is used until its `max_age`; newer indices are missing in it. After that patterns of indices are \
                 permitted only where one pattern of a role covers them."
            }
            false => "Without one, patterns of indices are permitted only where one pattern of a role covers them.",
        }
        .to_owned(),
    })
}

/// Denials for lack of capacity.
fn no_capacity(minute: &Counts, runs_in: RunsIn) -> Option<Trouble> {
    let [overloaded, late] = ["overloaded", "deadline_exceeded"].map(|reason| minute.denied_because(reason));
    let lines = [
        (
            minute.hashes_denied,
            "the hash queue was full: too many passwords at once, perhaps wrong ones (bad_password)",
        ),
        (late, "the request was not complete, or not verified, in time"),
    ];
    let lines = lines.into_iter().filter(|(count, _)| *count > 0);
    (overloaded + late > 0).then(|| Trouble {
        severity: Severity::Problem,
        what: format!("{} requests got 503 in the last minute for lack of capacity", overloaded + late),
        more: lines.map(|(count, why)| format!("{count} × {why}")).collect(),
        hint: match runs_in {
            RunsIn::OwnProcess => {
                "For `overloaded`, `rolegate_checks_overloaded_total` and the log say which limit was reached and what to do: mostly \
                 a client tries credentials, to be limited in Envoy. For `deadline_exceeded`, see `rolegate_hash_queue_length` and \
                 Envoy's `timeout`. More instances or cores help."
            }
            RunsIn::Envoy => {
                "For `overloaded`, mostly a client tries credentials, to be limited in Envoy by a filter before this one. For \
                 `deadline_exceeded`, see `rolegate_hash_queue_length`, `hash-threads` and `hash-timeout`. More cores help."
            }
        }
        .to_owned(),
    })
}

/// A share of denials that is at least twice that of the minutes before, and at least a tenth.
fn more_denials(minute: &Window, five_minutes: &Window) -> Option<Trouble> {
    let (now, before) = (&minute.counts, five_minutes.counts.since(&minute.counts));
    let percent = |counts: &Counts| (counts.all_denied() * 100).checked_div(counts.checks());
    let (now_percent, before_percent) = (percent(now)?, percent(&before)?);
    let rose = now.all_denied() >= MANY_DENIALS && now_percent >= 10 && now_percent >= 2 * before_percent;
    let (most, count) = now.denied.iter().max_by_key(|(_, count)| *count).filter(|_| rose)?;
    Some(Trouble {
        severity: Severity::Warning,
        what: format!(
            "{now_percent} % of the checks in the last minute were denied, {before_percent} % in the minutes before"
        ),
        more: vec![format!("{count} × {most}")],
        hint: "See the last denials below: one caller, one path, or all? A change of the policy, of a client, or an attack."
            .to_owned(),
    })
}

fn expiring(left: Duration) -> Option<Trouble> {
    let (severity, what) = if left.is_zero() {
        (Severity::Problem, "The TLS certificate has expired".to_owned())
    } else if left < SOON {
        (Severity::Warning, format!("The TLS certificate expires in {}", rough(left)))
    } else {
        return None;
    };
    let hint =
        "Envoy does not connect with an expired one: replace `tls-certificate` and `tls-key`.".to_owned();
    Some(Trouble { severity, what, more: Vec::new(), hint })
}

fn not_cached(facts: &Facts) -> Option<Trouble> {
    let bundle = facts.bundle.as_ref()?;
    (bundle.cached == Some(false) && facts.policy.revision.is_some()).then(|| Trouble {
        severity: Severity::Warning,
        what: "The active bundle is not in the cache".to_owned(),
        more: Vec::new(),
        hint: "A restart needs the server of the bundle. The log says why: whether `bundle-cache` cannot be written, or has a newer \
               bundle than this server gives."
            .to_owned(),
    })
}

fn shadow_disagrees(counts: &Counts) -> Option<Trouble> {
    let of = |result: &str| {
        counts.shadow.iter().filter(|(name, _)| *name == result).map(|(_, count)| count).sum::<u64>()
    };
    let (denies, allows) = (of("would_deny"), of("would_allow"));
    (denies + allows > 0).then(|| Trouble {
        severity: Severity::Warning,
        what: format!("The shadow policy disagrees: in the last minutes it would have denied {denies} allowed requests, and allowed {allows} denied ones"),
        more: Vec::new(),
        hint: "No answer was changed. The difference is below; the log has samples.".to_owned(),
    })
}

fn age(since: Instant) -> String {
    rough(since.elapsed())
}

#[cfg(test)]
mod tests;
