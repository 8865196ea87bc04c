//! The schedule: which scenario is measured when, at which rate and for how long. Interleaved
//! rounds within a time budget.

use std::time::Duration;

use load::Rate;
use testbed::Failed;

use super::scenario::Scenario;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    pub(crate) scenario: usize,
    pub(crate) rate: usize,
    pub(crate) round: usize,
    /// The measured time, without the warm-up.
    pub(crate) duration: Duration,
}

/// All measurements in order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) rates: Vec<Rate>,
    pub(crate) cells: Vec<Cell>,
    /// The warm-up before each measurement: the same load, not measured.
    pub(crate) warmup: Duration,
}

/// The parameters of a schedule.
#[derive(Clone, Debug)]
pub(crate) struct Depth {
    pub(crate) rates: Vec<Rate>,
    /// The number of rounds of the main scenarios.
    pub(crate) rounds: usize,
    /// The number of rounds of the variants, which take part only in the first ones.
    pub(crate) variant_rounds: usize,
    /// The maximum time for all measurements together.
    pub(crate) budget: Duration,
    /// The warm-up of each measurement.
    pub(crate) warmup: Duration,
}

/// The additional time of a measurement: connecting, reading counters, waiting for the last
/// responses.
const OVERHEAD: Duration = Duration::from_millis(40);
/// Shorter measurements are too imprecise.
const MIN_DURATION: Duration = Duration::from_millis(200);
/// Longer measurements add little precision.
const MAX_DURATION: Duration = Duration::from_secs(10);

impl Schedule {
    /// Creates the schedule with the longest measurements that fit, all of the same length. Where
    /// the speed of the machine varies, many short rounds tell more than few long ones.
    pub(crate) fn new(scenarios: &[Scenario], depth: &Depth) -> Result<Self, Failed> {
        let order = order(scenarios, depth);
        let count = u32::try_from(order.len()).unwrap_or(u32::MAX);
        let fixed = (depth.warmup + OVERHEAD) * count;
        let duration = depth.budget.saturating_sub(fixed) / count.max(1);
        if duration < MIN_DURATION {
            let needed = (fixed + MIN_DURATION * count).as_secs_f64();
            let why = format!(
                "{count} measurements do not fit into {:.0} s; they need {needed:.0} s: give more time, \
                 fewer rates or rounds",
                depth.budget.as_secs_f64(),
            );
            return Err(Failed::new("compare", why));
        }
        let duration = duration.min(MAX_DURATION);
        let cells = order.into_iter().map(|cell| Cell { duration, ..cell });
        Ok(Self { rates: depth.rates.clone(), cells: cells.collect(), warmup: depth.warmup })
    }

    pub(crate) fn total(&self) -> Duration {
        self.cells.iter().map(|cell| cell.duration + self.warmup + OVERHEAD).sum()
    }
}

/// Every rate in each round, and every scenario at each rate. Each round begins with another
/// scenario, so that none always follows the same one.
fn order(scenarios: &[Scenario], depth: &Depth) -> Vec<Cell> {
    let mut cells = Vec::new();
    for round in 0..depth.rounds {
        for rate in 0..depth.rates.len() {
            for step in 0..scenarios.len() {
                let scenario = (step + round) % scenarios.len();
                let main = scenarios.get(scenario).is_some_and(|scenario| scenario.main);
                if main || round < depth.variant_rounds {
                    cells.push(Cell { scenario, rate, round, duration: Duration::ZERO });
                }
            }
        }
    }
    cells
}
