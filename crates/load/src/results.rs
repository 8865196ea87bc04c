//! The results of a run. Reports are made only from these.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

use crate::answer::{Answer, Fault};
use crate::plan::{Plan, Protocol, Rate};

/// The results of a run.
#[derive(Clone, Debug)]
pub struct RunResults {
    /// The URL, or the address of a server of Check calls. Contains no secret.
    pub target: String,
    /// The protocol of the requests.
    pub protocol: Protocol,
    /// The intended rate.
    pub rate: Rate,
    /// Connections held open.
    pub connections: usize,
    /// The maximum number of concurrent requests per connection.
    pub streams: usize,
    /// The start of the measured part, after the warm-up.
    pub started: SystemTime,
    /// The length of the measured part, up to the last response.
    pub elapsed: Duration,
    /// From the intended start of each request to the end of its response, in nanoseconds.
    pub corrected: Histogram<u64>,
    /// From the actual start of each request to the end of its response, in nanoseconds.
    pub uncorrected: Histogram<u64>,
    /// The corrected latencies of each answer.
    pub responses: BTreeMap<Answer, Histogram<u64>>,
    /// Requests without a response, by kind of error. They are not in the histograms.
    pub errors: BTreeMap<Fault, u64>,
    /// Responses with an unexpected status. They are in the histograms.
    pub unexpected: u64,
    /// Bytes written to the sockets.
    pub bytes_sent: u64,
    /// Bytes read from the sockets.
    pub bytes_received: u64,
    /// Measurements of the generator itself.
    pub generator: GeneratorStats,
    /// Whether it was ended early.
    pub interrupted: bool,
}

/// Measurements of the generator itself.
#[derive(Clone, Debug, Default)]
pub struct GeneratorStats {
    /// Answered requests per second.
    pub achieved: f64,
    /// Requests sent more than 1 ms late because the generator woke up late. Not caused by the
    /// server.
    pub late: u64,
    /// The worst of these delays.
    pub worst_late: Duration,
    /// Requests sent more than 1 ms late because all connections and streams were in use.
    pub queued: u64,
    /// Requests that were due before the end but never sent, for the same reason.
    pub unsent: u64,
    /// CPU time of the generator's threads.
    pub cpu: Duration,
    /// Threads of the generator.
    pub threads: usize,
    /// An explanation, if the generator and not the server was the limit.
    pub limited: Option<String>,
}

/// The maximum of the histograms; longer times count as this.
pub const MAX_LATENCY: Duration = Duration::from_secs(3600);

/// An empty histogram of nanoseconds, with three significant digits.
#[expect(clippy::expect_used, reason = "the bounds are constant and valid; a test makes one")]
pub fn histogram() -> Histogram<u64> {
    let longest = u64::try_from(MAX_LATENCY.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(1, longest, 3).expect("valid bounds")
}

impl RunResults {
    /// Without any request.
    pub(crate) fn empty(plan: &Plan, started: SystemTime) -> Self {
        Self {
            target: plan.target.shown.clone(),
            protocol: plan.protocol,
            rate: plan.rate,
            connections: plan.connections,
            streams: if plan.protocol == Protocol::Http1 { 1 } else { plan.streams },
            started,
            elapsed: Duration::ZERO,
            corrected: histogram(),
            uncorrected: histogram(),
            responses: BTreeMap::new(),
            errors: BTreeMap::new(),
            unexpected: 0,
            bytes_sent: 0,
            bytes_received: 0,
            generator: GeneratorStats { threads: plan.threads, ..GeneratorStats::default() },
            interrupted: false,
        }
    }

    /// The number of responses that `is_counted` selects.
    pub(crate) fn count(&self, is_counted: impl Fn(&Answer) -> bool) -> u64 {
        let responses = self.responses.iter().filter(|(answer, _)| is_counted(answer));
        responses.map(|(_, latencies)| latencies.len()).sum()
    }

    /// Requests that ended in an error.
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Requests that ended, with a response or an error.
    pub fn requests(&self) -> u64 {
        self.corrected.len() + self.errors()
    }
}
