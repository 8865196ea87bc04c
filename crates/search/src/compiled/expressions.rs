//! A cache of expressions with patterns, and the names that they stand for.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use foldhash::HashMap;
use foldhash::fast::RandomState;
use roaring::RoaringBitmap;

use crate::concrete::NamesInPlace;
use crate::expression::{Expression, Options};
use crate::inventory::Inventory;

/// Threads wait for each other only if they use the same shard.
const SHARDS: usize = 16;

/// How many expressions a shard keeps. A full shard is emptied.
const MAX_EXPRESSIONS: usize = 64;

/// A set of names may be kept as runs (ranges of numbers that follow each other) instead of bits.
/// It is kept as runs only up to this size, which suffices for some dozens of runs.
const MAX_RUN_BYTES: usize = 256;

/// Longer expressions are not kept. No path is as long. 1,024 expressions of this length take 4 MB.
const MAX_LENGTH: usize = 4_096;

/// Expressions that were resolved.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    shards: [Mutex<Shard>; SHARDS],
    /// Random, like the seed of each shard: callers cannot choose expressions that collide.
    seed: RandomState,
}

/// Expressions by their text, with the options of the last request that had it.
type Shard = HashMap<Box<str>, (Options, Arc<ExpandedNames>)>;

/// The names that an expression stands for.
#[derive(Debug)]
pub(super) struct ExpandedNames {
    pub(super) names: RoaringBitmap,
    /// Aliases by which the expression reaches some of the names.
    pub(super) replaced_aliases: RoaringBitmap,
    /// Whether the plugin may treat a request for these names as a request about the index of
    /// Dashboards alone. Finding out takes three times as long as the rest of the decision.
    pub(super) is_of_dashboards: bool,
    /// The names that are forwarded in place of the expression. Made when first needed.
    in_place: OnceLock<Option<NamesInPlace>>,
}

impl ExpandedNames {
    pub(super) fn new(
        mut names: RoaringBitmap,
        replaced_aliases: RoaringBitmap,
        is_of_dashboards: bool,
    ) -> Self {
        // A subset test takes a tenth of the time if 2,000 names of a prefix are a single run. Many
        // short runs are slower than bits, which are compared 64 at once.
        names.optimize();
        if names.serialized_size() > MAX_RUN_BYTES {
            names.remove_run_compression();
        }
        Self { names, replaced_aliases, is_of_dashboards, in_place: OnceLock::new() }
    }

    /// The names that are forwarded in place of the expression.
    pub(super) fn in_place(
        &self,
        inventory: &Inventory,
        expression: &Expression<'_>,
    ) -> Option<&NamesInPlace> {
        self.in_place.get_or_init(|| NamesInPlace::new(inventory, expression, &self.names)).as_ref()
    }
}

impl Expressions {
    /// The names that an expression stands for, from the cache or from `expand`. `None` is not
    /// cached: the expression has names that the inventory lacks.
    pub(super) fn names(
        &self,
        expression: &Expression<'_>,
        expand: impl FnOnce() -> Option<ExpandedNames>,
    ) -> Option<Arc<ExpandedNames>> {
        let (text, options) = (expression.text(), expression.options);
        let hash = usize::try_from(self.seed.hash_one(text) >> 32).unwrap_or_default();
        let shard = self.shards.get(hash % SHARDS)?;
        if let Some((kept, names)) = lock(shard).get(text)
            && *kept == options
        {
            return Some(names.clone());
        }
        let names = Arc::new(expand()?);
        if text.len() <= MAX_LENGTH {
            let mut shard = lock(shard);
            if shard.len() >= MAX_EXPRESSIONS {
                shard.clear();
            }
            shard.insert(text.into(), (options, names.clone()));
        }
        Some(names)
    }

    #[cfg(test)]
    pub(super) fn lock_all(&self) -> Vec<MutexGuard<'_, Shard>> {
        self.shards.iter().map(lock).collect()
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::narrow::MAX_TARGET;

    #[test]
    fn the_expressions_that_are_kept_are_bounded_in_number_and_length() {
        let expressions = Expressions::default();
        let ask = |text: &str| {
            let none = RoaringBitmap::new;
            let expand = || Some(ExpandedNames::new(none(), none(), false));
            expressions.names(&Expression::new(text, Options::OPEN), expand).unwrap();
        };
        let kept = || expressions.lock_all().iter().map(|shard| shard.len()).sum::<usize>();
        ask(&"a".repeat(MAX_LENGTH + 1));
        assert_eq!(kept(), 0);
        ask(&"a".repeat(MAX_TARGET));
        assert_eq!(kept(), 1, "one that was decided about is not resolved again to be forwarded");
        (0..20_000).for_each(|number| ask(&format!("a{number}*")));
        assert!((1..=SHARDS * MAX_EXPRESSIONS).contains(&kept()), "{}", kept());
    }
}
