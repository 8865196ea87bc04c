//! The same load by fortio, in turn with that of our own generator.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use load::report::document::{Part, table};
use load::report::{has_values_beyond, units};
use load::{Plan, Rate, Stop};
use serde_json::{Value, json};
use testbed::Failed;

use super::Comparison;
use super::scenario::{Endpoint, Role};
use super::servers::Running;
use crate::pin::on;
use crate::spread::{Spread, dash, micro_spread};

const RATES: [f64; 2] = [100.0, 1_000.0];
const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 99.0, 99.9];
/// The width of fortio's narrowest bucket, in seconds. With this one no bucket below 10 ms is wider
/// than a quarter.
const RESOLUTION: &str = "0.00001";

/// The program fortio, and how often and how long each generator runs.
#[derive(Debug)]
pub(super) struct Fortio {
    pub(super) program: PathBuf,
    pub(super) rounds: usize,
    pub(super) duration: Duration,
}

/// One scenario at one rate, measured by both generators.
#[derive(Debug)]
pub(super) struct Beside {
    scenario: String,
    rate: Rate,
    ours: Vec<Run>,
    fortio: Vec<Run>,
}

/// The results of a run in fortio's format, by either generator.
#[derive(Debug)]
struct Run(Value);

impl Comparison {
    /// Measures the application, Envoy, and Envoy with rolegate by both generators; each begins
    /// every second round.
    pub(super) fn run_both(
        &mut self,
        fortio: &Fortio,
        running: &Running,
        stop: &Stop,
    ) -> Result<(), Failed> {
        let measured = self.scenarios_for_both();
        let runs = 2 * fortio.rounds * measured.len() * RATES.len();
        let seconds = fortio.duration.as_secs_f64() * units::float(runs as u64);
        eprintln!("fortio and rolegate-load in turn, {runs} measurements, about {seconds:.0} s");
        for round in 0..fortio.rounds {
            for rate in RATES.map(Rate::Constant) {
                for number in &measured {
                    let Some(plan) = self.plan(running, *number, rate, fortio.duration, stop)?
                    else {
                        continue;
                    };
                    let (ours, theirs) = if round.is_multiple_of(2) {
                        let ours = self.run_ours(&plan)?;
                        (ours, self.run_fortio(fortio, &plan)?)
                    } else {
                        let theirs = self.run_fortio(fortio, &plan)?;
                        (self.run_ours(&plan)?, theirs)
                    };
                    if stop.is_requested() {
                        return Ok(());
                    }
                    self.add(*number, rate, ours, theirs);
                }
            }
        }
        Ok(())
    }

    fn scenarios_for_both(&self) -> Vec<usize> {
        let is_measured = |number: &usize| {
            self.scenarios.get(*number).is_some_and(|scenario| match scenario.endpoint {
                Endpoint::App | Endpoint::Envoy => true,
                Endpoint::Inside { .. } => false,
                Endpoint::Check { server, .. } => {
                    scenario.main
                        && self.servers.get(server).is_some_and(|server| server.role == Role::Basic)
                }
            })
        };
        (0..self.scenarios.len()).filter(is_measured).collect()
    }

    fn add(&mut self, number: usize, rate: Rate, ours: Run, fortio: Run) {
        let scenario = self.name(number);
        let earlier = self
            .fortio
            .iter_mut()
            .find(|beside| beside.scenario == scenario && beside.rate == rate);
        if let Some(beside) = earlier {
            beside.ours.push(ours);
            beside.fortio.push(fortio);
        } else {
            self.fortio.push(Beside { scenario, rate, ours: vec![ours], fortio: vec![fortio] });
        }
    }

    fn run_ours(&self, plan: &Plan) -> Result<Run, Failed> {
        let results = on(self.pins.outside.as_deref(), || load::run(plan))?;
        Ok(Run::new(load::report::fortio(&results, "")))
    }

    fn run_fortio(&self, fortio: &Fortio, plan: &Plan) -> Result<Run, Failed> {
        on(self.pins.outside.as_deref(), || run(&fortio.program, &arguments(plan)))
    }
}

