//! Bounds the work for the names and patterns of a request.
//!
//! A client chooses how many there are. Each pattern may be compared with every name of the
//! inventory, and each unknown name with the patterns of the roles. The thread serves no other
//! request meanwhile.

use std::ops::Range;

use crate::expression::Part;
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::problem::Problem;
use crate::steps::Steps;

use super::Privileges;

/// The most steps of a request: 35 ms at 50 ns a step, some 100 ms at worst (extrapolated from
/// requests of seconds, November 2026). Only a single name or pattern may take more.
const MAX_STEPS: usize = 700_000;

/// A pattern is compared with a name of the inventory three times: to decide, for the names that
/// are forwarded in its place, and for the missing ones. 20 patterns
/// such as `*-errors` with 10,000 indices that also have an alias are within the bound. 1.9 million
/// comparisons, each made five times, took 0.3 to 1.3 s (November 2026).
const STEPS_PER_COMPARISON: usize = 3;

/// Names in an expression are looked up twice: to decide, and to list the missing ones.
const TIMES_OF_LISTED: usize = 2;

/// Up to so many needs of single names are free: counting them costs a bulk request too much.
const FREE_NAMES: usize = 1_000;

/// Longer names are always counted.
const FREE_LENGTH: usize = 64;

/// Bytes of a name that are compared in a step. 200 bytes took 900 ns at worst (November 2026).
const BYTES_PER_STEP: usize = 32;

/// Shorter patterns take about the same time in a comparison.
const PATTERN_PER_COMPARISON: usize = 64;

/// Names that an operation on whole bitmaps handles in about the time of one comparison.
const NAMES_PER_COMPARISON: usize = 128;

/// Members of an alias that are added to a bitmap in about the time of one comparison.
const MEMBERS_PER_COMPARISON: usize = 8;

impl Privileges {
    /// Whether the needs of a request can be decided in a bounded time. Ask before
    /// [`Self::decide`].
    ///
    /// # Errors
    /// If it has too many patterns for the contents of the cluster, or too many unknown names.
    pub fn bound(&self, needs: &[Need<'_>]) -> Result<(), Problem> {
        let parts = needs.iter().map(|need| need.target.size()).fold(0, usize::saturating_add);
        if parts.saturating_mul(self.worst_steps(needs)) <= MAX_STEPS {
            return Ok(());
        }
        // The client does not choose how long a single part takes.
        if parts == 1 {
            return Ok(());
        }
        let mut steps = Steps::new(MAX_STEPS);
        // Each may be an alias of many indices.
        let largest = self.inventory.largest_group();
        let counts_names = needs.len() > FREE_NAMES
            || needs.len().saturating_mul(steps_of_members(largest)) > MAX_STEPS;
        let too_many = Problem::Unsupported("so many patterns or unknown names of indices");
        let mut last = None;
        for need in needs {
            let is_repeated = last.replace(&need.target) == Some(&need.target);
            self.take_steps(need, counts_names, is_repeated, &mut steps).ok_or(too_many)?;
        }
        Ok(())
    }

    /// Takes the steps of a need. Short single names are free unless `counts_names` is set.
    fn take_steps(
        &self,
        need: &Need<'_>,
        counts_names: bool,
        is_repeated: bool,
        steps: &mut Steps,
    ) -> Option<()> {
        let actions = need.actions.len();
        match &need.target {
            Target::Cluster => Some(()),
            Target::Name(name) | Target::Missing(name) | Target::AddedName(name) => {
                match counts_names || name.len() > FREE_LENGTH {
                    true => steps.take(self.steps_of_name(name, actions)),
                    false => Some(()),
                }
            }
            Target::Indices(expression) | Target::Fixed(expression) => {
                expression.parts().try_for_each(|part| match part {
                    Part::Name(name) => steps
                        .take(TIMES_OF_LISTED.saturating_mul(self.steps_of_name(name, actions))),
                    Part::Except(name) if !name.contains('*') => steps.take(1),
                    Part::Pattern(pattern) | Part::Except(pattern) => {
                        steps.take(self.steps_of_pattern(pattern, actions, is_repeated))
                    }
                })
            }
        }
    }

    /// The most steps that one part of these needs takes.
    fn worst_steps(&self, needs: &[Need<'_>]) -> usize {
        let longest = needs.iter().map(|need| need.target.text().len()).max().unwrap_or_default();
        let actions = needs.iter().map(|need| need.actions.len()).max().unwrap_or_default();
        let members = self.inventory.memberships() / MEMBERS_PER_COMPARISON;
        let compared = comparisons_with(&self.inventory, 0..self.inventory.len(), longest);
        let unknown = TIMES_OF_LISTED.saturating_mul(self.steps_of_unknown(longest, actions));
        members
            .saturating_add(compared)
            .saturating_mul(STEPS_PER_COMPARISON)
            .saturating_add(unknown)
    }

    fn steps_of_name(&self, name: &str, actions: usize) -> usize {
        match self.inventory.number(name) {
            Some(number) => 1 + steps_of_members(self.inventory.related(number).len()),
            None => self.steps_of_unknown(name.len(), actions),
        }
    }

    /// An unknown name is looked up among the patterns of the roles for each action.
    fn steps_of_unknown(&self, length: usize, actions: usize) -> usize {
        let compared = self.patterns.others_len().saturating_mul(1 + length / BYTES_PER_STEP);
        actions.saturating_mul(compared.saturating_add(1))
    }

    /// The names of a pattern are kept for the needs that repeat it.
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
    let (prefix, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
    let range = inventory.with_prefix(prefix);
    // A range of names is added as a whole, but the members of the aliases in it one by one.
    let members = inventory.members_in(range.clone()) / MEMBERS_PER_COMPARISON;
    let compared =
        if rest.is_empty() { 0 } else { comparisons_with(inventory, range, pattern.len()) };
    inventory.len() as usize / NAMES_PER_COMPARISON + members + compared
}

/// The comparisons of a pattern of some length with a range of names. Long ones count as several.
fn comparisons_with(inventory: &Inventory, range: Range<u32>, pattern: usize) -> usize {
    let names = range.len().max(inventory.bytes_in(range) / BYTES_PER_STEP);
    names.saturating_mul(1 + pattern / PATTERN_PER_COMPARISON)
}

#[cfg(test)]
mod tests;
