//! What the options of rolegate cost: the decision log, traces, the console, and the identity
//! header. Each is measured beside the same server without any of them, in two ways: checks per
//! second of the server alone, as `wire` does, and requests per second through Envoy, whose own
//! work is most of that.

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use benches::message::ALICE;
use benches::people;
use clap::Args;
use load::report::document::{Part, table};
use load::report::units;
use load::{Exit, Plan, Rate, Request, Stop, Workload};
use testbed::client::get;
use testbed::collector::Collector;
use testbed::envoy::{Envoy, Listener, Target};
use testbed::rolegate::ANY_PORT;
use testbed::{Failed, block_on};

use crate::compare::CONNECTIONS;
use crate::machine::{self, Facts};
use crate::pin::{Pins, on};
use crate::records::Record;
use crate::spread::Spread;
use crate::verdict::{Limit, Verdict, tabled};
use crate::wire::{self, Measured};
use crate::{exit, publish, start_app, temporary_folder};

/// The arguments of `options`.
#[derive(Args, Clone, Debug)]
pub(crate) struct OptionsArgs {
    /// The folder for `options.txt` and `records.csv`.
    #[arg(long, value_name = "FOLDER", default_value = "target/load")]
    pub(crate) out: PathBuf,
    /// Number of rounds; in each, every variant is measured once without Envoy and once through it.
    #[arg(long, default_value_t = 9, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) rounds: u8,
    /// Duration of each measurement, in seconds.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) seconds: u32,
}

const TITLE: &str = "What the options of rolegate cost";
/// The variant that the others are compared with.
const FIRST: &str = "no option";
/// The load through Envoy before each measurement.
const WARMUP: Duration = Duration::from_millis(200);

/// One server, and what was measured of it.
struct Variant {
    name: &'static str,
    server: wire::Server,
    /// Where its console is, which is opened once per second while it is measured.
    console: Option<SocketAddr>,
    /// The checks per second, their processor time in ns, and the requests per second through
    /// Envoy, of each round.
    alone: Vec<f64>,
    cpu: Vec<f64>,
    through_envoy: Vec<f64>,
    wrong: u64,
}

/// Runs the experiment.
pub(crate) fn run(args: &OptionsArgs) -> Result<Exit, Box<dyn Error>> {
    let stop = Stop::default();
    stop.on_signals();
    let folder = temporary_folder("options")?;
    let pins = Pins::new();
    let collector = Collector::start(testbed::collector::Options::default())?;
    let (_app, app) = on(pins.outside.as_deref(), || start_app(folder.path()))?;
    let (mut variants, targets): (Vec<_>, Vec<_>) =
        on(pins.server.as_deref(), || variants(folder.path(), &collector))?.into_iter().unzip();
    let listener = |(number, target)| Listener {
        targets: vec![target],
        ..Listener::new(format!("options-{number}"))
    };
    let listeners: Vec<Listener> = targets.into_iter().enumerate().map(listener).collect();
    let envoy =
        on(pins.envoy.as_deref(), || block_on(Envoy::start(folder.path(), app, &listeners)))?;
    for variant in &variants {
        variant.server.warm_up(&pins);
    }
    for round in 0..usize::from(args.rounds) {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for step in 0..variants.len() {
            // Each round begins with another one, so that none always follows the same one.
            let number = (step + round) % variants.len();
            if let (Some(variant), Some(at)) =
                (variants.get_mut(number), envoy.addresses.get(number))
                && !stop.is_requested()
            {
                variant.measure(*at, &pins, args.seconds, &stop)?;
            }
        }
    }
    let facts = machine::facts(Some(&testbed::envoy::program()?));
    let file = args.out.join("options.txt");
    publish(&file, TITLE, &parts(&variants, &facts), &facts, &records(&variants))?;
    Ok(exit(&stop, variants.iter().any(|variant| variant.wrong > 0)))
}

/// The variants, each with the address that Envoy asks it at.
fn variants(folder: &Path, collector: &Collector) -> Result<Vec<(Variant, Target)>, Failed> {
    let log = |name: &str| folder.join(format!("{name}.log")).display().to_string();
    let (all, sampled) = (log("all"), log("sampled"));
    let endpoint = format!("http://{}", collector.address());
    let traces = |ratio| ["--traces", "otlp", "--trace-ratio", ratio, "--otlp-endpoint", &endpoint];
    let with_header = |lines: &str| format!("{}identity_header:\n{lines}", people::BASIC);
    let jwt = with_header("  format: jwt\n  keys: [identity.pem]\n  audience: people\n");
    let compact = with_header("  format: compact\n  keys: [identity.key]\n  audience: people\n");
    let key = testbed::tokens::private_key();
    let secret = "an example of a secret: 32 bytes";
    let keys: [(&str, &str); 2] = [("identity.pem", &key), ("identity.key", secret)];
    let start = |name: &'static str, policy: &str, options: &[&str]| {
        let place = folder.join(name.replace(' ', "-"));
        let (rolegate, _) = wire::started(&place, policy, &keys, Target::Tcp(ANY_PORT), options)?;
        let console = options.contains(&"--console").then_some(rolegate.admin);
        let (at, listen) = ((rolegate.id(), rolegate.listen.to_string()), rolegate.listen.clone());
        let server = wire::server(name, at, ALICE, Rc::new(rolegate));
        let (alone, cpu, through_envoy) = (Vec::new(), Vec::new(), Vec::new());
        Ok::<_, Failed>((
            Variant { name, server, console, alone, cpu, through_envoy, wrong: 0 },
            listen,
        ))
    };
    Ok(vec![
        start(FIRST, people::BASIC, &[])?,
        start(
            "decision log, all",
            people::BASIC,
            &["--decision-log", "all", "--decision-log-file", &all],
        )?,
        start(
            "decision log, 1 % of the allowed",
            people::BASIC,
            &[
                "--decision-log=all",
                "--decision-log-sample=allowed=0.01",
                "--decision-log-file",
                &sampled,
            ],
        )?,
        start("traces, 1 %", people::BASIC, &traces("0.01"))?,
        start("traces, all", people::BASIC, &traces("1"))?,
        start("console, open", people::BASIC, &["--console"])?,
        start("identity header, JWT", &jwt, &[])?,
        start("identity header, compact", &compact, &[])?,
    ])
}