impl Beside {
    /// Requests without a response, and responses other than 200.
    pub(super) fn wrong(&self) -> u64 {
        self.ours.iter().chain(&self.fortio).map(Run::wrong).sum()
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "scenario": self.scenario,
            "rate": self.rate.to_string(),
            "rolegate-load": self.ours.iter().map(|run| &run.0).collect::<Vec<_>>(),
            "fortio": self.fortio.iter().map(|run| &run.0).collect::<Vec<_>>(),
        })
    }

    fn rows(&self) -> [Vec<String>; 3] {
        let name = |generator| format!("{}: {generator}", self.scenario);
        [
            row(name("fortio"), &self.fortio, "/DurationHistogram"),
            row(name("rolegate-load, from sending"), &self.ours, "/OpenLoop/Uncorrected"),
            row(name("rolegate-load, from when due"), &self.ours, "/DurationHistogram"),
        ]
    }
}

/// The section of the report.
pub(super) fn parts(all: &[Beside]) -> Vec<Part> {
    let Some(first) = all.iter().find_map(|beside| beside.fortio.first()) else {
        return Vec::new();
    };
    let rounds = all.iter().map(|beside| beside.fortio.len()).max().unwrap_or_default();
    let mut parts = vec![
        Part::Heading(format!("Beside fortio {}", first.text("/Version"))),
        Part::Text(format!(
            "The same requests by fortio and by our own generator in turn, medians of {rounds} rounds of {} in µs, in brackets the \
             lowest and the highest. fortio counts from when a request was sent, and interpolates within the buckets of its \
             histogram, which from 10 ms on are at least 10 ms wide. A dash means that too few requests were made for that \
             percentile.",
            first.text("/RequestedDuration"),
        )),
    ];
    for rate in RATES.map(Rate::Constant) {
        let of_rate: Vec<&Beside> = all.iter().filter(|beside| beside.rate == rate).collect();
        parts.push(Part::Subheading(format!("At {rate}")));
        for beside in &of_rate {
            let wrong = beside.wrong();
            if wrong > 0 {
                parts.push(Part::Warning(format!(
                    "{} at {rate}: {} requests had no response, or one with another status than 200.",
                    beside.scenario,
                    units::count(wrong),
                )));
            }
        }
        let heads = PERCENTILES.map(|percent| format!("p{percent}"));
        let heads: Vec<&str> = ["scenario: generator", "requests/s"]
            .into_iter()
            .chain(heads.iter().map(String::as_str))
            .collect();
        parts.push(table(&heads, of_rate.iter().flat_map(|beside| beside.rows()).collect()));
    }
    parts
}

fn row(name: String, runs: &[Run], histogram: &str) -> Vec<String> {
    let rate = Spread::of(runs.iter().map(|run| run.number("/ActualQPS")));
    let mut row =
        vec![name, rate.map_or_else(dash, |rate| rate.shown(|rate| format!("{rate:.1}")))];
    row.extend(PERCENTILES.map(|percent| {
        micro_spread(Spread::of(runs.iter().filter_map(|run| run.percentile(histogram, percent))))
    }));
    row
}

impl Run {
    /// Without the buckets, which are for drawing.
    fn new(mut json: Value) -> Self {
        for histogram in ["/DurationHistogram", "/ErrorsDurationHistogram", "/OpenLoop/Uncorrected"]
        {
            json.pointer_mut(histogram)
                .and_then(Value::as_object_mut)
                .map(|fields| fields.remove("Data"));
        }
        Self(json)
    }

