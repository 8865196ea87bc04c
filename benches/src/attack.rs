//! `make attack`: the effect of attacks on rolegate's memory and on an honest client.
//!
//! Each attack runs against a fresh `rolegate` process, over the network. In each round, the honest
//! client runs for a usual window, then for one during the attack, then until the server has
//! recovered. The speed of the machine varies, so only windows of the same round are compared.
//!
//! The server has the first core to itself, with one worker thread. The honest client and the
//! attacker share the others. The attacker runs at idle priority (`SCHED_IDLE`): otherwise the
//! client would wait for cores that the attacker occupies, which tells nothing about the server.
#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "it measures, and fails loudly")]

mod attacks;
mod calls;
/// Writes raw frames, including invalid ones. Shared with the tests of the wire.
#[path = "../../crates/rolegate/tests/wire/frames.rs"]
pub(crate) mod frames;
mod honest;
mod hour;
mod passwords;
mod report;
mod server;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use benches::people;
use clap::Args;
use load::Exit;
use testbed::Stdout;
use thread_priority::unix::{
    NormalThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};
use thread_priority::{ThreadPriority, ThreadSchedulePolicy};

use crate::machine::{self, Facts};
use crate::pin::{Pins, on};
use crate::{records, write};
use attacks::{Attack, Scene};
use honest::Window;
use load::report::document::{self, Part};
use report::{Round, Row};
use server::{Program, Server};

/// The arguments of `attack`.
#[derive(Args)]
pub(crate) struct AttackArgs {
    /// The folder for `report.txt`, `attack.md` and `records.csv`.
    #[arg(long, default_value = "target/attack")]
    out: PathBuf,
    /// Run only the flood of wrong passwords, for this many seconds, and print a line per minute.
    #[arg(long, value_name = "SECONDS")]
    flood: Option<u64>,
    /// Run only attacks with this text in their name; repeat the flag for more than one.
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Number of rounds of each attack.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Duration of an attack in each round, in seconds; some attacks take two or three times as
    /// long.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Maximum time to wait for recovery after each attack, in seconds.
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

/// Runs the experiment.
pub(crate) fn run(args: AttackArgs) -> Result<Exit, Box<dyn Error>> {
    let pins = Pins::new();
    on(pins.outside.as_deref(), || attack(args, &pins)).map(|()| Exit::Success)
}

fn attack(args: AttackArgs, pins: &Pins) -> Result<(), Box<dyn Error>> {
    let program = Program { file: testbed::program()?, cores: pins.server.as_deref() };
    if let Some(seconds) = args.flood {
        return flood(&program, Duration::from_secs(seconds), &args.out.join("flood.txt"));
    }
    let times = Times {
        rounds: args.rounds,
        window: Duration::from_secs_f64(args.seconds),
        recovery: Duration::from_secs_f64(args.recovery),
    };
    let facts = machine::facts(None);
    let mut rows = Vec::new();
    let wanted = |attack: &&Attack| {
        args.only.is_empty() || args.only.iter().any(|text| attack.name.contains(text.as_str()))
    };
    for attack in attacks::ALL.iter().filter(wanted) {
        println!("{} …", attack.name);
        rows.push(measure(&program, attack, times)?);
        // Written after each attack, so that an interrupted run leaves its results.
        let parts = parts(&facts, times, program.cores.is_some(), &rows);
        write(&args.out.join("report.txt"), &document::text("Attacks", &parts))?;
        write(&args.out.join("attack.md"), &document::markdown("Attacks", &parts))?;
    }
    let measured: Vec<_> = rows.iter().flat_map(Row::records).collect();
    records::append(&args.out, &facts, &measured)?;
    print!("{}", document::text("Attacks", &[report::tabled(&rows), report::summary(&rows)]));
    Ok(())
}

/// Attacks a fresh server, round by round.
fn measure(program: &Program<'_>, attack: &Attack, times: Times) -> Result<Row, testbed::Failed> {
    let folder = tempfile::tempdir().unwrap();
    let policy = (attack.policy)(people::BASIC);
    write(&folder.path().join("jwks.json"), &attacks::tokens::key_set())?;
    let tls = attack.tls.then(|| attacks::tls::write(folder.path())).transpose()?;
    let mut server =
        Server::start(program, &policy, attack.arguments, attack.stdout, tls, folder.path())?;
    // The server hashes the honest client's password once, and warms up.
    honest::window(&server.honest, WARM_UP.min(times.window));
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
    // The column "after" is the memory in use one second later, when the server could return memory
    // to the system.
    std::thread::sleep(Duration::from_secs(1).min(times.window));
    let before = rounds.first().map_or(0, |round| round.before);
    let memory = [before, most.load(Relaxed), server.resident()];
    Ok(Row { name: attack.name, memory, rounds, ended: !server.is_running() })
}

/// A usual window, one during the attack, and the time until recovery.
fn one_round(server: &Server, attack: &Attack, round: u32, times: Times) -> Round {
    let capacity = if attack.hashes {
        passwords::capacity(server, CAPACITY_TIME.min(times.window)).ok()
    } else {
        None
    };
    let usual = honest::window(&server.honest, times.window);
    let (before, length) = (server.resident(), times.window * attack.times);
    let connecting = honest_thread(server, length);
    std::thread::sleep(CONNECT);
    let until = Instant::now() + LEAD + length + LEAD;
    let scene = Scene { address: server.address, admin: server.admin, until, round, capacity };
    let run = attack.run;
    let attacker = std::thread::spawn(move || {
        use_idle_priority();
        run(&scene)
    });
    std::thread::sleep(LEAD);
    let newcomers = honest::newcomers(&server.honest, until - LEAD);
    let beside = connecting.join().unwrap();
    let note = attacker.join().unwrap_or_else(|_| "THE ATTACKER FAILED".to_owned());
    let recovery = honest::recovery(&server.honest, &usual, times.recovery);
    Round { usual, before, beside, newcomers, recovery, note }
}

/// Starts the honest client, whose window begins when the attack has gone on for a while.
fn honest_thread(server: &Server, length: Duration) -> JoinHandle<Window> {
    let address = server.honest.clone();
    std::thread::spawn(move || honest::window_after(&address, CONNECT + LEAD, length))
}

/// Gives this thread, and those that it starts, idle priority (sched(7)).
fn use_idle_priority() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
}

