//! The same load with the server on 1, 2, 4, … cores: a closed loop of Check calls over TCP, alternately to rolegate
//! (the people policy, a verified password) and to the baseline.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use load::report::units;
use load::{Exit, Plan, Rate, Request, RunResults, Stop, Workload};
use testbed::envoy::Target;
use testbed::rolegate::{ANY_PORT, Rolegate};
use testbed::{Failed, block_on};

use crate::announced;
use crate::machine::{self, Facts, Usage};
use crate::pin::{available, on};
use crate::spread::Spread;
use load::report::document::{self, Part, table};

/// The arguments of `scale`.
#[derive(Args, Clone, Debug)]
pub(crate) struct ScaleArgs {
    /// Number of rounds; the servers take turns in each.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Duration of each measurement.
    #[arg(long, short = 'd', default_value = "3s", value_name = "TIME", value_parser = load::units::duration)]
    pub(crate) duration: Duration,
    /// The program of the baseline [default: `baseline` in the folder of this program].
    #[arg(long, value_name = "FILE")]
    pub(crate) baseline: Option<PathBuf>,
}

/// Runs the experiment.
pub(crate) fn run(args: &ScaleArgs) -> Result<Exit, Box<dyn Error>> {
    let stop = Stop::default();
    stop.on_signals();
    let scale = Scale::measure(args, &stop)?;
    print!("{}", document::text(TITLE, &scale.parts()));
    Ok(if stop.is_requested() { Exit::Interrupted } else { Exit::Success })
}

/// The results.
#[derive(Debug)]
pub(crate) struct Scale {
    steps: Vec<Step>,
    cores: usize,
    facts: Facts,
}

/// One server on a number of cores.
#[derive(Debug)]
struct Step {
    name: &'static str,
    server: usize,
    /// Whether the generator had to share the server's cores.
    shared: bool,
    rounds: Vec<Round>,
}

#[derive(Clone, Copy, Debug)]
struct Round {
    checks: f64,
    server: f64,
    generator: f64,
    wrong: u64,
}

/// A running server and its address.
struct Running {
    address: String,
    process: u32,
    /// Stops it when it is dropped.
    _keep: Box<dyn std::any::Any>,
}

/// The number of concurrent checks per connection.
const STREAMS: usize = 32;
/// A server that used less than this fraction of its cores could have answered more.
const BUSY_FRACTION: f64 = 0.9;

impl Scale {
    fn measure(args: &ScaleArgs, stop: &Stop) -> Result<Self, Failed> {
        let folder = tempfile::tempdir().map_err(|error| Failed::io("temporary folder", &error))?;
        let cores = available();
        let mut steps = Vec::new();
        for count in counts(cores.len()) {
            eprintln!("{count} of {} cores", cores.len());
            steps.extend(step(folder.path(), &cores, count, args, stop)?);
        }
        Ok(Self { steps, cores: cores.len(), facts: machine::facts(None) })
    }

    fn parts(&self) -> Vec<Part> {
        let rows = self.steps.iter().map(Step::row).collect();
        let mut all = vec![
            Part::Text(
                "Check calls over TCP, closed loop, 32 concurrent ones per connection; medians of rounds, in brackets the \
                 lowest and the highest. Checks per busy core count only the time in which the server ran, so they are \
                 valid also where the generator was the limit."
                    .to_owned(),
            ),
            table(
                &["server", "its cores", "checks/s", "per core", "per busy core", "cores busy", "generator busy", "limit"],
                rows,
            ),
        ];
        if self.steps.iter().any(|step| step.shared) {
            all.push(Part::Warning(format!(
                "This machine has {} cores: where the server may use all of them, the generator runs on the same ones.",
                self.cores
            )));
        }
        if self.steps.iter().any(|step| step.wrong() > 0) {
            all.push(Part::Warning(
                "Some calls had no response, or were denied: do not trust these figures.".to_owned(),
            ));
        }
        all.push(Part::Facts(self.facts.clone()));
        all
    }
}

const TITLE: &str = "Checks per second by cores";

impl Step {
    fn spread(&self, of: impl Fn(&Round) -> f64) -> Option<Spread> {
        Spread::of(self.rounds.iter().map(of))
    }

    fn row(&self) -> Vec<String> {
        let shown = |spread: Option<Spread>, with: &dyn Fn(f64) -> String| {
            spread.map_or_else(String::new, |spread| spread.shown(with))
        };
        let cores = units::float(self.server as u64);
        let two = |value: f64| format!("{value:.2}");
        vec![
            self.name.to_owned(),
            self.server.to_string(),
            shown(self.spread(|round| round.checks), &units::grouped),
            shown(self.spread(|round| round.checks / cores), &units::grouped),
            shown(self.spread(|round| round.checks / round.server.max(1e-9)), &units::grouped),
            self.spread(|round| round.server).map_or_else(String::new, |cores| two(cores.median)),
            self.spread(|round| round.generator).map_or_else(String::new, |cores| two(cores.median)),
            self.limit().to_owned(),
        ]
    }

