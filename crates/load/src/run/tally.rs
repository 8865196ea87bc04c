//! The results of one thread.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::pacer::Tick;
use crate::answer::{Answer, Fault};
use crate::results::{Responses, histogram};

/// The results of one thread in the measured part.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) corrected: Histogram<u64>,
    pub(super) uncorrected: Histogram<u64>,
    /// By kind. There are few kinds, so a list is enough.
    responses: Vec<(Answer, Responses)>,
    pub(super) errors: BTreeMap<Fault, u64>,
    pub(super) unexpected: u64,
    /// Requests sent late because the generator woke up late, and the maximum delay in nanoseconds.
    pub(super) late: u64,
    pub(super) worst_late: u64,
    /// Requests sent late because no slot was free.
    pub(super) queued: u64,
    /// The time of the last response or error.
    pub(super) last: u64,
}

/// A request counts as late if it is sent more than this after it was due, in nanoseconds.
const LATE_AFTER: u64 = 1_000_000;

impl Tally {
    /// An empty tally.
    pub(super) fn new() -> Self {
        Self {
            corrected: histogram(),
            uncorrected: histogram(),
            responses: Vec::new(),
            errors: BTreeMap::new(),
            unexpected: 0,
            late: 0,
            worst_late: 0,
            queued: 0,
            last: 0,
        }
    }

    /// Records when a request was sent.
    pub(super) fn sent(&mut self, tick: Tick, sent: u64) {
        let late = sent.saturating_sub(tick.intended);
        if tick.awaited {
            self.worst_late = self.worst_late.max(late);
            self.late += u64::from(late > LATE_AFTER);
        } else {
            self.queued += u64::from(late > LATE_AFTER);
        }
    }

    /// Records a response that was complete at `done`.
    pub(super) fn answered(&mut self, tick: Tick, sent: u64, done: u64, answer: Answer, expected: bool) {
        let corrected = done.saturating_sub(tick.intended);
        self.corrected.saturating_record(corrected);
        self.uncorrected.saturating_record(done.saturating_sub(sent));
        self.unexpected += u64::from(!expected);
        self.last = self.last.max(done);
        let of_kind = self.of_kind(answer);
        of_kind.count += 1;
        of_kind.corrected.saturating_record(corrected);
    }

    /// Records a request without a response.
    pub(super) fn failed(&mut self, done: u64, fault: Fault) {
        self.last = self.last.max(done);
        *self.errors.entry(fault).or_default() += 1;
    }

    /// The responses by their names in reports.
    pub(super) fn into_responses(self) -> impl Iterator<Item = (String, Responses)> {
        self.responses.into_iter().map(|(answer, responses)| (answer.to_string(), responses))
    }

    fn of_kind(&mut self, answer: Answer) -> &mut Responses {
        let at = self.responses.iter().position(|(kind, _)| *kind == answer).unwrap_or_else(|| {
            self.responses.push((answer, Responses { count: 0, corrected: histogram() }));
            self.responses.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or pushed just now")]
        &mut self.responses[at].1
    }
}
