//! Samples of the counters, for the rates, percentiles and charts of the last minutes.
//!
//! The counters count since the start. A sample is taken every few seconds on the admin's thread,
//! and kept for fifteen minutes. Of the histograms it has only the buckets that are not empty: all
//! samples together take about 300 KiB.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runtime::counters::ErrorKind;
use server::admin::PageSources;

/// Interval between two samples.
pub(crate) const INTERVAL: Duration = Duration::from_secs(5);
/// The short window.
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
/// The long window.
pub(crate) const FIVE_MINUTES: Duration = Duration::from_secs(300);
/// The time that the charts span, and for which samples are kept.
pub(crate) const FIFTEEN_MINUTES: Duration = Duration::from_secs(900);

/// A point of a chart spans the time between this many samples: 15 s.
const SAMPLES_PER_POINT: u64 = 3;
/// Minimum time of the last point, which is not complete yet: rates over less time say little.
const MIN_POINT: Duration = Duration::from_secs(1);

/// The samples with their numbers, the oldest first.
#[derive(Debug)]
pub(crate) struct History(Mutex<VecDeque<(u64, Sample)>>);

/// The counts between two samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) errors: u64,
    /// Of the whole check, in nanoseconds; `None` if there was none.
    pub(crate) p99: Option<u64>,
}

/// The counters at one moment, since the start.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    counts: Counts,
}

/// Counts since the start or in a window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) allowed: u64,
    /// By reason.
    pub(crate) denied: Vec<(&'static str, u64)>,
    pub(crate) errors: Vec<(ErrorKind, u64)>,
    /// The times from a complete request to its answer. Each bucket of the histogram is its upper
    /// bound in nanoseconds and its count.
    pub(crate) check: Vec<(u64, u64)>,
    /// The times to authorize a request, without the wait for a verification, in such buckets.
    pub(crate) evaluation: Vec<(u64, u64)>,
    /// How the decisions of the shadow policy compare, by result.
    pub(crate) shadow: Vec<(&'static str, u64)>,
    /// Failures of the server, with their hints.
    pub(crate) failure_counts: Vec<((&'static str, &'static str), u64)>,
    /// Lines of the decision log and spans that were dropped.
    pub(crate) lines_dropped: u64,
    /// Passwords that were not hashed because the queue was full.
    pub(crate) hashes_denied: u64,
}

/// The counts of the last minute or minutes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Window {
    /// Shorter than asked for if the process has not run for so long.
    pub(crate) length: Duration,
    pub(crate) counts: Counts,
}

impl Sample {
    /// The counters now.
    pub(crate) fn take(sources: &PageSources) -> Self {
        let totals = sources.checks.decisions();
        let shadow = sources.shadow.iter().flat_map(|shadow| shadow.results());
        let failure_counts = sources.checks.failure_counts().into_iter();
        let exported = [&sources.otlp.traces, &sources.otlp.logs].into_iter().flatten();
        let counts = Counts {
            allowed: totals.allowed,
            check: totals.check.buckets().collect(),
            evaluation: totals.evaluation.buckets().collect(),
            denied: totals.denied,
            errors: totals.errors,
            shadow: shadow.collect(),
            failure_counts: failure_counts
                .map(|failure| ((failure.what, failure.hint), failure.count))
                .collect(),
            lines_dropped: sources.decisions.dropped()
                + exported.map(|counts| counts.dropped()).sum::<u64>(),
            hashes_denied: sources.checks.hashing().denied,
        };
        Self { at: Instant::now(), counts }
    }

    /// How old this sample was when `later` was taken.
    fn age_at(&self, later: &Self) -> Duration {
        later.at.saturating_duration_since(self.at)
    }
}

impl History {
    /// A history with one sample, from the start, when all counters are zero. So the first window
    /// also counts failures that came before any sample was taken.
    pub(crate) fn new(start: Instant) -> Self {
        let sample = Sample { at: start, counts: Counts::default() };
        Self(Mutex::new(VecDeque::from([(0, sample)])))
    }

    /// Adds a sample, and drops samples that are too old.
    pub(crate) fn add(&self, sample: Sample) {
        let mut samples = self.lock();
        while samples.front().is_some_and(|(_, old)| old.age_at(&sample) > FIFTEEN_MINUTES) {
            samples.pop_front();
        }
        let number = samples.back().map_or(0, |(number, _)| number + 1);
        samples.push_back((number, sample));
    }

    /// The counts of a window that ends now. It begins with the last sample that is at least
    /// `length` old, or else with the oldest sample.
    pub(crate) fn window(&self, now: &Sample, length: Duration) -> Window {
        let samples = self.lock();
        let start = samples.iter().rev().find(|(_, sample)| sample.age_at(now) >= length);
        let Some((_, start)) = start.or_else(|| samples.front()) else { return Window::default() };
        Window { length: start.age_at(now), counts: now.counts.minus(&start.counts) }
    }

