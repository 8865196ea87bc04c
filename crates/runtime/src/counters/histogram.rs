//! Histograms of durations. Recording a duration only adds to two counters.
//!
//! There is one bucket per nanosecond up to 128 ns, then 64 per power of two, up to 69 s. The
//! width of a bucket is 1 ns, or at most 1/64 of any duration in it: fine enough for high
//! percentiles. Upper bounds are inclusive, as in Prometheus. Every power of two is a bound, so the
//! few buckets of `/metrics` are exact.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Counter;

/// Each power of two has 2^`FINE` buckets.
const FINE: u32 = 6;
/// The bound of the last bucket is 2^`LAST` nanoseconds. Longer durations are counted there, too.
const LAST: u32 = 36;
const BUCKETS: usize = ((LAST - FINE + 1) as usize) << FINE;

/// The durations recorded by one thread: 16 KiB, of which a busy server uses few cache lines.
#[derive(Debug)]
pub struct Recorder {
    counts: Box<[Counter]>,
    /// The sum of the durations.
    nanoseconds: Counter,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            counts: std::iter::repeat_with(Counter::default).take(BUCKETS).collect(),
            nanoseconds: Counter::default(),
        }
    }
}

impl Recorder {
    /// Records `number` durations of equal length.
    pub fn record(&self, duration: Duration, number: u64) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.add(nanoseconds.wrapping_mul(number));
        if let Some(count) = self.counts.get(bucket(nanoseconds)) {
            count.add(number);
        }
    }

    /// Adds the recorded durations to a distribution.
    pub fn add_to(&self, distribution: &mut Distribution) {
        distribution.counts.resize(BUCKETS, 0);
        distribution.sum += Duration::from_nanos(self.nanoseconds.read());
        let sums = distribution.counts.iter_mut().zip(&self.counts);
        sums.for_each(|(sum, count)| *sum += count.read());
    }
}

/// The distribution of durations over all threads, since the start.
#[derive(Clone, Debug, Default)]
pub struct Distribution {
    /// Counts by index of the bucket. Empty means that all are zero.
    counts: Vec<u64>,
    sum: Duration,
}

impl Distribution {
    /// The sum of all durations.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The number of durations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The buckets that are not empty, in order: inclusive upper bound in nanoseconds, and count
    /// (not cumulative).
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let buckets = self.counts.iter().enumerate().map(|(index, count)| (bound(index), *count));
        buckets.filter(|(_, count)| *count > 0)
    }

    /// The distribution in few buckets, empty buckets included. The bounds are two to the power of
    /// each of `powers`, in nanoseconds; the last bucket has no bound.
    pub fn coarse(&self, powers: RangeInclusive<u32>) -> Vec<(Option<Duration>, u64)> {
        let bounds = powers.map(|power| Some(Duration::from_nanos(1 << power))).chain([None]);
        let mut coarse: Vec<_> = bounds.map(|bound| (bound, 0)).collect();
        for (bound, count) in self.buckets() {
            let bound = Duration::from_nanos(bound);
            let mut buckets = coarse.iter_mut();
            let bucket = buckets.find(|(upper, _)| upper.is_none_or(|upper| bound <= upper));
            bucket.into_iter().for_each(|(_, sum)| *sum += count);
        }
        coarse
    }
}

impl FromIterator<Duration> for Distribution {
    fn from_iter<T: IntoIterator<Item = Duration>>(durations: T) -> Self {
        let recorder = Recorder::default();
        durations.into_iter().for_each(|duration| recorder.record(duration, 1));
        let mut distribution = Self::default();
        recorder.add_to(&mut distribution);
        distribution
    }
}

/// The index of the bucket for a duration: the first bucket whose bound is at least the duration.
fn bucket(nanoseconds: u64) -> usize {
    // Bounds are inclusive, and the formula needs exclusive ones: it uses 1 ns less.
    let below = nanoseconds.saturating_sub(1).min((1 << LAST) - 1);
    let shift = (u64::BITS - below.leading_zeros()).saturating_sub(FINE + 1);
    // At most 29 × 64 + 127, the index of the last bucket.
    usize::try_from((u64::from(shift) << FINE) + (below >> shift)).unwrap_or(BUCKETS - 1)
}

/// The largest duration in the bucket with this index, in nanoseconds.
fn bound(index: usize) -> u64 {
    let doublings = (index >> FINE).saturating_sub(1);
    let within = index - (doublings << FINE);
    (u64::try_from(within).unwrap_or(u64::MAX) + 1) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durations() -> impl Iterator<Item = u64> {
        let near =
            |power: u32| (0..5).map(move |more: u64| (1_u64 << power).saturating_sub(2) + more);
        (0..200)
            .chain((0..64).flat_map(near))
            .chain((0..12).map(|power| 7_u64.pow(power)))
            .chain([u64::MAX])
    }

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        for nanoseconds in durations() {
            let index = bucket(nanoseconds);
            let last = index == BUCKETS - 1;
            assert!(nanoseconds <= bound(index) || last, "{nanoseconds}");
            assert!(index == 0 || nanoseconds > bound(index - 1), "{nanoseconds}");
        }
    }

    #[test]
    fn each_bucket_is_at_most_a_64th_wide() {
        for index in 1..BUCKETS {
            let (before, bound) = (bound(index - 1), bound(index));
            assert!(
                before < bound && (bound - before <= 1 || (bound - before) * 64 <= before),
                "{bound}"
            );
        }
        assert_eq!(bound(BUCKETS - 1), 1 << LAST);
    }

    #[test]
    fn threads_are_summed_up() {
        let recorders = [Recorder::default(), Recorder::default()];
        recorders[0].record(Duration::from_nanos(1_000), 2);
        recorders[1].record(Duration::from_nanos(1_000), 1);
        recorders[1].record(Duration::from_secs(100), 1);
        let mut sum = Distribution::default();
        recorders.iter().for_each(|recorder| recorder.add_to(&mut sum));
        assert_eq!((sum.count(), sum.sum()), (4, Duration::from_nanos(100_000_003_000)));
        assert_eq!(sum.buckets().collect::<Vec<_>>(), [(1_000, 3), (1 << LAST, 1)]);
    }

    #[test]
    fn coarse_buckets_count_exactly_up_to_their_bounds() {
        let all: Distribution = durations().map(Duration::from_nanos).collect();
        let mut up_to = 0;
        for (bound, count) in all.coarse(10..=30) {
            up_to += count;
            let bound = bound.map_or(u64::MAX, |bound| u64::try_from(bound.as_nanos()).unwrap());
            let wanted = durations().filter(|duration| *duration <= bound).count();
            assert_eq!(up_to, u64::try_from(wanted).unwrap(), "{bound}");
        }
    }
}
