//! The results as fortio's JSON, which `fortio report` can draw.
//!
//! What fortio has no field for is in `OpenLoop`, which it ignores: the uncorrected latencies, and the measurements of
//! the generator itself. Durations are in seconds, except for `ActualDuration`, which is in nanoseconds, like in
//! fortio.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::units;
use crate::results::{Protocol, RunResults};

/// The results of a run, written by `rolegate-load` or by fortio.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FortioRun {
    /// `HTTP` or `GRPC Check`.
    pub run_type: String,
    /// The target of an HTTP run.
    #[serde(rename = "URL", skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The target of another run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destination: Option<String>,
    /// The title that `fortio report` shows.
    pub labels: String,
    /// In RFC 3339.
    pub start_time: String,
    /// The requests per second that were asked for, or `max`.
    #[serde(rename = "RequestedQPS")]
    pub requested_qps: String,
    /// With its unit.
    pub requested_duration: String,
    /// The responses per second.
    #[serde(rename = "ActualQPS")]
    pub actual_qps: f64,
    /// In nanoseconds.
    pub actual_duration: u64,
    /// The number of connections; fortio's own is [`Self::num_threads`].
    pub num_connections: usize,
    /// The number of requests that may be under way at once.
    pub num_threads: usize,
    /// Whether it was HTTP/2.
    #[serde(default)]
    pub h2: bool,
    /// The generator and its version.
    pub version: String,
    /// The latencies of all responses.
    pub duration_histogram: FortioHistogram,
    /// Those of responses that fortio calls errors.
    pub errors_duration_histogram: FortioHistogram,
    /// The number of requests that were asked for, or 0.
    pub exactly: u64,
    /// Responses by status; −1 counts requests without a response.
    pub ret_codes: BTreeMap<String, u64>,
    /// What only `rolegate-load` measures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_loop: Option<OpenLoop>,
}

/// Latencies in seconds.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct FortioHistogram {
    /// The number of values.
    pub count: u64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Their sum.
    pub sum: f64,
    /// Their mean.
    pub avg: f64,
    /// Their standard deviation.
    pub std_dev: f64,
    /// For drawing; not read.
    #[serde(skip_deserializing)]
    pub data: Vec<Bucket>,
    /// Those that were asked for, ascending.
    #[serde(default)]
    pub percentiles: Vec<Percentile>,
}

/// The values between two bounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Bucket {
    /// The lower bound.
    pub start: f64,
    /// The upper bound.
    pub end: f64,
    /// The share of all values up to the upper bound.
    pub percent: f64,
    /// The number of values.
    pub count: u64,
}

/// The value below which a share of all values is.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct Percentile {
    /// The share.
    pub percentile: f64,
    /// The value.
    pub value: f64,
}

/// What fortio does not measure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct OpenLoop {
    /// The latencies from when requests were sent, as fortio counts them.
    pub uncorrected: FortioHistogram,
    /// Concurrent requests per connection.
    pub streams: usize,
    /// Like [`RunResults::unexpected`].
    pub unexpected: u64,
    /// Like [`RunResults::errors`].
    pub errors: BTreeMap<String, u64>,
    /// Bytes written to the sockets.
    pub bytes_sent: u64,
    /// Bytes read from the sockets.
    pub bytes_received: u64,
    /// Like [`GeneratorStats::late`](crate::GeneratorStats::late).
    pub late: u64,
    /// In seconds.
    pub worst_late: f64,
    /// Like [`GeneratorStats::queued`](crate::GeneratorStats::queued).
    pub queued: u64,
    /// Like [`GeneratorStats::unsent`](crate::GeneratorStats::unsent).
    pub unsent: u64,
    /// Processor time of the generator, in seconds.
    pub cpu: f64,
    /// Why the generator was the limit, if it was.
    pub limited: Option<String>,
    /// Whether it was ended early.
    pub interrupted: bool,
}

impl FortioHistogram {
    /// The value at a percentile, in nanoseconds; `None` if it was not asked for, or if there are too few values
    /// ([`super::percentile`]).
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        let found = self.percentiles.iter().find(|entry| entry.percentile == percent)?;
        super::has_values_beyond(self.count, percent).then_some(found.value * 1e9)
    }
}

