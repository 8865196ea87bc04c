//! The attributes of a span and of a log record. `docs/operations.md` lists them.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};

use super::Exported;

/// The value of an attribute, if the decision has one.
type Of = fn(&Exported<'_>) -> Option<Value>;

/// All attributes. Where OpenTelemetry's semantic conventions have a name, it is that.
const ATTRIBUTES: [(&str, Of); 12] = [
    ("rolegate.decision", |decision| text(decision.decision)),
    ("rolegate.reason", |decision| decision.reason.and_then(text)),
    ("rolegate.rule", |decision| decision.rule.and_then(text)),
    ("rolegate.revision", |decision| text(decision.revision)),
    ("rolegate.x_request_id", |decision| text(decision.x_request_id)),
    ("http.request.method", |decision| text(decision.method)),
    ("http.response.status_code", |decision| decision.status.map(|status| Value::IntValue(status.into()))),
    ("url.path", |decision| text(decision.path)),
    ("server.address", |decision| text(address_and_port(decision.host).0)),
    ("server.port", |decision| address_and_port(decision.host).1.map(|port| Value::IntValue(port.into()))),
    ("client.address", |decision| text(decision.client)),
    ("enduser.id", |decision| decision.user.and_then(text)),
];

/// The attributes of a decision. Those that do not apply are left out.
pub(super) fn attributes(exported: &Exported<'_>) -> Vec<KeyValue> {
    ATTRIBUTES.iter().filter_map(|(name, of)| of(exported).map(|value| attribute(name, value))).collect()
}

/// One attribute.
pub(super) fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty()).then(|| Value::StringValue(text.to_owned()))
}

/// `example.com:8443` and `[::1]:8443` have a port, `example.com` and `::1` have none.
fn address_and_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((address, port)) if !address.contains(':') || address.ends_with(']') => match port.parse() {
            Ok(port) => (address, Some(port)),
            Err(_) => (host, None),
        },
        Some(_) | None => (host, None),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use testbed::pages::{names, table};

    use super::{ATTRIBUTES, address_and_port};

    #[test]
    fn the_table_of_attributes_is_what_is_sent() {
        let page = include_str!("../../../../docs/operations.md");
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
