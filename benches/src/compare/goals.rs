//! The goals that a comparison can test. Each is based on ratios within a round, so that a slow
//! minute affects both sides.

use load::Rate;
use load::report::units;

use super::record::{Record, Round};
use super::reload::Reload;
use super::scenario::{Client, Endpoint, Role, Scenario, Server};
use crate::spread::Spread;
use crate::verdict::{Limit, Verdict};

/// The input of the verdicts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence<'a> {
    pub(crate) scenarios: &'a [Scenario],
    pub(crate) servers: &'a [Server],
    pub(crate) rates: &'a [Rate],
    pub(crate) record: &'a Record,
    /// The time from each start of rolegate until it was ready, in nanoseconds.
    pub(crate) ready: &'a [f64],
    /// The reloads under load, if measured.
    pub(crate) reload: Option<&'a Reload>,
}

impl Evidence<'_> {
    /// A verdict for each goal that was measured.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        all.extend(self.throughput());
        all.extend(self.added_latency());
        all.extend(self.inside_envoy());
        all.extend(self.reload.map(Reload::verdicts).unwrap_or_default());
        all.extend(self.footprint());
        all
    }

    /// P2.
    fn throughput(&self) -> Vec<Verdict> {
        let others = self.others(1.05, 2.8);
        let of = |(other, name, factor): (usize, String, f64)| {
            let ratios = self.pairs(Rate::Max, &[self.main(&Role::Basic)?, other], |rounds| {
                Some(rounds.first()?.achieved / rounds.get(1)?.achieved)
            });
            let what = format!("requests/s through Envoy, closed loop: rolegate, Basic ÷ {name}");
            Verdict::of_ratios("P2", what, &ratios, Limit::AtLeast(factor, " ×"))
        };
        others.into_iter().filter_map(of).collect()
    }

    /// P3.
    fn added_latency(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        for (name, of, baseline) in [
            ("p50", Round::median as fn(&Round) -> f64, 1.0),
            ("p99", Round::p99 as fn(&Round) -> f64, 1.1),
        ] {
            for (other, other_name, factor) in self.others(baseline, 0.5) {
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
        let envoy =
            self.scenarios.iter().position(|scenario| scenario.endpoint == Endpoint::Envoy)?;
        let ratios = self.pairs(
            Rate::Constant(1_000.0),
            &[envoy, self.main(&Role::Basic)?, other],
            |rounds| {
                let envoy = of(rounds.first()?);
                Some(to_other(of(rounds.get(1)?) - envoy, of(rounds.get(2)?) - envoy))
            },
        );
        let what = format!(
            "{name} added to Envoy, no ext_authz, at 1,000/s: rolegate, Basic ÷ {other_name}"
        );
        Verdict::of_ratios("P3", what, &ratios, Limit::AtMost(factor, " ×"))
    }

    /// P8: rolegate inside Envoy, compared with Envoy without a filter, with rolegate over
    /// ext_authz, and with OPA-Envoy.
    fn inside_envoy(&self) -> Vec<Verdict> {
        let mut all = Vec::new();
        let envoy = self.scenarios.iter().position(|scenario| scenario.endpoint == Endpoint::Envoy);
        for role in [Role::Basic, Role::Jwt] {
            let (Some(envoy), Some(inside)) = (envoy, self.inside(&role)) else { continue };
            let name = self.scenarios.get(inside).map_or("", |scenario| &scenario.name);
            let mut others = vec![(envoy, "Envoy, no ext_authz".to_owned(), 0.97)];
            if role == Role::Basic {
                others.extend(
                    self.main(&Role::Basic).map(|basic| (basic, "rolegate, Basic".to_owned(), 2.2)),
                );
                others
                    .extend(self.others(1.0, 6.0).into_iter().filter(|(.., factor)| *factor > 1.0));
            }
            for (other, other_name, factor) in others {
                let ratios = self.pairs(Rate::Max, &[inside, other], |rounds| {
                    Some(rounds.first()?.achieved / rounds.get(1)?.achieved)
                });
                let what = format!("requests/s, closed loop: {name} ÷ {other_name}");
                all.extend(Verdict::of_ratios("P8", what, &ratios, Limit::AtLeast(factor, " ×")));
            }
            for (tail, of) in [("p50", Round::median as fn(&Round) -> f64), ("p99", Round::p99)] {
                let added = self.pairs(Rate::Constant(1_000.0), &[inside, envoy], |rounds| {
                    Some((of(rounds.first()?) - of(rounds.get(1)?)) / 1e3)
                });
                let what = format!("{tail} added to Envoy, no ext_authz, at 1,000/s: {name}");
                all.extend(Spread::of(added).map(|added| {
                    let measured = (added.median, added.shown(|value| format!("{value:.1} µs")));
                    let verdict =
                        Verdict::new("P8", what, Limit::AtMost(5.0, " µs"), Some(measured));
                    Verdict { spread: Some(added), ..verdict }
                }));
            }
        }
        all
    }

    fn inside(&self, role: &Role) -> Option<usize> {
        let of = self.servers.iter().position(|server| server.role == *role)?;
        self.scenarios
            .iter()
            .position(|scenario| scenario.endpoint == Endpoint::Inside { server: of })
    }

    /// P7.
    fn footprint(&self) -> Vec<Verdict> {
        let entry = || {
            let rate = self.rates.iter().position(|rate| *rate == Rate::Constant(5_000.0))?;
            self.record.at(self.main(&Role::Basic)?, rate)
        };
        let server = |of: &Round| of.parts.last().copied().unwrap_or_default();
        let mut all = Vec::new();
        // The usage at a rate is meaningless if the rate was not reached.
        let reached = |of: &Round| of.achieved >= 0.99 * 5_000.0;
        if let Some(entry) = entry().filter(|entry| entry.rounds.iter().all(reached)) {
            let memory = entry.spread(|round| units::float(server(round).resident) / 1_048_576.0);
            all.extend(
                memory.map(|memory| figure("resident memory at 5,000/s", memory, 25.0, " MiB")),
            );
            all.extend(
                entry
                    .spread(|round| server(round).cores)
                    .map(|cores| figure("cores at 5,000/s", cores, 0.15, "")),
            );
        }
        let ready = Spread::of(self.ready.iter().map(|nanoseconds| nanoseconds / 1e6));
        all.extend(ready.map(|ready| figure("ready after the start", ready, 20.0, " ms")));
        all
    }

    /// The servers that rolegate is compared with: index of the scenario, name, and required
    /// factor.
    fn others(&self, baseline: f64, opa: f64) -> Vec<(usize, String, f64)> {
        let mut all = Vec::new();
        for (number, server) in self.servers.iter().enumerate() {
            let factor = match server.role {
                Role::Baseline => baseline,
                Role::Peer { .. } if server.name.to_ascii_lowercase().contains("opa") => opa,
                _ => continue,
            };
            all.extend(
                self.main_of(number).map(|scenario| (scenario, server.name.clone(), factor)),
            );
        }
        all
    }

    fn main(&self, role: &Role) -> Option<usize> {
        self.main_of(self.servers.iter().position(|server| server.role == *role)?)
    }

    fn main_of(&self, server: usize) -> Option<usize> {
        let of = |scenario: &Scenario| matches!(scenario.endpoint, Endpoint::Check { server: at, client: Client::Envoy, .. } if at == server);
        self.scenarios.iter().position(|scenario| scenario.main && of(scenario))
    }

    /// A value for each round in which all of these scenarios were measured at this rate.
    fn pairs(
        &self,
        rate: Rate,
        scenarios: &[usize],
        of: impl Fn(&[&Round]) -> Option<f64>,
    ) -> Vec<f64> {
        let Some(rate) = self.rates.iter().position(|candidate| *candidate == rate) else {
            return Vec::new();
        };
        let entries: Option<Vec<_>> =
            scenarios.iter().map(|scenario| self.record.at(*scenario, rate)).collect();
        let Some(entries) = entries else { return Vec::new() };
        let first = entries.first().map(|entry| entry.rounds.as_slice()).unwrap_or_default();
        let together = |number: usize| -> Option<Vec<&Round>> {
            entries
                .iter()
                .map(|entry| entry.rounds.iter().find(|round| round.number == number))
                .collect()
        };
        first
            .iter()
            .filter_map(|round| of(&together(round.number)?))
            .filter(|value| !value.is_nan())
            .collect()
    }
}

/// The latency that rolegate adds, relative to what another server adds. A round in which the other
/// adds nothing measurable counts as infinite if rolegate adds anything, else as 1. Omitting such
/// rounds would omit those that are bad for rolegate.
fn to_other(ours: f64, theirs: f64) -> f64 {
    if theirs > 0.0 {
        ours / theirs
    } else if ours > 0.0 {
        f64::INFINITY
    } else {
        1.0
    }
}

fn figure(what: &str, spread: Spread, most: f64, unit: &'static str) -> Verdict {
    let measured = (spread.median, spread.shown(|value| format!("{value:.3}")));
    Verdict {
        spread: Some(spread),
        ..Verdict::new("P7", what, Limit::AtMost(most, unit), Some(measured))
    }
}
