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

/// The steps that a check may still take.
pub(crate) struct Steps(pub(crate) usize);

impl Steps {
    /// Takes this many steps, or all if fewer are left. False if none are left then.
    pub(crate) fn take(&mut self, count: usize) -> bool {
        self.0 = self.0.saturating_sub(count);
        self.are_left()
    }

    pub(crate) fn are_left(&self) -> bool {
        self.0 > 0
    }
}

/// The steps that a check may still take for all rules together, and the maximum for each rule.
pub(crate) struct Budget {
    pub(crate) total: Steps,
    pub(crate) max_per_rule: usize,
}

impl Budget {
    /// Checks a rule with the steps for one rule. The steps that `check` takes are subtracted from
    /// the total.
    pub(crate) fn spend<T>(&mut self, check: impl FnOnce(&mut Steps) -> T) -> T {
        let granted = self.max_per_rule.min(self.total.0);
        let mut steps = Steps(granted);
        let result = check(&mut steps);
        self.total.take(granted - steps.0);
        result
    }
}
