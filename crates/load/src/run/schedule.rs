//! Computes when each request is intended to start, without a clock.

use std::time::Duration;

use crate::plan::Rate;

/// The intended start of each request, in nanoseconds from the start of the warm-up. The warm-up
/// has the initial rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    from: f64,
    to: f64,
    /// The length of the warm-up, in seconds.
    warmup: f64,
    /// The time over which the rate changes, in seconds.
    over: f64,
}

impl Schedule {
    /// The schedule for a rate; `None` for a closed loop.
    pub(super) fn new(rate: Rate, warmup: Duration, over: Duration) -> Option<Self> {
        let (from, to) = match rate {
            Rate::Constant(rate) => (rate, rate),
            Rate::Ramp { from, to } => (from, to),
            Rate::Max => return None,
        };
        Some(Self { from, to, warmup: warmup.as_secs_f64(), over: over.as_secs_f64() })
    }

    pub(super) fn warming(&self) -> u64 {
        whole((self.from * self.warmup).ceil())
    }

    pub(super) fn due(&self, n: u64) -> u64 {
        let n = n as f64;
        let before = self.from * self.warmup;
        let seconds = if n < before || self.is_even() {
            n / self.from
        } else {
            self.warmup + self.ramped(n - before)
        };
        whole((seconds * 1e9).round())
    }

    /// The number of requests that are due before `moment`.
    pub(super) fn before(&self, moment: u64) -> u64 {
        let seconds = moment as f64 / 1e9;
        let count = if seconds < self.warmup || self.is_even() {
            self.from * seconds
        } else {
            let t = seconds - self.warmup;
            self.from * self.warmup + self.from * t + self.slope() * t * t / 2.0
        };
        // A request due exactly at `moment` is not before it. Rounding may be off by a little in
        // either direction.
        let near = whole(count.ceil());
        let low = near.saturating_sub(2);
        (low..near.saturating_add(2)).find(|n| self.due(*n) >= moment).unwrap_or(near)
    }

    /// When `n` requests of a ramp are due: the solution of from·t + slope·t²/2 = n.
    fn ramped(&self, n: f64) -> f64 {
        let root = (self.from * self.from + 2.0 * self.slope() * n).max(0.0).sqrt();
        2.0 * n / (self.from + root).max(f64::MIN_POSITIVE)
    }

    fn slope(&self) -> f64 {
        (self.to - self.from) / self.over
    }

    #[expect(clippy::float_cmp, reason = "both are the same number where the rate is constant")]
    fn is_even(&self) -> bool {
        self.from == self.to
    }
}

/// A float as a whole number; 0 if it is negative or not a number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, as is meant"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn schedule(rate: Rate, warmup: u64) -> Schedule {
        Schedule::new(rate, Duration::from_secs(warmup), Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn an_even_rate_is_even_also_after_hours() {
        let even = schedule(Rate::Constant(3.0), 2);
        assert_eq!(even.due(0), 0);
        assert_eq!(even.due(1), 333_333_333);
        assert_eq!(even.due(3 * 86_400), 86_400 * SECOND);
        assert_eq!(even.warming(), 6);
        assert_eq!(even.before(10 * SECOND), 30);
        assert_eq!(even.before(10 * SECOND + 1), 31);
    }

    #[test]
    fn a_ramp_goes_evenly_from_one_rate_to_the_other() {
        let ramp = schedule(Rate::Ramp { from: 100.0, to: 300.0 }, 1);
        // 100 in the warm-up, then ten seconds at 200 on average.
        assert_eq!(ramp.before(SECOND), 100);
        assert_eq!(ramp.before(11 * SECOND), 2100);
        let in_first = ramp.before(2 * SECOND) - ramp.before(SECOND);
        let in_last = ramp.before(11 * SECOND) - ramp.before(10 * SECOND);
        assert_eq!((in_first, in_last), (110, 290));
        for n in 1..2100 {
            assert!(ramp.due(n) > ramp.due(n - 1));
        }
    }

    #[test]
    fn a_ramp_may_begin_or_end_at_nothing() {
        let up = schedule(Rate::Ramp { from: 0.0, to: 100.0 }, 0);
        let down = schedule(Rate::Ramp { from: 100.0, to: 0.0 }, 0);
        assert_eq!(up.before(10 * SECOND), 500);
        assert_eq!(down.before(10 * SECOND), 500);
        assert!(up.due(1) > SECOND / 10 && down.due(1) < SECOND / 90);
    }
}
