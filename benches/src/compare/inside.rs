//! The durations that rolegate itself reports.

use std::net::SocketAddr;

use hdrhistogram::Histogram;
use serde_json::Value;
use testbed::block_on;
use testbed::client::get;

/// The durations from rolegate's `GET /histograms`, cumulative since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inside {
    /// From a complete message to its response: pairs of a duration in nanoseconds and a count.
    pub(crate) handler: Vec<(u64, u64)>,
    /// Only the evaluation of the policy.
    pub(crate) evaluation: Vec<(u64, u64)>,
}

impl Inside {
    /// Requests it from this admin interface; `None` if the page does not exist.
    pub(crate) fn ask(admin: SocketAddr) -> Option<Self> {
        let answer = block_on(get(admin, "/histograms", &[])).ok()?;
        if answer.status == 200 { Self::read(&answer.json()) } else { None }
    }

    /// Parses the page.
    pub(crate) fn read(all: &Value) -> Option<Self> {
        let series = |name: &str| -> Option<Vec<(u64, u64)>> {
            let buckets = all.get(name)?.get("buckets")?.as_array()?;
            buckets
                .iter()
                .map(|bucket| Some((bucket.get(0)?.as_u64()?, bucket.get(1)?.as_u64()?)))
                .collect()
        };
        Some(Self { handler: series("handler")?, evaluation: series("evaluation")? })
    }

    /// Adds the counts since an earlier reading to these two histograms.
    pub(crate) fn add_since(
        &self,
        earlier: &Self,
        handler: &mut Histogram<u64>,
        evaluation: &mut Histogram<u64>,
    ) {
        add(handler, &self.handler, &earlier.handler);
        add(evaluation, &self.evaluation, &earlier.evaluation);
    }
}

fn add(to: &mut Histogram<u64>, now: &[(u64, u64)], before: &[(u64, u64)]) {
    for (value, count) in now {
        let known = before
            .binary_search_by_key(value, |bucket| bucket.0)
            .ok()
            .and_then(|at| before.get(at));
        let new = count.saturating_sub(known.map_or(0, |bucket| bucket.1));
        if new > 0 {
            to.saturating_record_n(*value, new);
        }
    }
}
