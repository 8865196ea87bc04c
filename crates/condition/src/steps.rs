//! The limit on the cost of an evaluation.

use crate::fault::Fault;

/// The most steps that the evaluation of a condition takes: one for each part that it computes, for
/// each item that it looks at, and for each 64 bytes of text that it reads. A client may have tokens
/// with long lists and send long headers, and `exists` takes the product of their lengths.
pub const MAX_STEPS: usize = 10_000;

/// The bytes of text for which an evaluation takes a step.
pub(crate) const BYTES: usize = 64;

/// The steps that an evaluation has taken.
#[derive(Default)]
pub(crate) struct Steps {
    pub(crate) taken: usize,
    /// The steps of values that were computed before. They count, too: whether parts of a condition
    /// are computed before must not change its value.
    before: usize,
}

impl Steps {
    /// # Errors
    /// [`Fault::TooLong`] if fewer steps are left. All later calls then fail, too.
    pub(crate) fn take(&mut self, steps: usize) -> Result<(), Fault> {
        self.taken = self.taken.saturating_add(steps);
        self.within_limit()
    }

    /// Takes the steps for reading so many bytes.
    pub(crate) fn read(&mut self, bytes: usize) -> Result<(), Fault> {
        self.take(bytes / BYTES)
    }

    /// Counts the steps of a value that was computed before.
    pub(crate) fn add_before(&mut self, steps: usize) -> Result<(), Fault> {
        self.before = self.before.saturating_add(steps);
        self.within_limit()
    }

    pub(crate) fn within_limit(&self) -> Result<(), Fault> {
        let steps = self.taken.saturating_add(self.before);
        if steps > MAX_STEPS { Err(Fault::TooLong) } else { Ok(()) }
    }
}
