//! Reloads of a large policy under load: whether requests fail, and how slow the slowest ones are.
//!
//! Sends Check calls directly to rolegate, without Envoy, so that all effects are rolegate's.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testbed::Failed;
use testbed::envoy::Target;
use testbed::rolegate::Rolegate;

use super::ask;
use super::pin::{Pins, on};
use super::record::Spread;
use super::servers::{Places, rolegate};
use super::verdict::Verdict;
use crate::report::units;
use crate::{Plan, Rate, Request, Workload};

/// The size of the policy, and the number of reloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// The number of roles; each has a hundred rules.
    pub roles: u32,
    /// The number of users with each role.
    pub users: u32,
    /// The number of windows with a reload, and of windows without.
    pub windows: u32,
    /// The length of a window.
    pub window: Duration,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reload {
    /// The numbers of rules, roles and grants of the policy, as text.
    pub size: String,
    /// The number of requests in all windows.
    pub requests: u64,
    /// Requests without a response, and denied ones.
    pub failed: u64,
    /// Requests that were due but not sent, because all connections were in use.
    pub unsent: u64,
    /// The corrected p99.9 of each window without a reload, in nanoseconds.
    pub quiet: Vec<f64>,
    /// The corrected p99.9 of each window with a reload, in nanoseconds.
    pub reloading: Vec<f64>,
    /// The time from each change until the new policy was active, in nanoseconds.
    pub took: Vec<f64>,
    /// Resident bytes at the end.
    pub resident: u64,
}

const RULES: u32 = 100;
/// Requests per second.
const RATE: f64 = 5_000.0;
/// The time of the change within its window.
const AFTER: Duration = Duration::from_millis(200);
/// The maximum duration of a reload.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Reload {
    /// Runs the measurement.
    ///
    /// # Errors
    /// If rolegate does not start or does not answer.
    pub fn measure(places: &Places, pins: &Pins, size: Size) -> Result<Self, Failed> {
        let policy = places.folder.join("large.yaml");
        write(&policy, size, 0)?;
        let socket = places.folder.join("large.sock");
        let listen = Target::Unix(socket.clone());
        let rolegate =
            on(pins.pod.as_deref(), || rolegate(places, &policy, listen, &["--poll-interval", "1s"]))?;
        let plan = plan(&socket, size)?;
        let mut this = Self { size: words(size), ..Self::default() };
        for number in 1..=size.windows {
            this.quiet(&plan, pins)?;
            this.reloading(&plan, pins, &rolegate, &policy, (size, number))?;
        }
        this.resident = super::procfs::Usage::of(rolegate.id()).resident;
        Ok(this)
    }

    fn quiet(&mut self, plan: &Plan, pins: &Pins) -> Result<(), Failed> {
        let p999 = self.window(plan, pins)?;
        self.quiet.push(p999);
        Ok(())
    }

    /// A window with one change. The new file is written beforehand, so that the window includes only its renaming.
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
        let p999 = self.window(plan, pins)?;
        self.reloading.push(p999);
        let changed = change
            .join()
            .map_err(|_| Failed::new("reload", "the thread that changes the policy has failed"))?
            .map_err(|error| Failed::io("large policy", &error))?;
        self.took.push((in_force(rolegate, before)? - changed) * 1e9);
        Ok(())
    }

    /// The p99.9 of a window, in nanoseconds.
    fn window(&mut self, plan: &Plan, pins: &Pins) -> Result<f64, Failed> {
        let measured = on(pins.outside.as_deref(), || crate::run(plan))
            .map_err(|error| Failed::new("reload", error.to_string()))?;
        self.requests += measured.requests();
        self.failed += measured.errors() + measured.unexpected;
        self.unsent += measured.own.unsent;
        Ok(units::float(measured.corrected.value_at_percentile(99.9)))
    }

    /// The verdicts on the part of P6 that can be observed from outside.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let mut all = vec![Verdict {
            goal: "P6",
            what: format!("requests that failed during reloads at 5,000/s ({})", self.size),
            measured: format!("{} of {}", units::count(self.failed), units::count(self.requests)),
            limit: "0".to_owned(),
            holds: self.failed == 0,
        }];
        let ratios = self.reloading.iter().zip(&self.quiet).map(|(with, without)| with / without.max(1.0));
        if let Some(it) = Spread::of(ratios.collect()) {
            all.push(Verdict {
                goal: "P6",
                what: "p99.9 of a window with a reload ÷ that of the one before it".to_owned(),
                measured: format!("{:.2} × ({:.2}–{:.2})", it.median, it.min, it.max),
                limit: "≤ 2 ×".to_owned(),
                holds: it.median <= 2.0,
            });
        }
        all
    }
}

