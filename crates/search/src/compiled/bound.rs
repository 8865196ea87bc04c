//! Bounds the work for the names and patterns of a request.
//!
//! A client chooses their number. Each pattern may be compared with every name of the
//! inventory, and each unknown name with the patterns of the roles. The thread serves no other
//! request meanwhile.

use std::ops::Range;

use crate::expression::Part;
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::problem::Problem;
use crate::steps::Steps;

use super::Privileges;

/// The most steps of a request: 35 ms at 50 ns per step, some 100 ms at worst (extrapolated from
/// requests that took seconds, November 2026). Only a request with a single name or pattern may
/// take more.
const MAX_STEPS: usize = 700_000;

/// A pattern is compared with a name of the inventory three times: to decide, to find the names
/// that are forwarded in its place, and to list the missing names. 20 patterns such as `*-errors`
/// with 10,000 indices that share one alias are within the bound. 1.9 million comparisons, each
/// made five times, took 0.3 to 1.3 s (November 2026).
const STEPS_PER_COMPARISON: usize = 3;

/// Names in an expression are looked up twice: to decide, and to list the missing names.
const STEPS_PER_LISTED: usize = 2;

/// The bytes of a name that are compared in a step. Comparing 200 bytes took 900 ns at worst
/// (November 2026).
const BYTES_PER_STEP: usize = 32;

/// Patterns that are shorter than this, in bytes, take about the same time to compare. A longer
/// pattern counts several times.
const PATTERN_PER_COMPARISON: usize = 64;

/// The names that an operation on whole bitmaps handles in about the time of a comparison.
const NAMES_PER_COMPARISON: usize = 128;

/// The members of an alias that are added to a bitmap in about the time of a comparison.
const MEMBERS_PER_COMPARISON: usize = 8;

impl Privileges {
    /// Whether the needs of a request can be decided in a bounded time. Call it before
    /// [`Self::decide`].
    ///
    /// # Errors
    /// If it has too many patterns for the contents of the cluster, or too many unknown names.
    pub fn bound(&self, needs: &[Need<'_>]) -> Result<(), Problem> {
        let parts = needs.iter().map(|need| need.target.size()).fold(0, usize::saturating_add);
        // How long a single part takes depends on the cluster, not on the client.
        if parts == 1 || parts.saturating_mul(self.worst_steps(needs)) <= MAX_STEPS {
            return Ok(());
        }
        let too_many = Problem::Unsupported("so many patterns or unknown names of indices");
        let (mut steps, mut last) = (Steps::new(MAX_STEPS), None);
        for need in needs {
            let is_repeated = last.replace(&need.target) == Some(&need.target);
            self.take_steps(need, is_repeated, &mut steps).ok_or(too_many)?;
        }
        Ok(())
    }

    /// Takes the steps of a need.
    fn take_steps(&self, need: &Need<'_>, is_repeated: bool, steps: &mut Steps) -> Option<()> {
        let actions = need.actions.len();
        match &need.target {
            Target::Cluster => Some(()),
            Target::Name(name) | Target::CreatedIfMissing(name) | Target::AliasOrNewIndex(name) => {
                steps.take(self.steps_of_name(name, actions))
            }
            Target::Indices(expression) | Target::Fixed(expression) => {
                expression.parts().try_for_each(|part| match part {
                    Part::Name(name) => steps
                        .take(STEPS_PER_LISTED.saturating_mul(self.steps_of_name(name, actions))),
                    Part::Except(name) if !name.contains('*') => steps.take(1),
                    Part::Pattern(pattern) | Part::Except(pattern) => {
                        steps.take(self.steps_of_pattern(pattern, actions, is_repeated))
                    }
                })
            }
        }
    }

    /// The most steps that a name or pattern of these needs takes.
    fn worst_steps(&self, needs: &[Need<'_>]) -> usize {
        let longest = needs.iter().map(|need| need.target.text().len()).max().unwrap_or_default();
        let actions = needs.iter().map(|need| need.actions.len()).max().unwrap_or_default();
        let names = 0..self.inventory.len();
        let members = self.inventory.members_in(names.clone()) / MEMBERS_PER_COMPARISON;
        // Bulk requests have no patterns, so no comparisons are added for them. Otherwise `bound`
        // would have to count the steps of each of their names, which would slow them down.
        let compared = match needs.iter().any(|need| need.target.expression().is_some()) {
            true => comparisons_with(&self.inventory, names, longest),
            false => 0,
        };
        let unknown = STEPS_PER_LISTED.saturating_mul(self.steps_of_unknown(longest, actions));
        members
            .saturating_add(compared)
            .saturating_mul(STEPS_PER_COMPARISON)
            .saturating_add(unknown)
            .saturating_add(1)
    }

    fn steps_of_name(&self, name: &str, actions: usize) -> usize {
        match self.inventory.id(name) {
            Some(id) => 1 + steps_of_members(self.inventory.related(id).len()),
            None => self.steps_of_unknown(name.len(), actions),
        }
    }

    /// For each action, an unknown name is looked up among the patterns of the roles.
    fn steps_of_unknown(&self, length: usize, actions: usize) -> usize {
        let compared = self.patterns.compared_len().saturating_mul(1 + length / BYTES_PER_STEP);
        actions.saturating_mul(compared.saturating_add(1))
    }

    /// The matches of a pattern are kept. `is_repeated`: the need before has the same target, so
    /// that its matches are used again.
    fn steps_of_pattern(&self, pattern: &str, actions: usize, is_repeated: bool) -> usize {
        let times = if is_repeated { 1 } else { STEPS_PER_COMPARISON };
        let unknown = self.steps_of_unknown(pattern.len(), actions);
        comparisons(&self.inventory, pattern).saturating_mul(times).saturating_add(unknown)
    }
}

/// The steps of the members of an alias.
fn steps_of_members(members: usize) -> usize {
    STEPS_PER_COMPARISON * (members / MEMBERS_PER_COMPARISON)
}

fn comparisons(inventory: &Inventory, pattern: &str) -> usize {
    let (prefix, suffix) = pattern.split_once('*').unwrap_or((pattern, ""));
    let range = inventory.with_prefix(prefix);
    // A range of names is added at once, but the members of its aliases one by one.
    let members = inventory.members_in(range.clone()) / MEMBERS_PER_COMPARISON;
    let compared = match suffix {
        "" => 0,
        _ => comparisons_with(inventory, range, pattern.len()),
    };
    inventory.len() as usize / NAMES_PER_COMPARISON + members + compared
}

/// The comparisons of a pattern of this length with a range of names. A comparison with a long
/// pattern or name counts several times.
fn comparisons_with(inventory: &Inventory, range: Range<u32>, pattern_len: usize) -> usize {
    let names = range.len().max(inventory.bytes_in(range) / BYTES_PER_STEP);
    names.saturating_mul(1 + pattern_len / PATTERN_PER_COMPARISON)
}

#[cfg(test)]
mod tests;
