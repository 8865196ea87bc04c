//! Expressions with patterns, and the names that they stand for: kept, because the same ones come again and again.

use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use foldhash::HashMap;
use foldhash::fast::RandomState;
use roaring::RoaringBitmap;

use crate::expression::{Expression, Options};
use crate::narrow::MAX_TARGET;

/// Threads wait for each other only within one of these.
const SHARDS: usize = 16;

/// How many expressions a shard keeps. When it is full, it starts anew.
const MAX_EXPRESSIONS: usize = 64;

/// How many ranges of names are looked for one by one.
const MAX_RANGES: usize = 8;

/// Longer expressions are not kept. Any path that a node accepts is shorter. 1,024 of them take 4 MB.
const MAX_LENGTH: usize = 4_096;

/// Expressions that were resolved.
#[derive(Debug, Default)]
pub(super) struct Expressions {
    shards: [Mutex<Shard>; SHARDS],
    /// Random, as that of each shard: callers cannot choose expressions that collide.
    seed: RandomState,
}

/// Expressions by their text, with the options of the last request that had it.
type Shard = HashMap<Box<str>, (Options, Arc<Expanded>)>;

/// The names that an expression stands for.
#[derive(Debug)]
pub(super) struct Expanded {
    pub(super) names: RoaringBitmap,
    /// Aliases by which indices among them are reached.
    pub(super) replaced: RoaringBitmap,
    /// The names as ranges, first and last, if there are few.
    ranges: Box<[(u32, u32)]>,
    /// Whether the plugin may take a request for them for one about the index of Dashboards alone. Working
    /// it out takes three times as long as the rest of the decision.
    pub(super) is_of_dashboards: bool,
    /// What is forwarded in place of the expression, once that was needed.
    in_place: OnceLock<Option<Names>>,
}

/// What is forwarded in place of an expression.
#[derive(Debug)]
pub(super) struct Names {
    /// The names, percent-encoded.
    pub(super) list: Box<str>,
    /// Whether the cluster is told to leave out names that do not exist any more.
    pub(super) may_be_missing: bool,
    /// Whether one of them is an alias that a pattern matches.
    pub(super) has_matched_alias: bool,
}

impl Expanded {
    pub(super) fn new(mut names: RoaringBitmap, replaced: RoaringBitmap, is_of_dashboards: bool) -> Self {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in &names {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == number => *last = number,
                Some(_) | None => ranges.push((number, number)),
            }
            if ranges.len() > MAX_RANGES {
                ranges.clear();
                break;
            }
        }
        names.remove_run_compression();
        Self { names, replaced, ranges: ranges.into(), is_of_dashboards, in_place: OnceLock::new() }
    }

    /// What is forwarded in place of the expression; `None` if nothing can be. It is made when first asked for.
    pub(super) fn names_in_place(&self, make: impl FnOnce() -> Option<Names>) -> Option<&Names> {
        self.in_place.get_or_init(|| make().filter(|names| names.list.len() <= MAX_TARGET)).as_ref()
    }

    /// Whether all names are among these. The names of a prefix are one range, which is found in a tenth of
    /// the time that 2,000 single names take.
    pub(super) fn is_subset(&self, of: &RoaringBitmap) -> bool {
        if self.ranges.is_empty() {
            return self.names.is_subset(of);
        }
        self.ranges.iter().all(|(first, last)| of.contains_range(*first..=*last))
    }
}

impl Expressions {
    /// Holds every lock.
    #[cfg(test)]
    pub(super) fn lock_all(&self) -> Vec<std::sync::MutexGuard<'_, Shard>> {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// The names that an expression stands for. They are worked out by `expand` if they are not kept. An
    /// expression with names that the inventory lacks is `None`, and is not kept.
    pub(super) fn names(
        &self,
        expression: &Expression<'_>,
        expand: impl FnOnce() -> Option<Expanded>,
    ) -> Option<Arc<Expanded>> {
        let (text, options) = (expression.text(), expression.options);
        let hash = usize::try_from(self.seed.hash_one(text) >> 32).unwrap_or_default();
        let shard = self.shards.get(hash % SHARDS)?;
        let lock = || shard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((kept, names)) = lock().get(text)
            && *kept == options
        {
            return Some(names.clone());
        }
        let names = Arc::new(expand()?);
        if text.len() <= MAX_LENGTH {
            let mut shard = lock();
            if shard.len() >= MAX_EXPRESSIONS {
                shard.clear();
            }
            shard.insert(text.into(), (options, names.clone()));
        }
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expressions_that_are_kept_are_bounded_in_number_and_length() {
        let expressions = Expressions::default();
        let ask = |text: &str| {
            let none = RoaringBitmap::new;
            let expand = || Some(Expanded::new(none(), none(), false));
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
