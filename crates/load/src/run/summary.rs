//! Combines the results of the threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::pacer::Course;
use super::tally::Tally;
use crate::measured::{Answers, Measured, Own, Protocol, Rate, histogram};
use crate::plan::Plan;

/// The resources that a thread has used in the measured part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Done {
    pub(super) cpu: Duration,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Requests that were due before the end and not sent.
    pub(super) unsent: u64,
}

/// A generator that is busy for more than this fraction of its threads' time is considered the limit.
const BUSY: f64 = 0.9;

/// If more than this fraction of the requests is sent late, the report contains a warning.
const TOO_LATE: f64 = 0.01;

/// Combines the results of the threads.
pub(super) fn measured(
    plan: &Plan,
    course: &Arc<Course>,
    started: SystemTime,
    threads: Vec<(Tally, Done)>,
) -> Measured {
    let mut all = empty(plan, started);
    let mut last = 0;
    for (tally, done) in threads {
        last = last.max(tally.last);
        all.add(tally, done);
    }
    let interrupted = plan.stop.is_asked();
    let asked_for = if interrupted || plan.requests.is_some() { 0 } else { course.end };
    all.elapsed = Duration::from_nanos(last.max(asked_for).saturating_sub(course.warm).max(1));
    all.interrupted = interrupted;
    all.own.achieved = all.corrected.len() as f64 / all.elapsed.as_secs_f64();
    all.own.limited = limited(&all);
    all
}

fn empty(plan: &Plan, started: SystemTime) -> Measured {
    Measured {
        target: plan.target.shown.clone(),
        protocol: plan.protocol,
        rate: plan.rate,
        connections: plan.connections,
        streams: if plan.protocol == Protocol::Http1 { 1 } else { plan.streams },
        started,
        elapsed: Duration::ZERO,
        corrected: histogram(),
        uncorrected: histogram(),
        answers: BTreeMap::new(),
        errors: BTreeMap::new(),
        unexpected: 0,
        bytes_sent: 0,
        bytes_received: 0,
        own: Own { threads: plan.threads, ..Own::default() },
        interrupted: false,
    }
}

impl Measured {
    fn add(&mut self, tally: Tally, done: Done) {
        // All histograms have the same bounds, so this does not fail.
        let _ = self.corrected.add(&tally.corrected);
        let _ = self.uncorrected.add(&tally.uncorrected);
        for (fault, count) in &tally.errors {
            *self.errors.entry(fault.to_string()).or_default() += count;
        }
        self.unexpected += tally.unexpected;
        self.bytes_sent += done.sent;
        self.bytes_received += done.received;
        self.own.late += tally.late;
        self.own.worst_late = self.own.worst_late.max(Duration::from_nanos(tally.worst_late));
        self.own.queued += tally.queued;
        self.own.unsent += done.unsent;
        self.own.cpu += done.cpu;
        for (name, answers) in tally.into_answers() {
            let of_name =
                self.answers.entry(name).or_insert_with(|| Answers { count: 0, corrected: histogram() });
            of_name.count += answers.count;
            let _ = of_name.corrected.add(&answers.corrected);
        }
    }
}

/// An explanation, if the generator was the limit.
fn limited(all: &Measured) -> Option<String> {
    let busy = all.own.cpu.as_secs_f64() / all.elapsed.as_secs_f64() / all.own.threads.max(1) as f64;
    if busy > BUSY && (all.rate == Rate::Max || all.own.queued + all.own.unsent > 0) {
        return Some(format!(
            "the generator used {:.0} % of its {} thread(s): the server may carry more; ask for more `--threads`",
            busy * 100.0,
            all.own.threads
        ));
    }
    let late = all.own.late as f64 / all.requests().max(1) as f64;
    (late > TOO_LATE).then(|| {
        format!(
            "{:.1} % of the requests were sent more than 1 ms late because the generator woke late (worst: {:.1} ms): \
             the corrected latencies hold its delays too",
            late * 100.0,
            all.own.worst_late.as_secs_f64() * 1e3
        )
    })
}
