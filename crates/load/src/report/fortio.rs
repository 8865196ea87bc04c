//! The results as fortio's JSON, which `fortio report` can draw.
//!
//! What fortio has no field for is in `OpenLoop`, which it ignores: the uncorrected latencies, and the measurements of
//! the generator itself. Durations are in seconds, except for `ActualDuration`, which is in nanoseconds, like in
//! fortio.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use super::units;
use crate::results::{Protocol, RunResults};

/// The results; `labels` is the title that `fortio report` shows.
#[must_use]
pub fn fortio(of: &RunResults, labels: &str) -> Value {
    // The field for the target depends on the type of run.
    let (kind, target) =
        if of.protocol == Protocol::Check { ("GRPC Check", "Destination") } else { ("HTTP", "URL") };
    json!({
        "RunType": kind,
        (target): of.target,
        "Labels": labels,
        "StartTime": rfc3339(of.started),
        "RequestedQPS": of.rate.to_string().trim_end_matches("/s"),
        "RequestedDuration": format!("{:.3}s", of.elapsed.as_secs_f64()),
        "ActualQPS": of.generator.achieved,
        "ActualDuration": of.elapsed.as_nanos(),
        "NumConnections": of.connections,
        "NumThreads": of.connections * of.streams,
        "H2": of.protocol == Protocol::Http2,
        "Version": concat!("rolegate-load ", env!("CARGO_PKG_VERSION")),
        "DurationHistogram": histogram(&of.corrected),
        "ErrorsDurationHistogram": histogram(&failures(of)),
        "Exactly": 0,
        "RetCodes": codes(of),
        "OpenLoop": open_loop(of),
    })
}

/// Responses by status; like in fortio, −1 counts requests without a response.
fn codes(of: &RunResults) -> Map<String, Value> {
    let mut codes: Map<String, Value> =
        of.responses.iter().map(|(name, responses)| (name.clone(), json!(responses.count))).collect();
    if of.errors() > 0 {
        codes.insert("-1".to_owned(), json!(of.errors()));
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

fn histogram(of: &Histogram<u64>) -> Value {
    let percentiles: Vec<Value> = super::PERCENTILES
        .into_iter()
        .filter_map(|at| Some(json!({"Percentile": at, "Value": seconds(super::percentile(of, at)?)})))
        .collect();
    let (min, max) = if of.is_empty() { (0, 0) } else { (of.min(), of.max()) };
    json!({
        "Count": of.len(),
        "Min": seconds(min),
        "Max": seconds(max),
        "Sum": of.mean() * units::float(of.len()) / 1e9,
        "Avg": of.mean() / 1e9,
        "StdDev": of.stdev() / 1e9,
        "Data": data(of),
        "Percentiles": percentiles,
    })
}

/// Buckets with a width of 1/32 of their value: fine enough to draw, and hundreds instead of thousands.
fn data(of: &Histogram<u64>) -> Vec<Value> {
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
        all.push(json!({"Start": seconds(start), "End": seconds(end), "Percent": percent, "Count": count}));
    }
    all
}

fn open_loop(of: &RunResults) -> Value {
    json!({
        "Uncorrected": histogram(&of.uncorrected),
        "Streams": of.streams,
        "Unexpected": of.unexpected,
        "Errors": of.errors,
        "BytesSent": of.bytes_sent,
        "BytesReceived": of.bytes_received,
        "Late": of.generator.late,
        "WorstLate": of.generator.worst_late.as_secs_f64(),
        "Queued": of.generator.queued,
        "Unsent": of.generator.unsent,
        "Cpu": of.generator.cpu.as_secs_f64(),
        "Limited": of.generator.limited,
        "Interrupted": of.interrupted,
    })
}

fn seconds(nanoseconds: u64) -> f64 {
    units::float(nanoseconds) / 1e9
}

/// A time in UTC (RFC 3339), to the millisecond.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|at| format!("{at:.3}")).unwrap_or_default()
}
