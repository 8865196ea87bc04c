//! What is legal but hardly meant. Nothing here keeps a policy from being used.
//!
//! Each look-up has a budget: on a policy that is made to be hard some warnings are left out, and time stays in
//! proportion to the number of rules.

mod cover;
mod names;
mod reach;
mod trie;

pub(crate) use names::{identities, roles};

use crate::load::lint::trie::Trie;
use crate::model::Policy;
use crate::problem::Problem;

/// How many warnings of one kind are shown.
const MOST: usize = 1000;

/// Looks at the rules. Where some could not be read, nothing is said of what would need all of them.
pub(crate) fn rules(policy: &Policy, incomplete: bool, problems: &mut Vec<Problem>) {
    let trie = Trie::new(policy);
    trie.case_variants(&mut Warnings::new(problems));
    cover::useless(policy, &trie, &mut Warnings::new(problems));
    if !incomplete {
        reach::denials(&trie, &mut Warnings::new(problems));
    }
}

/// Takes warnings of one kind, up to a number.
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
        if self.taken <= MOST {
            self.problems.push(problem);
        } else if self.first_left_out.is_none() {
            self.first_left_out = Some(problem);
        }
    }
}

impl Drop for Warnings<'_> {
    fn drop(&mut self) {
        if let Some(mut first) = self.first_left_out.take() {
            let more = self.taken - MOST;
            first.message = format!("{} (and {} more like this)", first.message, more - 1);
            self.problems.push(first);
        }
    }
}
