//! Collects a limited number of warnings of each kind, and limits the work to find them.

use std::collections::BTreeMap;

use document::{Problem, Warning};

/// The maximum number of warnings of a kind.
const MAX_WARNINGS: usize = 1000;

/// Collects warnings, up to [`MAX_WARNINGS`] of each kind.
#[derive(Default)]
pub(crate) struct Warnings {
    problems: Vec<Problem>,
    /// The number of warnings of each kind, including those that are omitted.
    counts: BTreeMap<Option<Warning>, usize>,
}

impl Warnings {
    pub(crate) fn push(&mut self, problem: Problem) {
        let count = self.counts.entry(problem.kind()).or_default();
        *count += 1;
        if *count <= MAX_WARNINGS {
            self.problems.push(problem);
        }
    }

    pub(crate) fn extend(&mut self, problems: impl IntoIterator<Item = Problem>) {
        problems.into_iter().for_each(|problem| self.push(problem));
    }

    /// The warnings. The last warning of each kind says how many more there are.
    pub(crate) fn finish(mut self) -> Vec<Problem> {
        for problem in self.problems.iter_mut().rev() {
            let count = self.counts.remove(&problem.kind()).unwrap_or_default();
            if count > MAX_WARNINGS {
                let omitted = count - MAX_WARNINGS;
                problem.message = format!("{} (and {omitted} more like this)", problem.message);
            }
        }
        self.problems
    }
}

/// The number of steps that a check may take for all rules together, and for each rule.
pub(crate) struct Budget {
    pub(crate) steps: usize,
    max_per_rule: usize,
}

impl Budget {
    pub(crate) const fn new(steps: usize, max_per_rule: usize) -> Self {
        Self { steps, max_per_rule }
    }

    /// Checks a rule. The check gets the number of steps that it may take, and counts it down.
    pub(crate) fn spend<T>(&mut self, check: impl FnOnce(&mut usize) -> T) -> T {
        let granted = self.max_per_rule.min(self.steps);
        let mut steps = granted;
        let result = check(&mut steps);
        self.steps -= granted - steps;
        result
    }
}
