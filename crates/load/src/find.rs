//! Searches for the highest rate within a latency limit: starts with the rate of a closed loop,
//! then bisects.

use std::time::Duration;

use crate::failed::Failed;
use crate::plan::{Plan, Rate};
use crate::results::RunResults;
use crate::run::run;

/// The maximum number of rates that are tested after the closed loop.
const MAX_STEPS: usize = 8;

/// The search ends when the highest rate that kept the limit and the lowest that did not differ by
/// less than this fraction.
const RATE_TOLERANCE: f64 = 0.02;

/// The fraction of a rate that must have been answered.
const MIN_ANSWERED_FRACTION: f64 = 0.99;

/// Searches for the highest rate whose corrected p99 is at most `limit`, with expected answers
/// only, and returns the run at that rate, if any. Calls `report` with a line about each step.
pub(crate) fn find_max(
    plan: &Plan,
    limit: Duration,
    report: impl Fn(&str),
) -> Result<Option<RunResults>, Failed> {
    let closed = run(&Plan { rate: Rate::Max, ..plan.clone() })?;
    let (mut best, mut low, mut high) = (None, 0.0, closed.generator.achieved);
    report(&line(&closed, high, "closed loop"));
    let mut rate = high * 0.9;
    for _ in 0..MAX_STEPS {
        if rate < 1.0 || plan.stop.is_requested() {
            break;
        }
        let results = run(&Plan { rate: Rate::Constant(rate), ..plan.clone() })?;
        if is_kept(&results, rate, limit) {
            report(&line(&results, rate, "kept"));
            low = rate;
            best = Some(results);
        } else {
            report(&line(&results, rate, "not kept"));
            high = rate;
        }
        if high - low < RATE_TOLERANCE * high {
            break;
        }
        rate = f64::midpoint(low, high);
    }
    Ok(best)
}

fn p99(results: &RunResults) -> Duration {
    Duration::from_nanos(results.corrected.value_at_quantile(0.99))
}

/// Whether the p99 kept the limit, every request was sent, and each got an expected answer. Others
/// do not count, because a denial or a 503 may come sooner.
fn is_kept(results: &RunResults, rate: f64, limit: Duration) -> bool {
    results.errors() + results.unexpected == 0
        && results.generator.unsent == 0
        && results.generator.achieved >= rate * MIN_ANSWERED_FRACTION
        && p99(results) <= limit
        && !results.corrected.is_empty()
        && !results.interrupted
}

fn line(results: &RunResults, rate: f64, verdict: &str) -> String {
    let p99 = p99(results).as_secs_f64() * 1e3;
    let mut line = format!("{rate:>10.1}/s   p99 {p99:>9.3} ms   {verdict}");
    for (count, name) in [(results.errors(), "errors"), (results.unexpected, "unexpected answers")]
    {
        if count > 0 {
            line += &format!("   {name}: {count}");
        }
    }
    line
}