impl Variant {
    fn measure(
        &mut self,
        at: SocketAddr,
        pins: &Pins,
        seconds: u32,
        stop: &Stop,
    ) -> Result<(), Failed> {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            if let Some(console) = self.console {
                let (cores, done) = (pins.outside.as_deref(), &done);
                scope.spawn(move || on(cores, || open(console, done)));
            }
            let Measured { rate, cpu } =
                self.server.measure(pins, Duration::from_secs(seconds.into()));
            self.alone.push(rate);
            self.cpu.push(cpu);
            let through = self.through_envoy(at, pins, seconds, stop);
            done.store(true, Ordering::Relaxed);
            through
        })
    }

    fn through_envoy(
        &mut self,
        at: SocketAddr,
        pins: &Pins,
        seconds: u32,
        stop: &Stop,
    ) -> Result<(), Failed> {
        let request =
            Request { expect: vec![200], ..Request::get("/people") }.basic("alice:wonderland");
        let plan = Plan {
            workload: Workload::single(request),
            rate: Rate::Max,
            connections: CONNECTIONS,
            duration: Some(Duration::from_secs(seconds.into())),
            warmup: WARMUP,
            stop: stop.clone(),
            ..Plan::http(&format!("http://{at}/people"))?
        };
        let measured = on(pins.outside.as_deref(), || load::run(&plan))?;
        self.through_envoy.push(measured.generator.achieved);
        self.wrong += measured.errors() + measured.unexpected;
        Ok(())
    }
}

/// Opens the console once per second, as a browser does that shows it.
fn open(console: SocketAddr, done: &AtomicBool) {
    let mut tenths = 0_u32;
    while !done.load(Ordering::Relaxed) {
        if tenths.is_multiple_of(10) {
            let page = block_on(get(console, "/console", &[]));
            if page.map(|page| page.status).ok() != Some(200) {
                eprintln!("the console does not answer");
            }
        }
        tenths = tenths.wrapping_add(1);
        thread::sleep(Duration::from_millis(100));
    }
}

/// The ratio of a variant's values to those of the first in each round.
fn ratios(variant: &[f64], first: &[f64]) -> Vec<f64> {
    variant.iter().zip(first).map(|(one, other)| one / other).collect()
}

fn parts(variants: &[Variant], facts: &Facts) -> Vec<Part> {
    let Some(first) = variants.first() else { return Vec::new() };
    let of = |values: &[f64], shown: fn(f64) -> String| {
        Spread::of(values.iter().copied()).map_or_else(String::new, |spread| spread.shown(shown))
    };
    let ratio = |value: f64| format!("{value:.3}");
    let row = |variant: &Variant| {
        vec![
            variant.name.to_owned(),
            of(&variant.alone, units::grouped),
            of(&ratios(&variant.alone, &first.alone), ratio),
            of(&variant.cpu, units::grouped),
            of(&variant.through_envoy, units::grouped),
            of(&ratios(&variant.through_envoy, &first.through_envoy), ratio),
        ]
    };
    let head =
        ["option", "checks/s", "÷ none", "ns per check", "requests/s through Envoy", "÷ none"];
    let mut all = vec![
        Part::Text(
            "Basic with a cached password, policies/people, one core. Medians of rounds, in brackets the lowest and the highest; \
             ratios are taken within each round. The console is opened once per second."
                .to_owned(),
        ),
        tabled(&verdicts(variants)),
        table(&head, variants.iter().map(row).collect()),
    ];
    if variants.iter().any(|variant| variant.wrong > 0) {
        let text = "Some requests had no response, or were denied: do not trust these figures.";
        all.push(Part::Warning(text.to_owned()));
    }
    all.push(Part::Facts(facts.clone()));
    all
}

/// A request with the header costs at most 1.03 × one without, through Envoy.
fn verdicts(variants: &[Variant]) -> Vec<Verdict> {
    let Some(first) = variants.first() else { return Vec::new() };
    let of_header = variants.iter().filter(|variant| variant.name.starts_with("identity header"));
    let verdict = |variant: &Variant| {
        let cost = Spread::of(ratios(&first.through_envoy, &variant.through_envoy))?;
        let measured = (cost.median, cost.shown(|cost| format!("{cost:.3} ×")));
        let what = format!("cost of a request through Envoy: {} ÷ without", variant.name);
        let verdict =
            Verdict::new("identity header", what, Limit::AtMost(1.03, " ×"), Some(measured));
        Some(Verdict { spread: Some(cost), ..verdict })
    };
    of_header.filter_map(verdict).collect()
}

fn records(variants: &[Variant]) -> Vec<Record> {
    let of = |variant: &Variant| {
        let name = |what| format!("options/{}/{what}", variant.name);
        [
            Record::of_rounds(&name("rate"), "checks/s", &variant.alone),
            Record::of_rounds(&name("cpu"), "ns", &variant.cpu),
            Record::of_rounds(&name("through Envoy"), "requests/s", &variant.through_envoy),
        ]
    };
    variants.iter().flat_map(of).flatten().collect()
}
