//! Waits for the threads and reports their progress.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::pacer::RunLimits;
use super::summary::ThreadUsage;
use super::tally::Tally;
use super::{Thread, generator_failed};
use crate::failed::Failed;
use crate::plan::{Plan, Progress, Watch};
use crate::results::histogram;

/// The interval of progress reports.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);

/// The interval for checking whether the threads have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Waits for the threads.
pub(super) fn until_done(
    plan: &Plan,
    limits: &Arc<RunLimits>,
    threads: Vec<Thread>,
) -> Result<Vec<(Tally, ThreadUsage)>, Failed> {
    if let Some(watch) = &plan.watch {
        report(plan, limits, &threads, watch);
    }
    let mut done = Vec::new();
    for thread in threads {
        let used = thread
            .handle
            .join()
            .map_err(|_| Failed::Generator("a thread has panicked".to_owned()))?
            .map_err(generator_failed)?;
        done.push((taken(&thread.tally), used));
    }
    Ok(done)
}

/// Copies the results of a thread.
fn taken(tally: &Mutex<Tally>) -> Tally {
    std::mem::replace(&mut tally.lock().unwrap_or_else(PoisonError::into_inner), Tally::new())
}

fn report(plan: &Plan, limits: &RunLimits, threads: &[Thread], watch: &Watch) {
    let mut before = Progress::default();
    let mut due = REPORT_INTERVAL;
    while !threads.iter().all(|thread| thread.handle.is_finished()) {
        thread::sleep(POLL_INTERVAL);
        if limits.epoch.elapsed() < due {
            continue;
        }
        due += REPORT_INTERVAL;
        let now = progress(plan, limits, threads, &before);
        watch(&now);
        before = now;
    }
}

fn progress(plan: &Plan, limits: &RunLimits, threads: &[Thread], before: &Progress) -> Progress {
    let now = limits.now();
    let elapsed = Duration::from_nanos(now.saturating_sub(limits.warm));
    let mut corrected = histogram();
    let mut errors = 0;
    for thread in threads {
        let tally = thread.tally.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = corrected.add(&tally.corrected);
        errors += tally.errors.values().sum::<u64>();
    }
    let responses = corrected.len();
    let between = elapsed.saturating_sub(before.elapsed).as_secs_f64().max(1e-9);
    let of_time =
        plan.duration.map_or(0.0, |duration| elapsed.as_secs_f64() / duration.as_secs_f64().max(1e-9));
    let of_count = plan.requests.map_or(0.0, |requests| (responses + errors) as f64 / requests.max(1) as f64);
    Progress {
        warming: now < limits.warm,
        elapsed,
        done: of_time.max(of_count).min(1.0),
        responses,
        errors,
        rate: responses.saturating_sub(before.responses) as f64 / between,
        p99: corrected.value_at_quantile(0.99),
    }
}
