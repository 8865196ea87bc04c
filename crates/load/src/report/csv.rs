//! The results as comma-separated values, for spreadsheets (RFC 4180).

use std::fmt::Display;

use hdrhistogram::Histogram;

use super::{PERCENTILES, percentile};
use crate::results::RunResults;

/// A row per value: `series,figure,value`. A series is `corrected`, `uncorrected`, an answer such
/// as `answer 200`, `error`, or `run`. Durations are in nanoseconds. Percentiles for which there
/// are too few requests are omitted.
pub fn csv(results: &RunResults) -> String {
    let generator = &results.generator;
    let mut csv = Csv("series,figure,value\r\n".to_owned());
    let run: [(&str, &dyn Display); 14] = [
        ("target", &results.target),
        ("protocol", &results.protocol),
        ("rate", &results.rate),
        ("connections", &results.connections),
        ("streams", &results.streams),
        ("elapsed", &results.elapsed.as_nanos()),
        ("requests_per_second", &generator.achieved),
        ("errors", &results.errors()),
        ("unexpected", &results.unexpected),
        ("bytes_sent", &results.bytes_sent),
        ("bytes_received", &results.bytes_received),
        ("late", &generator.late),
        ("worst_late", &generator.worst_late.as_nanos()),
        ("limited", &generator.limited.as_deref().unwrap_or_default()),
    ];
    run.iter().for_each(|(name, value)| csv.row("run", name, value));
    csv.distribution("corrected", &results.corrected);
    csv.distribution("uncorrected", &results.uncorrected);
    for (answer, latencies) in &results.responses {
        csv.distribution(&format!("answer {answer}"), latencies);
    }
    results.errors.iter().for_each(|(error, count)| csv.row("error", error, count));
    csv.0
}

struct Csv(String);

impl Csv {
    fn distribution(&mut self, series: &str, latencies: &Histogram<u64>) {
        self.row(series, "count", &latencies.len());
        if latencies.is_empty() {
            return;
        }
        self.row(series, "mean", &format!("{:.1}", latencies.mean()));
        self.row(series, "stddev", &format!("{:.1}", latencies.stdev()));
        self.row(series, "min", &latencies.min());
        for percent in PERCENTILES {
            if let Some(value) = percentile(latencies, percent) {
                self.row(series, &format!("p{percent}"), &value);
            }
        }
    }

    fn row(&mut self, series: &str, figure: &str, value: &dyn Display) {
        let row = [series, figure, &value.to_string()].map(field);
        self.0 += &(row.join(",") + "\r\n");
    }
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
