//! The results as comma-separated values, for spreadsheets (RFC 4180).

use std::fmt::Write as _;

use hdrhistogram::Histogram;

use super::{PERCENTILES, percentile};
use crate::results::RunResults;

/// One row per value: `series,figure,value`. A series is `corrected`, `uncorrected`, an answer such
/// as `answer 200`, or `run`. Durations are in nanoseconds. Percentiles for which there are too few
/// requests are omitted.
pub fn csv(of: &RunResults) -> String {
    let mut text = "series,figure,value\r\n".to_owned();
    run(&mut text, of);
    distribution(&mut text, "corrected", &of.corrected);
    distribution(&mut text, "uncorrected", &of.uncorrected);
    for (answer, latencies) in &of.responses {
        distribution(&mut text, &format!("answer {answer}"), latencies);
    }
    for (what, count) in &of.errors {
        row(&mut text, "error", what, &count.to_string());
    }
    text
}

fn run(text: &mut String, of: &RunResults) {
    let rows = [
        ("target", of.target.clone()),
        ("protocol", of.protocol.to_string()),
        ("rate", of.rate.to_string()),
        ("connections", of.connections.to_string()),
        ("streams", of.streams.to_string()),
        ("elapsed", of.elapsed.as_nanos().to_string()),
        ("requests_per_second", of.generator.achieved.to_string()),
        ("errors", of.errors().to_string()),
        ("unexpected", of.unexpected.to_string()),
        ("bytes_sent", of.bytes_sent.to_string()),
        ("bytes_received", of.bytes_received.to_string()),
        ("late", of.generator.late.to_string()),
        ("worst_late", of.generator.worst_late.as_nanos().to_string()),
        ("limited", of.generator.limited.clone().unwrap_or_default()),
    ];
    for (name, value) in rows {
        row(text, "run", name, &value);
    }
}

fn distribution(text: &mut String, series: &str, of: &Histogram<u64>) {
    row(text, series, "count", &of.len().to_string());
    if of.is_empty() {
        return;
    }
    row(text, series, "mean", &format!("{:.1}", of.mean()));
    row(text, series, "stddev", &format!("{:.1}", of.stdev()));
    row(text, series, "min", &of.min().to_string());
    for percent in PERCENTILES {
        if let Some(value) = percentile(of, percent) {
            row(text, series, &format!("p{percent}"), &value.to_string());
        }
    }
}

fn row(text: &mut String, series: &str, figure: &str, value: &str) {
    let _ = write!(text, "{},{},{}\r\n", field(series), field(figure), field(value));
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
