//! Warnings about rules that are valid but probably not intended. None of them makes a policy unusable.
//!
//! Each check has a budget: for a policy that is built to be expensive, some warnings are omitted, so that the time
//! stays proportional to the number of rules.

mod cover;
mod names;
mod reach;
mod trie;

pub(crate) use names::{identities, roles};

use crate::lint::trie::Trie;
use crate::model::Policy;
use crate::problem::Problem;

/// The maximum number of warnings of one kind.
const MAX_WARNINGS: usize = 1000;

/// Checks the rules. If some could not be read (`incomplete`), checks that need all of them are skipped.
pub(crate) fn rules(policy: &Policy, incomplete: bool, problems: &mut Vec<Problem>) {
    let trie = Trie::new(policy);
    trie.case_variants(&mut Warnings::new(problems));
    cover::useless(policy, &trie, &mut Warnings::new(problems));
    if !incomplete {
        reach::denials(&trie, &mut Warnings::new(problems));
    }
}

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
