//! `deny` rules that deny nothing which is allowed.

use crate::overlap::{Search, overlap_but_for_paths};
use crate::trie::{Ruled, Trie};
use crate::warnings::Warnings;
use document::{Problem, Warning};
use policy::model::{Effect, RuleId};

/// The maximum number of steps for all `deny` rules together, and for each of them.
const BUDGET: usize = 2_000_000;
const BUDGET_OF_ONE: usize = 2_000;

/// Warns of each `deny` rule that overlaps no `allow` rule of any role.
pub(crate) fn denials(trie: &Trie<'_>, warnings: &mut Warnings<'_>) {
    let mut budget = BUDGET;
    for ruled in trie.rules.iter().filter(|ruled| ruled.effect == Effect::Deny) {
        let found = |id: RuleId| {
            let Ruled { effect, rule, .. } = trie.rules.at(id);
            *effect == Effect::Allow && overlap_but_for_paths(ruled.rule, rule)
        };
        let mut search = Search { trie, found, left: BUDGET_OF_ONE.min(budget) };
        let met = ruled.rule.resources.iter().any(|pattern| search.ends(pattern));
        budget -= BUDGET_OF_ONE.min(budget) - search.left;
        if !met {
            warnings.push(warning(ruled));
        }
    }
}

fn warning(ruled: &Ruled<'_>) -> Problem {
    let message = format!("`{}` denies what nothing allows", ruled.rule.name);
    Problem::warning(ruled.rule.at.clone(), Warning::UnmatchedDeny, message)
        .help("check its path, or leave it out")
}
