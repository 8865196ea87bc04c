//! The program `measure`: whole experiments with rolegate, each a subcommand.
//!
//! `compare`, `scale`, `wire` and `attack` measure running servers; `results` evaluates what criterion measured. All of
//! them have one notion of [`spread`], [`verdict`], [`machine`], [`records`] and [`document`].

#![expect(clippy::disallowed_methods, reason = "it starts processes, reads clocks and writes reports")]
#![expect(clippy::print_stdout, reason = "what it measures is printed")]

mod attack;
mod compare;
mod document;
mod machine;
mod pin;
mod records;
mod results;
mod scale;
mod spread;
mod verdict;
mod wire;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::{Parser, Subcommand};
use load::Exit;
use testbed::{Failed, Process, block_on};

/// Makes the generator cheap compared with what it measures.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(
    name = "measure",
    about = "Measures rolegate beside other servers, over more cores, and under attack"
)]
#[command(disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Measures the application, Envoy, rolegate and other servers at every rate, and writes one report.
    Compare(Box<compare::CompareArgs>),
    /// Puts the same load on rolegate and the baseline with 1, 2, 4, … cores.
    Scale(scale::ScaleArgs),
    /// Measures the checks per second of single servers on one core.
    Wire(wire::WireArgs),
    /// Attacks rolegate, and measures its memory and an honest client during the attack.
    Attack(attack::AttackArgs),
    /// Turns the output of the benchmarks into records, charts and verdicts.
    Results(results::ResultsArgs),
    /// Runs the sample application, like `rolegate-load app`.
    #[command(hide = true)]
    App { address: load::Address },
}

fn main() -> ExitCode {
    let done = match Cli::parse().experiment {
        Experiment::Compare(args) => compare::run(&args),
        Experiment::Scale(args) => scale::run(&args),
        Experiment::Wire(args) => wire::run(&args),
        Experiment::Attack(args) => attack::run(args),
        Experiment::Results(args) => results::run(&args),
        Experiment::App { address } => load::app::run(&address, 0).map(|()| Exit::Fine).map_err(Into::into),
    };
    done.unwrap_or_else(|error: Box<dyn Error>| {
        eprintln!("measure: {error}");
        Exit::Failed
    })
    .into()
}

/// The baseline: the named program, else the one beside this one.
fn baseline(named: Option<&PathBuf>) -> Result<PathBuf, Failed> {
    let own = std::env::current_exe().map_err(|error| Failed::io("measure", &error))?;
    let program = named.cloned().unwrap_or_else(|| own.with_file_name("baseline"));
    if program.is_file() {
        return Ok(program);
    }
    let why = format!("no file at {}: run `cargo build --package benches --bin baseline`", program.display());
    Err(Failed::new("baseline", why))
}

/// The maximum time for a small server to start.
const START: Duration = Duration::from_secs(20);

/// Starts a program that prints `listening on ADDRESS`, and returns it with that address.
fn announced(
    name: &'static str,
    program: &Path,
    arguments: &[&str],
    folder: &Path,
) -> Result<(Process, String), Failed> {
    let log = (0..).map(|number| folder.join(format!("{name}-{number}.log"))).find(|it| !it.exists());
    let mut command = Command::new(program);
    command.args(arguments);
    let mut process = Process::start(name, command, log.unwrap_or_default())?;
    let address = block_on(process.until(START, async |it| {
        it.printed_since_its_start()
            .lines()
            .find_map(|line| Some(line.split_once("listening on ")?.1.to_owned()))
    }))?;
    Ok((process, address))
}

/// Writes a file of a report.
fn write(file: &Path, text: &str) -> Result<(), Failed> {
    let failed = |error| Failed::io(file.display().to_string(), &error);
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new(""))).map_err(failed)?;
    std::fs::write(file, text).map_err(failed)
}
