//! Export over OTLP (OpenTelemetry, gRPC): spans of decisions, and the decision log.
//!
//! A worker thread puts an encoded record into a bounded queue, which is a [`Lines`]. A thread per
//! signal sends batches of them. While the collector is away, it sends the same batch again and
//! again. Records that do not fit into the queue meanwhile are dropped and counted, and so is a
//! batch that the collector refuses several times. So an answer never waits, and memory is bounded.
//!
//! The messages are those of `opentelemetry-proto`. `opentelemetry-otlp` and its SDK are not used:
//! they do not return how many records a collector rejects, and bound their queues in records, not
//! in bytes.
//!
//! [`Lines`]: crate::lines::Lines

mod collector;
mod exporter;
mod records;
mod settings;

use std::io;
use std::sync::Arc;

use crate::lines::{Counts, Writer};
use crate::trace_context::Tracing;
pub(crate) use collector::check;
use exporter::Driver;
pub(crate) use records::{ExportedDecision, LogRecords, Spans};
use settings::Signal;
pub use settings::{OtlpSettings, ResourceAttribute, ResourceAttributeError, Traces};

/// Counters of exported records, those of spans and of the decision log, if these are exported.
#[derive(Clone, Debug, Default)]
pub struct OtlpCounts {
    /// Spans.
    pub traces: Option<Arc<Counts>>,
    /// Lines of the decision log.
    pub logs: Option<Arc<Counts>>,
}

/// The signals that are exported.
#[derive(Debug, Default)]
pub(crate) struct Otlp {
    pub(crate) spans: Option<Spans>,
    pub(crate) logs: Option<LogRecords>,
    pub(crate) writers: Vec<Writer>,
    pub(crate) counts: OtlpCounts,
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
        if settings.traces == Traces::Otlp {
            let (queue, writer, counts) = exporter::start(Signal::Traces, settings, driver.clone())?;
            otlp.writers.push(writer);
            otlp.counts.traces = Some(counts);
            otlp.spans = Some(Spans { queue, tracing: Tracing::Recorded(settings.trace_ratio) });
        }
        if exports_log {
            let (queue, writer, counts) = exporter::start(Signal::Logs, settings, driver)?;
            otlp.writers.push(writer);
            otlp.counts.logs = Some(counts);
            otlp.logs = Some(LogRecords { queue });
        }
        Ok(otlp)
    }
}
