//! The table that a run prints.

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{PERCENTILES, percentile, units};
use crate::results::{Rate, RunResults};

/// The results as text for a terminal or a log: lines under 100 characters, no colours.
#[must_use]
pub fn text(of: &RunResults) -> String {
    let mut text = heading(of);
    text.push_str(&totals(of));
    text.push_str(&latency(of));
    text.push_str(&by_answer(of));
    text.push_str(&errors(of));
    text.push_str(&generator(of));
    text
}

fn heading(of: &RunResults) -> String {
    let streams = if of.streams > 1 { format!(" × {} streams", of.streams) } else { String::new() };
    let ended = if of.interrupted { ", interrupted" } else { "" };
    format!(
        "{}\n{}, {}, {} connections{streams}, {}{ended}\n\n",
        of.target,
        of.protocol,
        requested(of),
        of.connections,
        units::span(of.elapsed),
    )
}

fn requested(of: &RunResults) -> String {
    match of.rate {
        Rate::Constant(rate) => format!("{} requests/s requested", units::grouped(rate)),
        Rate::Max => "closed loop".to_owned(),
        Rate::Ramp { from, to } => {
            format!("{} to {} requests/s requested", units::grouped(from), units::grouped(to))
        }
    }
}

fn totals(of: &RunResults) -> String {
    let rows = [
        ("requests/s answered", format!("{:.1}", of.generator.achieved)),
        ("answers", units::count(of.corrected.len())),
        ("errors", units::count(of.errors())),
        ("unexpected answers", units::count(of.unexpected)),
        ("sent", units::bytes(of.bytes_sent)),
        ("received", units::bytes(of.bytes_received)),
    ];
    let mut text = String::new();
    for (name, value) in rows {
        line(&mut text, &format!("  {name:<20} {value:>12}"));
    }
    text.push('\n');
    text
}

/// Corrected and uncorrected latencies side by side; one column for a closed loop, in which both are the same.
fn latency(of: &RunResults) -> String {
    let both = of.rate != Rate::Max;
    let names = if both { ["corrected", "uncorrected"] } else { ["latency", ""] };
    let mut text = String::new();
    line(&mut text, &format!("  {:<20} {:>12} {:>12}", "", names[0], names[1]));
    for (name, corrected, uncorrected) in rows(&of.corrected, &of.uncorrected) {
        let uncorrected = if both { uncorrected } else { String::new() };
        line(&mut text, &format!("  {name:<20} {corrected:>12} {uncorrected:>12}"));
    }
    if both {
        text.push_str("  (corrected: from when a request was due, even if it could not be sent then)\n");
    }
    text.push('\n');
    text
}

/// The rows of the table: the name, and the value in both histograms.
pub(super) fn rows(
    corrected: &Histogram<u64>,
    uncorrected: &Histogram<u64>,
) -> Vec<(String, String, String)> {
    let both = |name: &str, value: &dyn Fn(&Histogram<u64>) -> String| {
        (name.to_owned(), value(corrected), value(uncorrected))
    };
    let mut rows = vec![
        both("mean", &|latencies| float(latencies, latencies.mean())),
        both("standard deviation", &|latencies| float(latencies, latencies.stdev())),
        both("min", &|latencies| units::known((!latencies.is_empty()).then(|| latencies.min()))),
    ];
    for percent in PERCENTILES {
        let name = match percent {
            50.0 => "p50 (median)".to_owned(),
            100.0 => "max".to_owned(),
            _ => format!("p{percent}"),
        };
        rows.push(both(&name, &|latencies| units::known(percentile(latencies, percent))));
    }
    rows
}

fn float(of: &Histogram<u64>, nanoseconds: f64) -> String {
    if of.is_empty() { "–".to_owned() } else { units::duration(nanoseconds) }
}

/// The number and latency of responses, by status or decision.
fn by_answer(of: &RunResults) -> String {
    if of.responses.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    line(
        &mut text,
        &format!(
            "  {:<20} {:>12} {:>8} {:>10} {:>10} {:>10}",
            "answer", "count", "share", "mean", "p50", "p99"
        ),
    );
    for (name, responses) in &of.responses {
        let share = 100.0 * units::float(responses.count) / units::float(of.requests().max(1));
        line(
            &mut text,
            &format!(
                "  {name:<20} {:>12} {:>8} {:>10} {:>10} {:>10}",
                units::count(responses.count),
                format!("{share:.2} %"),
                float(&responses.corrected, responses.corrected.mean()),
                units::known(percentile(&responses.corrected, 50.0)),
                units::known(percentile(&responses.corrected, 99.0)),
            ),
        );
    }
    text.push('\n');
    text
}

fn errors(of: &RunResults) -> String {
    if of.errors.is_empty() {
        return String::new();
    }
    let mut text = "  errors (in no figure above)\n".to_owned();
    for (what, count) in &of.errors {
        line(&mut text, &format!("    {:>10}  {what}", units::count(*count)));
    }
    text.push('\n');
    text
}

/// Measurements of the generator itself. Printed last, so that a warning stays visible.
fn generator(of: &RunResults) -> String {
    let cores = of.generator.cpu.as_secs_f64() / of.elapsed.as_secs_f64().max(1e-9);
    let threads = if of.generator.threads == 1 {
        "1 thread".to_owned()
    } else {
        format!("{} threads", of.generator.threads)
    };
    let late = units::count(of.generator.late);
    let worst = units::span(of.generator.worst_late);
    let mut text = format!(
        "  generator: {cores:.2} cores in {threads}; {late} requests sent late by itself, at worst {worst}"
    );
    if of.generator.queued + of.generator.unsent > 0 {
        let (queued, unsent) = (units::count(of.generator.queued), units::count(of.generator.unsent));
        let _ = write!(text, "\n  {queued} requests waited for a free connection, {unsent} were never sent");
    }
    text.push('\n');
    if let Some(why) = &of.generator.limited {
        let _ = write!(text, "\n{}", warning(why));
    }
    text
}

/// A conspicuous warning.
#[must_use]
pub(crate) fn warning(why: &str) -> String {
    let bar = "!".repeat(78);
    format!("{bar}\n!! Do not trust these figures:\n!! {why}\n{bar}\n")
}

fn line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}
