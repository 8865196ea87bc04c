//! Completes the results of a run, once its threads have ended.

use std::time::Duration;

use super::pacer::RunLimits;
use crate::plan::{Plan, Rate};
use crate::results::RunResults;

/// A generator that is busy for more than this fraction of its threads' time is considered the
/// limit.
const MAX_CPU_FRACTION: f64 = 0.9;

/// If more than this fraction of the requests is sent late, the report contains a warning.
const MAX_LATE_FRACTION: f64 = 0.01;

/// Computes what is known only at the end. Up to then `elapsed` is the time of the last response
/// since the start.
pub(super) fn complete(results: &mut RunResults, plan: &Plan, limits: &RunLimits) {
    results.interrupted = plan.stop.is_requested();
    if !results.interrupted && plan.requests.is_none() {
        results.elapsed = results.elapsed.max(Duration::from_nanos(limits.end));
    }
    let warmup = Duration::from_nanos(limits.warm);
    results.elapsed = results.elapsed.saturating_sub(warmup).max(Duration::from_nanos(1));
    results.generator.achieved = results.corrected.len() as f64 / results.elapsed.as_secs_f64();
    results.generator.limited = limited(results);
}

/// An explanation, if the generator or the machine was the limit.
fn limited(all: &RunResults) -> Option<String> {
    let busy = all.generator.cpu.as_secs_f64()
        / all.elapsed.as_secs_f64()
        / all.generator.threads.max(1) as f64;
    if busy > MAX_CPU_FRACTION
        && (all.rate == Rate::Max || all.generator.queued + all.generator.unsent > 0)
    {
        return Some(format!(
            "the generator was the limit, not the server: it used {:.0} % of its {} thread(s); use more `--threads`",
            busy * 100.0,
            all.generator.threads
        ));
    }
    let late = all.generator.late as f64 / all.requests().max(1) as f64;
    (late > MAX_LATE_FRACTION).then(|| {
        format!(
            "the machine was busy: {:.1} % of the requests were sent more than 1 ms late because the generator, which used \
             {:.0} % of its thread(s), woke late (worst: {:.1} ms); the corrected latencies include these delays",
            late * 100.0,
            busy * 100.0,
            all.generator.worst_late.as_secs_f64() * 1e3
        )
    })
}
