//! Reloads of a large policy under load: whether requests fail, and how slow the slowest ones are.
//!
//! Sends Check calls directly to rolegate, without Envoy, so that all effects are rolegate's.
//! Windows without and with a reload alternate at the same rate (without, with, with, without, …),
//! so that a slow phase of the machine affects both. All windows of a kind are one distribution: a
//! ratio of single windows is small whenever the machine was disturbed in the one without a reload,
//! which would count in favour of rolegate.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use load::report::units;
use load::{Plan, Rate, Request, RunResults, Workload, histogram};
use testbed::client::get;
use testbed::envoy::Target;
use testbed::rolegate::Rolegate;
use testbed::{Failed, block_on};

use super::servers::{Places, rolegate};
use crate::machine::Usage;
use crate::pin::{Pins, on};
use crate::verdict::{Limit, Verdict};

/// The size of the policy, and the number of reloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The number of roles; each has a hundred rules.
    pub(crate) roles: u32,
    /// The number of users with each role.
    pub(crate) users: u32,
    /// The number of windows with a reload, and of windows without.
    pub(crate) windows: u32,
    /// The length of a window.
    pub(crate) window: Duration,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reload {
    /// The numbers of rules, roles and grants of the policy, as text.
    pub(crate) size: String,
    /// The number of requests in all windows.
    pub(crate) requests: u64,
    /// Requests without a response, and denied ones.
    pub(crate) failed: u64,
    /// Requests that were due but not sent, because all connections were in use.
    pub(crate) unsent: u64,
    /// The windows without a reload.
    pub(crate) quiet: Windows,
    /// The windows with a reload.
    pub(crate) reloading: Windows,
    /// The time from each change until the new policy was active, in nanoseconds.
    pub(crate) took: Vec<f64>,
    /// Resident bytes at the end.
    pub(crate) resident: u64,
}

/// The latencies of windows of one kind, in nanoseconds, from when each request was due.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    /// Every other window, and the rest.
    halves: [Histogram<u64>; 2],
    /// The p99.9 of each window.
    pub(crate) p999: Vec<f64>,
}

impl Default for Windows {
    fn default() -> Self {
        Self { halves: [histogram(), histogram()], p999: Vec::new() }
    }
}

impl Windows {
    pub(crate) fn add(&mut self, latencies: &Histogram<u64>) {
        let [even, odd] = &mut self.halves;
        let half = if self.p999.len().is_multiple_of(2) { even } else { odd };
        // All histograms have the same bounds, so this does not fail.
        let _ = half.add(latencies);
        self.p999.push(p999(latencies));
    }

    /// The p99.9 of all windows together.
    fn together(&self) -> f64 {
        let [even, odd] = &self.halves;
        let mut all = even.clone();
        let _ = all.add(odd);
        p999(&all)
    }

    /// How far its two halves are apart.
    fn apart(&self) -> f64 {
        let [even, odd] = self.halves.each_ref().map(p999);
        even.max(odd) / even.min(odd).max(1.0)
    }
}

fn p999(of: &Histogram<u64>) -> f64 {
    units::float(of.value_at_percentile(99.9))
}

const RULES: u32 = 100;
/// Requests per second.
const RATE: f64 = 5_000.0;
/// The time of the change within its window.
const CHANGE_AFTER: Duration = Duration::from_millis(200);
/// The maximum duration of a reload.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The goal, and the factor between the halves of the windows without a reload from which on
/// nothing can be said.
const MAX_RATIO: f64 = 2.0;

impl Reload {
    /// Runs the measurement.
    pub(crate) fn measure(places: &Places, pins: &Pins, size: Size) -> Result<Self, Failed> {
        let policy = places.folder.join("large.yaml");
        write(&policy, size, 0)?;
        let socket = places.folder.join("large.sock");
        let listen = Target::Unix(socket.clone());
        let more = ["--poll-interval", "1s", "--threads", "1"];
        let rolegate = on(pins.server.as_deref(), || rolegate(places, &policy, listen, &more))?;
        let plan = plan(&socket, size)?;
        let mut this = Self { size: words(size), ..Self::default() };
        for number in 1..=size.windows {
            let reloading_first = number.is_multiple_of(2);
            for reload in [reloading_first, !reloading_first] {
                if reload {
                    this.reloading(&plan, pins, &rolegate, &policy, (size, number))?;
                } else {
                    let measured = this.window(&plan, pins)?;
                    this.quiet.add(&measured.corrected);
                }
            }
        }
        this.resident = Usage::of(rolegate.id()).resident;
        Ok(this)
    }

    /// A window with one change. The new file is written beforehand, so that the window includes
    /// only its renaming.
    fn reloading(
        &mut self,
        plan: &Plan,
        pins: &Pins,
        rolegate: &Rolegate,
        policy: &Path,
        (size, number): (Size, u32),
    ) -> Result<(), Failed> {
        let next = policy.with_extension("next");
        write(&next, size, number)?;
        let before = counted(rolegate.admin).reloads;
        let change = {
            let policy = policy.to_path_buf();
            thread::spawn(move || change(&next, &policy))
        };
        let measured = self.window(plan, pins)?;
        self.reloading.add(&measured.corrected);
        let changed = change
            .join()
            .map_err(|_| Failed::new("reload", "the thread that changes the policy has failed"))?
            .map_err(|error| Failed::io("large policy", &error))?;
        self.took.push((active(rolegate, before)? - changed) * 1e9);
        Ok(())
    }

