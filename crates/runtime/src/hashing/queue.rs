//! Decides which password is hashed next, and which is displaced when the queue is full.
//!
//! In a flood of wrong passwords, more passwords arrive than can be hashed. Three criteria decide
//! which credentials come first. A criterion counts only between credentials that are equal by the
//! criteria above it:
//!
//! 1. Credentials that were verified before: nobody can send them without knowing the password.
//! 2. Credentials from the networks with the fewest recent failed attempts.
//! 3. The newest credentials: the client that sent old credentials may no longer wait.
//!
//! When the queue is full, the last entry in this order is displaced. All searches are linear, in
//! at most 256 entries by default.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use crate::client_network::ClientNetwork;

/// Passwords that wait for a thread. `T` is the queued item.
#[derive(Debug)]
pub(super) struct Queue<T> {
    entries: Vec<Entry<T>>,
    max_entries: usize,
    attempts: Attempts,
}

#[derive(Debug)]
pub(super) struct Entry<T> {
    pub(super) network: ClientNetwork,
    /// Whether these credentials were verified before: the sender knows the password.
    pub(super) was_verified_before: bool,
    pub(super) item: T,
}

/// The number of recent attempts of each network whose credentials were wrong, or were not verified
/// yet.
#[derive(Debug, Default)]
struct Attempts(HashMap<ClientNetwork, Count>);

#[derive(Clone, Copy, Debug)]
struct Count {
    /// The value at `at`. It halves every [`HALF_LIFE`].
    count: f64,
    at: Instant,
}

/// Half-life of a count. A network that sends a password every few seconds stays last, and a
/// mistyped password soon has no effect.
const HALF_LIFE: Duration = Duration::from_secs(30);
/// Maximum number of networks whose attempts are counted: 4,096 take less than half a MiB.
const MAX_NETWORKS: usize = 4096;

impl<T> Queue<T> {
    pub(super) fn new(max_entries: usize) -> Self {
        Self { entries: Vec::new(), max_entries: max_entries.max(1), attempts: Attempts::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry. If the queue is full, removes and returns the last entry, perhaps this entry.
    pub(super) fn push(&mut self, entry: Entry<T>, now: Instant) -> Option<T> {
        self.attempts.add(entry.network, 1.0, now);
        self.entries.push(entry);
        if self.entries.len() <= self.max_entries {
            return None;
        }
        let last = (0..self.entries.len()).max_by_key(|place| self.order(*place, now))?;
        Some(self.entries.remove(last).item)
    }

    /// Removes and returns the entry to hash next.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Entry<T>> {
        let next = (0..self.entries.len()).min_by_key(|place| self.order(*place, now))?;
        Some(self.entries.remove(next))
    }

    /// Removes and returns all entries.
    pub(super) fn take_all(&mut self) -> Vec<Entry<T>> {
        mem::take(&mut self.entries)
    }

    pub(super) fn find(&mut self, matches: impl Fn(&T) -> bool) -> Option<&mut T> {
        self.entries.iter_mut().map(|entry| &mut entry.item).find(|item| matches(item))
    }

    pub(super) fn remove(&mut self, matches: impl Fn(&T) -> bool) {
        self.entries.retain(|entry| !matches(&entry.item));
    }

    /// Subtracts an attempt of a network. Its password was right, or could not be verified.
    pub(super) fn forgive_attempt(&mut self, network: ClientNetwork, now: Instant) {
        self.attempts.add(network, -1.0, now);
    }

    /// The sort key of an entry: the smallest comes first. See the module's documentation.
    fn order(&self, place: usize, now: Instant) -> Option<(bool, u32, Reverse<usize>)> {
        let entry = self.entries.get(place)?;
        Some((!entry.was_verified_before, self.attempts.rank(entry.network, now), Reverse(place)))
    }
}

impl Attempts {
    fn current(&self, network: ClientNetwork, now: Instant) -> f64 {
        self.0.get(&network).map_or(0.0, |count| count.value_at(now))
    }

    /// The binary logarithm of the number of attempts, rounded. So networks with about as many
    /// attempts share a rank, and the newest entry among theirs comes first. Exact counts would
    /// favour the oldest entry, because its attempt has decayed a little.
    fn rank(&self, network: ClientNetwork, now: Instant) -> u32 {
        let attempts = self.current(network, now);
        let (mut rank, mut bound) = (0, std::f64::consts::SQRT_2);
        while attempts >= bound && rank < 32 {
            (rank, bound) = (rank + 1, bound * 2.0);
        }
        rank
    }

    fn add(&mut self, network: ClientNetwork, change: f64, now: Instant) {
        let count = (self.current(network, now) + change).max(0.0);
        if self.0.len() >= MAX_NETWORKS && !self.0.contains_key(&network) {
            self.evict_half(now);
        }
        self.0.insert(network, Count { count, at: now });
    }

    /// Evicts the half of the networks with the fewest attempts, and those with as many as the
    /// median. Evicting so many at once keeps adding a network cheap on average.
    fn evict_half(&mut self, now: Instant) {
        let mut counts: Vec<f64> = self.0.values().map(|count| count.value_at(now)).collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable_by(middle, f64::total_cmp);
        let median = *median;
        self.0.retain(|_, count| count.value_at(now) > median);
    }
}

impl Count {
    fn value_at(self, now: Instant) -> f64 {
        let half_lives =
            now.saturating_duration_since(self.at).as_secs_f64() / HALF_LIFE.as_secs_f64();
        self.count * (-half_lives).exp2()
    }
}

#[cfg(test)]
mod tests;
