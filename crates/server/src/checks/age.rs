//! The maximum age of a connection. Then the peer is asked to open a new connection, which may
//! reach another instance.

use std::hash::{BuildHasher as _, RandomState};
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Sleep, sleep};

/// Ages differ by up to this part, so that connections that were opened together do not end
/// together.
const JITTER: u32 = 10;

/// The timer of a connection; `None` if ages are unlimited.
#[derive(Debug)]
pub(crate) struct Age(Option<Pin<Box<Sleep>>>);

impl Age {
    /// Starts the timer. The age is `max`, or up to a tenth less; `None` means no limit.
    pub(crate) fn start(max: Option<Duration>) -> Self {
        Self(max.map(|max| Box::pin(sleep(shorten(max, random())))))
    }

    /// Whether the connection is too old. Called first with the task that serves the connection, it
    /// wakes that task when it becomes so.
    pub(crate) fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        self.0.as_mut().is_some_and(|timer| timer.as_mut().poll(cx).is_ready())
    }
}

/// A random number. The standard library takes the keys of each hasher from the system.
fn random() -> u32 {
    u32::try_from(RandomState::new().hash_one(0) >> 32).unwrap_or_default()
}

fn shorten(max: Duration, random: u32) -> Duration {
    max - (max / JITTER).mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_differ_by_a_tenth_at_most() {
        let max = Duration::from_secs(100);
        assert_eq!(shorten(max, 0), max);
        assert_eq!(shorten(max, u32::MAX), Duration::from_secs(90));
        assert_ne!(random(), random());
    }
}
