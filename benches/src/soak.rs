//! A long run through Envoy, with rolegate beside it or, as the module, inside it: requests of a
//! known answer, while the policy is replaced again and again. No request may fail or get another
//! answer, and memory must stay flat.
//!
//! Beside Envoy, rolegate has a shadow policy, which is replaced as well, and logs every decision.
//! Inside, the listener is replaced, too.

mod module;
mod sidecar;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;
use load::report::document::{self, Part, table};
use load::{Answer, Exit, Protocol};
use testbed::Failed;
use testbed::client::get;
use testbed::policies::Example;
use testbed::traffic::{Kinds, Tally, Traffic, wait};

use self::module::Inside;
use self::sidecar::Beside;
use crate::machine::Usage;

/// The arguments of `soak`.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// The folder of `librolegate.so`, to run rolegate inside Envoy; without it, rolegate runs
    /// beside Envoy.
    #[arg(long, value_name = "FOLDER")]
    module: Option<PathBuf>,
    /// The least number of requests.
    #[arg(long, default_value_t = 10_000_000)]
    requests: u64,
    /// How many times the policy is replaced.
    #[arg(long, default_value_t = 100)]
    reloads: u64,
    /// How many times memory is measured and, with `--module`, the listener is replaced. Raised to
    /// `--reloads` if that is more.
    #[arg(long, default_value_t = 1000)]
    updates: u64,
}

/// The number of lines that are printed on the way.
const LINES: u64 = 40;
/// The number of requests from which memory is judged: before, caches and allocators still grow.
const JUDGED_FROM: u64 = 500_000;
/// How much more memory the last quarter may take than the second one, as a ratio and in bytes. The
/// first one includes the start.
const GROWTH: f64 = 1.05;
const NOISE: f64 = 4_194_304.0;
/// How long a reload may take on a busy machine.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// What is running, with the file that it takes the policy from.
enum Subject {
    Inside(Inside),
    Beside(Beside),
}

/// A line of the table: what was measured, what was asked for, and whether it is so.
struct Line {
    what: &'static str,
    measured: String,
    wanted: &'static str,
    holds: bool,
}

/// Runs it.
///
/// # Errors
/// If something cannot be started, a reload or listener has no effect, or requests are not answered
/// any more.
pub(crate) fn run(args: &SoakArgs) -> Result<Exit, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let done = runtime.block_on(soak(args, folder.path()));
    // After an error the threads that send requests may still wait for answers.
    runtime.shutdown_background();
    let lines = done?;
    print!("{}", document::text("Soak", &[tabled(&lines)]));
    Ok(if lines.iter().all(|line| line.holds) { Exit::Success } else { Exit::Failed })
}

async fn soak(args: &SoakArgs, folder: &Path) -> Result<Vec<Line>, Failed> {
    let updates = args.updates.max(args.reloads).max(1);
    let people = Example::named("people")?;
    let policy =
        std::fs::read_to_string(&people.file).map_err(|error| Failed::io("policy", &error))?;
    write(&folder.join("policy.yaml"), &policy, 0)?;
    let mut subject = Subject::start(args, folder, &policy).await?;
    let kinds = Kinds {
        credentials: "alice:wonderland",
        allowed: ("GET", "/people"),
        denied: ("POST", "/people"),
    };
    let both = [Protocol::Http1, Protocol::Http2]
        .map(|protocol| Traffic::start(subject.address(), 2, protocol, &kinds));
    let [one, two] = both;
    let traffic = [one?, two?];
    let start = Instant::now();
    let (mut reloads, mut resident) = (0, Vec::new());
    for update in 1..=updates {
        // Of both protocols and kinds together: some are faster than others, and none waits for
        // another; but each has one.
        let step = args.requests.div_ceil(updates);
        let answered = || traffic.iter().flat_map(Traffic::answered).collect::<Vec<_>>();
        let before = answered();
        wait(step, || {
            let new: Vec<_> =
                answered().iter().zip(&before).map(|(now, before)| now - before).collect();
            new.iter().all(|new| *new > 0) && new.iter().sum::<u64>() >= step
        })
        .await?;
        if let Subject::Inside(inside) = &mut subject {
            inside.replace_listener(update).await?;
        }
        if update * args.reloads / updates > reloads {
            reloads += 1;
            subject.reload(folder, &policy, reloads).await?;
        }
        resident.push(Usage::of(subject.process()).resident);
        if update.is_multiple_of(updates.div_ceil(LINES)) {
            let mib = resident.last().copied().unwrap_or_default() >> 20;
            println!(
                "{:5} s  {update} updates  {reloads} reloads  {mib} MiB",
                start.elapsed().as_secs()
            );
        }
    }
    let [one, two] = traffic;
    let tallies = [one.stop().await?, two.stop().await?];
    println!("{updates} updates and {reloads} reloads in {} s", start.elapsed().as_secs());
    let mut lines = answers(&tallies, args.requests, subject.forbidden());
    lines.push(Line::new("reloads that were active", reloads, "all", reloads == args.reloads));
    if let Subject::Beside(beside) = &subject {
        lines.extend(beside.counted().await?);
    }
    lines.push(memory(&resident, args.requests >= JUDGED_FROM));
    Ok(lines)
}