    /// The points of the charts until now, the oldest first.
    pub(crate) fn points(&self, now: &Sample) -> Vec<Point> {
        let samples = self.lock();
        let bounds = samples.iter().filter(|(number, _)| number % SAMPLES_PER_POINT == 0);
        let bounds: Vec<&Sample> = bounds.map(|(_, sample)| sample).chain([now]).collect();
        let points = bounds.iter().zip(bounds.iter().skip(1));
        let points = points.filter(|(start, end)| start.age_at(end) >= MIN_POINT);
        points.map(|(start, end)| Point::new(start, end)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(u64, Sample)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Point {
    fn new(start: &Sample, end: &Sample) -> Self {
        let counts = end.counts.minus(&start.counts);
        Self {
            start: start.at,
            end: end.at,
            allowed: counts.allowed,
            denied: counts.all_denied(),
            errors: counts.all_errors(),
            p99: percentile(&counts.check, 990),
        }
    }
}

impl Counts {
    /// These counts without those of a shorter window, or of an earlier sample.
    pub(crate) fn minus(&self, before: &Self) -> Self {
        Self {
            allowed: self.allowed.saturating_sub(before.allowed),
            denied: difference(&self.denied, &before.denied),
            errors: difference(&self.errors, &before.errors),
            check: difference(&self.check, &before.check),
            evaluation: difference(&self.evaluation, &before.evaluation),
            shadow: difference(&self.shadow, &before.shadow),
            failure_counts: difference(&self.failure_counts, &before.failure_counts),
            lines_dropped: self.lines_dropped.saturating_sub(before.lines_dropped),
            hashes_denied: self.hashes_denied.saturating_sub(before.hashes_denied),
        }
    }

    pub(crate) fn all_denied(&self) -> u64 {
        self.denied.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn all_errors(&self) -> u64 {
        self.errors.iter().map(|(_, count)| count).sum()
    }

    /// `None` without checks.
    pub(crate) fn percent_denied(&self) -> Option<u64> {
        (self.all_denied() * 100).checked_div(self.checks())
    }

    /// Checks that got a decision or an error.
    pub(crate) fn checks(&self) -> u64 {
        self.allowed + self.all_denied() + self.all_errors()
    }
}

/// The count of a key.
pub(crate) fn count_of<K: PartialEq>(counts: &[(K, u64)], key: &K) -> u64 {
    counts.iter().find(|(counted_key, _)| counted_key == key).map_or(0, |(_, count)| *count)
}

/// How much each count has grown, if it has.
fn difference<K: Copy + PartialEq>(now: &[(K, u64)], before: &[(K, u64)]) -> Vec<(K, u64)> {
    let grown = now.iter().map(|(key, count)| (*key, count.saturating_sub(count_of(before, key))));
    grown.filter(|(_, count)| *count > 0).collect()
}

/// A percentile of the durations in `buckets`: the upper bound of the bucket that it falls in. For
/// p99, `thousandths` is 990. `None` without durations.
pub(crate) fn percentile(buckets: &[(u64, u64)], thousandths: u64) -> Option<u64> {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    let rank = total.saturating_mul(thousandths).div_ceil(1000).max(1);
    let mut sum = 0;
    buckets.iter().find_map(|(bound, count)| {
        sum += count;
        (sum >= rank).then_some(*bound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at: Instant, allowed: u64, denied: &[(&'static str, u64)]) -> Sample {
        Sample { at, counts: Counts { allowed, denied: denied.to_vec(), ..Counts::default() } }
    }

    #[test]
    fn a_window_is_the_difference_to_the_sample_before_it() {
        let start = Instant::now();
        let history = History::new(start);
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in (5..=600).step_by(5) {
            history.add(sample(at(second), second, &[("denied", second / 2)]));
        }
        let now = sample(at(602), 602, &[("denied", 300), ("not_allowed", 7)]);
        let minute = history.window(&now, MINUTE);
        assert_eq!((minute.length, minute.counts.allowed), (Duration::from_secs(62), 62));
        assert_eq!(minute.counts.denied, [("denied", 30), ("not_allowed", 7)]);
        assert_eq!(minute.counts.checks(), 99);
        assert_eq!(history.window(&now, FIVE_MINUTES).length, Duration::from_secs(302));
        assert!(history.lock().len() <= 181);
    }

    #[test]
    fn the_points_are_bounded_and_without_gaps() {
        let start = Instant::now();
        let history = History::new(start);
        let at = |seconds| start + Duration::from_secs(seconds);
        for second in (5..=3600).step_by(5) {
            history.add(sample(at(second), 10 * second, &[("denied", second)]));
        }
        let points = history.points(&sample(at(3602), 36_020, &[("denied", 3603)]));
        assert_eq!(points.len(), 61);
        assert!(points.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert!(points[..60].iter().all(|point| (point.allowed, point.denied) == (150, 15)));
        let last = points.last().unwrap();
        assert_eq!((last.start, last.end, last.allowed, last.denied), (at(3600), at(3602), 20, 3));
        let soon = history.points(&sample(start + Duration::from_millis(3_600_500), 36_005, &[]));
        assert_eq!(soon.len(), 60, "half a second is no point");
    }

    #[test]
    fn soon_after_the_start_a_window_is_shorter() {
        let start = Instant::now();
        let history = History::new(start);
        let now = sample(start + Duration::from_secs(3), 12, &[]);
        let window = history.window(&now, MINUTE);
        assert_eq!((window.length, window.counts.allowed), (Duration::from_secs(3), 12));
    }

    #[test]
    fn percentiles_are_bounds_of_buckets() {
        let buckets = [(100, 50), (200, 49), (900, 1)];
        assert_eq!(percentile(&buckets, 500), Some(100));
        assert_eq!(percentile(&buckets, 990), Some(200));
        assert_eq!(percentile(&buckets, 999), Some(900));
        assert_eq!(percentile(&[], 500), None);
    }
}
