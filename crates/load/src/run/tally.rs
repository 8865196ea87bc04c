//! Records the requests of a thread in its own results, adds the results of the threads up, and
//! judges whether they can be trusted.

use std::time::Duration;

use super::pacer::{RunLimits, Tick};
use crate::answer::{Answer, Fault};
use crate::plan::{Plan, Rate};
use crate::results::{GeneratorStats, RunResults, histogram};

/// If the generator's threads are busy for more than this fraction of the time, the generator may
/// be the limit, and not the server.
const MAX_CPU_FRACTION: f64 = 0.9;

/// If more than this fraction of the requests is sent late, the report contains a warning.
const MAX_LATE_FRACTION: f64 = 0.01;

/// A request counts as late if it is sent more than this after it was due.
const LATE_AFTER: Duration = Duration::from_millis(1);

impl RunResults {
    /// Records whether a request was sent late, and why. If a slot was free in time, the generator
    /// woke late. Otherwise, the request queued until a slot was free.
    pub(super) fn record_start(&mut self, tick: Tick, sent: u64) {
        let late = Duration::from_nanos(sent.saturating_sub(tick.intended));
        let generator = &mut self.generator;
        if tick.slot_was_free {
            generator.worst_late = generator.worst_late.max(late);
            generator.late += u64::from(late > LATE_AFTER);
        } else {
            generator.queued += u64::from(late > LATE_AFTER);
        }
    }

    /// Records a response that was complete at `done`.
    pub(super) fn record_answer(
        &mut self,
        tick: Tick,
        sent: u64,
        done: u64,
        answer: Answer,
        expected: bool,
    ) {
        let corrected = done.saturating_sub(tick.intended);
        self.corrected.saturating_record(corrected);
        self.uncorrected.saturating_record(done.saturating_sub(sent));
        self.responses.entry(answer).or_insert_with(histogram).saturating_record(corrected);
        self.unexpected += u64::from(!expected);
        self.elapsed = self.elapsed.max(Duration::from_nanos(done));
    }

    pub(super) fn record_fault(&mut self, done: u64, fault: Fault) {
        *self.errors.entry(fault).or_default() += 1;
        self.elapsed = self.elapsed.max(Duration::from_nanos(done));
    }

    /// Adds the results of a thread.
    pub(super) fn add(&mut self, thread: &Self) {
        // All histograms have the same bounds, so this does not fail.
        let _ = self.corrected.add(&thread.corrected);
        let _ = self.uncorrected.add(&thread.uncorrected);
        for (answer, latencies) in &thread.responses {
            let _ = self.responses.entry(*answer).or_insert_with(histogram).add(latencies);
        }
        for (fault, count) in &thread.errors {
            *self.errors.entry(fault.clone()).or_default() += count;
        }
        self.elapsed = self.elapsed.max(thread.elapsed);
        self.unexpected += thread.unexpected;
        self.bytes_sent += thread.bytes_sent;
        self.bytes_received += thread.bytes_received;
        let stats = &mut self.generator;
        stats.late += thread.generator.late;
        stats.worst_late = stats.worst_late.max(thread.generator.worst_late);
        stats.queued += thread.generator.queued;
        stats.unsent += thread.generator.unsent;
        stats.cpu += thread.generator.cpu;
    }

    /// Completes the sum of all threads' results. Before this, `elapsed` is the time from the start
    /// of the warm-up to the last response or fault. After this, it does not include the warm-up.
    pub(super) fn complete(&mut self, plan: &Plan, limits: &RunLimits) {
        self.interrupted = plan.stop.is_requested();
        if !self.interrupted && plan.requests.is_none() {
            self.elapsed = self.elapsed.max(Duration::from_nanos(limits.end));
        }
        let warmup = Duration::from_nanos(limits.warm);
        self.elapsed = self.elapsed.saturating_sub(warmup).max(Duration::from_nanos(1));
        self.generator.achieved = self.corrected.len() as f64 / self.elapsed.as_secs_f64();
        self.generator.limited = self.explain_limit();
    }

    /// An explanation, if the generator or the machine was the limit.
    fn explain_limit(&self) -> Option<String> {
        let GeneratorStats { cpu, threads, queued, unsent, .. } = self.generator;
        let busy = cpu.as_secs_f64() / self.elapsed.as_secs_f64() / threads.max(1) as f64;
        if busy > MAX_CPU_FRACTION && (self.rate == Rate::Max || queued + unsent > 0) {
            return Some(format!(
                "the generator was the limit, not the server: it used {:.0} % of its {threads} \
                 thread(s); use more `--threads`",
                busy * 100.0,
            ));
        }
        let late = self.generator.late as f64 / self.requests().max(1) as f64;
        (late > MAX_LATE_FRACTION).then(|| {
            format!(
                "the machine was busy: {:.1} % of the requests were sent more than 1 ms late \
                 because the generator, which used {:.0} % of its thread(s), woke late (worst: \
                 {:.1} ms); the corrected latencies include these delays",
                late * 100.0,
                busy * 100.0,
                self.generator.worst_late.as_secs_f64() * 1e3
            )
        })
    }
}
