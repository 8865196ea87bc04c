//! The parameters of a run.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::Exit;
use crate::address::Target;
use crate::failed::Failed;
use crate::workload::{Request, Workload};

/// The parameters of a run.
#[derive(Clone)]
pub struct Plan {
    /// The server.
    pub target: Target,
    /// The protocol.
    pub protocol: Protocol,
    /// The rate.
    pub rate: Rate,
    /// Connections to hold open.
    pub connections: usize,
    /// The maximum number of concurrent requests per connection; always 1 for HTTP/1.1.
    pub streams: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// The time to measure. This, [`Plan::requests`] or both must be given; the run ends at the
    /// first limit reached.
    pub duration: Option<Duration>,
    /// The number of requests to measure.
    pub requests: Option<u64>,
    /// How long to send requests before the measurement.
    pub warmup: Duration,
    /// The time after which a missing response counts as an error.
    pub timeout: Duration,
    /// How long to retry connecting to a server that is not up yet.
    pub wait: Duration,
    /// The requests to send.
    pub workload: Workload,
    /// The seed of the workload's random choices. Equal seeds give equal requests.
    pub seed: u64,
    /// Called with the progress about five times per second.
    pub watch: Option<Watch>,
    /// Ends the run early, with the results so far.
    pub stop: Stop,
}

/// The protocol of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/2 without TLS, with prior knowledge (RFC 9113, 3.3).
    Http2,
    /// `envoy.service.auth.v3.Authorization/Check` over gRPC.
    Check,
}

/// The request rate, per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A constant rate, independent of the server (open loop).
    Constant(f64),
    /// As fast as the server answers: each response starts the next request (closed loop).
    Max,
    /// A rate that changes linearly over the run.
    Ramp {
        /// At the start.
        from: f64,
        /// At the end.
        to: f64,
    },
}

/// A callback for the progress of a run.
pub type Watch = Arc<dyn Fn(&Progress) + Send + Sync>;

/// The progress of a run.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Whether the warm-up is still running.
    pub warming: bool,
    /// The measured time so far.
    pub elapsed: Duration,
    /// The completed fraction, from 0 to 1.
    pub done: f64,
    /// Responses so far.
    pub responses: u64,
    /// Errors so far.
    pub errors: u64,
    /// Responses per second since the last call of [`Watch`].
    pub rate: f64,
    /// The p99 of the latencies so far, each from when its request was due, in nanoseconds.
    pub p99: u64,
}

/// Ends a run from outside.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end of the run.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the end was requested.
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// Makes the first SIGINT or SIGTERM end the run with the results so far, and the second end
    /// the process.
    pub fn on_signals(&self) {
        let stop = self.clone();
        // If this fails, a signal ends the process as usual.
        let _ = std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || stop.handle_signals());
    }

    fn handle_signals(&self) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        runtime.block_on(async {
            loop {
                signalled().await?;
                if self.is_requested() {
                    std::process::exit(Exit::Interrupted as i32);
                }
                self.stop();
            }
        })
    }
}

/// Waits for SIGTERM or SIGINT. Without a handler, the first process of a container would ignore
/// them.
pub async fn signalled() -> io::Result<()> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

impl Plan {
    /// `GET` on a URL such as `http://127.0.0.1:8080/people`: 8 connections at 100 requests per
    /// second for 10 s.
    pub fn http(url: &str) -> Result<Self, Failed> {
        let target = Target::http(url)?;
        let request = Request::get(&target.path);
        Ok(Self::new(target, Protocol::Http1, Workload::single(request)))
    }

    /// Check calls to an address such as `127.0.0.1:9191` or `unix:/run/rolegate.sock`, about `GET
    /// /people`.
    pub fn check(address: &str) -> Result<Self, Failed> {
        let target = Target::check(address)?;
        let request = Request::get("/people");
        Ok(Self { streams: 32, ..Self::new(target, Protocol::Check, Workload::single(request)) })
    }

    fn new(target: Target, protocol: Protocol, workload: Workload) -> Self {
        Self {
            target,
            protocol,
            rate: Rate::Constant(100.0),
            connections: 8,
            streams: 1,
            threads: 1,
            duration: Some(Duration::from_secs(10)),
            requests: None,
            warmup: Duration::ZERO,
            timeout: Duration::from_secs(10),
            wait: Duration::ZERO,
            workload,
            seed: 1,
            watch: None,
            stop: Stop::default(),
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Check => "Check",
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(rate) => write!(f, "{rate}/s"),
            Self::Max => f.write_str("max"),
            Self::Ramp { from, to } => write!(f, "{from}..{to}/s"),
        }
    }
}

impl fmt::Debug for Plan {
    /// Omits the workload, which may contain secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("target", &self.target.shown)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}