impl Subject {
    async fn start(args: &SoakArgs, folder: &Path, policy: &str) -> Result<Self, Failed> {
        match &args.module {
            Some(module) => Inside::start(module, folder).await.map(Self::Inside),
            None => Beside::start(folder, policy).await.map(Self::Beside),
        }
    }

    fn address(&self) -> std::net::SocketAddr {
        match self {
            Self::Inside(inside) => inside.proxy.envoy.address,
            Self::Beside(beside) => beside.stack.envoy.address,
        }
    }

    /// The process whose memory must stay flat.
    fn process(&self) -> u32 {
        match self {
            Self::Inside(inside) => inside.proxy.envoy.id(),
            Self::Beside(beside) => beside.process(),
        }
    }

    /// The requests that reached the application although they are denied.
    fn forbidden(&self) -> u64 {
        match self {
            Self::Inside(inside) => inside.app.forbidden(),
            Self::Beside(beside) => beside.stack.app.forbidden(),
        }
    }

    /// Replaces the policy, and waits until it is active: then what the previous one allowed to
    /// anyone is denied.
    async fn reload(&self, folder: &Path, policy: &str, number: u64) -> Result<(), Failed> {
        if let Self::Beside(beside) = self {
            write(&beside.shadow, policy, number)?;
        }
        write(&folder.join("policy.yaml"), policy, number)?;
        let until = Instant::now() + RELOAD_TIMEOUT;
        loop {
            let status = async |number| {
                get(self.address(), &format!("/version/{number}"), &[])
                    .await
                    .map(|answer| answer.status)
            };
            match (status(number).await?, status(number - 1).await?) {
                (200, 401) => return Ok(()),
                (401, 200 | 401) | (200, 200) if Instant::now() < until => {}
                statuses => {
                    let why = format!("{statuses:?} for the versions {number} and before");
                    return Err(Failed::new("reload", why));
                }
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Replaces a policy by one that also allows a path with this number.
fn write(file: &Path, policy: &str, number: u64) -> Result<(), Failed> {
    let anyone = format!("\nroles:\n  anyone:\n    allow: [\"GET /version/{number}\"]");
    let text = policy.replacen("\nroles:", &anyone, 1);
    let new = file.with_extension("new");
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(new, file));
    written.map_err(|error| Failed::io("policy", &error))
}

impl Line {
    fn new(what: &'static str, measured: impl ToString, wanted: &'static str, holds: bool) -> Self {
        Self { what, measured: measured.to_string(), wanted, holds }
    }
}

fn tabled(lines: &[Line]) -> Part {
    let cells = |line: &Line| {
        let verdict = if line.holds { "yes" } else { "NO" };
        vec![
            line.what.to_owned(),
            line.measured.clone(),
            line.wanted.to_owned(),
            verdict.to_owned(),
        ]
    };
    table(&["", "measured", "asked for", "holds"], lines.iter().map(cells).collect())
}

/// How many requests got which answer.
fn answers(tallies: &[Tally], wanted: u64, forbidden: u64) -> Vec<Line> {
    let (mut total, mut wrong, mut failed) = (0, 0, 0);
    for (tally, protocol) in tallies.iter().zip(["HTTP/1.1", "HTTP/2"]) {
        for (name, results, status) in
            [("allowed", &tally.allowed, 200), ("denied", &tally.denied, 403)]
        {
            let expected = results.responses.get(&Answer::Status(status)).map_or(0, Histogram::len);
            total += results.corrected.len();
            wrong += results.corrected.len() - expected;
            failed += results.errors();
            let answers = results.responses.keys();
            println!("{protocol}, {name}: {expected} of {answers:?}, failed: {:?}", results.errors);
        }
    }
    vec![
        Line::new("requests with an answer", total, "as many as asked for", total >= wanted),
        Line::new("requests that failed", failed, "0", failed == 0),
        Line::new("wrong answers", wrong, "0", wrong == 0),
        Line::new("denied requests that reached the application", forbidden, "0", forbidden == 0),
    ]
}

/// The memory of each quarter. Whether it is flat is judged only in a long run.
fn memory(resident: &[u64], judged: bool) -> Line {
    let quarters: Vec<f64> = resident.chunks(resident.len().div_ceil(4).max(1)).map(mean).collect();
    let mib: Vec<String> =
        quarters.iter().map(|bytes| format!("{:.1}", bytes / f64::from(1 << 20))).collect();
    let flat = match quarters.as_slice() {
        [_, second, .., last] => *last <= (second * GROWTH).max(second + NOISE),
        _ => true,
    };
    let wanted = if judged { "flat" } else { "(not judged: too short)" };
    Line::new("resident memory, MiB, mean of each quarter", mib.join(", "), wanted, flat || !judged)
}

fn mean(values: &[u64]) -> f64 {
    let sum: u64 = values.iter().sum();
    sum as f64 / values.len().max(1) as f64
}
