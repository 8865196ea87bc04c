//! Spans: one of each decision in a trace that is recorded.

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::{DecodeError, Message as _};

use super::attributes::attributes;
use super::exporter::{Rejected, Signal, scope};
use super::{Exported, nanos};
use crate::lines::Lines;
use crate::trace_context::{RecordedSpan, TraceContext, Tracing};

/// The name of each span.
const NAME: &str = "rolegate check";
/// The flag of a trace that is recorded, with the note that it is known whether the parent is remote.
const FLAGS: u32 = 0x101;
/// The parent is remote.
const REMOTE: u32 = 0x200;

/// The queue of spans.
#[derive(Debug)]
pub(crate) struct Spans {
    queue: Lines,
    pub(crate) tracing: Tracing,
}

impl Spans {
    pub(super) fn new(queue: Lines, tracing: Tracing) -> Self {
        Self { queue, tracing }
    }

    /// Puts the span of a decision into the queue.
    pub(crate) fn offer(&self, context: TraceContext, span: RecordedSpan, decision: &Exported<'_>) {
        let is_error = decision.status.is_some_and(|status| status >= 500);
        let code = if is_error { StatusCode::Error } else { StatusCode::Unset };
        let remote = if span.parent.is_some() { REMOTE } else { 0 };
        let span = Span {
            trace_id: context.trace_id.bytes().to_vec(),
            span_id: context.span_id.bytes().to_vec(),
            parent_span_id: span.parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
            flags: FLAGS | remote,
            name: NAME.to_owned(),
            kind: SpanKind::Server.into(),
            start_time_unix_nano: nanos(decision.time),
            end_time_unix_nano: nanos(decision.time.saturating_add(decision.duration)),
            attributes: attributes(decision),
            status: Some(Status { code: code.into(), ..Status::default() }),
            ..Span::default()
        };
        self.queue.offer(ScopeSpans { spans: vec![span], ..ScopeSpans::default() }.encode_to_vec());
    }
}

/// Spans.
#[derive(Debug)]
pub(super) struct Traces;

impl Signal for Traces {
    type Request = ExportTraceServiceRequest;
    type Response = ExportTraceServiceResponse;

    const NAME: &'static str = "traces";
    const PATH: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

    fn request(batch: &[u8], resource: Resource) -> Result<Self::Request, DecodeError> {
        let spans = ScopeSpans { scope: Some(scope()), ..ScopeSpans::decode(batch)? };
        let of_resource =
            ResourceSpans { resource: Some(resource), scope_spans: vec![spans], ..ResourceSpans::default() };
        Ok(ExportTraceServiceRequest { resource_spans: vec![of_resource] })
    }

    fn rejected(response: Self::Response) -> Option<Rejected> {
        let partial = response.partial_success?;
        Some(Rejected { records: partial.rejected_spans, reason: partial.error_message })
    }
}
