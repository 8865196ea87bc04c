//! The goals that a comparison can test. Each is based on ratios within a round, so that a slow minute affects both
//! sides.

use super::record::{Record, Round, Spread, median_within};
use super::reload::Reload;
use super::scenario::{Client, Endpoint, Role, Scenario, Server};
use crate::Rate;
use crate::report::units;

/// One goal with its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Its id in the table of goals.
    pub goal: &'static str,
    /// The compared values.
    pub what: String,
    /// The measurement with its spread.
    pub measured: String,
    /// The required value.
    pub limit: String,
    /// Whether the median meets it.
    pub holds: bool,
}

/// The input of the verdicts.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// The scenarios.
    pub scenarios: &'a [Scenario],
    /// The servers.
    pub servers: &'a [Server],
    /// The rates.
    pub rates: &'a [Rate],
    /// The measurements.
    pub record: &'a Record,
    /// The time from each start of rolegate until it was ready, in nanoseconds.
    pub ready: &'a [f64],
    /// The reloads under load, if measured.
    pub reload: Option<&'a Reload>,
}

/// Whether the limit is a minimum or a maximum.
#[derive(Clone, Copy)]
enum Must {
    BeAtLeast(f64),
    BeAtMost(f64),
}

impl Evidence<'_> {
    /// A verdict for each goal that was measured.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        all.extend(self.throughput());
        all.extend(self.added_latency());
        all.extend(self.reload.map(Reload::verdicts).unwrap_or_default());
        all.extend(self.footprint());
        all
    }

    /// P2.
    fn throughput(&self) -> Vec<Verdict> {
        let others = self.others(1.05, 2.8);
        let of = |(other, name, factor): (usize, String, f64)| {
            let ratios = self.pairs(Rate::Max, &[self.main(&Role::Basic)?, other], |it| {
                Some(it.first()?.achieved / it.get(1)?.achieved)
            });
            let what = format!("requests/s through Envoy, closed loop: RBAC (Basic) to {name}");
            ratio("P2", what, ratios, Must::BeAtLeast(factor))
        };
        others.into_iter().filter_map(of).collect()
    }

    /// P3.
    fn added_latency(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        for (name, of, tonic) in
            [("p50", Round::median as fn(&Round) -> f64, 1.0), ("p99", Round::p99 as fn(&Round) -> f64, 1.1)]
        {
            for (other, other_name, factor) in self.others(tonic, 0.5) {
                all.extend(self.added(other, &other_name, factor, name, of));
            }
        }
        all
    }

    fn added(
        &self,
        other: usize,
        other_name: &str,
        factor: f64,
        name: &str,
        of: fn(&Round) -> f64,
    ) -> Option<Verdict> {
        let envoy = self.scenarios.iter().position(|it| it.endpoint == Endpoint::Envoy)?;
        let ratios = self.pairs(Rate::Constant(1_000.0), &[envoy, self.main(&Role::Basic)?, other], |it| {
            let envoy = of(it.first()?);
            Some(to_other(of(it.get(1)?) - envoy, of(it.get(2)?) - envoy))
        });
        let what = format!("{name} added to app + Envoy at 1,000/s: RBAC (Basic) to {other_name}");
        ratio("P3", what, ratios, Must::BeAtMost(factor))
    }

    /// P7.
    fn footprint(&self) -> Vec<Verdict> {
        let entry = || {
            let rate = self.rates.iter().position(|it| *it == Rate::Constant(5_000.0))?;
            self.record.at(self.main(&Role::Basic)?, rate)
        };
        let server = |of: &Round| of.parts.last().copied().unwrap_or_default();
        let mut all = Vec::new();
        // The usage at a rate is meaningless if the rate was not reached.
        let reached = |of: &Round| of.achieved >= 0.99 * 5_000.0;
        if let Some(entry) = entry().filter(|it| it.rounds.iter().all(reached)) {
            let memory = entry.spread(|it| units::float(server(it).resident) / 1_048_576.0);
            all.extend(memory.map(|it| figure("resident memory at 5,000/s, in MiB", it, 25.0)));
            all.extend(entry.spread(|it| server(it).cores).map(|it| figure("cores at 5,000/s", it, 0.15)));
        }
        let ready = Spread::of(self.ready.to_vec()).map(|it| it.map(|it| it / 1e6));
        all.extend(ready.map(|it| figure("ready after start, in ms", it, 20.0)));
        all
    }

    /// The servers that rolegate is compared with: index of the scenario, name, and required factor.
    fn others(&self, tonic: f64, opa: f64) -> Vec<(usize, String, f64)> {
        let mut all = Vec::new();
        for (number, server) in self.servers.iter().enumerate() {
            let factor = match server.role {
                Role::AlwaysAllow => tonic,
                Role::Peer { .. } if server.name.to_ascii_lowercase().contains("opa") => opa,
                _ => continue,
            };
            all.extend(self.main_of(number).map(|it| (it, server.name.clone(), factor)));
        }
        all
    }

    fn main(&self, role: &Role) -> Option<usize> {
        self.main_of(self.servers.iter().position(|it| it.role == *role)?)
    }

    fn main_of(&self, server: usize) -> Option<usize> {
        let of = |it: &Scenario| matches!(it.endpoint, Endpoint::Check { server: at, client: Client::Envoy, .. } if at == server);
        self.scenarios.iter().position(|it| it.main && of(it))
    }

    /// A value for each round in which all of these scenarios were measured at this rate.
    fn pairs(&self, rate: Rate, scenarios: &[usize], of: impl Fn(&[&Round]) -> Option<f64>) -> Vec<f64> {
        let Some(rate) = self.rates.iter().position(|it| *it == rate) else { return Vec::new() };
        let entries: Option<Vec<_>> = scenarios.iter().map(|it| self.record.at(*it, rate)).collect();
        let Some(entries) = entries else { return Vec::new() };
        let first = entries.first().map(|it| it.rounds.as_slice()).unwrap_or_default();
        let together = |number: usize| -> Option<Vec<&Round>> {
            entries.iter().map(|it| it.rounds.iter().find(|it| it.number == number)).collect()
        };
        first.iter().filter_map(|it| of(&together(it.number)?)).filter(|it| !it.is_nan()).collect()
    }
}