    /// Which of the two was the limit.
    fn limit(&self) -> &'static str {
        let busy = self.spread(|round| round.server).map_or(0.0, |cores| cores.median);
        match (self.shared, busy >= BUSY_FRACTION * units::float(self.server as u64)) {
            (true, _) => "shared cores",
            (false, true) => "server",
            (false, false) => "generator",
        }
    }

    fn wrong(&self) -> u64 {
        self.rounds.iter().map(|round| round.wrong).sum()
    }
}

/// 1, 2, 4, … up to all cores.
fn counts(cores: usize) -> Vec<usize> {
    let mut all: Vec<usize> =
        (0..usize::BITS).map(|power| 1 << power).take_while(|count| *count < cores).collect();
    all.push(cores.max(1));
    all
}

/// Both servers alternately on the first `count` cores, with the generator on the others, or if there are none on the
/// same.
fn step(
    folder: &Path,
    cores: &[usize],
    count: usize,
    args: &ScaleArgs,
    stop: &Stop,
) -> Result<Vec<Step>, Failed> {
    let (server, rest) = cores.split_at(count.min(cores.len()));
    let shared = rest.is_empty();
    let rest = if shared { server } else { rest };
    let running =
        on(Some(server), || Ok::<_, Failed>([rolegate(folder, count)?, baseline(args, folder, count)?]))?;
    let names = ["rolegate, Basic", "baseline"];
    let mut steps: Vec<Step> =
        names.into_iter().map(|name| Step { name, server: count, shared, rounds: Vec::new() }).collect();
    for _ in 0..args.rounds {
        for (step, running) in steps.iter_mut().zip(&running) {
            if !stop.is_requested() {
                step.rounds
                    .push(on(Some(rest), || round(running, (count, rest.len()), args.duration, stop))?);
            }
        }
    }
    Ok(steps)
}

fn rolegate(folder: &Path, threads: usize) -> Result<Running, Failed> {
    let policy = testbed::repository().join("policies/people");
    let threads = threads.to_string();
    let more = ["--threads", &threads, "--drain-delay", "0s", "--log-format", "json"];
    let program = testbed::program()?;
    let rolegate = block_on(Rolegate::start(&program, &policy, Target::Tcp(ANY_PORT), folder, &more))?;
    Ok(Running { address: rolegate.listen.to_string(), process: rolegate.id(), _keep: Box::new(rolegate) })
}

fn baseline(args: &ScaleArgs, folder: &Path, threads: usize) -> Result<Running, Failed> {
    let program = crate::baseline(args.baseline.as_ref())?;
    let (process, address) = announced("baseline", &program, &["127.0.0.1:0", &threads.to_string()], folder)?;
    Ok(Running { address, process: process.id(), _keep: Box::new(process) })
}

fn round(
    of: &Running,
    (server, generator): (usize, usize),
    duration: Duration,
    stop: &Stop,
) -> Result<Round, Failed> {
    let mut plan = Plan::check(&of.address)?;
    let request = Request { expect: vec![200], ..Request::get("/people") };
    plan.workload = Workload::of(request.basic("alice:wonderland"));
    plan.rate = Rate::Max;
    // Two connections per core of the server, distributed evenly over the generator's threads.
    (plan.connections, plan.streams, plan.threads) = (2 * server.max(generator), STREAMS, generator);
    (plan.duration, plan.warmup) = (Some(duration), Duration::from_millis(300));
    plan.stop = stop.clone();
    let (before, start) = (Usage::of(of.process), Instant::now());
    let measured: RunResults = load::run(&plan)?;
    let ran = Usage::of(of.process).ran.saturating_sub(before.ran);
    Ok(Round {
        checks: measured.generator.achieved,
        server: units::float(ran) / 1e9 / start.elapsed().as_secs_f64(),
        generator: measured.generator.cpu.as_secs_f64() / measured.elapsed.as_secs_f64().max(1e-9),
        wrong: measured.errors() + measured.unexpected,
    })
}

#[cfg(test)]
mod tests {
    use super::{Round, Step, counts};

    #[test]
    fn cores_double_and_end_with_all() {
        for (cores, steps) in [(1, vec![1]), (2, vec![1, 2]), (6, vec![1, 2, 4, 6]), (8, vec![1, 2, 4, 8])] {
            assert_eq!(counts(cores), steps);
        }
    }

    #[test]
    fn a_server_that_idles_was_not_the_limit() {
        let step = |server: f64, shared| Step {
            name: "",
            server: 2,
            shared,
            rounds: vec![Round { checks: 1.0, server, generator: 1.0, wrong: 0 }],
        };
        assert_eq!(step(1.95, false).limit(), "server");
        assert_eq!(step(1.2, false).limit(), "generator");
        assert_eq!(step(1.95, true).limit(), "shared cores");
    }
}
