//! The whole experiment in one command: the application alone, behind Envoy, and behind Envoy with
//! ext_authz by rolegate, the baseline or another server; every rate, in interleaved rounds, with
//! one report.
//!
//! Read [`Comparison::measure`], then [`schedule`] (what is measured when) and [`goals`] (how the
//! results are evaluated).

mod fortio;
mod goals;
mod inside;
mod json;
mod parts;
mod record;
mod reload;
mod scenario;
mod schedule;
mod servers;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use load::report::svg;
use load::{Exit, Plan, Rate, Stop, Workload};
use testbed::Failed;

use crate::machine::{self, Facts, Ticks};
use crate::pin::{Pins, on};
use crate::records::{self, Ends, Record as Line};
use crate::verdict::Verdict;
use crate::{exit, temporary_folder, write};
use fortio::{Beside, Fortio};
use goals::Evidence;
use inside::Inside;
use load::report::document;
use record::{Record, Round};
use reload::{Reload, Size};
use scenario::{Scenario, Server};
use schedule::{Cell, Depth, Schedule};
use servers::{Places, Running};

/// The arguments of `compare`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareArgs {
    /// The folder for `report.html`, `report.json`, `report.txt`, `report.svg`, `records.csv` and
    /// Envoy's configuration.
    #[arg(long, value_name = "FOLDER", default_value = "target/load")]
    pub(crate) out: PathBuf,
    /// An imprecise run of less than two minutes, with fewer rates, rounds and variants.
    #[arg(long)]
    pub(crate) quick: bool,
    /// The program of the baseline [default: `baseline` in the folder of this program].
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
    /// The folder of `librolegate.so` (`make module`), to measure rolegate inside Envoy too.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) module: Option<PathBuf>,
    /// Another ext_authz server that you have started, whose policy allows alice GET /people with
    /// Basic; repeat the flag for more than one. With its process id, its processor time and memory
    /// are reported too. `headers=map` is for servers that do not read raw headers, such as
    /// OPA-Envoy.
    #[arg(long = "peer", value_name = "NAME=ADDR[,pid=N][,headers=map]")]
    pub(crate) peers: Vec<Server>,
    /// Time for all measurements, without starting and stopping the servers [default: 750s; 70s
    /// with --quick].
    #[arg(long, value_name = "TIME", value_parser = load::units::duration)]
    pub(crate) budget: Option<Duration>,
    /// Number of rounds [default: 10; 6 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: Option<u8>,
    /// Rates in requests per second; `max` is a closed loop [default: 100,1000,2000,…,5000,max;
    /// 1000,5000,max with --quick].
    #[arg(long, value_name = "N|max,…", value_delimiter = ',', value_parser = load::units::rate)]
    pub(crate) rates: Vec<Rate>,
    /// Connect Envoy and the servers only over a Unix socket and with Envoy's own gRPC client, not
    /// over TCP or with Google's gRPC client.
    #[arg(long)]
    pub(crate) no_variants: bool,
    /// Do not measure reloads of a large policy under load.
    #[arg(long)]
    pub(crate) no_reload: bool,
    /// The program fortio, to measure the application, Envoy, and Envoy with rolegate at 100 and
    /// 1,000 requests per second with it too, before the rest.
    #[arg(long, value_name = "FILE")]
    pub(crate) fortio: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  measure compare --quick
  measure compare --peer opa=127.0.0.1:9191,pid=4711,headers=map
  measure compare --rates 1000,max --rounds 9 --no-variants --budget 5m

It needs the program `rolegate` in the folder of this program (or ROLEGATE=/path), and Envoy
(`make tools`, or ENVOY=/path).";

/// The number of connections of the generator.
pub(crate) const CONNECTIONS: usize = 8;
/// How often the start of rolegate is timed.
const STARTS: usize = 5;