/// The results; `labels` is the title that `fortio report` shows.
#[must_use]
pub fn fortio(of: &RunResults, labels: &str) -> FortioRun {
    // The field for the target depends on the type of run.
    let is_check = of.protocol == Protocol::Check;
    let target = Some(of.target.clone());
    let (run_type, url, destination) =
        if is_check { ("GRPC Check", None, target) } else { ("HTTP", target, None) };
    FortioRun {
        run_type: run_type.to_owned(),
        url,
        destination,
        labels: labels.to_owned(),
        start_time: rfc3339(of.started),
        requested_qps: of.rate.to_string().trim_end_matches("/s").to_owned(),
        requested_duration: format!("{:.3}s", of.elapsed.as_secs_f64()),
        actual_qps: of.generator.achieved,
        actual_duration: u64::try_from(of.elapsed.as_nanos()).unwrap_or(u64::MAX),
        num_connections: of.connections,
        num_threads: of.connections * of.streams,
        h2: of.protocol == Protocol::Http2,
        version: concat!("rolegate-load ", env!("CARGO_PKG_VERSION")).to_owned(),
        duration_histogram: histogram(&of.corrected),
        errors_duration_histogram: histogram(&failures(of)),
        exactly: 0,
        ret_codes: codes(of),
        open_loop: Some(open_loop(of)),
    }
}

/// Responses by status; like in fortio, −1 counts requests without a response.
fn codes(of: &RunResults) -> BTreeMap<String, u64> {
    let mut codes: BTreeMap<String, u64> =
        of.responses.iter().map(|(name, responses)| (name.clone(), responses.count)).collect();
    if of.errors() > 0 {
        codes.insert("-1".to_owned(), of.errors());
    }
    codes
}

/// The responses that fortio would call errors. A denied check is an ordinary response.
fn failures(of: &RunResults) -> Histogram<u64> {
    let mut all = crate::results::histogram();
    for (name, responses) in &of.responses {
        if name.parse::<u16>().is_ok_and(|status| status >= 400) {
            // Both have the same bounds, so this does not fail.
            let _ = all.add(&responses.corrected);
        }
    }
    all
}

fn histogram(of: &Histogram<u64>) -> FortioHistogram {
    let percentiles = super::PERCENTILES.into_iter().filter_map(|percentile| {
        Some(Percentile { percentile, value: seconds(super::percentile(of, percentile)?) })
    });
    let (min, max) = if of.is_empty() { (0, 0) } else { (of.min(), of.max()) };
    FortioHistogram {
        count: of.len(),
        min: seconds(min),
        max: seconds(max),
        sum: of.mean() * units::float(of.len()) / 1e9,
        avg: of.mean() / 1e9,
        std_dev: of.stdev() / 1e9,
        data: data(of),
        percentiles: percentiles.collect(),
    }
}

/// Buckets with a width of 1/32 of their value: fine enough to draw, and hundreds instead of thousands.
fn data(of: &Histogram<u64>) -> Vec<Bucket> {
    let mut buckets: BTreeMap<(u32, u64), (u64, u64, u64)> = BTreeMap::new();
    for step in of.iter_recorded() {
        let value = step.value_iterated_to().max(1);
        let power = value.ilog2();
        let part = (value << (63 - power)) >> 58;
        let bucket = buckets.entry((power, part)).or_insert((of.lowest_equivalent(value), value, 0));
        bucket.1 = value;
        bucket.2 += step.count_at_value();
    }
    let (mut below, total) = (0, units::float(of.len()));
    let mut all = Vec::with_capacity(buckets.len());
    for (start, end, count) in buckets.into_values() {
        below += count;
        let percent = 100.0 * units::float(below) / total;
        all.push(Bucket { start: seconds(start), end: seconds(end), percent, count });
    }
    all
}

fn open_loop(of: &RunResults) -> OpenLoop {
    OpenLoop {
        uncorrected: histogram(&of.uncorrected),
        streams: of.streams,
        unexpected: of.unexpected,
        errors: of.errors.clone(),
        bytes_sent: of.bytes_sent,
        bytes_received: of.bytes_received,
        late: of.generator.late,
        worst_late: of.generator.worst_late.as_secs_f64(),
        queued: of.generator.queued,
        unsent: of.generator.unsent,
        cpu: of.generator.cpu.as_secs_f64(),
        limited: of.generator.limited.clone(),
        interrupted: of.interrupted,
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    units::float(nanoseconds) / 1e9
}

/// A time in UTC (RFC 3339), to the millisecond.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|at| format!("{at:.3}")).unwrap_or_default()
}
