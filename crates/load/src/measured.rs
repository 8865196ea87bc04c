//! What a run found out. Reports are made of this and of nothing else.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

/// What a run found out.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What was asked: a URL, or the address of a server of Check calls. It holds no secret.
    pub target: String,
    /// How it was asked.
    pub protocol: Protocol,
    /// How often it was to be asked.
    pub rate: Rate,
    /// Connections held open.
    pub connections: usize,
    /// Requests that may be under way on one connection at a time.
    pub streams: usize,
    /// When the measured part began, after the warm-up.
    pub started: SystemTime,
    /// How long the measured part took, to the last answer.
    pub elapsed: Duration,
    /// Nanoseconds from the intended start of each request to the end of its answer.
    pub corrected: Histogram<u64>,
    /// Nanoseconds from the moment it was really sent to the end of its answer.
    pub uncorrected: Histogram<u64>,
    /// The answers by status (`200`), or for Check calls by decision (`allowed`, `denied 403`).
    pub answers: BTreeMap<String, Answers>,
    /// Requests without an answer, by what went wrong. They are in no histogram.
    pub errors: BTreeMap<String, u64>,
    /// Answers whose status was none of those expected. They are in the histograms.
    pub unexpected: u64,
    /// Bytes written to the sockets.
    pub bytes_sent: u64,
    /// Bytes read from the sockets.
    pub bytes_received: u64,
    /// What the generator says of itself.
    pub own: Own,
    /// Whether it was ended before its time.
    pub interrupted: bool,
}

/// The protocol of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1 without TLS.
    Http1,
    /// HTTP/2 without TLS, known beforehand (RFC 9113, 3.3).
    Http2,
    /// `envoy.service.auth.v3.Authorization/Check`, by gRPC.
    Check,
}

/// How often to ask, in requests a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// At a constant rate, whatever the server does.
    Constant(f64),
    /// The next as soon as one is answered.
    Max,
    /// At a rate that changes evenly from the first to the last moment.
    Ramp {
        /// At the start.
        from: f64,
        /// At the end.
        to: f64,
    },
}

/// Answers of one kind.
#[derive(Clone, Debug)]
pub struct Answers {
    /// How many.
    pub count: u64,
    /// As in [`Measured::corrected`].
    pub corrected: Histogram<u64>,
}

/// What the generator says of itself.
#[derive(Clone, Debug, Default)]
pub struct Own {
    /// Requests a second that had an answer.
    pub achieved: f64,
    /// Requests sent more than 1 ms late because the generator woke late. The server had no part in it.
    pub late: u64,
    /// The worst of these delays.
    pub worst_late: Duration,
    /// Requests sent more than 1 ms late because every connection and stream was waiting for an answer.
    pub queued: u64,
    /// Requests that were due before the end and never sent, for the same reason.
    pub unsent: u64,
    /// CPU time of the generator's threads.
    pub cpu: Duration,
    /// Threads of the generator.
    pub threads: usize,
    /// A sentence, when the generator and not the server was the limit.
    pub limited: Option<String>,
}

/// The longest time a histogram holds; what takes longer counts as this.
pub const LONGEST: Duration = Duration::from_secs(3600);

/// An empty histogram of nanoseconds, with three significant digits.
#[must_use]
#[expect(clippy::expect_used, reason = "the bounds are constant and valid; a test makes one")]
pub fn histogram() -> Histogram<u64> {
    let longest = u64::try_from(LONGEST.as_nanos()).unwrap_or(u64::MAX);
    Histogram::new_with_bounds(1, longest, 3).expect("valid bounds")
}

impl Measured {
    /// Requests that ended in an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Requests that ended, one way or the other.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.corrected.len() + self.errors()
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
