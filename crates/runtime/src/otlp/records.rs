//! A decision as a span and as a log record.

use std::time::Duration;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ScopeLogs, SeverityNumber};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span, Status};
use prost::Message as _;

use crate::record::DecisionRecord;
use crate::trace_context::DecisionTrace;

const SPAN_NAME: &str = "rolegate check";
const EVENT_NAME: &str = "rolegate.decision";
/// The flags of a sampled span: it is sampled (`0x1`), and [`FLAG_REMOTE`] tells whether its parent
/// is remote (`0x100`).
const FLAGS: u32 = 0x101;
/// The flag of a span whose parent is remote.
const FLAG_REMOTE: u32 = 0x200;

/// The span of a decision, as the only span of an encoded [`ScopeSpans`].
pub(crate) fn encode_span(decision: &DecisionRecord<'_>, trace: DecisionTrace) -> Vec<u8> {
    let DecisionTrace { context, parent, .. } = trace;
    let is_error = decision.status.is_some_and(|status| status >= 500);
    let code = if is_error { StatusCode::Error } else { StatusCode::Unset };
    let remote = if parent.is_some() { FLAG_REMOTE } else { 0 };
    let span = Span {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: context.span_id.to_be_bytes().to_vec(),
        parent_span_id: parent.map(|parent| parent.to_be_bytes().to_vec()).unwrap_or_default(),
        flags: FLAGS | remote,
        name: SPAN_NAME.to_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: nanos(decision.time),
        end_time_unix_nano: nanos(decision.time.saturating_add(decision.duration)),
        attributes: attributes(decision),
        status: Some(Status { code: code.into(), ..Status::default() }),
        ..Span::default()
    };
    ScopeSpans { spans: vec![span], ..ScopeSpans::default() }.encode_to_vec()
}

/// A decision with its `line` of the decision log, as the only record of an encoded [`ScopeLogs`].
pub(crate) fn encode_log_record(decision: &DecisionRecord<'_>, line: &str) -> Vec<u8> {
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
        trace_id: context
            .map(|context| context.trace_id.to_be_bytes().to_vec())
            .unwrap_or_default(),
        span_id: context.map(|context| context.span_id.to_be_bytes().to_vec()).unwrap_or_default(),
        event_name: EVENT_NAME.to_owned(),
        ..LogRecord::default()
    };
    ScopeLogs { log_records: vec![record], ..ScopeLogs::default() }.encode_to_vec()
}

/// Reads the value of an attribute, if it applies.
type ReadValue = fn(&DecisionRecord<'_>) -> Option<Value>;

/// All attributes; `docs/opentelemetry.md` lists them. Names come from OpenTelemetry's semantic
/// conventions where these have a name.
const ATTRIBUTES: [(&str, ReadValue); 12] = [
    ("rolegate.decision", |decision| text(decision.decision)),
    ("rolegate.reason", |decision| decision.reason.and_then(text)),
    ("rolegate.rule", |decision| text(decision.rule)),
    ("rolegate.revision", |decision| text(decision.policy)),
    ("rolegate.x_request_id", |decision| text(&decision.x_request_id)),
    ("http.request.method", |decision| text(&decision.method)),
    ("http.response.status_code", |decision| decision.status.map(number)),
    ("url.path", |decision| text(&decision.path)),
    ("server.address", |decision| text(address_and_port(&decision.host).0)),
    ("server.port", |decision| address_and_port(&decision.host).1.map(number)),
    ("client.address", |decision| text(&decision.client)),
    ("enduser.id", |decision| text(&decision.user)),
];

fn attributes(decision: &DecisionRecord<'_>) -> Vec<KeyValue> {
    let attributes = ATTRIBUTES.iter();
    attributes.filter_map(|(name, read)| Some(attribute(name, read(decision)?))).collect()
}

pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| Value::StringValue(text.to_owned()))
}

fn number(number: u16) -> Value {
    Value::IntValue(number.into())
}

/// `example.com:8443` and `[::1]:8443` have a port, `example.com` and `::1` have none.
fn address_and_port(host: &str) -> (&str, Option<u16>) {
    let Some((address, port)) = host.rsplit_once(':') else { return (host, None) };
    let is_whole_address = !address.contains(':') || address.ends_with(']');
    match port.parse() {
        Ok(port) if is_whole_address => (address, Some(port)),
        Ok(_) | Err(_) => (host, None),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use testbed::pages::{names, table};

    use super::{ATTRIBUTES, address_and_port};

    #[test]
    fn the_table_of_attributes_is_what_is_sent() {
        let page = include_str!("../../../../docs/opentelemetry.md");
        let rows = table(page, "| attribute |");
        let documented: BTreeSet<&str> = rows.iter().flat_map(|row| names(row[0])).collect();
        assert_eq!(documented, ATTRIBUTES.iter().map(|(name, _)| *name).collect());
    }

    #[test]
    fn a_host_may_have_a_port() {
        for (host, address, port) in [
            ("example.com", "example.com", None),
            ("example.com:8443", "example.com", Some(8443)),
            ("[::1]:80", "[::1]", Some(80)),
            ("[::1]", "[::1]", None),
            ("::1", "::1", None),
            ("example.com:", "example.com:", None),
            ("example.com:99999", "example.com:99999", None),
        ] {
            assert_eq!(address_and_port(host), (address, port), "{host}");
        }
    }
}
