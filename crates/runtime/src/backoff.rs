//! When to fetch again.

use std::time::Duration;

use tokio::time::Instant;

/// Pause after the first failed fetch. It doubles with each further failure.
const MIN_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Minimum time between a requested fetch and the fetch before it. Requests that come sooner share
/// a fetch after this time.
pub(crate) const REQUEST_INTERVAL: Duration = Duration::from_secs(3);

/// The time of the next fetch after this number of failures in a row.
pub(crate) fn next_fetch(failures: u32, interval: Duration) -> Instant {
    let pause = if failures == 0 { interval } else { pause_after(failures).min(interval) };
    Instant::now() + jittered(pause)
}

/// The pause after this number of failures in a row. The number is at least one.
pub(crate) fn pause_after(failures: u32) -> Duration {
    MIN_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(MAX_PAUSE)
}

/// Makes a pause up to a tenth shorter, so that many processes do not fetch at the same moment.
pub(crate) fn jittered(pause: Duration) -> Duration {
    pause.saturating_sub(pause / 10_000 * fastrand::u32(..1000))
}

/// Whole seconds until then, for a log line.
pub(crate) fn seconds_until(next: Instant) -> f64 {
    next.saturating_duration_since(Instant::now()).as_secs_f64().ceil().max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_slow_down() {
        let pauses: Vec<u64> = (1..9).map(|failures| pause_after(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause_after(u32::MAX), MAX_PAUSE);
    }

    #[test]
    fn jitter_is_a_tenth_at_most() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(300));
            assert!(
                (Duration::from_secs(270)..=Duration::from_secs(300)).contains(&pause),
                "{pause:?}"
            );
        }
    }
}
