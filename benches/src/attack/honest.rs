//! The honest client: bob sends 1,000 requests per second. Latency is measured from the time at
//! which each call was due. Like Envoy, it keeps its connections: it has opened them before an
//! attack begins. Beside it a newcomer opens one connection after the other, with one call each.
//!
//! His password hash is bcrypt. The hash of alice is argon2id, which takes 19 MiB; these return to
//! the system at arbitrary times and would hide memory growth of the same size.

use std::time::{Duration, Instant};

use bytes::Bytes;
use load::check_message::CHECK_PATH;
use load::report::units;
use load::{Rate, Request, Workload, histogram};
use testbed::block_on;
use testbed::grpc::{call, handshake};
use tokio::net::{TcpStream, UnixStream};

use super::calls::message;

/// The measurements of one window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Window {
    /// In microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Calls without a decision.
    pub(crate) errors: u64,
    /// Decisions other than allowed.
    pub(crate) wrong: u64,
}

const RATE: f64 = 1000.0;
/// The timeout of a call.
const TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT_NS: u64 = 2_000_000_000;
/// `bob:builder`, the example of the demo.
const BOB: &str = "Basic Ym9iOmJ1aWxkZXI=";
/// The pause between two new connections.
const NEWCOMER_EVERY: Duration = Duration::from_millis(100);
/// The server has recovered when the p99 of a window of this length is at most this multiple of the
/// usual one.
const RECOVERY_WINDOW: Duration = Duration::from_millis(500);
const RECOVERED: f64 = 1.5;

/// Sends requests for this long.
pub(crate) fn window(address: &str, length: Duration) -> Window {
    window_after(address, Duration::ZERO, length)
}

/// Sends requests for this long, after a time that is not measured.
pub(crate) fn window_after(address: &str, before: Duration, length: Duration) -> Window {
    let mut request = Request::get("/people").basic("bob:builder");
    request.expect = vec![200];
    let mut plan = load::Plan::check(address).unwrap();
    plan.workload = Workload::single(request);
    plan.rate = Rate::Constant(RATE);
    plan.connections = 2;
    plan.warmup = before;
    plan.duration = Some(length);
    plan.timeout = TIMEOUT;
    match load::run(&plan) {
        Ok(measured) => {
            // A call without an answer counts with the timeout. Otherwise a server that answers few
            // calls quickly would look fast.
            let mut latencies = histogram();
            let _ = latencies.add(&measured.corrected);
            latencies
                .saturating_record_n(TIMEOUT_NS, measured.errors() + measured.generator.unsent);
            let micros = |quantile| microseconds(latencies.value_at_quantile(quantile));
            let (errors, wrong) =
                (measured.errors() + measured.generator.unsent, measured.unexpected);
            Window { p50: micros(0.5), p99: micros(0.99), errors, wrong }
        }
        // The client cannot even connect.
        Err(_) => {
            let all = microseconds(TIMEOUT_NS);
            Window { p50: all, p99: all, errors: 1, wrong: 0 }
        }
    }
}

/// How new connections fared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Newcomers {
    /// The longest time until the first call was answered; at most [`TIMEOUT`].
    pub(crate) slowest: Duration,
    /// Calls that were not allowed.
    pub(crate) failed: u64,
}

/// Until this instant opens connections, each for one call.
pub(crate) fn newcomers(address: &str, until: Instant) -> Newcomers {
    let message = message("10.0.0.7", "/people", Some(BOB));
    let measured = block_on(async {
        let mut newcomers = Newcomers::default();
        while Instant::now() < until {
            let start = Instant::now();
            let answer = tokio::time::timeout(TIMEOUT, first_call(address, &message)).await;
            newcomers.slowest = newcomers.slowest.max(start.elapsed().min(TIMEOUT));
            newcomers.failed += u64::from(answer != Ok(Some(200)));
            tokio::time::sleep(NEWCOMER_EVERY).await;
        }
        Ok(newcomers)
    });
    measured.unwrap_or(Newcomers { slowest: TIMEOUT, failed: 1 })
}

/// The status of the answer; `None` without one.
async fn first_call(address: &str, message: &Bytes) -> Option<i32> {
    let client = match address.strip_prefix("unix:") {
        Some(path) => handshake(UnixStream::connect(path).await.ok()?).await.ok()?,
        None => {
            let stream = TcpStream::connect(address).await.ok()?;
            stream.set_nodelay(true).ok()?;
            handshake(stream).await.ok()?
        }
    };
    call(&client, CHECK_PATH, message.clone()).await.ok()?.status()
}

/// The time from now until the server has recovered: the start of the first window that is as good
/// as usual.
pub(crate) fn recovery(address: &str, usual: &Window, limit: Duration) -> Option<Duration> {
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

fn microseconds(nanoseconds: u64) -> f64 {
    units::float(nanoseconds) / 1000.0
}
