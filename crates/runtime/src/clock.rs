//! The wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time since the Unix epoch. A clock set before the epoch reads as the end of time, at which
/// every token and cached password is expired; at zero none would be.
#[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
pub fn now() -> Duration {
    since_epoch(SystemTime::now())
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_before_the_epoch_reads_as_the_end_of_time() {
        let second = Duration::from_secs(1);
        assert_eq!(since_epoch(UNIX_EPOCH + second), second);
        assert_eq!(since_epoch(UNIX_EPOCH - second), Duration::MAX);
    }
}
