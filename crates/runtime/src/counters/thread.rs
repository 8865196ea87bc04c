//! The counters of one worker thread. Only that thread writes them, so no update is an atomic read-modify-write across cores.

use std::sync::OnceLock;
use std::time::Duration;

use super::counter::Counter;
use super::histogram::Recorder;
use super::{ErrorKind, Totals};

/// Maximum number of reasons that are counted separately. There are about thirty.
const REASONS: usize = 64;

/// The counters of one worker thread. Aligned, so that two threads never share a cache line.
#[derive(Debug)]
#[repr(align(128))]
pub struct ThreadCounters {
    allowed: Counter,
    denied: [(OnceLock<&'static str>, Counter); REASONS],
    errors: [Counter; ErrorKind::ALL.len()],
    check: Recorder,
    evaluation: Recorder,
    tokens_verified: Counter,
}

impl Default for ThreadCounters {
    fn default() -> Self {
        Self {
            allowed: Counter::default(),
            denied: std::array::from_fn(|_| Default::default()),
            errors: Default::default(),
            check: Recorder::default(),
            evaluation: Recorder::default(),
            tokens_verified: Counter::default(),
        }
    }
}

impl ThreadCounters {
    /// Counts a request that was allowed.
    pub fn allowed(&self) {
        self.allowed.increment();
    }

    /// Counts a request that was denied for this reason.
    pub fn denied(&self, reason: &'static str) {
        let slot = self.denied.iter().find(|(name, _)| *name.get_or_init(|| reason) == reason);
        if let Some((_, count)) = slot {
            count.increment();
        }
    }

    /// Counts a request that got an error.
    pub fn error(&self, kind: ErrorKind) {
        let counts = ErrorKind::ALL.iter().zip(&self.errors);
        counts.filter(|(each, _)| **each == kind).for_each(|(_, count)| count.increment());
    }

    /// Counts a token that was verified.
    pub fn token_verified(&self) {
        self.tokens_verified.increment();
    }

    /// Records how long it took to authorize a decoded request: to parse it, to find its caller, and to evaluate the rules.
    pub fn evaluated(&self, duration: Duration) {
        self.evaluation.record(duration, 1);
    }

    /// Records the latency of `answers` answers: from their complete requests until they were passed to the transport.
    pub fn record_latency(&self, latency: Duration, answers: u64) {
        self.check.record(latency, answers);
    }

    pub(super) fn add_to(&self, totals: &mut Totals) {
        totals.allowed += self.allowed.read();
        totals.tokens_verified += self.tokens_verified.read();
        totals.errors.iter_mut().zip(&self.errors).for_each(|((_, sum), count)| *sum += count.read());
        self.check.add_to(&mut totals.check);
        self.evaluation.add_to(&mut totals.evaluation);
        for (name, count) in &self.denied {
            let Some(name) = name.get() else { break };
            match totals.denied.iter_mut().find(|(each, _)| each == name) {
                Some((_, sum)) => *sum += count.read(),
                None => totals.denied.push((name, count.read())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_the_sum_over_all_threads() {
        let threads = [ThreadCounters::default(), ThreadCounters::default()];
        for thread in &threads {
            thread.allowed();
            thread.denied("missing_credentials");
            thread.error(ErrorKind::Framing);
            thread.evaluated(Duration::from_micros(3));
            thread.record_latency(Duration::from_micros(5), 2);
        }
        threads[1].denied("denied");
        let totals = Totals::sum(threads.iter());
        assert_eq!(totals.allowed, 2);
        assert_eq!(totals.denied, [("missing_credentials", 2), ("denied", 1)]);
        let errors: Vec<_> = totals.errors.into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(errors, [(ErrorKind::Framing, 2)]);
        assert_eq!((totals.evaluation.count(), totals.evaluation.sum()), (2, Duration::from_micros(6)));
        assert_eq!((totals.check.count(), totals.check.sum()), (4, Duration::from_micros(20)));
    }
}
