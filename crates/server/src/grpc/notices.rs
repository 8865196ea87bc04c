//! Events that somebody on call should know about: each is counted by its kind, and logged at most once per interval and
//! kind, because peers try again and again.
//!
//! All workers share these counters. Only connections and requests that fail come here, so they cost the others nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Counts events by kind, and tells which of them to log.
#[derive(Debug)]
pub(super) struct Notices<K: 'static> {
    kinds: &'static [K],
    seen: Box<[Seen]>,
    start: Instant,
}

#[derive(Debug, Default)]
struct Seen {
    count: AtomicU64,
    /// The time before which none is logged, in milliseconds since the start.
    quiet_until: AtomicU64,
}

/// The least time between two log lines about the same kind.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

impl<K: Copy + PartialEq> Notices<K> {
    /// For events of these kinds.
    pub(super) fn new(kinds: &'static [K]) -> Self {
        Self { kinds, seen: kinds.iter().map(|_| Seen::default()).collect(), start: Instant::now() }
    }

    /// Counts an event. Returns whether to log it: not if one of its kind was logged a short time ago.
    #[must_use]
    pub(super) fn notice(&self, kind: K) -> bool {
        self.notice_at(kind, self.start.elapsed())
    }

    fn notice_at(&self, kind: K, now: Duration) -> bool {
        let place = self.kinds.iter().position(|each| *each == kind);
        let Some(seen) = place.and_then(|place| self.seen.get(place)) else { return false };
        seen.count.fetch_add(1, Relaxed);
        let until = seen.quiet_until.load(Relaxed);
        // Of several threads at once, one logs.
        milliseconds(now) >= until
            && seen
                .quiet_until
                .compare_exchange(until, milliseconds(now + LOG_INTERVAL), Relaxed, Relaxed)
                .is_ok()
    }

    /// How often each kind was noticed. Each is listed.
    pub(super) fn counts(&self) -> Vec<(K, u64)> {
        self.kinds.iter().zip(&self.seen).map(|(kind, seen)| (*kind, seen.count.load(Relaxed))).collect()
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_per_interval_and_always_counted() {
        let notices = Notices::new(&['a', 'b']);
        let at = |kind, seconds| notices.notice_at(kind, Duration::from_secs(seconds));
        assert_eq!([at('a', 0), at('a', 1), at('b', 1), at('a', 9)], [true, false, true, false]);
        assert_eq!([at('a', 10), at('b', 10), at('a', 11)], [true, false, false]);
        assert_eq!(notices.counts(), [('a', 5), ('b', 2)]);
    }
}
