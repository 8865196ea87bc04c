//! Executes a run: threads send the plan's requests and record the results.
//!
//! Each thread has its own runtime and its share of the connections. Threads share limits, but
//! nothing that is written for each request. `pacer` determines when the next request starts,
//! `worker` sends it, and `tally` records the result.

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;

mod alarm;
mod http1;
mod http2;
mod pacer;
mod schedule;
mod socket;
mod tally;
mod worker;

use self::alarm::nanoseconds;
use self::pacer::RunLimits;
use self::schedule::Schedule;
use self::worker::ThreadConfig;
use crate::failed::Failed;
use crate::plan::{Plan, Progress, Rate, Watch};
use crate::render::Recipes;
use crate::results::{RunResults, histogram};

/// The time from when the last thread is ready to the first request.
const START_DELAY: Duration = Duration::from_millis(5);
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// The interval for checking whether the threads have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Executes the plan. Blocks until the run has ended.
///
/// # Errors
/// If the plan is invalid, or the server cannot be reached at all.
pub fn run(plan: &Plan) -> Result<RunResults, Failed> {
    validate(plan)?;
    let recipes = Arc::new(Recipes::new(plan)?);
    let (limits_sender, limits_receiver) = watch::channel(None);
    let (ready, readiness) = mpsc::channel();
    let mut threads = Vec::new();
    for number in 0..plan.threads {
        let results = Arc::new(Mutex::new(RunResults::empty(plan, SystemTime::UNIX_EPOCH)));
        let config = ThreadConfig {
            plan: plan.clone(),
            number,
            recipes: Arc::clone(&recipes),
            results: Arc::clone(&results),
            ready: ready.clone(),
            limits: limits_receiver.clone(),
        };
        let thread = thread::Builder::new().name(format!("load-{number}"));
        let handle = thread.spawn(move || worker::work(config)).map_err(generator_failed)?;
        threads.push(Thread { results, handle });
    }
    drop(ready);
    for _ in 0..plan.threads {
        // A thread that ends without a message has failed.
        readiness
            .recv()
            .unwrap_or_else(|_| Err(Failed::Generator("a thread has ended".to_owned())))?;
    }
    let limits = Arc::new(run_limits(plan, Instant::now() + START_DELAY));
    let mut results = RunResults::empty(plan, clock() + START_DELAY + plan.warmup);
    limits_sender.send_replace(Some(Arc::clone(&limits)));
    if let Some(watch) = &plan.watch {
        report(plan, &limits, &threads, watch);
    }
    for thread in threads {
        let result = thread.handle.join();
        result
            .map_err(|_| Failed::Generator("a thread has panicked".to_owned()))?
            .map_err(generator_failed)?;
        results.add(&thread.results.lock().unwrap_or_else(PoisonError::into_inner));
    }
    results.complete(plan, &limits);
    Ok(results)
}

struct Thread {
    results: Arc<Mutex<RunResults>>,
    handle: JoinHandle<io::Result<()>>,
}

fn report(plan: &Plan, limits: &RunLimits, threads: &[Thread], watch: &Watch) {
    let mut last = Progress::default();
    let mut due = REPORT_INTERVAL;
    while !threads.iter().all(|thread| thread.handle.is_finished()) {
        thread::sleep(POLL_INTERVAL);
        if limits.epoch.elapsed() >= due {
            due += REPORT_INTERVAL;
            last = progress(plan, limits, threads, &last);
            watch(&last);
        }
    }
}

fn progress(plan: &Plan, limits: &RunLimits, threads: &[Thread], last: &Progress) -> Progress {
    let now = limits.now();
    let elapsed = Duration::from_nanos(now.saturating_sub(limits.warm));
    let mut corrected = histogram();
    let mut errors = 0;
    for thread in threads {
        let results = thread.results.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = corrected.add(&results.corrected);
        errors += results.errors();
    }
    let responses = corrected.len();
    let interval = elapsed.saturating_sub(last.elapsed).as_secs_f64().max(1e-9);
    let duration = plan.duration.map_or(f64::INFINITY, |duration| duration.as_secs_f64().max(1e-9));
    let requests = plan.requests.map_or(f64::INFINITY, |requests| requests.max(1) as f64);
    let done = elapsed.as_secs_f64() / duration;
    Progress {
        warming: now < limits.warm,
        elapsed,
        done: done.max((responses + errors) as f64 / requests).min(1.0),
        responses,
        errors,
        rate: responses.saturating_sub(last.responses) as f64 / interval,
        p99: corrected.value_at_quantile(0.99),
    }
}

fn validate(plan: &Plan) -> Result<(), Failed> {
    let is_rate = match plan.rate {
        Rate::Constant(rate) => rate.is_finite() && rate > 0.0,
        Rate::Ramp { from, to } => {
            (from + to).is_finite() && from.min(to) >= 0.0 && from + to > 0.0
        }
        Rate::Max => true,
    };
    let is_ramp = matches!(plan.rate, Rate::Ramp { .. });
    let smallest = plan.threads.min(plan.connections).min(plan.streams);
    let problem = if !is_rate {
        "a rate is a positive number of requests per second"
    } else if plan.duration.is_none() && plan.requests.is_none() {
        "a run needs a duration or a number of requests"
    } else if is_ramp && plan.duration.is_none_or(|duration| duration.is_zero()) {
        "a ramp needs a duration"
    } else if smallest == 0 {
        "threads, connections and streams are at least 1"
    } else if plan.threads > plan.connections {
        "each thread needs a connection: use more connections or fewer threads"
    } else {
        return Ok(());
    };
    Err(Failed::plan(problem))
}

fn run_limits(plan: &Plan, epoch: Instant) -> RunLimits {
    let warm = nanoseconds(plan.warmup);
    RunLimits {
        epoch,
        warm,
        end: plan.duration.map_or(u64::MAX, |duration| warm.saturating_add(nanoseconds(duration))),
        requests: plan.requests.unwrap_or(u64::MAX),
        schedule: Schedule::new(plan.rate, plan.warmup, plan.duration.unwrap_or(Duration::MAX)),
        assigned: 0.into(),
    }
}

#[expect(clippy::disallowed_methods, reason = "this crate does I/O: reports say when a run was")]
fn clock() -> SystemTime {
    SystemTime::now()
}

#[expect(clippy::needless_pass_by_value, reason = "it is used in `map_err`")]
fn generator_failed(error: io::Error) -> Failed {
    Failed::Generator(error.to_string())
}
