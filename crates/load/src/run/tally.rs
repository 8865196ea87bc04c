//! What one thread writes down.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use hdrhistogram::Histogram;

use super::pacer::Tick;
use crate::measured::{Answers, histogram};

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// An HTTP response with this status.
    Status(u16),
    /// A Check call that allows.
    Allowed,
    /// A Check call that denies, with this status for the client.
    Denied(u16),
}

/// Why nothing came back, in few and constant words: reports count by them.
pub(crate) type Fault = Cow<'static, str>;

/// What one thread has seen of the measured part.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) corrected: Histogram<u64>,
    pub(super) uncorrected: Histogram<u64>,
    /// By kind; few, so a list.
    answers: Vec<(Answer, Answers)>,
    pub(super) errors: BTreeMap<Fault, u64>,
    pub(super) unexpected: u64,
    /// Sent late because we woke late, and the worst of it in nanoseconds.
    pub(super) late: u64,
    pub(super) worst_late: u64,
    /// Sent late because nothing was free.
    pub(super) queued: u64,
    /// When the last answer or error was there.
    pub(super) last: u64,
}

/// What is sent later than this, in nanoseconds, counts as late.
const LATE: u64 = 1_000_000;

impl Tally {
    /// An empty one.
    pub(super) fn new() -> Self {
        Self {
            corrected: histogram(),
            uncorrected: histogram(),
            answers: Vec::new(),
            errors: BTreeMap::new(),
            unexpected: 0,
            late: 0,
            worst_late: 0,
            queued: 0,
            last: 0,
        }
    }

    /// Writes down when a request was sent.
    pub(super) fn sent(&mut self, tick: Tick, sent: u64) {
        let late = sent.saturating_sub(tick.intended);
        if tick.awaited {
            self.worst_late = self.worst_late.max(late);
            self.late += u64::from(late > LATE);
        } else {
            self.queued += u64::from(late > LATE);
        }
    }

    /// Writes down an answer that was complete at `done`.
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

    /// Writes down that there was no answer.
    pub(super) fn failed(&mut self, done: u64, fault: Fault) {
        self.last = self.last.max(done);
        *self.errors.entry(fault).or_default() += 1;
    }

    /// The answers by the names that reports have for them.
    pub(super) fn into_answers(self) -> impl Iterator<Item = (String, Answers)> {
        self.answers.into_iter().map(|(answer, answers)| (answer.to_string(), answers))
    }

    fn of_kind(&mut self, answer: Answer) -> &mut Answers {
        let at = self.answers.iter().position(|(it, _)| *it == answer).unwrap_or_else(|| {
            self.answers.push((answer, Answers { count: 0, corrected: histogram() }));
            self.answers.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found or pushed just now")]
        &mut self.answers[at].1
    }
}

impl Answer {
    /// The status that the client has or would get.
    pub(crate) const fn status(self) -> u16 {
        match self {
            Self::Status(status) | Self::Denied(status) => status,
            Self::Allowed => 200,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status}"),
            Self::Allowed => f.write_str("allowed"),
            Self::Denied(status) => write!(f, "denied {status}"),
        }
    }
}
