//! Export over OTLP (OpenTelemetry, gRPC): spans of decisions, and the decision log.
//!
//! A worker thread puts an encoded record into a bounded queue (a [`Lines`]). A thread per signal
//! sends batches of records. While the collector is away, that thread sends the same batch again.
//! Records that do not fit into the queue meanwhile are dropped and counted, as is a batch that the
//! collector refuses several times. So an answer never waits, and memory is bounded.
//!
//! `opentelemetry-otlp` and its SDK do not return how many records a collector rejects, and bound
//! their queues in records, not in bytes. So they are not used; `opentelemetry-proto` provides only
//! the messages.
//!
//! [`Lines`]: crate::lines::Lines

mod collector;
mod exporter;
mod records;
mod settings;

use std::io;
use std::sync::Arc;

use crate::lines::{Counts, Lines, Writer};
pub(crate) use collector::check;
use exporter::Driver;
pub(crate) use records::{encode_log_record, encode_span};
use settings::{LOGS, TRACES};
pub use settings::{OtlpSettings, ResourceAttribute, ResourceAttributeError, Traces};

/// Counters of the records of each signal that is exported.
#[derive(Clone, Debug, Default)]
pub struct OtlpCounts {
    /// Spans.
    pub traces: Option<Arc<Counts>>,
    /// Lines of the decision log.
    pub logs: Option<Arc<Counts>>,
}

/// The queues of the signals that are exported.
#[derive(Debug, Default)]
pub(crate) struct Otlp {
    pub(crate) spans: Option<Lines>,
    pub(crate) logs: Option<Lines>,
    pub(crate) writers: Vec<Writer>,
}

impl Otlp {
    /// Starts a thread for each signal that is exported.
    pub(crate) fn start(settings: &OtlpSettings, exports_log: bool) -> io::Result<Self> {
        let mut otlp = Self::default();
        let exports_spans = settings.traces == Traces::Otlp;
        if !exports_spans && !exports_log {
            return Ok(otlp);
        }
        let driver = Driver::start()?;
        for (signal, is_on, queue) in
            [(TRACES, exports_spans, &mut otlp.spans), (LOGS, exports_log, &mut otlp.logs)]
        {
            if is_on {
                let (lines, writer) = exporter::start(signal, settings, driver.clone())?;
                *queue = Some(lines);
                otlp.writers.push(writer);
            }
        }
        Ok(otlp)
    }

    pub(crate) fn counts(&self) -> OtlpCounts {
        OtlpCounts {
            traces: self.spans.as_ref().map(|lines| lines.counts.clone()),
            logs: self.logs.as_ref().map(|lines| lines.counts.clone()),
        }
    }
}