/// Runs the experiment. Exits with 5 if something does not start, or a request does not get the
/// expected response.
pub(crate) fn run(args: &CompareArgs) -> Result<Exit, Box<dyn Error>> {
    let stop = Stop::default();
    stop.on_signals();
    let done = Comparison::measure(args, &stop)?;
    println!(
        "{}\nwritten: {}",
        done.write(&args.out)?,
        args.out.join("report.{html,json,txt}").display()
    );
    Ok(exit(&stop, done.went_wrong()))
}

/// A comparison with all its measurements.
#[derive(Debug)]
pub(crate) struct Comparison {
    servers: Vec<Server>,
    scenarios: Vec<Scenario>,
    schedule: Schedule,
    pins: Pins,
    record: Record,
    ready: Vec<f64>,
    fortio: Vec<Beside>,
    reload: Option<Reload>,
    facts: Facts,
    commands: Vec<String>,
    interrupted: bool,
}

impl Comparison {
    /// Measures everything. `stop` ends it early, with the results so far.
    fn measure(args: &CompareArgs, stop: &Stop) -> Result<Self, Failed> {
        let mut this = Self::planned(args)?;
        eprintln!(
            "{} scenarios, {} measurements, about {:.0} s",
            this.scenarios.len(),
            this.schedule.cells.len(),
            this.schedule.total().as_secs_f64()
        );
        let folder = temporary_folder("compare")?;
        let places = Places {
            rolegate: testbed::program()?,
            baseline: crate::baseline(args.baseline.as_ref())?,
            module: args
                .module
                .as_ref()
                .map(std::path::absolute)
                .transpose()
                .map_err(|error| Failed::io("module", &error))?,
            folder: folder.path().to_path_buf(),
        };
        this.facts = machine::facts(Some(&testbed::envoy::program()?));
        let before = Ticks::now();
        this.ready = ready(&places, &this.pins)?;
        this.every_round(&places, fortio(args).as_ref(), stop)?;
        let config = std::fs::read_to_string(places.folder.join("envoy.yaml"));
        write(
            &args.out.join("envoy.yaml"),
            &config.map_err(|error| Failed::io("envoy.yaml", &error))?,
        )?;
        if !args.no_reload && !stop.is_requested() {
            eprintln!("reloads under load");
            this.reload = Some(Reload::measure(&places, &this.pins, size(args.quick))?);
        }
        let stolen = Ticks::now().stolen_since(before);
        this.facts.push((
            "taken by the host meanwhile".to_owned(),
            format!("{stolen:.1} % of the processor time"),
        ));
        this.interrupted = stop.is_requested();
        Ok(this)
    }

    /// The plan of the measurements, without starting anything.
    fn planned(args: &CompareArgs) -> Result<Self, Failed> {
        let servers = Server::all(&args.peers);
        let scenarios =
            Scenario::all(&servers, !args.no_variants && !args.quick, args.module.is_some());
        let depth = depth(args);
        let schedule = Schedule::new(&scenarios, &depth)?;
        Ok(Self {
            servers,
            scenarios,
            schedule,
            pins: Pins::new(),
            record: Record::default(),
            ready: Vec::new(),
            fortio: Vec::new(),
            reload: None,
            facts: Facts::new(),
            commands: Vec::new(),
            interrupted: false,
        })
    }

    fn every_round(
        &mut self,
        places: &Places,
        fortio: Option<&Fortio>,
        stop: &Stop,
    ) -> Result<(), Failed> {
        let running = Running::start(places, &self.servers, &self.scenarios, &self.pins)?;
        for (number, scenario) in self.scenarios.iter().enumerate() {
            running.check(number, scenario)?;
        }
        self.commands.clone_from(&running.commands);
        self.commands.extend(self.loads(&running));
        if let Some(fortio) = fortio {
            self.run_both(fortio, &running, stop)?;
        }
        let begun = Instant::now();
        let cells = self.schedule.cells.clone();
        let mut said = None;
        for (done, cell) in cells.iter().enumerate() {
            if stop.is_requested() {
                break;
            }
            if said != Some((cell.round, cell.rate)) {
                said = Some((cell.round, cell.rate));
                let rate =
                    self.schedule.rates.get(cell.rate).map(ToString::to_string).unwrap_or_default();
                let (share, seconds) = (100 * done / cells.len(), begun.elapsed().as_secs());
                eprintln!("round {}, {rate}: {share} % after {seconds} s", cell.round + 1);
            }
            self.cell(&running, cell, stop)?;
        }
        Ok(())
    }

