//! The honest client: bob asks 1,000 times per second, and each call is counted from the moment it was due.
//!
//! His hash is one of bcrypt. The 19 MiB that argon2id takes for alice's go back to the system when they like, and would hide
//! as much growth.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use load::{Rate, Request, Workload, histogram};

/// What the client saw in one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// Microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Calls without a decision.
    pub(crate) errors: u64,
    /// Decisions other than to allow.
    pub(crate) wrong: u64,
}

const RATE: f64 = 1000.0;
/// How long a call may take.
const TIMEOUT: Duration = Duration::from_secs(2);
/// What counts as recovered: a window of this length, with a p99 of at most this many times the usual one.
const RECOVERY_WINDOW: Duration = Duration::from_millis(500);
const RECOVERED: f64 = 1.5;

/// Asks for so long.
pub(crate) fn window(address: SocketAddr, length: Duration) -> Window {
    let mut request = Request::get("/people").basic("bob:builder");
    request.expect = vec![200];
    let mut plan = load::Plan::check(&address.to_string()).unwrap();
    plan.workload = Workload::of(request);
    plan.rate = Rate::Constant(RATE);
    plan.connections = 2;
    plan.duration = Some(length);
    plan.timeout = TIMEOUT;
    match load::run(&plan) {
        Ok(measured) => {
            // What has no answer took at least the timeout. Else a server that answers few calls, fast, would look fast.
            let mut latencies = histogram();
            let _ = latencies.add(&measured.corrected);
            latencies.saturating_record_n(nanoseconds(TIMEOUT), measured.errors() + measured.own.unsent);
            let micros = |quantile| microseconds(latencies.value_at_quantile(quantile));
            let (errors, wrong) = (measured.errors() + measured.own.unsent, measured.unexpected);
            Window { p50: micros(0.5), p99: micros(0.99), errors, wrong }
        }
        // It cannot even connect.
        Err(_) => {
            let all = microseconds(nanoseconds(TIMEOUT));
            Window { p50: all, p99: all, errors: 1, wrong: 0 }
        }
    }
}

/// How long it takes from now until all is well: the start of the first window that is as good as a usual one.
pub(crate) fn recovery(address: SocketAddr, usual: &Window, limit: Duration) -> Option<Duration> {
    let start = Instant::now();
    while start.elapsed() < limit {
        let began = start.elapsed();
        let now = window(address, RECOVERY_WINDOW);
        if now.errors + now.wrong == 0 && now.p99 <= RECOVERED * usual.p99 {
            return Some(began);
        }
    }
    None
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of seconds are far below 2^53")]
fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
