//! The page `/histograms`: latency histograms with narrow buckets, to compute percentiles of any tail. Two of these
//! pages can be subtracted bucket by bucket.

use runtime::counters::Distribution;
use serde_json::{Value, json};

use crate::grpc::ServerTotals;

/// The media type of the page.
pub(crate) const CONTENT_TYPE: &str = "application/json";

pub(super) fn histograms(totals: &ServerTotals) -> Value {
    json!({ "handler": histogram(&totals.checks.handler), "evaluation": histogram(&totals.checks.evaluation) })
}

fn histogram(durations: &Distribution) -> Value {
    let sum = u64::try_from(durations.sum().as_nanos()).unwrap_or(u64::MAX);
    let buckets: Vec<(u64, u64)> = durations.buckets().collect();
    json!({ "unit": "ns", "count": durations.count(), "sum": sum, "buckets": buckets })
}
