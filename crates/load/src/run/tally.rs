//! Records the requests of a thread in its own results, and adds the results of the threads up.

use std::time::Duration;

use super::pacer::Tick;
use crate::answer::{Answer, Fault};
use crate::results::{RunResults, histogram};

/// A request counts as late if it is sent more than this after it was due.
const LATE_AFTER: Duration = Duration::from_millis(1);

impl RunResults {
    pub(super) fn record_start(&mut self, tick: Tick, sent: u64) {
        let late = Duration::from_nanos(sent.saturating_sub(tick.intended));
        let generator = &mut self.generator;
        if tick.awaited {
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
        let (all, own) = (&mut self.generator, &thread.generator);
        all.late += own.late;
        all.worst_late = all.worst_late.max(own.worst_late);
        all.queued += own.queued;
        all.unsent += own.unsent;
        all.cpu += own.cpu;
    }
}
