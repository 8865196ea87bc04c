//! Export over OTLP (OpenTelemetry, gRPC): spans of decisions, and the decision log.
//!
//! A worker thread puts an encoded record into a bounded queue, which is a [`Lines`]. A thread per signal sends batches of
//! them and, while the collector is away, sends the same batch again and again; what does not fit into the queue meanwhile is
//! dropped and counted, and so is a batch that the collector refuses several times. So an answer never waits, and memory is bounded.
//!
//! The messages are those of `opentelemetry-proto`. Its SDK and `opentelemetry-otlp` are not used: they do not say what they drop,
//! and bound their queues in records, not in bytes.

mod attributes;
mod client;
mod exporter;
mod logs;
mod settings;
mod spans;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use crate::lines::{Counts, Writer};
use crate::trace_context::{DecisionTrace, Tracing};
pub(crate) use client::check;
pub(crate) use logs::LogRecords;
pub use settings::{OtlpSettings, ResourceAttribute, ResourceAttributeError, Traces};
pub(crate) use spans::Spans;

/// What is exported of a decision: cut and masked as in the decision log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exported<'a> {
    pub(crate) trace: Option<DecisionTrace>,
    /// When the request was received, as time since the Unix epoch.
    pub(crate) time: Duration,
    pub(crate) duration: Duration,
    pub(crate) decision: &'static str,
    pub(crate) reason: Option<&'static str>,
    /// The HTTP status of a denial.
    pub(crate) status: Option<u16>,
    pub(crate) rule: Option<&'a str>,
    pub(crate) revision: &'a str,
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) user: Option<&'a str>,
    pub(crate) client: &'a str,
    pub(crate) x_request_id: &'a str,
}

/// Counters of exported records, those of spans and of the decision log, if these are exported.
#[derive(Clone, Debug, Default)]
pub struct OtlpCounts {
    /// Spans.
    pub traces: Option<Arc<Counts>>,
    /// Lines of the decision log.
    pub logs: Option<Arc<Counts>>,
}

/// What was started.
#[derive(Debug, Default)]
pub(crate) struct Otlp {
    pub(crate) spans: Option<Spans>,
    pub(crate) logs: Option<LogRecords>,
    pub(crate) writers: Vec<Writer>,
    pub(crate) counts: OtlpCounts,
}

/// The tokio runtime that drives the connections. It ends when the last of these is dropped.
#[derive(Clone, Debug)]
struct Driver {
    handle: Handle,
    _running: Arc<oneshot::Sender<()>>,
}

impl Otlp {
    /// Starts the threads of the signals that are on; none if both are off.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub(crate) fn start(settings: &OtlpSettings, exports_log: bool) -> io::Result<Self> {
        let mut otlp = Self::default();
        if settings.traces == Traces::Off && !exports_log {
            return Ok(otlp);
        }
        let driver = Driver::start()?;
        let mut keep = |writer, counts| {
            otlp.writers.push(writer);
            Some(counts)
        };
        if settings.traces == Traces::Otlp {
            let (spans, writer, counts) = exporter::start::<spans::Traces>(settings, driver.clone())?;
            otlp.counts.traces = keep(writer, counts);
            otlp.spans = Some(Spans::new(spans, Tracing::recorded(settings.trace_ratio)));
        }
        if exports_log {
            let (logs, writer, counts) = exporter::start::<logs::Logs>(settings, driver)?;
            otlp.counts.logs = keep(writer, counts);
            otlp.logs = Some(LogRecords::new(logs));
        }
        Ok(otlp)
    }
}

impl Driver {
    fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            let _ = runtime.block_on(ended);
            // A DNS lookup may still run: do not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, _running: Arc::new(running) })
    }
}

/// Nanoseconds since the Unix epoch.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
