//! Log records: the lines of the decision log.

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::{DecodeError, Message as _};

use super::attributes::attributes;
use super::exporter::{Rejected, Signal, scope};
use super::{Exported, nanos};
use crate::lines::Lines;

/// The name of each event.
const EVENT: &str = "rolegate.decision";

/// The queue of log records.
#[derive(Debug)]
pub(crate) struct LogRecords {
    queue: Lines,
}

impl LogRecords {
    pub(super) fn new(queue: Lines) -> Self {
        Self { queue }
    }

    /// The queue.
    pub(crate) const fn queue(&self) -> &Lines {
        &self.queue
    }

    /// Puts a line of the decision log into the queue.
    pub(crate) fn offer(&self, line: &str, decision: &Exported<'_>) {
        let (severity, severity_text) = match decision.reason {
            None => (SeverityNumber::Info, "INFO"),
            Some(_) => (SeverityNumber::Warn, "WARN"),
        };
        let context = decision.trace.map(|trace| trace.context);
        let record = LogRecord {
            time_unix_nano: nanos(decision.time),
            observed_time_unix_nano: nanos(decision.time.saturating_add(decision.duration)),
            severity_number: severity.into(),
            severity_text: severity_text.to_owned(),
            body: Some(AnyValue { value: Some(Value::StringValue(line.to_owned())) }),
            attributes: attributes(decision),
            flags: context.map_or(0, |context| context.is_sampled.into()),
            trace_id: context.map(|context| context.trace_id.bytes().to_vec()).unwrap_or_default(),
            span_id: context.map(|context| context.span_id.bytes().to_vec()).unwrap_or_default(),
            event_name: EVENT.to_owned(),
            ..LogRecord::default()
        };
        self.queue.offer(ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }.encode_to_vec());
    }
}

/// Log records.
#[derive(Debug)]
pub(super) struct Logs;

impl Signal for Logs {
    type Request = ExportLogsServiceRequest;
    type Response = ExportLogsServiceResponse;

    const NAME: &'static str = "logs";
    const PATH: &'static str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

    fn request(batch: &[u8], resource: Resource) -> Result<Self::Request, DecodeError> {
        let logs = ScopeLogs { scope: Some(scope()), ..ScopeLogs::decode(batch)? };
        let of_resource =
            ResourceLogs { resource: Some(resource), scope_logs: vec![logs], ..ResourceLogs::default() };
        Ok(ExportLogsServiceRequest { resource_logs: vec![of_resource] })
    }

    fn rejected(response: Self::Response) -> Option<Rejected> {
        let partial = response.partial_success?;
        Some(Rejected { records: partial.rejected_log_records, reason: partial.error_message })
    }
}
