//! The decision log: a line of JSON per decision, with the user, the request and the answer.
//!
//! A worker thread makes the line, which takes microseconds, and puts it into the bounded queue of
//! [`Lines`] before it answers. If the queue is full, the line is dropped. So no request ever waits
//! for the reader of the log.
//!
//! A line has no credentials. Of the headers, it has only `x-request-id`, the trace and the values
//! that conditions of the policy read. Of the query, it has only the parameters that decide about a
//! request to a search cluster, and the values that conditions read.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use authorizer::Verdict;

use crate::denials::{Denial, RecentDenials};
use crate::lines::{Counts, Lines, Writer};
use crate::otlp;
use crate::record::{DecisionContext, DecisionRecord, DecisionSink, caller_trace};
use crate::trace_context::{DecisionTrace, Tracing};
use file::LogFile;
use settings::{DecisionLog, DecisionLogSettings};

mod file;
mod mask;
mod path_mask;
pub(crate) mod settings;

pub(crate) use mask::Masks;
pub use path_mask::PathMask;

/// Takes the decisions of all worker threads: for the log, for a collector and for the console.
#[derive(Debug)]
pub(crate) struct Decisions {
    settings: DecisionLogSettings,
    masks: Arc<Masks>,
    counts: Arc<Counts>,
    /// The lines of the file, if they are written to a file.
    lines: Option<Lines>,
    /// The same lines as log records for a collector.
    pub(crate) exported: Option<Lines>,
    /// The spans for a collector.
    pub(crate) spans: Option<Lines>,
    /// Begins the traces of decisions; `None` if decisions are not traced.
    pub(crate) tracing: Option<Tracing>,
    pub(crate) denials: Option<Arc<RecentDenials>>,
}

impl Decisions {
    /// Without a log file, a collector and a console: the caller adds them.
    pub(crate) fn new(
        settings: &DecisionLogSettings,
        masks: Arc<Masks>,
        counts: Arc<Counts>,
    ) -> Self {
        let settings = settings.clone();
        let (lines, exported, spans, tracing, denials) = (None, None, None, None, None);
        Self { settings, masks, counts, lines, exported, spans, tracing, denials }
    }

    /// Opens the file of the log and starts its thread, if decisions are written to a file.
    pub(crate) fn open_file(&mut self) -> io::Result<Option<Writer>> {
        if !self.settings.writes() {
            return Ok(None);
        }
        let file = LogFile::open(&self.settings, self.counts.clone())?;
        self.write_to(file).map(Some)
    }

    fn write_to(&mut self, file: impl Write + Send + 'static) -> io::Result<Writer> {
        let (lines, writer) = Lines::start("decisions", file, self.counts.clone())?;
        self.lines = Some(lines);
        Ok(writer)
    }

    /// Whether any decision goes anywhere.
    pub(crate) fn is_used(&self) -> bool {
        let Self { lines, exported, spans, denials, .. } = self;
        lines.is_some() || exported.is_some() || spans.is_some() || denials.is_some()
    }

    /// Whether a decision is logged, unless sampling leaves it out.
    fn logs(&self, allowed: bool) -> bool {
        match self.settings.which {
            DecisionLog::Off => false,
            DecisionLog::Denied => !allowed,
            DecisionLog::All => true,
        }
    }

    /// Whether to make a line for a decision. Counts a decision that sampling leaves out, or for
    /// which no queue has room. This is checked before the line is made, because even masking the
    /// line costs more than the decision.
    fn admit(&self, reason: Option<&str>) -> bool {
        if !self.logs(reason.is_none()) {
            return false;
        }
        // The share is the fraction of such decisions that is logged.
        if !self.settings.share(reason).selects_next() {
            self.counts.count_left_out();
            return false;
        }
        let queues = self.lines.iter().chain(&self.exported);
        let has_room = queues.clone().any(|lines| !lines.is_full());
        if !has_room {
            queues.for_each(|lines| lines.counts.count_dropped());
        }
        has_room
    }

    /// Takes a decision. `make_record` is called only if the record is used.
    fn take<'r>(
        &self,
        reason: Option<&str>,
        arrival: Duration,
        trace: Option<DecisionTrace>,
        make_record: impl FnOnce() -> DecisionRecord<'r>,
    ) {
        let is_logged = self.admit(reason);
        let span = self.spans.as_ref().zip(trace.filter(|trace| trace.is_recorded));
        let denials =
            self.denials.as_ref().filter(|denials| reason.is_some() && denials.admit(arrival));
        if !is_logged && span.is_none() && denials.is_none() {
            return;
        }
        let mut record = make_record();
        self.masks.mask(&mut record);
        // Long values are cut after masking: masks must see whole values.
        record.cut();
        // The share is in the record, unless it is 1. Readers can then estimate real numbers.
        record.sampled = self.settings.share(reason).below_one();
        if let Some((spans, trace)) = span {
            spans.offer(otlp::encode_span(&record, trace));
        }
        if let Some(denials) = denials {
            denials.keep(Denial::new(&record));
        }
        if is_logged {
            self.log(&record);
        }
    }

    fn log(&self, record: &DecisionRecord<'_>) {
        let Ok(mut line) = serde_json::to_string(record) else {
            return self.counts.count_dropped();
        };
        if let Some(exported) = &self.exported {
            exported.offer(otlp::encode_log_record(record, &line));
        }
        if let Some(lines) = &self.lines {
            line.push('\n');
            lines.offer(line.into_bytes());
        }
    }
}

impl DecisionSink for Decisions {
    fn wants(&self, allowed: bool) -> bool {
        self.logs(allowed) || !allowed && self.denials.is_some()
    }

    fn tracing(&self) -> Option<Tracing> {
        self.tracing
    }

    fn offer(&self, verdict: &Verdict<'_>, context: &DecisionContext<'_>) {
        let reason = match verdict {
            Verdict::Allowed(_) => None,
            Verdict::Denied(denied) => Some(denied.reason.name()),
        };
        if !self.wants(reason.is_none()) && self.tracing.is_none() {
            return;
        }
        let caller = caller_trace(context);
        let recorded = self.tracing.and_then(|tracing| tracing.begin(caller));
        let trace = recorded.or(caller.map(DecisionTrace::unrecorded));
        self.take(reason, context.received.arrival(), trace, || {
            DecisionRecord::new(verdict, context, trace)
        });
    }
}

#[cfg(test)]
mod tests;
