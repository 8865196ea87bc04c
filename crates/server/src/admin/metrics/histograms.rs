//! The page `/histograms`: latency histograms with narrow buckets, to compute percentiles of any tail. Two of these
//! pages can be subtracted bucket by bucket.

use runtime::counters::{Distribution, Totals};
use serde_json::{Value, json};

/// The media type of the page.
pub(crate) const CONTENT_TYPE: &str = "application/json";

/// The page calls the duration of a check `handler`, and keeps that name for its readers.
pub(super) fn histograms(totals: &Totals) -> Value {
    json!({ "handler": histogram(&totals.check), "evaluation": histogram(&totals.evaluation) })
}

fn histogram(durations: &Distribution) -> Value {
    let sum = u64::try_from(durations.sum().as_nanos()).unwrap_or(u64::MAX);
    let buckets: Vec<(u64, u64)> = durations.buckets().collect();
    json!({ "unit": "ns", "count": durations.count(), "sum": sum, "buckets": buckets })
}
