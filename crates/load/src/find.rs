//! Searches for the highest rate within a latency limit: starts with the rate of a closed loop,
//! then bisects.

use std::time::Duration;

use crate::failed::Failed;
use crate::plan::{Plan, Rate};
use crate::results::RunResults;
use crate::run::run;

/// One tested rate.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Requests per second; in the first step, the rate that a closed loop reached.
    pub rate: f64,
    /// The corrected p99.
    pub p99: Duration,
    /// Requests without a response.
    pub errors: u64,
    /// Responses with an unexpected status.
    pub unexpected: u64,
    /// Whether the p99 kept the limit, every request was sent, and each got an expected answer.
    pub kept: bool,
}

/// The number of rates that are tested after the closed loop.
const STEPS: usize = 8;

/// The search ends when the highest rate that kept the limit and the lowest that did not differ by
/// less than this fraction.
const RATE_TOLERANCE: f64 = 0.02;

/// The fraction of a rate that must have been answered.
const MIN_ANSWERED_FRACTION: f64 = 0.99;

/// Searches for the highest rate whose corrected p99 is at most `limit`, with expected answers
/// only, and returns the run at that rate, if any. Calls `tried` after each step.
pub fn find_max(
    plan: &Plan,
    limit: Duration,
    mut tried: impl FnMut(&Step),
) -> Result<Option<RunResults>, Failed> {
    let first = run(&Plan { rate: Rate::Max, ..plan.clone() })?;
    let (mut best, mut low, mut high) = (None, 0.0, first.generator.achieved);
    tried(&step(&first, high, limit));
    let mut rate = high * 0.9;
    for _ in 0..STEPS {
        if rate < 1.0 || plan.stop.is_requested() {
            break;
        }
        let results = run(&Plan { rate: Rate::Constant(rate), ..plan.clone() })?;
        let step = step(&results, rate, limit);
        tried(&step);
        if step.kept {
            low = rate;
            best = Some(results);
        } else {
            high = rate;
        }
        if high - low < RATE_TOLERANCE * high {
            break;
        }
        rate = f64::midpoint(low, high);
    }
    Ok(best)
}

fn step(results: &RunResults, rate: f64, limit: Duration) -> Step {
    let p99 = Duration::from_nanos(results.corrected.value_at_quantile(0.99));
    let (errors, unexpected) = (results.errors(), results.unexpected);
    // A denial or a 503 may come sooner than the answer that the rate is asked for.
    let all = errors + unexpected == 0
        && results.generator.unsent == 0
        && results.generator.achieved >= rate * MIN_ANSWERED_FRACTION;
    let kept = all && p99 <= limit && !results.corrected.is_empty() && !results.interrupted;
    Step { rate, p99, errors, unexpected, kept }
}
