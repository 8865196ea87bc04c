//! Bounds the work for the names and patterns of a request.
//!
//! A client chooses how many there are. Each pattern may be compared with every name of the inventory, and each name that the
//! inventory lacks with the patterns of the roles; the thread that does so serves no other request meanwhile.

use crate::expression::Part;
use crate::inventory::Inventory;
use crate::need::{Need, Target};
use crate::problem::Problem;
use crate::steps::Steps;

use super::Privileges;

/// How many comparisons a request may need. Chosen, not measured: at some 15 ns each, 30 ms, and up to three times as long if the
/// request is denied. With 10,000 indices they are enough for a hundred patterns that begin with `*`, and for thousands such as `logs-*`.
const MAX_COMPARISONS: usize = 2_000_000;

/// Up to so many needs of single names are not counted: looking each name up would cost a usual bulk request more than it protects.
const FREE_NAMES: usize = 1_000;

/// Names that an operation on whole bitmaps handles in about the time of one comparison.
const NAMES_PER_STEP: usize = 64;

impl Privileges {
    /// Whether what a request needs can be decided in a bounded time. To be asked before it is decided.
    ///
    /// # Errors
    /// If it names too many patterns for what the cluster contains, or too many names that the cluster lacks.
    pub fn bound(&self, needs: &[Need<'_>]) -> Result<(), Problem> {
        let parts = needs.iter().map(|need| need.target.size()).fold(0, usize::saturating_add);
        if parts.saturating_mul(self.worst_comparisons()) <= MAX_COMPARISONS {
            return Ok(());
        }
        let mut steps = Steps::new(MAX_COMPARISONS);
        let counts_names = needs.len() > FREE_NAMES;
        let mut take = |need: &Need<'_>| match &need.target {
            Target::Cluster => Some(()),
            Target::Name(name) | Target::Missing(name) | Target::AddedName(name) => match counts_names {
                true => steps.take(self.comparisons_of_name(name)),
                false => Some(()),
            },
            Target::Indices(expression) | Target::Fixed(expression) => {
                expression.parts().try_for_each(|part| match part {
                    Part::Name(name) => steps.take(self.comparisons_of_name(name)),
                    Part::Except(name) if !name.contains('*') => steps.take(1),
                    Part::Pattern(pattern) | Part::Except(pattern) => {
                        steps.take(self.comparisons_of_pattern(pattern))
                    }
                })
            }
        };
        let too_many = Problem::Unsupported("so many patterns or unknown names of indices");
        needs.iter().try_for_each(&mut take).ok_or(too_many)
    }

    /// At most so many comparisons does one part need.
    fn worst_comparisons(&self) -> usize {
        let of_inventory = self
            .inventory
            .as_deref()
            .map_or(0, |inventory| 2 * inventory.len() as usize + inventory.memberships());
        1 + self.patterns.others_len() + of_inventory
    }

    fn comparisons_of_name(&self, name: &str) -> usize {
        let known =
            self.inventory.as_deref().and_then(|inventory| Some((inventory, inventory.number(name)?)));
        match known {
            Some((inventory, number)) => 1 + inventory.related(number).len(),
            None => 1 + self.patterns.others_len(),
        }
    }

    fn comparisons_of_pattern(&self, pattern: &str) -> usize {
        let of_inventory = self.inventory.as_deref().map_or(0, |inventory| comparisons(inventory, pattern));
        1 + self.patterns.others_len() + of_inventory
    }
}

fn comparisons(inventory: &Inventory, pattern: &str) -> usize {
    let (prefix, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
    let range = inventory.with_prefix(prefix);
    // A range of names is added as a whole, but the members of the aliases in it one by one.
    let members = inventory.members_in(range.clone());
    let compared = if rest.is_empty() { 0 } else { range.len() };
    inventory.len() as usize / NAMES_PER_STEP + members + compared
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use policy::MapFiles;

    use super::*;
    use crate::{
        Action, EvaluationSettings, Expression, InventoryBuilder, Options, Resolution, SecurityConfig,
    };

    const TOO_MANY: Result<(), Problem> =
        Err(Problem::Unsupported("so many patterns or unknown names of indices"));

    fn privileges(indices: usize) -> Privileges {
        let roles = "_meta: { type: roles, config_version: 2 }\n\
            r: { index_permissions: [{ index_patterns: ['*-a', '/b.*/'], allowed_actions: [read] }] }\n";
        let config =
            SecurityConfig::load(&MapFiles::of("os/roles.yml", roles), Path::new("os")).unwrap().config;
        let mut builder = InventoryBuilder::default();
        for number in 0..indices {
            builder.index(&format!("logs-{number}"), true, false);
        }
        builder.alias(
            "all",
            (0..indices)
                .map(|number| format!("logs-{number}"))
                .collect::<Vec<_>>()
                .iter()
                .map(String::as_str),
        );
        let inventory = Some(Arc::new(builder.build())).filter(|_| indices > 0);
        Privileges::new(Arc::new(config), EvaluationSettings::default(), Resolution::MappingOnly, inventory)
    }

    fn search<'a>(target: Target<'a>) -> Need<'a> {
        const SEARCH: &[Action] = &[Action::of("indices:data/read/search")];
        Need { actions: SEARCH, target, is_copied: false, shows_hidden_terms: false, adds_names: false }
    }

    fn listed(part: &str, count: usize) -> Need<'static> {
        let text = vec![part; count].join(",");
        search(Target::Fixed(Expression::new(text, Options::OPEN)))
    }

    #[test]
    fn patterns_are_bounded_by_what_they_are_compared_with() {
        let large = privileges(10_000);
        assert_eq!(large.bound(&[listed("*9", 80)]), Ok(()));
        // Each is compared with 10,000 names, and adds the members of the alias that it may match.
        assert_eq!(large.bound(&[listed("*9", 300)]), TOO_MANY);
        assert_eq!(large.bound(&vec![listed("*9", 1); 300]), TOO_MANY, "in several needs");
        assert_eq!(large.bound(&[listed("logs-*", 5_000)]), Ok(()));
        assert_eq!(large.bound(&[listed("logs-*9", 300)]), TOO_MANY);
        // Each adds the 10,000 members of the alias.
        assert_eq!(large.bound(&[listed("a*", 300)]), TOO_MANY);
        assert_eq!(large.bound(&[listed("all", 300)]), TOO_MANY);
        assert_eq!(large.bound(&[listed("*,-*9", 80)]), TOO_MANY);
        assert_eq!(privileges(10).bound(&[listed("*9", 10_000)]), Ok(()));
    }

    #[test]
    fn names_are_bounded_by_the_patterns_that_they_are_compared_with() {
        let small = privileges(0);
        let name = || search(Target::Missing("none".into()));
        assert_eq!(small.bound(&[listed("none", 50_000)]), Ok(()));
        assert_eq!(small.bound(&vec![name(); 50_000]), Ok(()));
        assert_eq!(small.bound(&vec![name(); 700_000]), TOO_MANY);
    }
}
