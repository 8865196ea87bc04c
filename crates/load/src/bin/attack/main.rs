//! `make attack`: the effect of attacks on rolegate's memory and on an honest client.
//!
//! Each attack runs against a fresh `rolegate` process, over the network. In each round, the honest client runs for a
//! usual window, then for one during the attack, then until the server has recovered. The speed of the machine varies,
//! so only windows of the same round are compared.
//!
//! The server has the first core to itself, with one request thread. The honest client and the attacker share the
//! others. The attacker runs at idle priority (`SCHED_IDLE`): otherwise the client would wait for cores that the
//! attacker occupies, which tells nothing about the server.
#![expect(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "it measures, and fails loudly"
)]

mod attacks;
mod calls;
mod honest;
mod hour;
mod passwords;
mod report;
mod server;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use clap::Parser;
use load::compare::pin::{Pin, Pins, on};
use load::compare::procfs::{environment, load as load_average};
use thread_priority::unix::{NormalThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id};
use thread_priority::{ThreadPriority, ThreadSchedulePolicy};

use crate::attacks::{Attack, Scene};
use crate::report::{Round, Row};
use crate::server::{Program, Server, Stdout};

/// The command line.
#[derive(Parser)]
#[command(about = "Attacks rolegate, and measures its memory and an honest client beside it")]
struct Arguments {
    /// The program `rolegate`; the one beside this one, if not given.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Where `report.txt` and `attack.md` go.
    #[arg(long, default_value = "target/attack")]
    out: PathBuf,
    /// Only the flood of wrong passwords, for so many seconds, with a line per minute.
    #[arg(long, value_name = "SECONDS")]
    flood: Option<u64>,
    /// Only attacks with this in their name; repeat it for more.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Rounds of each attack.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of the window beside an attack; some attacks take two or three times as long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// How many seconds to wait after each attack until all is well.
    #[arg(long, default_value_t = 5.0)]
    recovery: f64,
}

/// Durations of the parts of a run.
#[derive(Clone, Copy)]
struct Times {
    rounds: u32,
    /// The length of a usual window, and of most of those during an attack.
    window: Duration,
    /// The maximum time to wait for recovery.
    recovery: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let pins = Pins::new(Pin::Cores);
    on(pins.outside.as_deref(), || run(arguments, pins.pod.as_deref()))
}

/// Runs what the arguments select, with the server on these cores.
fn run(arguments: Arguments, cores: Option<&[usize]>) -> Result<(), Box<dyn Error>> {
    let beside = std::env::current_exe()?.with_file_name("rolegate");
    let program = Program { file: arguments.program.unwrap_or(beside), cores };
    std::fs::create_dir_all(&arguments.out)?;
    if let Some(seconds) = arguments.flood {
        return flood(&program, Duration::from_secs(seconds), &arguments.out.join("flood.txt"));
    }
    let times = Times {
        rounds: arguments.rounds,
        window: Duration::from_secs_f64(arguments.seconds),
        recovery: Duration::from_secs_f64(arguments.recovery),
    };
    let mut rows = Vec::new();
    let wanted = |attack: &&Attack| {
        arguments.only.is_empty() || arguments.only.iter().any(|text| attack.name.contains(text.as_str()))
    };
    for attack in attacks::ALL.iter().filter(wanted) {
        println!("{} …", attack.name);
        rows.push(measure(&program, attack, times)?);
        // Written after each attack, so that an interrupted run leaves its results.
        let about = about(times, cores);
        std::fs::write(arguments.out.join("report.txt"), format!("{about}\n{}", report::text(&rows)))?;
        std::fs::write(arguments.out.join("attack.md"), format!("{about}\n{}", report::markdown(&rows)))?;
    }
    println!("{}", report::text(&rows));
    Ok(())
}

