//! The program `measure`: whole experiments with rolegate, each a subcommand.
//!
//! `compare`, `filters`, `cluster`, `wire`, `options` and `attack` measure running servers; `soak`
//! runs one for long; `results` evaluates criterion's measurements. They share [`spread`] (a value
//! over several rounds), [`verdict`] (whether a goal is met), [`machine`] (facts about process and
//! machine), [`records`] (the CSV file), and [`load::report::document`] (a report, written as text,
//! HTML or Markdown).

#![expect(
    clippy::disallowed_methods,
    reason = "it starts processes, reads clocks and writes reports"
)]
#![expect(clippy::print_stdout, reason = "what it measures is printed")]

mod attack;
mod cluster;
mod compare;
mod filters;
mod machine;
mod options;
mod pin;
mod records;
mod results;
mod soak;
mod spread;
mod verdict;
mod wire;

use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, Subcommand};
use load::report::document::{self, Part};
use load::{Exit, Stop};
use tempfile::TempDir;
use testbed::{Failed, Process, Stdout, block_on};

use crate::machine::Facts;
use crate::records::Record;

/// Makes the load generator, which runs in this process, cheap compared with the servers that it
/// measures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "measure",
    about = "Measures rolegate: compared with other servers, and under attack"
)]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Compares rolegate with other authorization services through Envoy, and writes a report
    /// (`make load`).
    Compare(Box<compare::CompareArgs>),
    /// Compares rolegate inside Envoy with Envoy's own filters, with few and many rules (`make
    /// load`).
    Filters(filters::FiltersArgs),
    /// Compares a search cluster behind rolegate with one without authorization and one with its
    /// security plugin, and writes a report (`make load-search`).
    Cluster(cluster::ClusterArgs),
    /// Measures the checks per second of rolegate and the baseline (a tonic server that allows
    /// everything) on one core, without Envoy.
    Wire(wire::WireArgs),
    /// Measures what the decision log, traces, the console and the identity header cost: in checks
    /// per second without Envoy, and in requests per second through it.
    Options(options::OptionsArgs),
    /// Attacks rolegate, and measures its memory and the latency of another client meanwhile (`make
    /// attack`).
    Attack(attack::AttackArgs),
    /// Sends requests through Envoy to rolegate while its policy and, with `--module`, Envoy's
    /// listener are replaced again and again, and checks every response and the memory (`make
    /// soak`).
    Soak(soak::SoakArgs),
    /// Turns the output of the benchmarks into records, charts and verdicts (`make bench`).
    Results(results::ResultsArgs),
    /// Runs the sample application, like `rolegate-load app`.
    #[command(hide = true)]
    App { address: load::Address },
}

fn main() -> ExitCode {
    let done = match Cli::parse().experiment {
        Experiment::Compare(args) => compare::run(&args),
        Experiment::Filters(args) => filters::run(&args),
        Experiment::Cluster(args) => cluster::run(&args),
        Experiment::Wire(args) => wire::run(&args),
        Experiment::Options(args) => options::run(&args),
        Experiment::Attack(args) => attack::run(args),
        Experiment::Soak(args) => soak::run(&args),
        Experiment::Results(args) => results::run(&args),
        Experiment::App { address } => {
            load::app::run(&address, 0).map(|()| Exit::Success).map_err(Into::into)
        }
    };
    done.unwrap_or_else(|error: Box<dyn Error>| {
        eprintln!("measure: {error}");
        Exit::Failed
    })
    .into()
}

/// The path of the baseline program: `named`, else the file `baseline` in the folder of this
/// program.
fn baseline(named: Option<&PathBuf>) -> Result<PathBuf, Failed> {
    let own = std::env::current_exe().map_err(|error| Failed::io("measure", &error))?;
    let program = named.cloned().unwrap_or_else(|| own.with_file_name("baseline"));
    if program.is_file() {
        return Ok(program);
    }
    let why = format!(
        "no file at {}: run `cargo build --package benches --bin baseline`",
        program.display()
    );
    Err(Failed::new("baseline", why))
}

/// The maximum time for a small server to start.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Starts a program that prints `listening on ADDRESS`, and returns it with that address.
fn announced(
    name: &'static str,
    program: &Path,
    arguments: &[&str],
    folder: &Path,
) -> Result<(Process, String), Failed> {
    let log =
        (0..).map(|number| folder.join(format!("{name}-{number}.log"))).find(|log| !log.exists());
    let mut command = Command::new(program);
    command.args(arguments);
    let mut process = Process::start(name, command, log.unwrap_or_default(), Stdout::Log)?;
    let address = block_on(process.until(START_TIMEOUT, async |process| {
        process
            .log_since_start()
            .lines()
            .find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()))
    }))?;
    Ok((process, address))
}

/// Starts the sample application.
fn start_app(folder: &Path) -> Result<(Process, SocketAddr), Failed> {
    let own = std::env::current_exe().map_err(|error| Failed::io("measure", &error))?;
    let (process, at) = announced("app", &own, &["app", "127.0.0.1:0"], folder)?;
    let at = at.parse().map_err(|_| Failed::new("app", format!("it listens on `{at}`")))?;
    Ok((process, at))
}

/// A folder for the files of an experiment, until it is dropped.
fn temporary_folder(experiment: &str) -> Result<TempDir, Failed> {
    let folder = tempfile::Builder::new().prefix(&format!("rolegate-{experiment}-")).tempdir();
    folder.map_err(|error| Failed::io("temporary folder", &error))
}

/// The exit code of an experiment, in which some requests may not have got the expected answer.
fn exit(stop: &Stop, has_wrong_answers: bool) -> Exit {
    match (stop.is_requested(), has_wrong_answers) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Failed,
        (false, false) => Exit::Success,
    }
}

/// Writes and prints a report, and appends its records.
fn publish(
    file: &Path,
    title: &str,
    parts: &[Part],
    facts: &Facts,
    records: &[Record],
) -> Result<(), Failed> {
    let text = document::text(title, parts);
    write(file, &text)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    records::append(folder, facts, records).map_err(|error| Failed::io("records.csv", &error))?;
    println!("{text}\nwritten: {}", file.display());
    Ok(())
}

/// Writes a file of a report.
fn write(file: &Path, text: &str) -> Result<(), Failed> {
    let failed = |error| Failed::io(file.display().to_string(), &error);
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(""))).map_err(failed)?;
    std::fs::write(file, text).map_err(failed)
}
