//! Collects warnings, of each kind a limited number.

use document::Problem;

/// The maximum number of warnings of one kind.
const MAX_WARNINGS: usize = 1000;

/// Collects warnings of one kind, up to [`MAX_WARNINGS`].
pub(crate) struct Warnings<'p> {
    problems: &'p mut Vec<Problem>,
    taken: usize,
    first_left_out: Option<Problem>,
}

impl<'p> Warnings<'p> {
    pub(crate) fn new(problems: &'p mut Vec<Problem>) -> Self {
        Self { problems, taken: 0, first_left_out: None }
    }

    pub(crate) fn push(&mut self, problem: Problem) {
        self.taken += 1;
        if self.taken <= MAX_WARNINGS {
            self.problems.push(problem);
        } else if self.first_left_out.is_none() {
            self.first_left_out = Some(problem);
        }
    }
}

impl Drop for Warnings<'_> {
    fn drop(&mut self) {
        if let Some(mut first) = self.first_left_out.take() {
            let more = self.taken - MAX_WARNINGS;
            first.message = format!("{} (and {} more like this)", first.message, more - 1);
            self.problems.push(first);
        }
    }
}
