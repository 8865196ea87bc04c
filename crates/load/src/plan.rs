//! What to do in one run: whom to ask, what, how often, for how long.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::address::Target;
use crate::measured::{Protocol, Rate};
use crate::workload::{Request, Workload};

/// What to do in one run.
#[derive(Clone)]
pub struct Plan {
    /// Whom to ask.
    pub target: Target,
    /// In which protocol.
    pub protocol: Protocol,
    /// How often.
    pub rate: Rate,
    /// Connections to hold open.
    pub connections: usize,
    /// Requests that may be under way on one connection at a time; HTTP/1.1 has one.
    pub streams: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// How long to measure. At least this or [`Plan::requests`] is given; the first that is reached ends the run.
    pub duration: Option<Duration>,
    /// How many requests to measure.
    pub requests: Option<u64>,
    /// How long to ask before anything is measured.
    pub warmup: Duration,
    /// How long one answer may take before it counts as an error.
    pub timeout: Duration,
    /// How long to try to reach a server that is not there yet.
    pub wait: Duration,
    /// What to ask.
    pub workload: Workload,
    /// What the choices of the workload begin with: the same seed gives the same requests.
    pub seed: u64,
    /// Who wants to hear how far it is, some five times a second.
    pub watch: Option<Watch>,
    /// Ends the run early, with the results so far.
    pub stop: Stop,
}

/// Who wants to hear how far a run is.
pub type Watch = Arc<dyn Fn(&Progress) + Send + Sync>;

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Whether this is still the warm-up.
    pub warming: bool,
    /// How long it has measured.
    pub elapsed: Duration,
    /// Which part of the whole is done, 0 to 1.
    pub done: f64,
    /// Answers so far.
    pub answers: u64,
    /// Errors so far.
    pub errors: u64,
    /// Answers a second, since the last report.
    pub rate: f64,
    /// The corrected p99 so far, in nanoseconds.
    pub p99: u64,
}

/// Ends a run from outside.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the run to end.
    pub fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether that was asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Why a run gave no result. The text holds no secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// What was asked for cannot be done.
    #[error("{0}")]
    Plan(String),
    /// The server cannot be reached.
    #[error("cannot reach `{target}`: {reason}")]
    Unreachable {
        /// What was to be reached.
        target: String,
        /// What the system says.
        reason: String,
    },
    /// The system refused something to the generator itself.
    #[error("the generator cannot work: {0}")]
    Own(String),
}

impl Plan {
    /// `GET` on a URL such as `http://127.0.0.1:8080/people`: 8 connections at 100 requests a second for 10 s.
    ///
    /// # Errors
    /// When it is not such a URL.
    pub fn http(url: &str) -> Result<Self, Failed> {
        let target = Target::http(url)?;
        let request = Request::get(&target.path);
        Ok(Self::new(target, Protocol::Http1, Workload::of(request)))
    }

    /// Check calls to an address such as `127.0.0.1:9191` or `unix:/run/rolegate.sock`, about `GET /people`.
    ///
    /// # Errors
    /// When it is not an address.
    pub fn check(address: &str) -> Result<Self, Failed> {
        let target = Target::check(address)?;
        let request = Request::get("/people");
        Ok(Self { streams: 32, ..Self::new(target, Protocol::Check, Workload::of(request)) })
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

impl fmt::Debug for Plan {
    /// Without the workload, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plan")
            .field("target", &self.target.shown)
            .field("rate", &self.rate)
            .finish_non_exhaustive()
    }
}
