//! The results as fortio's JSON, which `fortio report` can draw.
//!
//! `OpenLoop` has the uncorrected latencies, and the measurements of the generator itself. It is
//! not a field of fortio, which ignores it. Durations are in seconds, except for `ActualDuration`,
//! which is in nanoseconds, like in fortio.

use std::collections::BTreeMap;
use std::time::SystemTime;

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use super::{PERCENTILES, percentile};
use crate::answer::Answer;
use crate::plan::Protocol;
use crate::results::RunResults;

/// The results; `labels` is the title that `fortio report` shows.
pub fn fortio(results: &RunResults, labels: &str) -> Value {
    let is_check = results.protocol == Protocol::Check;
    let mut run = json!({
        "RunType": if is_check { "GRPC Check" } else { "HTTP" },
        "Labels": labels,
        "StartTime": rfc3339(results.started),
        "RequestedQPS": results.rate.to_string().trim_end_matches("/s"),
        "RequestedDuration": format!("{:.3}s", results.elapsed.as_secs_f64()),
        "ActualQPS": results.generator.achieved,
        "ActualDuration": u64::try_from(results.elapsed.as_nanos()).unwrap_or(u64::MAX),
        "NumConnections": results.connections,
        // To fortio, these are the requests that may be under way at once.
        "NumThreads": results.connections * results.streams,
        "H2": results.protocol == Protocol::Http2,
        "Version": concat!("rolegate-load ", env!("CARGO_PKG_VERSION")),
        "DurationHistogram": histogram(&results.corrected),
        "ErrorsDurationHistogram": histogram(&failures(results)),
        "Exactly": 0,
        "RetCodes": codes(results),
        "OpenLoop": open_loop(results),
    });
    let target = if is_check { "Destination" } else { "URL" };
    if let Some(fields) = run.as_object_mut() {
        fields.insert(target.to_owned(), results.target.as_str().into());
    }
    run
}

fn open_loop(results: &RunResults) -> Value {
    let generator = &results.generator;
    json!({
        "Uncorrected": histogram(&results.uncorrected),
        "Streams": results.streams,
        "Unexpected": results.unexpected,
        "Errors": results.errors,
        "BytesSent": results.bytes_sent,
        "BytesReceived": results.bytes_received,
        "Late": generator.late,
        "WorstLate": generator.worst_late.as_secs_f64(),
        "Queued": generator.queued,
        "Unsent": generator.unsent,
        "Cpu": generator.cpu.as_secs_f64(),
        "Limited": generator.limited,
        "Interrupted": results.interrupted,
    })
}

/// Responses by status; like in fortio, −1 counts requests without a response.
fn codes(results: &RunResults) -> BTreeMap<String, u64> {
    let responses = results.responses.iter();
    let mut codes: BTreeMap<String, u64> =
        responses.map(|(answer, latencies)| (answer.to_string(), latencies.len())).collect();
    if results.errors() > 0 {
        codes.insert("-1".to_owned(), results.errors());
    }
    codes
}

/// The responses that fortio would call errors. A denied check is an ordinary response.
fn failures(results: &RunResults) -> Histogram<u64> {
    let mut failures = crate::results::histogram();
    for (answer, latencies) in &results.responses {
        if matches!(answer, Answer::Status(400..)) {
            // Both have the same bounds, so this does not fail.
            let _ = failures.add(latencies);
        }
    }
    failures
}

fn histogram(latencies: &Histogram<u64>) -> Value {
    let percentiles = PERCENTILES.into_iter().filter_map(|percent| {
        Some(json!({ "Percentile": percent, "Value": seconds(percentile(latencies, percent)?) }))
    });
    json!({
        "Count": latencies.len(),
        "Min": seconds(if latencies.is_empty() { 0 } else { latencies.min() }),
        "Max": seconds(latencies.max()),
        "Sum": latencies.mean() * latencies.len() as f64 / 1e9,
        "Avg": latencies.mean() / 1e9,
        "StdDev": latencies.stdev() / 1e9,
        "Data": buckets(latencies),
        "Percentiles": percentiles.collect::<Vec<_>>(),
    })
}

/// Buckets with a width of 1/32 of their value: fine enough to draw, and hundreds instead of
/// thousands.
fn buckets(latencies: &Histogram<u64>) -> Vec<Value> {
    let mut buckets: BTreeMap<(u32, u64), (u64, u64, u64)> = BTreeMap::new();
    for step in latencies.iter_recorded() {
        let value = step.value_iterated_to().max(1);
        let power = value.ilog2();
        let part = (value << (63 - power)) >> 58;
        let start = latencies.lowest_equivalent(value);
        let bucket = buckets.entry((power, part)).or_insert((start, value, 0));
        bucket.1 = value;
        bucket.2 += step.count_at_value();
    }
    let mut sum = 0;
    let buckets = buckets.into_values().map(|(start, end, count)| {
        sum += count;
        let percent = 100.0 * sum as f64 / latencies.len() as f64;
        json!({ "Start": seconds(start), "End": seconds(end), "Percent": percent, "Count": count })
    });
    buckets.collect()
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

/// A time in UTC (RFC 3339), to the millisecond.
pub fn rfc3339(at: SystemTime) -> String {
    jiff::Timestamp::try_from(at).map(|at| format!("{at:.3}")).unwrap_or_default()
}