/// Renames the new policy into place. Returns the time, in seconds since the Unix epoch.
fn change(next: &Path, policy: &Path) -> io::Result<f64> {
    thread::sleep(AFTER);
    #[expect(clippy::disallowed_methods, reason = "a time to compare with one that rolegate gives")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    std::fs::rename(next, policy)?;
    Ok(now.as_secs_f64())
}

/// The time at which the reload after `before` reloads became active, in seconds since the Unix epoch. Called after the
/// window, because each request for the metrics costs rolegate time.
fn in_force(rolegate: &Rolegate, before: u64) -> Result<f64, Failed> {
    let start = Instant::now();
    while start.elapsed() < TIMEOUT {
        let Counted { reloads, loaded } = counted(rolegate.admin);
        if reloads > before {
            return Ok(loaded);
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(Failed::new("reload", "the changed policy is not active after 20 s"))
}

/// The relevant metrics.
struct Counted {
    reloads: u64,
    loaded: f64,
}

fn counted(admin: std::net::SocketAddr) -> Counted {
    let page = ask::get(admin, "/metrics", &[]).map(|it| it.1).unwrap_or_default();
    let value = |name: &str| page.lines().find_map(|it| it.strip_prefix(name)).map(str::trim);
    Counted {
        reloads: value("rolegate_policy_reloads_total{result=\"ok\"} ")
            .and_then(|it| it.parse().ok())
            .unwrap_or_default(),
        loaded: value("rolegate_policy_loaded_timestamp_seconds ")
            .and_then(|it| it.parse().ok())
            .unwrap_or_default(),
    }
}

fn plan(socket: &Path, size: Size) -> Result<Plan, Failed> {
    let wrong = |error: crate::Failed| Failed::new("reload", error.to_string());
    let mut plan = Plan::check(&format!("unix:{}", socket.display())).map_err(wrong)?;
    let request = Request { expect: vec![200], ..Request::get("/r0/p0/items/1") };
    plan.workload = Workload::of(request.basic("u0:x"));
    plan.rate = Rate::Constant(RATE);
    (plan.connections, plan.streams) = (2, 32);
    (plan.duration, plan.warmup) = (Some(size.window), Duration::from_millis(300));
    Ok(plan)
}

/// Basic is not verified, as behind a gateway, so that a million users need no password hashes.
fn write(file: &PathBuf, size: Size, version: u32) -> Result<(), Failed> {
    let mut text = "version: 1\nidentity:\n  basic: { realm: large, verify: false }\nroles:\n".to_owned();
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
        let users: Vec<String> = (0..size.users).map(|it| format!("u{}", role * size.users + it)).collect();
        let _ = writeln!(text, "  role-{role}: {{ users: [{}] }}", users.join(", "));
    }
    std::fs::write(file, text).map_err(|error| Failed::io("large policy", &error))
}

fn words(size: Size) -> String {
    let [rules, roles, grants] = [size.roles * RULES, size.roles, size.roles * size.users];
    let [rules, roles, grants] = [rules, roles, grants].map(|it| units::count(u64::from(it)));
    format!("{rules} rules, {roles} roles, {grants} grants")
}
