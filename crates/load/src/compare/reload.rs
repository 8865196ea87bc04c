//! Reloads of a large policy under load: whether a request fails, and what the slowest ones cost.
//!
//! Check calls straight to rolegate, without Envoy, so that what is seen is rolegate's.

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

/// How large the policy is, and how often it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Roles; each has a hundred rules.
    pub roles: u32,
    /// Users that each role is granted to.
    pub users: u32,
    /// Windows with a reload, and as many without.
    pub windows: u32,
    /// How long each takes.
    pub window: Duration,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reload {
    /// Rules, roles and grants of the policy.
    pub size: String,
    /// Requests asked in all windows.
    pub requests: u64,
    /// Requests without an answer, and refused ones.
    pub failed: u64,
    /// Requests that were due and not sent, because all connections were waiting.
    pub unsent: u64,
    /// The p99.9 of each window without a reload, in nanoseconds, corrected.
    pub quiet: Vec<f64>,
    /// The p99.9 of each window with one.
    pub reloading: Vec<f64>,
    /// How long each reload took until it was active, in nanoseconds.
    pub took: Vec<f64>,
    /// Resident bytes at the end.
    pub resident: u64,
}

const RULES: u32 = 100;
/// Requests a second.
const RATE: f64 = 5_000.0;
/// When within its window a policy is changed.
const AFTER: Duration = Duration::from_millis(200);
/// How long a reload may take.
const TIMEOUT: Duration = Duration::from_secs(20);

impl Reload {
    /// Tries it.
    ///
    /// # Errors
    /// When rolegate does not start or cannot be asked.
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

    /// One window with one change. The new file is there beforehand: only its renaming falls into the window.
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

    /// The p99.9 of a window.
    fn window(&mut self, plan: &Plan, pins: &Pins) -> Result<f64, Failed> {
        let measured = on(pins.outside.as_deref(), || crate::run(plan))
            .map_err(|error| Failed::new("reload", error.to_string()))?;
        self.requests += measured.requests();
        self.failed += measured.errors() + measured.unexpected;
        self.unsent += measured.own.unsent;
        Ok(units::float(measured.corrected.value_at_percentile(99.9)))
    }

    /// P6, as far as it is seen from outside.
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

/// Puts the new policy in place: when, in seconds since the Unix epoch.
fn change(next: &Path, policy: &Path) -> io::Result<f64> {
    thread::sleep(AFTER);
    #[expect(clippy::disallowed_methods, reason = "a time to compare with one that rolegate gives")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    std::fs::rename(next, policy)?;
    Ok(now.as_secs_f64())
}

/// When the policy after so many reloads became active, in seconds since the Unix epoch. It is asked for after the
/// window: asking is work for rolegate.
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

/// What the metrics say.
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

/// Passwords are taken for verified, as behind a gateway, so that a million users need no hashes.
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
