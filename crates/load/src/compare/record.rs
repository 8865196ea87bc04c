//! The measurements by scenario and rate: each round separately, and the distribution of all of them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::procfs::Usage;
use crate::report::units;
use crate::{Measured, histogram};

/// All measurements.
#[derive(Debug, Default)]
pub struct Record {
    cells: BTreeMap<(usize, usize), Entry>,
}

/// One scenario at one rate.
#[derive(Debug)]
pub struct Entry {
    /// Sorted by round.
    pub rounds: Vec<Round>,
    /// All rounds: from the intended start to the end of the response.
    pub latency: Histogram<u64>,
    /// All rounds: the time inside the server, if it reports it.
    pub handler: Histogram<u64>,
    /// All rounds: only the evaluation, if the server reports it.
    pub evaluation: Histogram<u64>,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// The number of the round.
    pub number: usize,
    /// Responses per second.
    pub achieved: f64,
    /// Latency in nanoseconds, corrected: mean, p50, p90, p99.
    pub latency: Latency,
    /// The usage of application, Envoy and server.
    pub parts: [Part; 3],
    /// The cores that the generator used.
    pub generator: f64,
    /// Requests without a response, and responses other than 200.
    pub wrong: u64,
    /// Why the generator was the limit, if it was.
    pub limited: Option<String>,
}

/// The latencies of one round that are compared, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Latency {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
}

/// The usage of one process in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// The number of cores it used.
    pub cores: f64,
    /// Resident bytes at the end of the round.
    pub resident: u64,
}

/// A value over several rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Record {
    /// The entry of a scenario at a rate, if it was measured.
    #[must_use]
    pub fn at(&self, scenario: usize, rate: usize) -> Option<&Entry> {
        self.cells.get(&(scenario, rate))
    }

    /// The entry to add a round to.
    pub fn entry(&mut self, scenario: usize, rate: usize) -> &mut Entry {
        self.cells.entry((scenario, rate)).or_default()
    }

    /// Every round, with its scenario and its rate.
    pub fn rounds(&self) -> impl Iterator<Item = (usize, usize, &Round)> {
        self.cells.iter().flat_map(|((scenario, rate), it)| it.rounds.iter().map(|it| (*scenario, *rate, it)))
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self { rounds: Vec::new(), latency: histogram(), handler: histogram(), evaluation: histogram() }
    }
}

impl Entry {
    /// Adds a round. Its histograms have the same bounds, so nothing is lost.
    pub fn add(&mut self, round: Round, measured: &Measured) {
        self.rounds.push(round);
        let _ = self.latency.add(&measured.corrected);
    }

    /// The spread of a value over the rounds; `None` without rounds.
    #[must_use]
    pub fn spread(&self, of: impl Fn(&Round) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(of).collect())
    }
}

impl Round {
    /// The median latency, in nanoseconds.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.latency.p50
    }

    /// The p99 of the latency, in nanoseconds.
    #[must_use]
    pub fn p99(&self) -> f64 {
        self.latency.p99
    }

    /// The round of this run, in which the processes went from `before` to `after` within `seconds`.
    #[must_use]
    pub fn new(number: usize, of: &Measured, before: [Usage; 3], after: [Usage; 3], seconds: f64) -> Self {
        let at = |percent| units::float(of.corrected.value_at_percentile(percent));
        let part = |(before, after): (Usage, Usage)| Part {
            cores: units::float(after.ran.saturating_sub(before.ran)) / 1e9 / seconds.max(1e-9),
            resident: after.resident,
        };
        let [app, envoy, server] = before;
        let [app_after, envoy_after, server_after] = after;
        Self {
            number,
            achieved: of.own.achieved,
            latency: Latency { mean: of.corrected.mean(), p50: at(50.0), p90: at(90.0), p99: at(99.0) },
            parts: [(app, app_after), (envoy, envoy_after), (server, server_after)].map(part),
            generator: of.own.cpu.as_secs_f64() / of.elapsed.as_secs_f64().max(1e-9),
            wrong: of.errors() + of.unexpected,
            limited: of.own.limited.clone(),
        }
    }
}

impl Spread {
    /// The spread of these values; `None` if there are none. For an even number, the median is the mean of the middle
    /// two.
    #[must_use]
    pub fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.sort_by(f64::total_cmp);
        let (min, max) = (*figures.first()?, *figures.last()?);
        let upper = figures.get(figures.len() / 2)?;
        let lower = figures.get((figures.len() - 1) / 2)?;
        Some(Self { median: f64::midpoint(*lower, *upper), min, max })
    }

    /// Applies a function to all three.
    #[must_use]
    pub fn map(self, with: impl Fn(f64) -> f64) -> Self {
        Self { median: with(self.median), min: with(self.min), max: with(self.max) }
    }
}

/// The 95 % confidence interval of the median; `None` for fewer than six values. It holds for any distribution, because
/// each value is above or below the median with equal probability (the sign test).
#[must_use]
pub fn median_within(figures: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let all = units::float(sorted.len() as u64);
    // The probability that at most this many values are on one side.
    let (mut chance, mut at_most) = (0.5_f64.powf(all), 0.0);
    let mut within = None;
    for (left_out, (low, high)) in sorted.iter().zip(sorted.iter().rev()).enumerate() {
        at_most += chance;
        if at_most > 0.025 {
            break;
        }
        within = Some((*low, *high));
        let left_out = units::float(left_out as u64);
        chance *= (all - left_out) / (left_out + 1.0);
    }
    within
}
