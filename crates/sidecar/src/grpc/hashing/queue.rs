//! Which password is hashed next, and which gives way when the queue is full.
//!
//! A flood of wrong passwords brings more than can be hashed; then the order decides who gets in:
//!
//! 1. Credentials that were verified before come first: nobody who does not know a password can send them.
//! 2. Then the source with the fewest attempts lately that were not right. So whoever does not share a network with the
//!    flood waits for one hash, not for the whole queue. An attempt counts when it comes, not when it is hashed: else a
//!    source whose attempts all give way would never be known for its flood.
//! 3. Within that the newest: whoever came last waits the longest yet. First in, first out hashes each password just as
//!    its client gives up once more come than can be hashed (measured in November 2026: 0 of 6 sign-ins beside 150 wrong
//!    passwords per second with a timeout of 2 s).
//!
//! The one that gives way is the last by the same order. All searches are linear: there are 256 entries and some dozens of
//! hashes per second.

use std::cmp::Ordering;
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

/// In this time a source's past counts half. Long enough to remember one that sends a password every few seconds; short
/// enough to forgive somebody who mistyped.
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

    /// Adds an entry. Where the queue is full, the last in line gives way and is returned, which may be the new one.
    pub(super) fn push(&mut self, entry: Entry<T>, now: Instant) -> Option<T> {
        self.attempts.add(entry.source, 1.0, now);
        self.entries.push(entry);
        if self.entries.len() <= self.max_entries {
            return None;
        }
        let last = (0..self.entries.len()).max_by(|one, other| self.order(*one, *other, now))?;
        Some(self.entries.remove(last).item)
    }

    /// The entry that is hashed next, which leaves the queue.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Entry<T>> {
        let next = (0..self.entries.len()).min_by(|one, other| self.order(*one, *other, now))?;
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

    /// Which of two entries is hashed first: the one that is `Less`.
    fn order(&self, one: usize, other: usize, now: Instant) -> Ordering {
        let (Some(a), Some(b)) = (self.entries.get(one), self.entries.get(other)) else {
            return Ordering::Equal;
        };
        let attempts = |entry: &Entry<T>| self.attempts.of(entry.source, now);
        b.verified_before
            .cmp(&a.verified_before)
            .then_with(|| attempts(a).total_cmp(&attempts(b)))
            .then_with(|| other.cmp(&one))
    }
}

impl Attempts {
    fn of(&self, source: Source, now: Instant) -> f64 {
        self.0.get(&source).map_or(0.0, |count| count.now(now))
    }

    fn add(&mut self, source: Source, more: f64, now: Instant) {
        let count = (self.of(source, now) + more).max(0.0);
        if self.0.len() >= MAX_SOURCES && !self.0.contains_key(&source) {
            let least = self.0.iter().min_by(|(_, one), (_, other)| one.now(now).total_cmp(&other.now(now)));
            if let Some(least) = least.map(|(source, _)| *source) {
                self.0.remove(&least);
            }
        }
        self.0.insert(source, Count { count, at: now });
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
