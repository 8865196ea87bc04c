//! A long run of Envoy with the module: requests of a known answer, while the policy and the listener are replaced again and
//! again. No request may fail or get another answer, and Envoy's memory must stay flat.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use load::{Exit, Protocol, RunResults};
use testbed::client::get;
use testbed::envoy::{Dynamic, Listener, Module, Settings};
use testbed::policies::Example;
use testbed::traffic::{Kinds, Tally, Traffic};
use testbed::{App, Failed};

use crate::machine::Usage;

/// The arguments of `soak`.
#[derive(Args)]
pub(crate) struct SoakArgs {
    /// The folder of `librolegate.so`.
    #[arg(long, value_name = "FOLDER")]
    module: PathBuf,
    /// The least number of requests.
    #[arg(long, default_value_t = 10_000_000)]
    requests: u64,
    /// How often the policy is replaced.
    #[arg(long, default_value_t = 100)]
    reloads: u64,
    /// How often the listener is replaced. It is at least `reloads`.
    #[arg(long, default_value_t = 1000)]
    updates: u64,
}

/// The number of lines that are printed on the way.
const LINES: u64 = 40;
/// The number of requests from which memory is judged: before, caches and Envoy's allocator still grow.
const JUDGED_FROM: u64 = 500_000;
/// How much more memory the last quarter may take than the second one, as a ratio and in bytes. The first one includes the
/// start.
const GROWTH: f64 = 1.05;
const NOISE: f64 = 4_194_304.0;
/// How long a reload may take on a busy machine.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// What is running.
struct Soak {
    folder: PathBuf,
    module: PathBuf,
    /// The policy that the listeners use, without what changes.
    policy: String,
    proxy: Dynamic,
    app: App,
}

/// Runs it.
///
/// # Errors
/// If something cannot be started, a reload or listener has no effect, or requests are not answered any more.
pub(crate) fn run(args: &SoakArgs) -> Result<Exit, Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = tempfile::tempdir()?;
    let done = runtime.block_on(soak(args, folder.path()));
    // After an error the threads that send requests may still wait for answers.
    runtime.shutdown_background();
    let good = done?;
    Ok(if good { Exit::Success } else { Exit::Failed })
}

async fn soak(args: &SoakArgs, folder: &Path) -> Result<bool, Failed> {
    let updates = args.updates.max(args.reloads).max(1);
    let mut soak = Soak::start(args, folder).await?;
    let kinds =
        Kinds { credentials: "alice:wonderland", allowed: ("GET", "/people"), denied: ("POST", "/people") };
    let address = soak.proxy.envoy.address;
    let both =
        [Protocol::Http1, Protocol::Http2].map(|protocol| Traffic::start(address, 2, protocol, &kinds));
    let [one, two] = both;
    let traffic = [one?, two?];
    let start = Instant::now();
    let (mut reloads, mut resident) = (0, Vec::new());
    for update in 1..=updates {
        // Each of the two sends both kinds.
        for each in &traffic {
            each.more(args.requests.div_ceil(updates * 4)).await?;
        }
        soak.proxy.replace(&soak.listener(update)).await?;
        if update * args.reloads / updates > reloads {
            reloads += 1;
            soak.reload(reloads).await?;
        }
        resident.push(Usage::of(soak.proxy.envoy.id()).resident);
        if update.is_multiple_of(updates.div_ceil(LINES)) {
            let mib = resident.last().copied().unwrap_or_default() >> 20;
            println!("{:5} s  {update} updates  {reloads} reloads  {mib} MiB", start.elapsed().as_secs());
        }
    }
    let [one, two] = traffic;
    let tallies = [one.stop().await?, two.stop().await?];
    println!("{updates} updates and {reloads} reloads in {} s", start.elapsed().as_secs());
    let right = answers(&tallies, soak.app.forbidden());
    let flat = memory(&resident, args.requests >= JUDGED_FROM);
    Ok(right && flat)
}

