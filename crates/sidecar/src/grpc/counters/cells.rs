//! The counters of one worker: only its thread writes them, so no operation is a read-modify-write across cores.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use super::{ErrorKind, Totals};

/// A number that one thread writes and any thread reads.
#[derive(Debug, Default)]
pub(in super::super) struct Tally(AtomicU64);

impl Tally {
    pub(in super::super) fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    pub(in super::super) fn one_more(&self) {
        self.add(1);
    }

    pub(in super::super) fn one_less(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(1), Relaxed);
    }

    pub(in super::super) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How many names of reasons are told apart. There are about thirty.
const REASONS: usize = 64;
/// Buckets: the first ends at 1.024 µs, each other at twice the one before, the last but one at 1.07 s.
const BUCKETS: usize = 22;
/// The first bucket ends at two to this many nanoseconds.
const FIRST: u32 = 10;

/// All that one worker counts. Aligned, so that two workers never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(in super::super) struct Worker {
    allowed: Tally,
    refused: [(OnceLock<&'static str>, Tally); REASONS],
    errors: [Tally; ErrorKind::ALL.len()],
    buckets: [Tally; BUCKETS],
    nanoseconds: Tally,
    pub(in super::super) in_flight: Tally,
    pub(in super::super) connections: Tally,
    pub(in super::super) accepted: Tally,
    pub(in super::super) evicted: Tally,
}

impl Default for Worker {
    fn default() -> Self {
        Self {
            allowed: Tally::default(),
            refused: std::array::from_fn(|_| Default::default()),
            errors: Default::default(),
            buckets: Default::default(),
            nanoseconds: Tally::default(),
            in_flight: Tally::default(),
            connections: Tally::default(),
            accepted: Tally::default(),
            evicted: Tally::default(),
        }
    }
}

impl Worker {
    pub(in super::super) fn allowed(&self) {
        self.allowed.one_more();
    }

    pub(in super::super) fn refused(&self, reason: &'static str) {
        let slot = self.refused.iter().find(|(name, _)| *name.get_or_init(|| reason) == reason);
        if let Some((_, count)) = slot {
            count.one_more();
        }
    }

    pub(in super::super) fn error(&self, kind: ErrorKind) {
        let counts = ErrorKind::ALL.iter().zip(&self.errors);
        counts.filter(|(each, _)| **each == kind).for_each(|(_, count)| count.one_more());
    }

    pub(in super::super) fn took(&self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.add(nanoseconds);
        if let Some(count) = self.buckets.get(bucket(nanoseconds)) {
            count.one_more();
        }
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        totals.allowed += self.allowed.read();
        totals.in_flight += self.in_flight.read();
        totals.connections += self.connections.read();
        totals.connections_accepted += self.accepted.read();
        totals.connections_evicted += self.evicted.read();
        totals.durations.sum += Duration::from_nanos(self.nanoseconds.read());
        totals.errors.iter_mut().zip(&self.errors).for_each(|((_, sum), count)| *sum += count.read());
        let buckets = totals.durations.buckets.iter_mut().zip(&self.buckets);
        buckets.for_each(|((_, sum), count)| *sum += count.read());
        for (name, count) in &self.refused {
            let Some(name) = name.get() else { break };
            match totals.refused.iter_mut().find(|(each, _)| each == name) {
                Some((_, sum)) => *sum += count.read(),
                None => totals.refused.push((name, count.read())),
            }
        }
    }
}

/// The buckets with their bounds, all empty.
pub(super) fn empty_buckets() -> Vec<(Duration, u64)> {
    let bound = |place: u32| Duration::from_nanos(1 << (FIRST + place));
    let bounded = (0..).take(BUCKETS - 1).map(bound);
    bounded.chain([Duration::MAX]).map(|bound| (bound, 0)).collect()
}

/// The place of the bucket that a duration falls into: bounds are inclusive, as Prometheus has them.
fn bucket(nanoseconds: u64) -> usize {
    let over = nanoseconds.saturating_sub(1) >> FIRST;
    usize::try_from(u64::BITS - over.leading_zeros()).map_or(BUCKETS - 1, |place| place.min(BUCKETS - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_up_what_each_worker_counted() {
        let workers = [Worker::default(), Worker::default()];
        for worker in &workers {
            worker.allowed();
            worker.refused("no_proof");
            worker.error(ErrorKind::Framing);
            worker.took(Duration::from_micros(3));
            worker.in_flight.one_more();
        }
        workers[1].refused("denied");
        workers[1].in_flight.one_less();
        let totals = Totals::sum(workers.iter());
        assert_eq!((totals.allowed, totals.in_flight), (2, 1));
        assert_eq!(totals.refused, [("no_proof", 2), ("denied", 1)]);
        let errors: Vec<_> = totals.errors.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, [(ErrorKind::Framing, 2)]);
        assert_eq!(totals.durations.sum, Duration::from_micros(6));
        assert_eq!(totals.durations.buckets[2], (Duration::from_nanos(4096), 2));
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let bounds = empty_buckets();
        for nanoseconds in [0, 1, 1023, 1024, 1025, 2048, 2049, 1 << 30, (1 << 30) + 1, u64::MAX] {
            let duration = Duration::from_nanos(nanoseconds);
            let first = bounds.iter().position(|(bound, _)| duration <= *bound);
            assert_eq!(Some(bucket(nanoseconds)), first, "{nanoseconds}");
        }
    }
}