/// The report: the conditions of the measurement, and its results.
fn parts(facts: &Facts, times: Times, own_core: bool, rows: &[Row]) -> Vec<Part> {
    let load = ("load average at the end".to_owned(), machine::load());
    let seconds = times.window.as_secs_f64();
    let cores = if own_core {
        "rolegate has a core of its own; the client and the attacker, at idle priority, share the others."
    } else {
        "All share one core, so ratios include the effect of the scheduler."
    };
    vec![
        Part::Facts(facts.iter().cloned().chain([load]).collect()),
        Part::Text(format!(
            "Medians of {} rounds, in brackets the lowest and the highest; errors and wrong answers are sums, the recovery is \
             the slowest. An honest client sends 1,000 requests per second, {seconds} s without and {seconds} s during the \
             attack in each round, over connections that it opened before. {cores}",
            times.rounds
        )),
        report::tabled(rows),
        report::summary(rows),
    ]
}

/// How long before an attack the honest client connects.
const CONNECT: Duration = Duration::from_millis(300);
/// How long an attack runs before and after its window.
const LEAD: Duration = Duration::from_millis(300);
const WARM_UP: Duration = Duration::from_secs(1);
const CAPACITY_TIME: Duration = Duration::from_secs(2);
const MEMORY_EVERY: Duration = Duration::from_millis(20);

/// Prints each line at once, and writes all of them to a file.
fn flood(program: &Program<'_>, time: Duration, file: &Path) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let policy = passwords::policy(people::BASIC);
    let more = ["--decision-log", "off"];
    let mut server =
        Server::start(program, &policy, &more, Stdout::Discarded, None, folder.path())?;
    let mut text = String::new();
    hour::flood(&mut server, time, &mut |line| {
        println!("{line}");
        text += line;
        text.push('\n');
        let _ = write(file, &text);
    })?;
    Ok(())
}
