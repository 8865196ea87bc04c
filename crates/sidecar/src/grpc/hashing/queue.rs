//! Which password is hashed next, and which is displaced when the queue is full.
//!
//! A flood of wrong passwords brings more than can be hashed; then the order decides who is hashed:
//!
//! 1. Credentials that were verified before come first: nobody who does not know a password can send them.
//! 2. Then the source with the fewest attempts lately that were not right. So a caller who shares no network with the flood
//!    waits for one hash, not for the whole queue. An attempt counts when it comes, not when it is hashed: else a source
//!    whose attempts are all displaced would never be counted.
//! 3. Within that the newest: it has the most time left before its client gives up. First in, first out hashes each password
//!    just as its client gives up once more come than can be hashed (measured in November 2026: 0 of 6 sign-ins beside 150
//!    wrong passwords per second with a timeout of 2 s).
//!
//! The one that is displaced is the last by the same order. All searches are linear in the entries, of which there are 256
//! by default.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::source::Source;

/// Passwords that wait for a thread, of type `T`.
#[derive(Debug)]
pub(super) struct Queue<T> {
    /// In the order of their arrival.
    entries: Vec<Entry<T>>,
    max_entries: usize,
    attempts: Attempts,
}

/// A password that waits.
#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) source: Source,
    /// Whether these credentials were right before: only who knows the password can send them.
    pub(super) verified_before: bool,
    pub(super) item: T,
}

/// How many passwords each source has sent lately that were not right, or are not known to be.
#[derive(Debug, Default)]
struct Attempts(HashMap<Source, Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    /// At `at`; it halves each [`HALF_LIFE`].
    count: f64,
    at: Instant,
}

/// Half-life of the count. Long enough to remember a source that sends a password every few seconds; short enough to forgive
/// somebody who mistyped.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// How many sources are remembered: 4,096 take less than half a MiB.
const MAX_SOURCES: usize = 4096;

impl<T> Queue<T> {
    pub(super) fn new(max_entries: usize) -> Self {
        Self { entries: Vec::new(), max_entries: max_entries.max(1), attempts: Attempts::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry. Where the queue is full, the last by the order is displaced and returned, which may be the new one.
    pub(super) fn push(&mut self, entry: Entry<T>, now: Instant) -> Option<T> {
        self.attempts.add(entry.source, 1.0, now);
        self.entries.push(entry);
        if self.entries.len() <= self.max_entries {
            return None;
        }
        let last = (0..self.entries.len()).max_by_key(|place| self.order(*place, now))?;
        Some(self.entries.remove(last).item)
    }

    /// The entry that is hashed next, which leaves the queue.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Entry<T>> {
        let next = (0..self.entries.len()).min_by_key(|place| self.order(*place, now))?;
        Some(self.entries.remove(next))
    }

    pub(super) fn find(&mut self, is_it: impl Fn(&T) -> bool) -> Option<&mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.item).find(|item| is_it(item))
    }

    pub(super) fn remove(&mut self, is_it: impl Fn(&T) -> bool) {
        self.entries.retain(|entry| !is_it(&entry.item));
    }

    /// Takes back an attempt of a source: the password was right.
    pub(super) fn right(&mut self, source: Source, now: Instant) {
        self.attempts.add(source, -1.0, now);
    }

    /// What comes first is the least: see the head of this file.
    fn order(&self, place: usize, now: Instant) -> Option<(bool, u32, Reverse<usize>)> {
        let entry = self.entries.get(place)?;
        Some((!entry.verified_before, self.attempts.rank(entry.source, now), Reverse(place)))
    }
}

impl Attempts {
    fn of(&self, source: Source, now: Instant) -> f64 {
        self.0.get(&source).map_or(0.0, |count| count.now(now))
    }

    /// The attempts by powers of two, so that sources with about as many are equal, and the newest of them comes first: by
    /// the exact numbers the oldest would, since its one attempt has become a little less.
    fn rank(&self, source: Source, now: Instant) -> u32 {
        let attempts = self.of(source, now);
        let (mut rank, mut bound) = (0, std::f64::consts::SQRT_2);
        while attempts >= bound && rank < 32 {
            (rank, bound) = (rank + 1, bound * 2.0);
        }
        rank
    }

    fn add(&mut self, source: Source, more: f64, now: Instant) {
        let count = (self.of(source, now) + more).max(0.0);
        if self.0.len() >= MAX_SOURCES && !self.0.contains_key(&source) {
            self.forget_half(now);
        }
        self.0.insert(source, Count { count, at: now });
    }

    /// Forgets the sources with the fewest attempts: half at once, so that a new source costs little on average.
    fn forget_half(&mut self, now: Instant) {
        let mut counts: Vec<f64> = self.0.values().map(|count| count.now(now)).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable_by(middle, f64::total_cmp);
        let median = *median;
        self.0.retain(|_, count| count.now(now) > median);
    }
}

impl Count {
    fn now(self, now: Instant) -> f64 {
        let past = now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.count * (-past).exp2()
    }
}

#[cfg(test)]
mod tests;
