//! The contents of a comparison's report, in order.

use hdrhistogram::Histogram;
use load::Rate;
use load::report::svg::{self, Curve};
use load::report::{percentile, units};

use super::record::{Entry, Round};
use super::scenario::{Endpoint, Role};
use super::{Comparison, fortio};
use crate::spread::{Spread, dash, micro_spread};
use crate::verdict;
use load::report::document::{Part, table};

/// The columns of OPA-Envoy's benchmark page.
const COLUMNS: [f64; 6] = [75.0, 90.0, 95.0, 99.0, 99.9, 99.99];

pub(super) const BESIDE: &str = "End to end at 1000/s, beside the other servers";

impl Comparison {
    /// The whole report.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut all = self.opening();
        all.extend(self.warnings());
        all.extend(self.verdict_parts());
        all.extend(self.curves());
        all.extend(self.end_to_end());
        all.extend(self.rounds());
        all.extend(fortio::parts(&self.fortio));
        all.extend(self.inside());
        all.extend(self.resources());
        all.extend(self.reloads());
        all.extend(self.machine());
        all
    }

    fn opening(&self) -> Vec<Part> {
        vec![Part::Text(format!(
            "GET /people with cached credentials, HTTP/1.1 over {} connections. A + means: through Envoy, which asks that server \
             first, over a Unix socket and with Envoy's own gRPC client unless stated otherwise. Rounds: {}, interleaved: \
             in each round every rate, at each rate every scenario. Latencies are counted from the moment a request was \
             due. {}.",
            super::CONNECTIONS,
            self.rounds_done(),
            self.pins.words(),
        ))]
    }

    pub(super) fn rounds_done(&self) -> usize {
        self.record.rounds().map(|(_, _, round)| round.number + 1).max().unwrap_or_default()
    }

    fn warnings(&self) -> Vec<Part> {
        let mut all = Vec::new();
        if self.interrupted {
            all.push(Part::Warning("Interrupted: these are the results until then.".to_owned()));
        }
        let mut limited: Vec<String> = Vec::new();
        for (scenario, rate, round) in self.record.rounds() {
            let place = format!(
                "{} at {}, round {}",
                self.name(scenario),
                self.rate(rate),
                round.number + 1
            );
            if round.wrong > 0 {
                let wrong = units::count(round.wrong);
                all.push(Part::Warning(format!(
                    "{place}: {wrong} requests had no response, or one with another status than 200."
                )));
            }
            limited.extend(round.limited.as_ref().map(|why| format!("{place}: {why}")));
        }
        if !limited.is_empty() {
            let count = self.record.rounds().count();
            all.push(Part::Warning(format!(
                "In {} of {count} measurements the machine was busy, or the generator was the limit; the first of them, and \
                 all of them in report.json:",
                limited.len()
            )));
            all.push(Part::Lines(limited.into_iter().take(6).collect()));
        }
        all
    }

    fn verdict_parts(&self) -> Vec<Part> {
        let verdicts = self.evidence().verdicts();
        if verdicts.is_empty() {
            return Vec::new();
        }
        vec![
            Part::Heading("Goals".to_owned()),
            Part::Text(
                "Ratios are taken within each round. Shown are their median, in square brackets its 95 % confidence interval \
                 (sign test), and in round ones the lowest and the highest. Differences under 5 % are within noise."
                    .to_owned(),
            ),
            verdict::tabled(&verdicts),
        ]
    }

    /// The four curves of OPA-Envoy's page for each rate, and a chart with all servers.
    fn curves(&self) -> Vec<Part> {
        let mut all = Vec::new();
        for (number, rate) in
            self.schedule.rates.iter().enumerate().filter(|(_, rate)| **rate != Rate::Max)
        {
            let four =
                self.curve_set(number, |role| matches!(role, None | Some(Role::Nop | Role::Basic)));
            all.extend(picture(&format!("End to end at {rate}"), &four));
        }
        if let Some(every) = self.beside() {
            all.extend(picture(BESIDE, &every));
        }
        all
    }

    /// The curves of rolegate and the other servers; `None` if these were not measured.
    pub(super) fn beside(&self) -> Option<Vec<Curve<'_>>> {
        let number =
            self.schedule.rates.iter().position(|rate| *rate == Rate::Constant(1_000.0))?;
        Some(self.curve_set(number, |_| true))
    }

    fn curve_set(&self, rate: usize, which: impl Fn(Option<&Role>) -> bool) -> Vec<Curve<'_>> {
        let shown = |number: usize| {
            let scenario = self.scenarios.get(number).filter(|scenario| scenario.main)?;
            let role = scenario
                .server()
                .and_then(|index| self.servers.get(index))
                .map(|server| &server.role);
            which(role).then_some(scenario.name.as_str())
        };
        self.entries(rate)
            .filter_map(|(number, entry)| Some(Curve { name: shown(number)?, of: &entry.latency }))
            .collect()
    }

    fn end_to_end(&self) -> Vec<Part> {
        let mut all = vec![
            Part::Heading("End to end".to_owned()),
            Part::Text(
                "All rounds of a scenario together, in µs. A dash means that too few requests were made for that \
                 percentile."
                    .to_owned(),
            ),
        ];
        for (number, rate) in self.schedule.rates.iter().enumerate() {
            all.push(Part::Subheading(format!("At {rate}")));
            let rows = self
                .entries(number)
                .map(|(at, entry)| opa(self.name(at), &entry.latency))
                .collect();
            all.push(columns("scenario", rows));
        }
        all
    }

    /// Medians and spread of the rounds, and what each scenario adds to Envoy without ext_authz.
    fn rounds(&self) -> Vec<Part> {
        let mut all = vec![
            Part::Heading("Rounds".to_owned()),
            Part::Text(
                "Medians of the rounds in µs, in brackets the lowest and the highest; added is the difference to Envoy \
                 without ext_authz in the same round. At max each connection sends the next request when one is \
                 answered."
                    .to_owned(),
            ),
        ];
        for (number, rate) in self.schedule.rates.iter().enumerate() {
            all.push(Part::Subheading(format!("At {rate}")));
            let rows =
                self.entries(number).map(|(at, entry)| self.round_row(number, at, entry)).collect();
            let heads = ["scenario", "requests/s", "p50", "p99", "added p50", "added p99"];
            all.push(table(&heads, rows));
        }
        all
    }

    fn round_row(&self, rate: usize, number: usize, entry: &Entry) -> Vec<String> {
        let envoy = self.scenarios.iter().position(|scenario| scenario.endpoint == Endpoint::Envoy);
        let envoy =
            envoy.filter(|envoy| *envoy < number).and_then(|envoy| self.record.at(envoy, rate));
        let added = |of: fn(&Round) -> f64| {
            let before = |number: usize| {
                Some(of(envoy?.rounds.iter().find(|round| round.number == number)?))
            };
            let all =
                entry.rounds.iter().filter_map(|round| Some(of(round) - before(round.number)?));
            micro_spread(Spread::of(all))
        };
        vec![
            self.name(number),
            entry
                .spread(|round| round.achieved)
                .map_or_else(dash, |rate| rate.shown(units::grouped)),
            micro_spread(entry.spread(Round::median)),
            micro_spread(entry.spread(Round::p99)),
            added(Round::median),
            added(Round::p99),
        ]
    }

    /// The durations that rolegate itself reports.
    fn inside(&self) -> Vec<Part> {
        let mut all = Vec::new();
        let (mut handler, mut evaluation) = (Vec::new(), Vec::new());
        for (number, rate) in self.schedule.rates.iter().enumerate() {
            let main = |at: usize| self.scenarios.get(at).is_some_and(|scenario| scenario.main);
            for (at, entry) in
                self.entries(number).filter(|(at, entry)| main(*at) && !entry.handler.is_empty())
            {
                let name = format!("{rate} {}", self.name(at));
                handler.push(opa(name.clone(), &entry.handler));
                evaluation.push(opa(name, &entry.evaluation));
            }
        }
        if !handler.is_empty() {
            all.push(Part::Heading("Inside rolegate".to_owned()));
            all.push(Part::Text(
                "By its own histograms, in µs, with the warm-up of each measurement.".to_owned(),
            ));
            all.push(Part::Subheading(
                "Check: from a complete message until its response is passed on".to_owned(),
            ));
            all.push(columns("rate and scenario", handler));
            all.push(Part::Subheading(
                "Evaluation: to decide a decoded request (parse, authenticate, evaluate)"
                    .to_owned(),
            ));
            all.push(columns("rate and scenario", evaluation));
        }
        all
    }

    fn resources(&self) -> Vec<Part> {
        let mut all = vec![
            Part::Heading("Processor and memory".to_owned()),
            Part::Text(
                "Cores used and resident MiB, medians of rounds. One Envoy has the listeners of all scenarios; each server is a \
                 separate process."
                    .to_owned(),
            ),
        ];
        for (number, rate) in self.schedule.rates.iter().enumerate() {
            all.push(Part::Subheading(format!("At {rate}")));
            let rows =
                self.entries(number).map(|(at, entry)| self.resource_row(at, entry)).collect();
            let heads = [
                "scenario",
                "server cores",
                "Envoy cores",
                "app cores",
                "generator cores",
                "server MiB",
                "Envoy MiB",
                "app MiB",
            ];
            all.push(table(&heads, rows));
        }
        all
    }

    fn resource_row(&self, number: usize, entry: &Entry) -> Vec<String> {
        // The order in which parts are measured: application, Envoy, server.
        let cores =
            |at: usize| entry.spread(|round| round.parts.get(at).map_or(0.0, |part| part.cores));
        let memory = |at: usize| {
            entry.spread(|round| {
                round.parts.get(at).map_or(0.0, |part| units::float(part.resident) / 1_048_576.0)
            })
        };
        let shown = |of: Option<Spread>, digits: usize| match of {
            Some(spread) if spread.median > 0.0 => format!("{:.digits$}", spread.median),
            _ => dash(),
        };
        let generator = entry.spread(|round| round.generator);
        vec![
            self.name(number),
            shown(cores(2), 3),
            shown(cores(1), 3),
            shown(cores(0), 3),
            shown(generator, 3),
            shown(memory(2), 1),
            shown(memory(1), 1),
            shown(memory(0), 1),
        ]
    }

    fn reloads(&self) -> Vec<Part> {
        let Some(reload) = &self.reload else { return Vec::new() };
        let row = |name: &str, of: &[f64]| {
            vec![name.to_owned(), micro_spread(Spread::of(of.iter().copied()))]
        };
        vec![
            Part::Heading("Reloads under load".to_owned()),
            Part::Text(format!(
                "Check calls at 5,000/s, without Envoy, while a policy of {} is changed: {} of {} requests failed, {} \
                 more were due and not sent because all connections were in use. Resident memory at the end: {}. Windows \
                 without and with a reload alternate.",
                reload.size,
                units::count(reload.failed),
                units::count(reload.requests),
                units::count(reload.unsent),
                units::bytes(reload.resident),
            )),
            table(
                &["in µs", "median (lowest–highest)"],
                vec![
                    row("p99.9 of a window without a reload", &reload.quiet.p999),
                    row("p99.9 of a window with a reload", &reload.reloading.p999),
                    row("from the change to the new active policy", &reload.took),
                ],
            ),
        ]
    }

    fn machine(&self) -> Vec<Part> {
        vec![
            Part::Heading("Machine and commands".to_owned()),
            Part::Facts(self.facts.clone()),
            Part::Subheading(
                "Commands; the configuration of Envoy is beside this report".to_owned(),
            ),
            Part::Lines(self.commands.clone()),
        ]
    }

    /// Every scenario that was measured at this rate.
    fn entries(&self, rate: usize) -> impl Iterator<Item = (usize, &Entry)> {
        (0..self.scenarios.len())
            .filter_map(move |scenario| Some((scenario, self.record.at(scenario, rate)?)))
    }

    pub(super) fn name(&self, scenario: usize) -> String {
        self.scenarios.get(scenario).map(|scenario| scenario.name.clone()).unwrap_or_default()
    }

    fn rate(&self, number: usize) -> String {
        self.schedule.rates.get(number).map(ToString::to_string).unwrap_or_default()
    }
}

/// A row with OPA-Envoy's columns.
fn opa(name: String, of: &Histogram<u64>) -> Vec<String> {
    let mut row = vec![name];
    row.extend(
        COLUMNS.map(|percent| units::microseconds(percentile(of, percent).map(units::float))),
    );
    row.push(units::microseconds((!of.is_empty()).then(|| of.mean())));
    row.push(units::microseconds(percentile(of, 50.0).map(units::float)));
    row
}

fn columns(first: &str, rows: Vec<Vec<String>>) -> Part {
    let heads = COLUMNS.map(|percent| format!("{percent} %"));
    let heads: Vec<&str> = std::iter::once(first)
        .chain(heads.iter().map(String::as_str))
        .chain(["mean", "p50"])
        .collect();
    table(&heads, rows)
}

fn picture(title: &str, curves: &[Curve<'_>]) -> Option<Part> {
    svg::percentiles(title, curves).map(|chart| Part::Picture(chart.inline()))
}