    fn cell(&mut self, running: &Running, cell: &Cell, stop: &Stop) -> Result<(), Failed> {
        let Some(scenario) = self.scenarios.get(cell.scenario) else { return Ok(()) };
        let Some(rate) = self.schedule.rates.get(cell.rate) else { return Ok(()) };
        let Some(plan) = self.plan(running, cell.scenario, *rate, cell.duration, stop)? else {
            return Ok(());
        };
        let admin = running.admin(scenario);
        let inside = admin.and_then(Inside::ask);
        let (before, start) = (running.usage(scenario), Instant::now());
        let measured = on(self.pins.outside.as_deref(), || load::run(&plan))
            .map_err(|error| Failed::new(scenario.name.clone(), error.to_string()))?;
        let (after, seconds) = (running.usage(scenario), start.elapsed().as_secs_f64());
        if measured.interrupted {
            return Ok(());
        }
        let entry = self.record.entry(cell.scenario, cell.rate);
        entry.add(Round::new(cell.round, &measured, before, after, seconds), &measured);
        if let (Some(earlier), Some(now)) = (inside, admin.and_then(Inside::ask)) {
            now.add_since(&earlier, &mut entry.handler, &mut entry.evaluation);
        }
        Ok(())
    }

    fn plan(
        &self,
        running: &Running,
        number: usize,
        rate: Rate,
        duration: Duration,
        stop: &Stop,
    ) -> Result<Option<Plan>, Failed> {
        let Some(scenario) = self.scenarios.get(number) else { return Ok(None) };
        let Some(url) = running.url(number, scenario) else { return Ok(None) };
        let mut plan = Plan::http(&url)?;
        plan.workload = Workload::single(running.request(scenario));
        (plan.rate, plan.connections) = (rate, CONNECTIONS);
        (plan.duration, plan.warmup) = (Some(duration), self.schedule.warmup);
        plan.stop = stop.clone();
        Ok(Some(plan))
    }

    /// The load of each scenario as a command, once for all rates and rounds.
    fn loads(&self, running: &Running) -> Vec<String> {
        let duration =
            self.schedule.cells.first().map(|cell| cell.duration.as_millis()).unwrap_or_default();
        let warmup = self.schedule.warmup.as_millis();
        let command = |(number, scenario): (usize, &Scenario)| {
            let (url, credentials) =
                (running.url(number, scenario)?, running.credentials(scenario));
            Some(format!(
                "rolegate-load http {url} --rate RATE --connections {CONNECTIONS} --warmup {warmup}ms --duration {duration}ms {credentials} \
                 --expect 200  # {}",
                scenario.name
            ))
        };
        self.scenarios.iter().enumerate().filter_map(command).collect()
    }

