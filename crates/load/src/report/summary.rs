//! The report of a run: the table that it prints, and a page with percentile curves.

use hdrhistogram::Histogram;

use super::document::{self, Part, table};
use super::svg::{self, Curve};
use super::{PERCENTILES, percentile, units};
use crate::plan::Rate;
use crate::results::RunResults;

/// The results as text for a terminal or a log: no colours, and the warning last, so that it stays
/// visible.
pub fn text(results: &RunResults) -> String {
    document::text(&results.target, &parts(results))
}

/// The results as a self-contained page.
pub fn html(results: &RunResults) -> String {
    document::html(&format!("Load on {}", results.target), &parts(results))
}

fn parts(results: &RunResults) -> Vec<Part> {
    // In a closed loop, corrected and uncorrected latencies are the same.
    let is_closed = results.rate == Rate::Max;
    let series: &[(&str, &Histogram<u64>)] = if is_closed {
        &[("latency", &results.corrected)]
    } else {
        &[("corrected", &results.corrected), ("uncorrected", &results.uncorrected)]
    };
    let curves: Vec<Curve<'_>> = series.iter().map(|(name, of)| Curve { name, of }).collect();
    let mut parts = vec![Part::Text(heading(results)), totals(results)];
    parts.extend(svg::percentiles("Latency", &curves).map(|chart| Part::Picture(chart.inline())));
    parts.extend([Part::Subheading("Latency".to_owned()), latency(series)]);
    if !is_closed {
        let why = "Corrected: from when a request was due, even if it could not be sent then.";
        parts.push(Part::Text(why.to_owned()));
    }
    if !results.responses.is_empty() {
        parts.extend([Part::Subheading("Answers".to_owned()), by_answer(results)]);
    }
    if !results.errors.is_empty() {
        let rows = results
            .errors
            .iter()
            .map(|(fault, count)| vec![fault.to_string(), units::count(*count)]);
        parts.push(Part::Subheading("Errors (in no figure above)".to_owned()));
        parts.push(table(&["error", "count"], rows.collect()));
    }
    parts.push(Part::Text(generator(results)));
    if let Some(why) = &results.generator.limited {
        parts.push(Part::Warning(format!("Do not trust these figures: {why}")));
    }
    parts
}

fn heading(results: &RunResults) -> String {
    let requested = match results.rate {
        Rate::Constant(rate) => format!("{} requests/s requested", units::grouped(rate)),
        Rate::Max => "closed loop".to_owned(),
        Rate::Ramp { from, to } => {
            format!("{} to {} requests/s requested", units::grouped(from), units::grouped(to))
        }
    };
    let RunResults { protocol, connections, .. } = results;
    let streams = match results.streams {
        0 | 1 => String::new(),
        streams => format!(" × {streams} streams"),
    };
    let end = if results.interrupted { ", interrupted" } else { "" };
    let elapsed = units::span(results.elapsed);
    format!("{protocol}, {requested}, {connections} connections{streams}, {elapsed}{end}")
}

fn totals(results: &RunResults) -> Part {
    let rows = [
        ("requests/s answered", format!("{:.1}", results.generator.achieved)),
        ("answers", units::count(results.corrected.len())),
        ("errors", units::count(results.errors())),
        ("unexpected answers", units::count(results.unexpected)),
        ("sent", units::bytes(results.bytes_sent)),
        ("received", units::bytes(results.bytes_received)),
    ];
    table(&["", ""], rows.map(|(name, value)| vec![name.to_owned(), value]).into())
}

fn latency(series: &[(&str, &Histogram<u64>)]) -> Part {
    let mut heads = vec![""];
    let mut rows: Vec<_> =
        ["mean", "standard deviation", "min"].map(|name| vec![name.to_owned()]).into();
    rows.extend(PERCENTILES.map(|percent| match percent {
        50.0 => vec!["p50 (median)".to_owned()],
        100.0 => vec!["max".to_owned()],
        _ => vec![format!("p{percent}")],
    }));
    for (name, latencies) in series {
        heads.push(name);
        let min = (!latencies.is_empty()).then(|| latencies.min());
        let figures = [float(latencies, latencies.mean()), float(latencies, latencies.stdev())];
        let percentiles = PERCENTILES.map(|percent| percentile(latencies, percent));
        let times = std::iter::once(min).chain(percentiles).map(units::known);
        for (row, cell) in rows.iter_mut().zip(figures.into_iter().chain(times)) {
            row.push(cell);
        }
    }
    table(&heads, rows)
}

/// A statistic in nanoseconds, which an empty histogram does not have.
fn float(of: &Histogram<u64>, nanoseconds: f64) -> String {
    if of.is_empty() { "–".to_owned() } else { units::duration(nanoseconds) }
}

/// The number and latency of responses, by status or decision.
fn by_answer(results: &RunResults) -> Part {
    let requests = units::float(results.requests().max(1));
    let rows = results.responses.iter().map(|(answer, latencies)| {
        let share = 100.0 * units::float(latencies.len()) / requests;
        let (count, share) = (units::count(latencies.len()), format!("{share:.2} %"));
        let mean = float(latencies, latencies.mean());
        let [p50, p99, p999] =
            [50.0, 99.0, 99.9].map(|percent| units::known(percentile(latencies, percent)));
        vec![answer.to_string(), count, share, mean, p50, p99, p999]
    });
    table(&["answer", "count", "share", "mean", "p50", "p99", "p99.9"], rows.collect())
}

/// Measurements of the generator itself.
fn generator(results: &RunResults) -> String {
    let stats = &results.generator;
    let cores = stats.cpu.as_secs_f64() / results.elapsed.as_secs_f64().max(1e-9);
    let [late, queued, unsent] = [stats.late, stats.queued, stats.unsent].map(units::count);
    let (threads, worst) = (stats.threads, units::span(stats.worst_late));
    format!(
        "Generator: {cores:.2} cores in {threads} thread(s); {late} requests sent late by itself, \
         at worst {worst}; {queued} waited for a free connection, {unsent} were never sent."
    )
}