    fn window(&mut self, plan: &Plan, pins: &Pins) -> Result<RunResults, Failed> {
        let measured = on(pins.outside.as_deref(), || load::run(plan))?;
        self.requests += measured.requests();
        self.failed += measured.errors() + measured.unexpected;
        self.unsent += measured.generator.unsent;
        Ok(measured)
    }

    /// The verdicts on the part of P6 that can be observed from outside. The ratio is not reached
    /// if a request failed, and nothing is said where windows without a reload differ among
    /// themselves by as much as the goal permits.
    pub(crate) fn verdicts(&self) -> Vec<Verdict> {
        let failed = (
            units::float(self.failed),
            format!("{} of {}", units::count(self.failed), units::count(self.requests)),
        );
        let what = format!("requests that failed during reloads at 5,000/s ({})", self.size);
        let failures = Verdict::new("P6", what, Limit::AtMost(0.0, ""), Some(failed));
        let (ratio, apart) =
            (self.reloading.together() / self.quiet.together().max(1.0), self.quiet.apart());
        let shown = format!("{ratio:.2} × (halves of the windows without a reload: {apart:.2} ×)");
        let what = "p99.9 of all windows with a reload ÷ p99.9 of all without";
        let mut slowest =
            Verdict::new("P6", what, Limit::AtMost(MAX_RATIO, " ×"), Some((ratio, shown)));
        if self.failed > 0 {
            slowest.reached = Some(false);
        } else if apart > MAX_RATIO {
            slowest.reached = None;
        }
        vec![failures, slowest]
    }
}

/// Renames the new policy into place. Returns the time, in seconds since the Unix epoch.
fn change(next: &Path, policy: &Path) -> io::Result<f64> {
    thread::sleep(CHANGE_AFTER);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    std::fs::rename(next, policy)?;
    Ok(now.as_secs_f64())
}

/// The time at which the reload after `before` reloads became active, in seconds since the Unix
/// epoch. Called after the window, because each request for the metrics costs rolegate time.
fn active(rolegate: &Rolegate, before: u64) -> Result<f64, Failed> {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        let Counted { reloads, loaded } = counted(rolegate.admin);
        if reloads > before {
            return Ok(loaded);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(Failed::new("reload", "the changed policy is not active after two minutes"))
}

/// The relevant metrics.
struct Counted {
    reloads: u64,
    loaded: f64,
}

fn counted(admin: std::net::SocketAddr) -> Counted {
    let page =
        block_on(get(admin, "/metrics", &[])).map(|response| response.text()).unwrap_or_default();
    let value = |name: &str| page.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    Counted {
        reloads: value("rolegate_policy_reloads_total{result=\"ok\"} ")
            .and_then(|value| value.parse().ok())
            .unwrap_or_default(),
        loaded: value("rolegate_policy_loaded_timestamp_seconds ")
            .and_then(|value| value.parse().ok())
            .unwrap_or_default(),
    }
}

fn plan(socket: &Path, size: Size) -> Result<Plan, Failed> {
    let mut plan = Plan::check(&format!("unix:{}", socket.display()))?;
    let request = Request { expect: vec![200], ..Request::get("/r0/p0/items/1") };
    plan.workload = Workload::single(request.basic("u0:x"));
    plan.rate = Rate::Constant(RATE);
    (plan.connections, plan.streams) = (2, 32);
    (plan.duration, plan.warmup) = (Some(size.window), Duration::from_millis(300));
    Ok(plan)
}

/// Basic is not verified, as behind a gateway, so that a million users need no password hashes.
fn write(file: &Path, size: Size, version: u32) -> Result<(), Failed> {
    let mut text =
        "version: 1\nidentity:\n  basic: { realm: large, verify: false }\nroles:\n".to_owned();
    for role in 0..size.roles {
        let _ = writeln!(text, "  role-{role}:\n    allow:");
        for rule in 0..RULES {
            let _ = writeln!(text, "      - GET /r{role}/p{rule}/items/{{id}}");
        }
    }
    let _ = writeln!(
        text,
        "  changes:\n    allow: [\"GET /changes/{version}\"]\ngrants:\n  changes: {{ users: [nobody] }}"
    );
    for role in 0..size.roles {
        let users: Vec<String> =
            (0..size.users).map(|user| format!("u{}", role * size.users + user)).collect();
        let _ = writeln!(text, "  role-{role}: {{ users: [{}] }}", users.join(", "));
    }
    crate::write(file, &text)
}

fn words(size: Size) -> String {
    let [rules, roles, grants] = [size.roles * RULES, size.roles, size.roles * size.users];
    let [rules, roles, grants] = [rules, roles, grants].map(|count| units::count(u64::from(count)));
    format!("{rules} rules, {roles} roles, {grants} grants")
}
