//! Combines the results of the threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::pacer::RunLimits;
use super::tally::Tally;
use crate::plan::Plan;
use crate::results::{GeneratorStats, Protocol, Rate, Responses, RunResults, histogram};

/// The resources that a thread has used in the measured part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadUsage {
    pub(super) cpu: Duration,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Requests that were due before the end and not sent.
    pub(super) unsent: u64,
}

/// A generator that is busy for more than this fraction of its threads' time is considered the limit.
const MAX_CPU_FRACTION: f64 = 0.9;

/// If more than this fraction of the requests is sent late, the report contains a warning.
const MAX_LATE_FRACTION: f64 = 0.01;

/// Combines the results of the threads.
pub(super) fn results(
    plan: &Plan,
    limits: &Arc<RunLimits>,
    started: SystemTime,
    threads: Vec<(Tally, ThreadUsage)>,
) -> RunResults {
    let mut all = RunResults::empty(plan, started);
    let mut last = 0;
    for (tally, usage) in threads {
        last = last.max(tally.last);
        all.add(tally, usage);
    }
    let interrupted = plan.stop.is_requested();
    let planned_end = if interrupted || plan.requests.is_some() { 0 } else { limits.end };
    all.elapsed = Duration::from_nanos(last.max(planned_end).saturating_sub(limits.warm).max(1));
    all.interrupted = interrupted;
    all.generator.achieved = all.corrected.len() as f64 / all.elapsed.as_secs_f64();
    all.generator.limited = limited(&all);
    all
}

impl RunResults {
    /// Without any request.
    pub(crate) fn empty(plan: &Plan, started: SystemTime) -> Self {
        Self {
            target: plan.target.shown.clone(),
            protocol: plan.protocol,
            rate: plan.rate,
            connections: plan.connections,
            streams: if plan.protocol == Protocol::Http1 { 1 } else { plan.streams },
            started,
            elapsed: Duration::ZERO,
            corrected: histogram(),
            uncorrected: histogram(),
            responses: BTreeMap::new(),
            errors: BTreeMap::new(),
            unexpected: 0,
            bytes_sent: 0,
            bytes_received: 0,
            generator: GeneratorStats { threads: plan.threads, ..GeneratorStats::default() },
            interrupted: false,
        }
    }

    fn add(&mut self, tally: Tally, usage: ThreadUsage) {
        // All histograms have the same bounds, so this does not fail.
        let _ = self.corrected.add(&tally.corrected);
        let _ = self.uncorrected.add(&tally.uncorrected);
        for (fault, count) in &tally.errors {
            *self.errors.entry(fault.to_string()).or_default() += count;
        }
        self.unexpected += tally.unexpected;
        self.bytes_sent += usage.sent;
        self.bytes_received += usage.received;
        self.generator.late += tally.late;
        self.generator.worst_late = self.generator.worst_late.max(Duration::from_nanos(tally.worst_late));
        self.generator.queued += tally.queued;
        self.generator.unsent += usage.unsent;
        self.generator.cpu += usage.cpu;
        for (name, responses) in tally.into_responses() {
            let of_name =
                self.responses.entry(name).or_insert_with(|| Responses { count: 0, corrected: histogram() });
            of_name.count += responses.count;
            let _ = of_name.corrected.add(&responses.corrected);
        }
    }
}

/// An explanation, if the generator or the machine was the limit.
fn limited(all: &RunResults) -> Option<String> {
    let busy =
        all.generator.cpu.as_secs_f64() / all.elapsed.as_secs_f64() / all.generator.threads.max(1) as f64;
    if busy > MAX_CPU_FRACTION && (all.rate == Rate::Max || all.generator.queued + all.generator.unsent > 0) {
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
