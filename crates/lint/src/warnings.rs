//! Collects warnings, of each kind a limited number, and bounds the work to find them.

use std::collections::BTreeMap;

use document::{Problem, Warning};

/// The maximum number of warnings of one kind.
const MAX_WARNINGS: usize = 1000;

/// Collects warnings, up to [`MAX_WARNINGS`] of each kind.
#[derive(Default)]
pub(crate) struct Warnings {
    problems: Vec<Problem>,
    /// For each kind, the number of its warnings, and the first that is left out.
    kinds: BTreeMap<Option<Warning>, (usize, Option<Problem>)>,
}

impl Warnings {
    pub(crate) fn push(&mut self, problem: Problem) {
        let (count, first_left_out) = self.kinds.entry(problem.kind()).or_default();
        *count += 1;
        if *count <= MAX_WARNINGS {
            self.problems.push(problem);
        } else if first_left_out.is_none() {
            *first_left_out = Some(problem);
        }
    }

    pub(crate) fn finish(mut self) -> Vec<Problem> {
        for (count, first_left_out) in self.kinds.into_values() {
            if let Some(mut first) = first_left_out {
                let more = count - MAX_WARNINGS - 1;
                first.message = format!("{} (and {more} more like this)", first.message);
                self.problems.push(first);
            }
        }
        self.problems
    }
}

/// The steps that a check may take: for all rules together, and for each of them.
pub(crate) struct Budget {
    pub(crate) left: usize,
    for_each: usize,
}

impl Budget {
    pub(crate) const fn new(total: usize, for_each: usize) -> Self {
        Self { left: total, for_each }
    }

    /// Checks one rule. The check gets the number of steps that it may take, and counts it down.
    pub(crate) fn spend<T>(&mut self, check: impl FnOnce(&mut usize) -> T) -> T {
        let steps = self.for_each.min(self.left);
        let mut left = steps;
        let result = check(&mut left);
        self.left -= steps - left;
        result
    }
}
