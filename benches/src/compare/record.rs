//! The measurements by scenario and rate: each round separately, and the distribution of all of
//! them.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use load::report::units;
use load::{RunResults, histogram};

use crate::machine::Usage;
use crate::spread::Spread;

#[derive(Debug, Default)]
pub(crate) struct Record {
    cells: BTreeMap<(usize, usize), Entry>,
}

/// One scenario at one rate.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Sorted by round.
    pub(crate) rounds: Vec<Round>,
    /// All rounds: from the intended start to the end of the response.
    pub(crate) latency: Histogram<u64>,
    /// All rounds: the time inside the server, if it reports it.
    pub(crate) handler: Histogram<u64>,
    /// All rounds: only the evaluation, if the server reports it.
    pub(crate) evaluation: Histogram<u64>,
}

/// One measurement.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Round {
    pub(crate) number: usize,
    pub(crate) achieved: f64,
    /// Latency in nanoseconds, corrected: mean, p50, p90, p99.
    pub(crate) latency: Latency,
    /// The usage of application, Envoy and server.
    pub(crate) parts: [Part; 3],
    /// The cores that the generator used.
    pub(crate) generator: f64,
    /// Requests without a response, and responses other than 200.
    pub(crate) wrong: u64,
    /// Why the generator was the limit, if it was.
    pub(crate) limited: Option<String>,
}

/// The latencies of one round that are compared, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Latency {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
}

/// The usage of one process in one round.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Part {
    pub(crate) cores: f64,
    /// Resident bytes at the end of the round.
    pub(crate) resident: u64,
}

impl Record {
    /// The entry of a scenario at a rate, if it was measured.
    pub(crate) fn at(&self, scenario: usize, rate: usize) -> Option<&Entry> {
        self.cells.get(&(scenario, rate))
    }

    pub(crate) fn entry(&mut self, scenario: usize, rate: usize) -> &mut Entry {
        self.cells.entry((scenario, rate)).or_default()
    }

    /// Every round, with its scenario and its rate.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = (usize, usize, &Round)> {
        self.cells.iter().flat_map(|((scenario, rate), entry)| {
            entry.rounds.iter().map(|round| (*scenario, *rate, round))
        })
    }
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            rounds: Vec::new(),
            latency: histogram(),
            handler: histogram(),
            evaluation: histogram(),
        }
    }
}

impl Entry {
    /// Adds a round. Its histograms have the same bounds, so nothing is lost.
    pub(crate) fn add(&mut self, round: Round, measured: &RunResults) {
        self.rounds.push(round);
        let _ = self.latency.add(&measured.corrected);
    }

    /// The spread of a value over the rounds; `None` without rounds.
    pub(crate) fn spread(&self, of: impl Fn(&Round) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(of))
    }
}

impl Round {
    pub(crate) fn median(&self) -> f64 {
        self.latency.p50
    }

    pub(crate) fn p99(&self) -> f64 {
        self.latency.p99
    }

    /// The round of this run, in which the processes went from `before` to `after` within
    /// `seconds`.
    pub(crate) fn new(
        number: usize,
        of: &RunResults,
        before: [Usage; 3],
        after: [Usage; 3],
        seconds: f64,
    ) -> Self {
        let at = |percent| units::float(of.corrected.value_at_percentile(percent));
        let part = |(before, after): (Usage, Usage)| Part {
            cores: units::float(after.ran.saturating_sub(before.ran)) / 1e9 / seconds.max(1e-9),
            resident: after.resident,
        };
        let [app, envoy, server] = before;
        let [app_after, envoy_after, server_after] = after;
        Self {
            number,
            achieved: of.generator.achieved,
            latency: Latency {
                mean: of.corrected.mean(),
                p50: at(50.0),
                p90: at(90.0),
                p99: at(99.0),
            },
            parts: [(app, app_after), (envoy, envoy_after), (server, server_after)].map(part),
            generator: of.generator.cpu.as_secs_f64() / of.elapsed.as_secs_f64().max(1e-9),
            wrong: of.errors() + of.unexpected,
            limited: of.generator.limited.clone(),
        }
    }
}