/// The latency that rolegate adds, relative to what another server adds. A round in which the other adds nothing
/// measurable counts as infinite if rolegate adds anything, else as 1. Omitting such rounds would omit those that are
/// bad for rolegate.
fn to_other(ours: f64, theirs: f64) -> f64 {
    if theirs > 0.0 {
        ours / theirs
    } else if ours > 0.0 {
        f64::INFINITY
    } else {
        1.0
    }
}

fn ratio(goal: &'static str, what: String, ratios: Vec<f64>, must: Must) -> Option<Verdict> {
    let sure = median_within(&ratios).map(|(low, high)| format!(" [{low:.3}–{high:.3}]")).unwrap_or_default();
    let spread = Spread::of(ratios)?;
    let (limit, holds) = match must {
        Must::BeAtLeast(it) => (format!("≥ {it} ×"), spread.median >= it),
        Must::BeAtMost(it) => (format!("≤ {it} ×"), spread.median <= it),
    };
    let measured = format!("{:.3} ×{sure} ({:.3}–{:.3})", spread.median, spread.min, spread.max);
    Some(Verdict { goal, what, measured, limit, holds })
}

fn figure(what: &str, spread: Spread, limit: f64) -> Verdict {
    Verdict {
        goal: "P7",
        what: what.to_owned(),
        measured: format!("{:.3} ({:.3}–{:.3})", spread.median, spread.min, spread.max),
        limit: format!("≤ {limit}"),
        holds: spread.median <= limit,
    }
}