    fn evidence(&self) -> Evidence<'_> {
        Evidence {
            scenarios: &self.scenarios,
            servers: &self.servers,
            rates: &self.schedule.rates,
            record: &self.record,
            ready: &self.ready,
            reload: self.reload.as_ref(),
        }
    }

    /// Writes the report in three formats, a chart, and records. Returns the text.
    fn write(&self, folder: &Path) -> Result<String, Failed> {
        let (title, parts) = ("rolegate beside the application, Envoy and others", self.parts());
        let text = document::text(title, &parts);
        write(&folder.join("report.html"), &document::html(title, &parts))?;
        write(&folder.join("report.json"), &format!("{:#}\n", self.json()))?;
        write(&folder.join("report.txt"), &text)?;
        if let Some(chart) =
            self.beside().and_then(|curves| svg::percentiles(parts::BESIDE, &curves))
        {
            write(&folder.join("report.svg"), &chart.file())?;
        }
        let written = records::append(folder, &self.facts, &self.lines());
        written.map_err(|error| Failed::io("records.csv", &error)).map(|()| text)
    }

    /// The goals, and requests per second and latencies of each scenario at each rate, as records.
    fn lines(&self) -> Vec<Line> {
        let goal = |verdict: Verdict| {
            let (name, unit) = (
                format!("load/goals/{} {}", verdict.goal, verdict.what),
                verdict.limit.unit().to_owned(),
            );
            Some(Line {
                name,
                unit,
                spread: verdict.spread?,
                ends: Ends::Rounds,
                samples: self.rounds_done(),
            })
        };
        let mut all: Vec<Line> = self.evidence().verdicts().into_iter().filter_map(goal).collect();
        for (number, scenario) in self.scenarios.iter().enumerate() {
            for (at, rate) in self.schedule.rates.iter().enumerate() {
                let Some(entry) = self.record.at(number, at) else { continue };
                let mut add = |what: &str, unit: &str, of: fn(&Round) -> f64| {
                    let values: Vec<f64> = entry.rounds.iter().map(of).collect();
                    all.extend(Line::of_rounds(
                        &format!("load/{}/{rate}/{what}", scenario.name),
                        unit,
                        &values,
                    ));
                };
                add("rate", "requests/s", |round| round.achieved);
                add("p50", "ns", |round| round.latency.p50);
                add("p99", "ns", |round| round.latency.p99);
            }
        }
        all
    }

    /// Whether some request had no response, or one with a status other than 200.
    fn went_wrong(&self) -> bool {
        self.record.rounds().any(|(_, _, round)| round.wrong > 0)
            || self.fortio.iter().any(|beside| beside.wrong() > 0)
    }
}

fn depth(args: &CompareArgs) -> Depth {
    let rates: &[f64] = if args.quick { &[1e3, 5e3] } else { &[1e2, 1e3, 2e3, 3e3, 4e3, 5e3] };
    let rates = rates.iter().map(|rate| Rate::Constant(*rate)).chain([Rate::Max]).collect();
    let (rounds, budget) = if args.quick { (6, 70) } else { (10, 750) };
    let rounds = args.rounds.map_or(rounds, usize::from);
    Depth {
        rates: if args.rates.is_empty() { rates } else { args.rates.clone() },
        rounds,
        variant_rounds: rounds.min(3),
        budget: args.budget.unwrap_or(Duration::from_secs(budget)),
        warmup: Duration::from_millis(150),
    }
}

/// In less than six seconds at 100/s no request is beyond the p99.9.
fn fortio(args: &CompareArgs) -> Option<Fortio> {
    let (rounds, seconds) = if args.quick { (2, 2) } else { (5, 6) };
    let program = args.fortio.clone()?;
    Some(Fortio { program, rounds, duration: Duration::from_secs(seconds) })
}

/// The size for P6 in `benches/README.md`, or a hundredth of it for a quick run.
fn size(quick: bool) -> Size {
    if quick {
        Size { roles: 100, users: 100, windows: 2, window: Duration::from_secs(1) }
    } else {
        Size { roles: 1_000, users: 1_000, windows: 8, window: Duration::from_secs(2) }
    }
}

/// The nanoseconds from the start of rolegate with the people policy until it accepts connections.
/// It listens only once its policy is active.
fn ready(places: &Places, pins: &Pins) -> Result<Vec<f64>, Failed> {
    let policy = testbed::repository().join("policies/people");
    let mut all = Vec::new();
    for number in 0..STARTS {
        let socket = places.folder.join(format!("ready-{number}.sock"));
        let took =
            on(pins.server.as_deref(), || servers::until_it_listens(places, &policy, &socket))?;
        all.push(took.as_secs_f64() * 1e9);
    }
    Ok(all)
}
