//! Which scenario is measured at which rate, when and for how long: interleaved rounds that fit into a given time.

use std::time::Duration;

use super::scenario::Scenario;
use crate::Rate;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// The number of the scenario.
    pub scenario: usize,
    /// The number of the rate.
    pub rate: usize,
    /// Which round it belongs to.
    pub round: usize,
    /// How long it is measured, without the warm-up.
    pub duration: Duration,
}

/// All measurements, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// The rates.
    pub rates: Vec<Rate>,
    /// The measurements.
    pub cells: Vec<Cell>,
    /// How long each is preceded by the same load, not measured.
    pub warmup: Duration,
}

/// What the schedule is made from.
#[derive(Clone, Debug)]
pub struct Depth {
    /// The rates.
    pub rates: Vec<Rate>,
    /// Rounds of the main scenarios.
    pub rounds: usize,
    /// Rounds of the variants; they take part in the first ones.
    pub variant_rounds: usize,
    /// The time that all measurements together may take.
    pub budget: Duration,
    /// The warm-up of each.
    pub warmup: Duration,
}

/// What a measurement costs beside its own time: connections, reading counters, waiting for the last answers.
const OVERHEAD: Duration = Duration::from_millis(40);
/// What is measured for less says nothing.
const SHORTEST: Duration = Duration::from_millis(200);
/// What is measured for longer says little more.
const LONGEST: Duration = Duration::from_secs(10);

impl Schedule {
    /// The longest measurements that fit, all of the same length: many short rounds tell more than few long ones where the
    /// speed of the machine changes.
    ///
    /// # Errors
    /// When even the shortest do not fit, with the time that they would take.
    pub fn new(scenarios: &[Scenario], depth: &Depth) -> Result<Self, String> {
        let order = order(scenarios, depth);
        let count = u32::try_from(order.len()).unwrap_or(u32::MAX);
        let fixed = (depth.warmup + OVERHEAD) * count;
        let duration = depth.budget.saturating_sub(fixed) / count.max(1);
        if duration < SHORTEST {
            let needed = (fixed + SHORTEST * count).as_secs_f64();
            return Err(format!(
                "{count} measurements do not fit into {:.0} s; they need {needed:.0} s: give more time, fewer rates or rounds",
                depth.budget.as_secs_f64(),
            ));
        }
        let duration = duration.min(LONGEST);
        let cells = order.into_iter().map(|cell| Cell { duration, ..cell });
        Ok(Self { rates: depth.rates.clone(), cells: cells.collect(), warmup: depth.warmup })
    }

    /// How long it takes.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.cells.iter().map(|it| it.duration + self.warmup + OVERHEAD).sum()
    }
}

/// In each round every rate, at each rate every scenario. Each round begins with another scenario, so that none always
/// follows the same one.
fn order(scenarios: &[Scenario], depth: &Depth) -> Vec<Cell> {
    let mut cells = Vec::new();
    for round in 0..depth.rounds {
        for rate in 0..depth.rates.len() {
            for step in 0..scenarios.len() {
                let scenario = (step + round) % scenarios.len();
                let main = scenarios.get(scenario).is_some_and(|it| it.main);
                if main || round < depth.variant_rounds {
                    cells.push(Cell { scenario, rate, round, duration: Duration::ZERO });
                }
            }
        }
    }
    cells
}
