//! The results of a run for people and for programs: a table, fortio's JSON, HdrHistogram's text,
//! CSV, an HTML page.
//!
//! Every function here turns [`RunResults`](crate::RunResults) into text and does no I/O. Durations
//! are stored in nanoseconds.

mod csv;
pub mod document;
mod fortio;
mod hgrm;
mod summary;
pub mod svg;
pub mod units;

use hdrhistogram::Histogram;

pub use csv::csv;
pub use fortio::{fortio, rfc3339};
pub use hgrm::hgrm;
pub use summary::{html, text};

/// The percentiles of the tables, in percent.
pub const PERCENTILES: [f64; 10] = [25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 99.999, 100.0];

/// The value at this percentile; `None` if there are too few values for any to lie beyond it.
///
/// Histograms round the rank of a percentile up: with 1,000 requests, p99.99 would be the slowest
/// request, which says little about ten thousand.
pub fn percentile(latencies: &Histogram<u64>, percent: f64) -> Option<u64> {
    has_values_beyond(latencies.len(), percent).then(|| latencies.value_at_percentile(percent))
}

/// Whether a value lies beyond this percentile if there are `count` values.
pub fn has_values_beyond(count: u64, percent: f64) -> bool {
    let beyond = count as f64 * (100.0 - percent) / 100.0;
    // Half a request of tolerance, for floating-point errors and so that a percentile may rest on a
    // single request.
    count > 0 && (percent >= 100.0 || beyond >= 0.5)
}

#[cfg(test)]
mod tests;
