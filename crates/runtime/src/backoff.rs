//! When to fetch again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// Pause after the first failed fetch. It doubles with each further failure.
const RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The pause after so many failed fetches in a row; `None` after a successful one.
pub(crate) fn retry(failures: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(1)?.min(10);
    Some(RETRY.saturating_mul(1 << doublings).min(LONGEST_RETRY))
}

/// Up to a tenth shorter, so that many processes do not fetch at the same moment.
pub(crate) fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1000;
    let less = pause / 10_000 * u32::try_from(random).unwrap_or(0);
    pause.saturating_sub(less)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST_RETRY, jittered, retry};

    #[test]
    fn retries_slow_down() {
        let pauses: Vec<u64> =
            (0..9).filter_map(|failures| Some(retry(failures)?.as_secs())).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(retry(u32::MAX), Some(LONGEST_RETRY));
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