    fn number(&self, field: &str) -> f64 {
        self.0.pointer(field).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    fn text(&self, field: &str) -> &str {
        self.0.pointer(field).and_then(Value::as_str).unwrap_or_default()
    }

    /// The value at a percentile of this histogram, in nanoseconds; `None` if it was not asked for,
    /// or if there are too few values.
    fn percentile(&self, histogram: &str, percent: f64) -> Option<f64> {
        let histogram = self.0.pointer(histogram)?;
        let mut percentiles = histogram.get("Percentiles")?.as_array()?.iter();
        let is_meant =
            |entry: &&Value| entry.get("Percentile").and_then(Value::as_f64) == Some(percent);
        let value = percentiles.find(is_meant)?.get("Value")?.as_f64()?;
        let count = histogram.get("Count")?.as_u64()?;
        has_values_beyond(count, percent).then_some(value * 1e9)
    }

    /// Requests without a response, and responses other than 200.
    fn wrong(&self) -> u64 {
        let codes = self.0.get("RetCodes").and_then(Value::as_object).into_iter().flatten();
        let counts = codes.filter(|(status, _)| *status != "200");
        counts.filter_map(|(_, count)| count.as_u64()).sum()
    }
}

/// The load of a plan as arguments of fortio.
fn arguments(plan: &Plan) -> Vec<String> {
    let rate = plan.rate.to_string();
    let duration = format!("{}ms", plan.duration.unwrap_or_default().as_millis());
    let percentiles = PERCENTILES.map(|percent| percent.to_string()).join(",");
    let connections = plan.connections.to_string();
    let options = [
        ["-qps", rate.trim_end_matches("/s")],
        ["-c", &connections],
        ["-t", &duration],
        ["-p", &percentiles],
        ["-r", RESOLUTION],
        ["-json", "-"],
    ];
    // `-uniform`: otherwise all connections send at the same time.
    let mut all: Vec<String> = ["load", "-quiet", "-uniform"].map(str::to_owned).into();
    all.extend(options.into_iter().flatten().map(str::to_owned));
    for (name, value) in plan.workload.requests.iter().flat_map(|request| &request.headers) {
        all.extend(["-H".to_owned(), format!("{name}: {value}")]);
    }
    all.push(plan.target.shown.clone());
    all
}

fn run(program: &Path, arguments: &[String]) -> Result<Run, Failed> {
    let failed = |why: String| Failed::new(program.display().to_string(), why);
    let output = Command::new(program).args(arguments).output().map_err(|error| {
        failed(format!("{error}: FORTIO=1 builds fortio, FORTIO=/path/to/fortio names another"))
    })?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    if json.pointer("/DurationHistogram/Count").is_none() || json.get("RetCodes").is_none() {
        return Err(failed("its output is not the JSON of fortio 1.66".to_owned()));
    }
    Ok(Run::new(json))
}

#[cfg(test)]
mod tests {
    use load::report::document;

    use super::*;

    /// The application at 100/s for 6 s by each, as they wrote it.
    fn recorded() -> Beside {
        let read = |json| vec![Run::new(serde_json::from_str(json).unwrap())];
        Beside {
            scenario: "app".to_owned(),
            rate: Rate::Constant(100.0),
            ours: read(include_str!("fortio/rolegate-load.json")),
            fortio: read(include_str!("fortio/fortio.json")),
        }
    }

    #[test]
    fn both_generators_are_side_by_side() {
        let text = document::text("", &parts(&[recorded()]));
        for line in [
            "Beside fortio 1.66.5\n",
            "requests/s            p50                  p75                     p90                     p99                   p99.9\n",
            "  app: fortio                        98.8 (98.8–98.8)  391 (391–391)        451 (451–451)     3,250 (3,250–3,250)  \
             19,412 (19,412–19,412)  27,821 (27,821–27,821)\n",
            "  app: rolegate-load, from sending   99.7 (99.7–99.7)  365 (365–365)        391 (391–391)           481 (481–481)  \
             32,244 (32,244–32,244)  47,710 (47,710–47,710)\n",
            "  app: rolegate-load, from when due  99.7 (99.7–99.7)  457 (457–457)  3,631 (3,631–3,631)  13,795 (13,795–13,795)  \
             43,319 (43,319–43,319)  67,240 (67,240–67,240)\n",
        ] {
            assert!(text.contains(line), "no `{line}` in\n{text}");
        }
        assert!(!text.contains("!!"), "a warning without a reason:\n{text}");
    }

    #[test]
    fn a_percentile_that_rests_on_no_request_is_not_shown() {
        let mut beside = recorded();
        beside.fortio[0].0["DurationHistogram"]["Count"] = 499.into();
        let [fortio, ..] = beside.rows();
        assert!(fortio[6] == "–" && fortio[5] != "–", "{fortio:?}");
    }

    #[test]
    fn responses_other_than_200_are_a_warning() {
        let mut beside = recorded();
        beside.fortio[0].0["RetCodes"] = json!({ "200": 597, "403": 2, "-1": 1 });
        let text = document::text("", &parts(&[beside]));
        assert!(
            text.contains(
                "!! app at 100/s: 3 requests had no response, or one with another status than 200."
            ),
            "{text}"
        );
    }

    #[test]
    fn a_fortio_that_does_not_run_is_an_error_that_says_what_to_do() {
        let error = |program: &str, argument: &str| {
            run(Path::new(program), &[argument.to_owned()]).unwrap_err().to_string()
        };
        let missing = error("/nowhere/fortio", "load");
        assert!(missing.contains("FORTIO=1"), "{missing}");
        let failed = error("/bin/ls", "/nowhere/file");
        assert!(failed.contains("/nowhere/file"), "{failed}");
        let other = error("/bin/echo", "{}");
        assert!(other.contains("not the JSON of fortio"), "{other}");
    }
}
