//! The report of a run: the table that it prints, and a page with percentile curves.

use hdrhistogram::Histogram;

use super::document::{self, Part, table};
use super::svg::{self, Curve};
use super::{PERCENTILES, percentile, units};
use crate::answer::Fault;
use crate::plan::Rate;
use crate::results::RunResults;

/// The results as text for a terminal or a log: no colours, and the warning last, so that it stays
/// visible.
pub fn text(of: &RunResults) -> String {
    document::text(&of.target, &parts(of))
}

/// The results as a self-contained page.
pub fn html(of: &RunResults) -> String {
    document::html(&format!("Load on {}", of.target), &parts(of))
}

fn parts(of: &RunResults) -> Vec<Part> {
    // In a closed loop, corrected and uncorrected latencies are the same.
    let closed = of.rate == Rate::Max;
    let series: &[(&str, &Histogram<u64>)] = if closed {
        &[("latency", &of.corrected)]
    } else {
        &[("corrected", &of.corrected), ("uncorrected", &of.uncorrected)]
    };
    let curves: Vec<Curve<'_>> = series.iter().map(|(name, of)| Curve { name, of }).collect();
    let mut all = vec![Part::Text(heading(of)), totals(of)];
    all.extend(svg::percentiles("Latency", &curves).map(|chart| Part::Picture(chart.inline())));
    all.push(Part::Subheading("Latency".to_owned()));
    all.push(latency(series));
    if !closed {
        let why = "Corrected: from when a request was due, even if it could not be sent then.";
        all.push(Part::Text(why.to_owned()));
    }
    if !of.responses.is_empty() {
        all.push(Part::Subheading("Answers".to_owned()));
        all.push(by_answer(of));
    }
    if !of.errors.is_empty() {
        all.push(Part::Subheading("Errors (in no figure above)".to_owned()));
        let row = |(fault, count): (&Fault, &u64)| vec![fault.to_string(), units::count(*count)];
        all.push(table(&["error", "count"], of.errors.iter().map(row).collect()));
    }
    all.push(Part::Text(generator(of)));
    let warning = |why: &String| Part::Warning(format!("Do not trust these figures: {why}"));
    all.extend(of.generator.limited.as_ref().map(warning));
    all
}

fn heading(of: &RunResults) -> String {
    let requested = match of.rate {
        Rate::Constant(rate) => format!("{} requests/s requested", units::grouped(rate)),
        Rate::Max => "closed loop".to_owned(),
        Rate::Ramp { from, to } => {
            format!("{} to {} requests/s requested", units::grouped(from), units::grouped(to))
        }
    };
    let streams =
        if of.streams > 1 { format!(" × {} streams", of.streams) } else { String::new() };
    let ended = if of.interrupted { ", interrupted" } else { "" };
    let (protocol, connections, elapsed) = (of.protocol, of.connections, units::span(of.elapsed));
    format!("{protocol}, {requested}, {connections} connections{streams}, {elapsed}{ended}")
}

fn totals(of: &RunResults) -> Part {
    let rows = [
        ("requests/s answered", format!("{:.1}", of.generator.achieved)),
        ("answers", units::count(of.corrected.len())),
        ("errors", units::count(of.errors())),
        ("unexpected answers", units::count(of.unexpected)),
        ("sent", units::bytes(of.bytes_sent)),
        ("received", units::bytes(of.bytes_received)),
    ];
    table(&["", ""], rows.map(|(name, value)| vec![name.to_owned(), value]).into())
}

fn latency(series: &[(&str, &Histogram<u64>)]) -> Part {
    let row = |name: &str, value: &dyn Fn(&Histogram<u64>) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(series.iter().map(|(_, of)| value(of))).collect()
    };
    let mut rows = vec![
        row("mean", &|of| float(of, of.mean())),
        row("standard deviation", &|of| float(of, of.stdev())),
        row("min", &|of| units::known((!of.is_empty()).then(|| of.min()))),
    ];
    for percent in PERCENTILES {
        let name = match percent {
            50.0 => "p50 (median)".to_owned(),
            100.0 => "max".to_owned(),
            _ => format!("p{percent}"),
        };
        rows.push(row(&name, &|of| units::known(percentile(of, percent))));
    }
    let heads: Vec<&str> =
        std::iter::once("").chain(series.iter().map(|(name, _)| *name)).collect();
    table(&heads, rows)
}

fn float(of: &Histogram<u64>, nanoseconds: f64) -> String {
    if of.is_empty() { "–".to_owned() } else { units::duration(nanoseconds) }
}

/// The number and latency of responses, by status or decision.
fn by_answer(of: &RunResults) -> Part {
    let rows = of.responses.iter().map(|(answer, latencies)| {
        let share = 100.0 * units::float(latencies.len()) / units::float(of.requests().max(1));
        let at = |percent| units::known(percentile(latencies, percent));
        let (count, share) = (units::count(latencies.len()), format!("{share:.2} %"));
        let mean = float(latencies, latencies.mean());
        vec![answer.to_string(), count, share, mean, at(50.0), at(99.0), at(99.9)]
    });
    table(&["answer", "count", "share", "mean", "p50", "p99", "p99.9"], rows.collect())
}

/// Measurements of the generator itself.
fn generator(of: &RunResults) -> String {
    let stats = &of.generator;
    let cores = stats.cpu.as_secs_f64() / of.elapsed.as_secs_f64().max(1e-9);
    let (threads, late) = (stats.threads, units::count(stats.late));
    let (worst, queued) = (units::span(stats.worst_late), units::count(stats.queued));
    let unsent = units::count(stats.unsent);
    format!(
        "Generator: {cores:.2} cores in {threads} thread(s); {late} requests sent late by itself, at worst {worst}; \
         {queued} waited for a free connection, {unsent} were never sent."
    )
}