/// Attacks a fresh server, round by round.
fn measure(program: &Program<'_>, attack: &Attack, times: Times) -> Result<Row, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let policy = (attack.policy)(&people()?);
    let mut server = Server::start(program, &policy, attack.arguments, attack.stdout, folder.path())?;
    // The server hashes the honest client's password once, and warms up.
    honest::window(server.address, WARM_UP);
    let (most, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let rounds = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                most.fetch_max(server.resident(), Relaxed);
                std::thread::sleep(MEMORY_EVERY);
            }
        });
        let rounds: Vec<Round> =
            (0..times.rounds).map(|round| one_round(&server, attack, round, times)).collect();
        is_over.store(true, Relaxed);
        rounds
    });
    // The column "after" is the memory in use one second later, when the server could return memory to the system.
    std::thread::sleep(Duration::from_secs(1));
    let before = rounds.first().map_or(0, |round| round.before);
    let memory = [before, most.load(Relaxed), server.resident()];
    Ok(Row { name: attack.name, memory, rounds, ended: !server.is_running() })
}

/// A usual window, one during the attack, and the time until recovery.
fn one_round(server: &Server, attack: &Attack, round: u32, times: Times) -> Round {
    let capacity = if attack.hashes { passwords::capacity(server, CAPACITY_TIME).ok() } else { None };
    let usual = honest::window(server.address, times.window);
    let (before, length) = (server.resident(), times.window * attack.times);
    let until = Instant::now() + LEAD + length + LEAD;
    let scene = Scene { address: server.address, admin: server.admin, until, round, capacity };
    let run = attack.run;
    let attacker = std::thread::spawn(move || {
        stand_aside();
        run(&scene)
    });
    std::thread::sleep(LEAD);
    let beside = honest::window(server.address, length);
    let note = attacker.join().unwrap_or_else(|_| "THE ATTACKER FAILED".to_owned());
    let recovery = honest::recovery(server.address, &usual, times.recovery);
    Round { usual, before, beside, recovery, note }
}

/// Gives this thread, and those that it starts, idle priority (sched(7)).
fn stand_aside() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
}

/// The conditions of the measurement, for the report.
fn about(times: Times, cores: Option<&[usize]>) -> String {
    let environment = environment(Path::new(""));
    let shown = environment.iter().filter(|(name, value)| !value.is_empty() && name != "rolegate-load");
    let shown: String = shown.map(|(name, value)| format!("* {name}: {value}\n")).collect();
    format!(
        "{shown}* load average at the end: {}\n\nMedians of {} rounds, in brackets the lowest and the highest; \
         errors and wrong answers are sums, the recovery is the slowest.\nAn honest client asks 1,000 times per second, \
         {} s as usual and {} s beside the attack in each round.\n{}.\n",
        load_average(),
        times.rounds,
        times.window.as_secs_f64(),
        times.window.as_secs_f64(),
        if cores.is_some() {
            "rolegate has a core for itself; the client and the attacker, at idle priority, share the others"
        } else {
            "All share one core, so a ratio has the scheduler in it"
        }
    )
}

/// How long an attack runs before and after its window.
const LEAD: Duration = Duration::from_millis(300);
const WARM_UP: Duration = Duration::from_secs(1);
const CAPACITY_TIME: Duration = Duration::from_secs(2);
const MEMORY_EVERY: Duration = Duration::from_millis(20);

/// Prints each line at once, and writes all of them to a file.
fn flood(program: &Program<'_>, time: Duration, file: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let policy = passwords::policy(&people()?);
    let more = ["--decision-log", "off"];
    let mut server = Server::start(program, &policy, &more, Stdout::Discarded, folder.path())?;
    let mut text = String::new();
    hour::flood(&mut server, time, &mut |line| {
        println!("{line}");
        text += line;
        text.push('\n');
        let _ = std::fs::write(file, &text);
    })?;
    Ok(())
}

/// The policy of the people example; bob is the honest client.
fn people() -> std::io::Result<String> {
    std::fs::read_to_string(testbed::repository().join("policies/people/policy.yaml"))
}
