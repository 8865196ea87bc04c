//! The clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Now, since the Unix epoch; a clock set before it reads as the epoch, at which no token is valid.
#[expect(clippy::disallowed_methods, reason = "this is the place that reads the clock")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