impl Soak {
    async fn start(args: &SoakArgs, folder: &Path) -> Result<Self, Failed> {
        let module = std::fs::canonicalize(&args.module)
            .map_err(|error| Failed::io(args.module.display().to_string(), &error))?;
        let people = Example::named("people")?;
        let policy = std::fs::read_to_string(&people.file).map_err(|error| Failed::io("policy", &error))?;
        write(folder, &policy, 0)?;
        let app = App::start().await?;
        let first = listener(folder, &module, 0);
        let proxy = Dynamic::start(folder, app.address, &first).await?;
        Ok(Self { folder: folder.to_owned(), module, policy, proxy, app })
    }

    fn listener(&self, update: u64) -> Listener {
        listener(&self.folder, &self.module, update)
    }

    /// Replaces the policy, and waits until it is active: then what the previous one allowed to anyone is denied.
    async fn reload(&self, number: u64) -> Result<(), Failed> {
        write(&self.folder, &self.policy, number)?;
        let until = Instant::now() + RELOAD_TIMEOUT;
        loop {
            let status = async |number| {
                get(self.proxy.envoy.address, &format!("/version/{number}"), &[])
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

/// A listener that differs from the previous one. Every other one has the same settings of the module and shares its policy;
/// the others start it anew, with empty caches, while the previous one ends.
fn listener(folder: &Path, module: &Path, update: u64) -> Listener {
    let policy = folder.join("policy.yaml");
    let queue = format!("hash-queue: {}", 256 + update / 2 % 2);
    let module = Module { folder: module.to_owned(), policy, decisions: None, more: vec![queue] };
    // Makes no difference to these requests.
    let settings = Settings { normalize_path: update.is_multiple_of(2), ..Settings::default() };
    Listener { name: "public".to_owned(), targets: Vec::new(), module: Some(module), settings }
}

/// Replaces the policy by one that also allows a path with this number.
fn write(folder: &Path, policy: &str, number: u64) -> Result<(), Failed> {
    let anyone = format!("\nroles:\n  anyone:\n    allow: [\"GET /version/{number}\"]");
    let text = policy.replacen("\nroles:", &anyone, 1);
    let (new, file) = (folder.join("policy.new"), folder.join("policy.yaml"));
    let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(new, file));
    written.map_err(|error| Failed::io("policy", &error))
}

/// Prints how many requests got which answer. Returns whether all are right.
fn answers(tallies: &[Tally], forbidden: u64) -> bool {
    let mut right = forbidden == 0;
    let mut total = 0;
    for (tally, protocol) in tallies.iter().zip(["HTTP/1.1", "HTTP/2"]) {
        for (name, results, status) in [("allowed", &tally.allowed, "200"), ("denied", &tally.denied, "403")]
        {
            let RunResults { responses, errors, .. } = results;
            let counts: Vec<u64> = responses.values().map(|each| each.count).collect();
            total += counts.iter().sum::<u64>();
            right &= responses.keys().eq([status]) && errors.is_empty();
            let statuses: Vec<_> = responses.keys().zip(counts).collect();
            println!("{protocol}, {name}: {statuses:?}, failed: {errors:?}");
        }
    }
    println!("{total} requests; {forbidden} denied ones reached the application");
    right
}

/// Prints the memory of each quarter. Returns whether it is flat, if that is to be judged.
fn memory(resident: &[u64], judged: bool) -> bool {
    let quarters: Vec<f64> = resident.chunks(resident.len().div_ceil(4).max(1)).map(mean).collect();
    let mib: Vec<String> =
        quarters.iter().map(|bytes| format!("{:.1}", bytes / f64::from(1 << 20))).collect();
    println!("resident memory of Envoy, mean of each quarter of the run: {} MiB", mib.join(", "));
    let flat = match quarters.as_slice() {
        [_, second, .., last] => *last <= (second * GROWTH).max(second + NOISE),
        _ => true,
    };
    if judged && !flat {
        println!("IT GROWS");
    }
    flat || !judged
}

fn mean(values: &[u64]) -> f64 {
    let sum: u64 = values.iter().sum();
    sum as f64 / values.len().max(1) as f64
}
