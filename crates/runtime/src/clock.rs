//! The wall clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The current time since the Unix epoch. A clock set before the epoch reads as the epoch, at which no token is
/// valid.
#[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
