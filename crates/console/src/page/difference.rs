//! What would change if the shadow policy became active, as `rolegate diff` says it.

use std::sync::Arc;

use authorizer::Authorizer;
use maud::{Markup, html};
use review::{Change, Direction, SettingChange};

use super::counted;
use crate::difference::{Compared, Differences};

/// The maximum number of changes that are shown.
const MAX_CHANGES: usize = 50;

pub(super) fn section(
    active: Option<&Arc<Authorizer>>,
    shadow: Option<&Arc<Authorizer>>,
    differences: &Differences,
) -> Markup {
    html! {
        @match (active, shadow) {
            (Some(active), Some(shadow)) => (compared(&differences.compare(active, shadow))),
            (None, _) => p { "No policy is active." },
            (Some(_), None) => p { "The shadow policy is not loaded." },
        }
    }
}

fn compared(compared: &Compared) -> Markup {
    let diff = match compared {
        Compared::Done(diff) => diff,
        Compared::NotYet => {
            return html! { p { "The two are being compared: " a href="/console#difference" { "reload" } " in a few seconds." } };
        }
        Compared::TooComplex(error) => return html! { p { "Not compared: " (error) "." } },
        Compared::Failed => {
            return html! { p { "Not compared: the log has the place of the bug." } };
        }
    };
    if diff.is_empty() {
        return html! { p { (diff) "." } };
    }
    let with = |direction| diff.changes.iter().filter(move |change| change.direction == direction);
    let (granted, revoked) = (with(Direction::Granted), with(Direction::Revoked));
    let left_out = diff.changes.len().saturating_sub(MAX_CHANGES);
    html! {
        p {
            strong { (granted.clone().count()) " granted, " (revoked.clone().count()) " revoked" }
            ", " (counted(diff.settings.len(), "other change"))
            "."
            @if left_out > 0 { " " (left_out) " are left out: " code { "rolegate diff" } " prints all." }
        }
        ul.changes { @for change in granted.chain(revoked).take(MAX_CHANGES) { (item(change)) } }
        @if !diff.settings.is_empty() {
            ul { @for setting in diff.settings.iter().take(MAX_CHANGES) { li { (without_secrets(setting)) } } }
        }
    }
}

/// The values of headers that the policy sets may be secrets of the application: the console shows
/// none.
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
                li.hint { "because " (change.because) }
            }
        }
    }
}
