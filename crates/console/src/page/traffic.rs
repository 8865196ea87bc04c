//! Rates by decision and reason, and latencies: charts of the last minutes, and tables of the last
//! minute and of the last five.

use std::time::Duration;

use maud::{Markup, html};
use runtime::conditions::rough;

use super::table;
use crate::history::{Counts, Window, count_of, percentile};
use crate::times::{latency, tenths};

pub(super) fn section(minute: &Window, five_minutes: &Window, charts: &Markup) -> Markup {
    // While the process is younger than a minute, both windows are the same.
    let windows: Vec<&Window> = if minute.length < five_minutes.length {
        vec![minute, five_minutes]
    } else {
        vec![five_minutes]
    };
    let check_heads = heads(&windows, "decision", "last", &["per second", "share"]);
    let latency_heads = heads(&windows, "latency", "p50, last", &["p99"]);
    html! {
        (charts)
        (table("Checks", Some("numbers"), check_heads, &html! {
            tbody {
                @for (name, numbers) in rows(&windows, &five_minutes.counts) {
                    tr {
                        th scope="row" { (name) }
                        @for (window, number) in windows.iter().zip(numbers) {
                            td { (number) }
                            td { (per_second(number, window.length)) }
                            td { (share(number, window.counts.checks())) }
                        }
                    }
                }
            }
        }))
        (table("Latency", Some("numbers"), latency_heads, &html! {
            tbody {
                (latencies("whole check", &windows, |counts| &counts.check))
                (latencies("without waiting for a verification", &windows, |counts| {
                    &counts.evaluation
                }))
            }
        }))
    }
}

/// The heads of a table: its name, and for each window its length and further columns.
fn heads(windows: &[&Window], name: &str, last: &str, more: &[&str]) -> Vec<String> {
    let of_windows = windows.iter().flat_map(|window| {
        let length = format!("{last} {}", rough(window.length));
        std::iter::once(length).chain(more.iter().map(|head| (*head).to_owned()))
    });
    std::iter::once(name.to_owned()).chain(of_windows).collect()
}

/// The rows of the table: each decision in the longest window, with its count in each window. The
/// most frequent reasons for denials come first.
fn rows(windows: &[&Window], longest: &Counts) -> Vec<(Markup, Vec<u64>)> {
    let mut rows = vec![
        (html! { "all" }, counts_of(windows, Counts::checks)),
        (html! { "allowed" }, counts_of(windows, |counts| counts.allowed)),
    ];
    rows.extend(longest.errors.iter().map(|(kind, _)| {
        let name = html! { "error: " code { (kind.name()) } };
        (name, counts_of(windows, |counts| count_of(&counts.errors, kind)))
    }));
    let mut denied = longest.denied.clone();
    denied.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    rows.extend(denied.iter().map(|(reason, _)| {
        let name = html! { "denied: " code { (reason) } };
        (name, counts_of(windows, |counts| count_of(&counts.denied, reason)))
    }));
    rows
}

fn counts_of(windows: &[&Window], count: impl Fn(&Counts) -> u64) -> Vec<u64> {
    windows.iter().map(|window| count(&window.counts)).collect()
}

fn latencies(name: &str, windows: &[&Window], buckets: fn(&Counts) -> &[(u64, u64)]) -> Markup {
    html! {
        tr {
            th scope="row" { (name) }
            @for window in windows {
                @for thousandths in [500, 990] {
                    @match percentile(buckets(&window.counts), thousandths) {
                        Some(nanoseconds) => td { (latency(nanoseconds)) },
                        None => td { "–" },
                    }
                }
            }
        }
    }
}

fn per_second(count: u64, length: Duration) -> String {
    let milliseconds = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
    match count.saturating_mul(10_000).checked_div(milliseconds) {
        Some(per_second) => tenths(per_second),
        None => "–".to_owned(),
    }
}

fn share(count: u64, all: u64) -> String {
    match count.saturating_mul(1000).checked_div(all) {
        Some(0) if count > 0 => "< 0.1 %".to_owned(),
        Some(thousandths) => format!("{} %", tenths(thousandths)),
        None => "–".to_owned(),
    }
}
