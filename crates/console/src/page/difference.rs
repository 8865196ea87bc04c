//! The changes if the shadow policy became active, as `rolegate diff` describes them.
//!
//! A thread of its own compares the policies, once for each pair.

use std::sync::{Arc, Mutex, PoisonError};

use authorizer::Authorizer;
use maud::{Markup, html};
use review::{Change, Diff, Direction, SettingChange, TooComplex};
use runtime::threads::{Priority, catch, spawn};

use super::counted;

/// The maximum length of each list of changes.
const MAX_CHANGES: usize = 50;

/// The comparison of the last pair of policies.
#[derive(Clone, Debug, Default)]
pub(crate) struct LastComparison(Arc<Mutex<Option<(Pair, Comparison)>>>);

/// The revisions of the active policy and of the shadow policy.
type Pair = [Box<str>; 2];

#[derive(Clone, Debug)]
enum Comparison {
    Running,
    Done(Arc<Diff>),
    TooComplex(TooComplex),
    /// A bug, or the system has no thread.
    Failed,
}

impl LastComparison {
    /// The comparison of these policies. Starts it if no other is running.
    fn compare(&self, active: &Arc<Authorizer>, shadow: &Arc<Authorizer>) -> Comparison {
        let pair = [active, shadow].map(|side| side.revision().policy.clone());
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((last_pair, comparison)) if *last_pair == pair => return comparison.clone(),
            Some((_, Comparison::Running)) => return Comparison::Running,
            Some(_) | None => {}
        }
        let policies = [active, shadow].map(|side| side.loaded().clone());
        let (result, compared_pair) = (self.0.clone(), pair.clone());
        let started = spawn("difference", Priority::Lowest, move || {
            let [active, shadow] = &policies;
            let diff = catch("comparing policies", || review::diff(&active.policy, &shadow.policy));
            let comparison = match diff {
                Ok(Ok(diff)) => Comparison::Done(Arc::new(diff)),
                Ok(Err(error)) => Comparison::TooComplex(error),
                Err(_) => Comparison::Failed,
            };
            let mut last = result.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some((compared_pair, comparison));
        });
        if let Err(error) = started {
            tracing::warn!(%error, "the shadow policy is not compared for the console");
            return Comparison::Failed;
        }
        *last = Some((pair, Comparison::Running));
        Comparison::Running
    }
}

pub(super) fn section(
    active: Option<&Arc<Authorizer>>,
    shadow: Option<&Arc<Authorizer>>,
    last: &LastComparison,
) -> Markup {
    html! {
        @match (active, shadow) {
            (Some(active), Some(shadow)) => @match last.compare(active, shadow) {
                Comparison::Done(diff) => (changes(&diff)),
                Comparison::Running => p {
                    "The two are being compared: "
                    a href="/console#difference" { "reload" }
                    " in a few seconds."
                },
                Comparison::TooComplex(error) => p { "Not compared: " (error) "." },
                Comparison::Failed => p { "Not compared: the log has the reason." },
            },
            (None, _) => p { "No policy is active." },
            (Some(_), None) => p { "The shadow policy is not loaded." },
        }
    }
}

fn changes(diff: &Diff) -> Markup {
    if diff.is_empty() {
        return html! { p { (diff) "." } };
    }
    let (granted, revoked): (Vec<&Change>, Vec<&Change>) =
        diff.changes.iter().partition(|change| change.direction == Direction::Granted);
    let left_out = diff.changes.len().saturating_sub(MAX_CHANGES)
        + diff.settings.len().saturating_sub(MAX_CHANGES);
    html! {
        p {
            strong { (granted.len()) " granted, " (revoked.len()) " revoked" }
            ", " (counted(diff.settings.len(), "other change"))
            "."
            @if left_out > 0 {
                " " (left_out) " are left out: " code { "rolegate diff" } " prints all."
            }
        }
        ul.changes {
            @for change in granted.iter().chain(&revoked).take(MAX_CHANGES) { (item(change)) }
        }
        @if !diff.settings.is_empty() {
            ul {
                @for setting in diff.settings.iter().take(MAX_CHANGES) {
                    li { (without_secrets(setting)) }
                }
            }
        }
    }
}

/// Hides the values of headers that the policy sets: they may be secrets of the application.
fn without_secrets(change: &SettingChange) -> SettingChange {
    let change = change.clone();
    if change.setting.starts_with("allow_response.set_headers") {
        return SettingChange { old: None, new: None, ..change };
    }
    change
}

fn item(change: &Change) -> Markup {
    let (sign, to) = match change.direction {
        Direction::Granted => ("+ granted", "to"),
        Direction::Revoked => ("− revoked", "from"),
    };
    html! {
        li {
            strong { (sign) } ": " code { (change.region) }
            @if change.to_anyone { " " strong { "! to anyone, also without credentials" } }
            ul {
                @for who in &change.who { li { (to) " " (who) } }
                @if let Some(cases) = &change.cases { li { (cases) } }
                li.hint { "because " (change.because) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use review::{Diff, SettingChange};

    use super::{MAX_CHANGES, changes};

    fn page(settings: usize) -> String {
        let setting = SettingChange {
            setting: "identity.basic.users.ann".to_owned(),
            old: None,
            new: None,
            change: "added",
            warning: None,
        };
        let settings = vec![setting; settings];
        changes(&Diff { conditions: Vec::new(), changes: Vec::new(), settings }).into_string()
    }

    #[test]
    fn settings_that_are_left_out_are_counted() {
        assert!(!page(MAX_CHANGES).contains("left out"), "{}", page(MAX_CHANGES));
        let page = page(MAX_CHANGES + 2);
        assert!(page.contains("52 other changes. 2 are left out: "), "{page}");
    }
}
