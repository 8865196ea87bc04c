//! Envoy's own trace, and the span of the decision in it.

use opentelemetry_proto::tonic::trace::v1::Span;
use testbed::client::{Connection, Version};
use testbed::collector::{self, Collector};

use super::minimal::{eventually, start_with, unix};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT: &str = "00f067aa0ba902b7";

/// The `tracing` of Envoy that the page shows, of all requests, as text after a line that is
/// indented by this.
fn tracing(indent: &str) -> String {
    let page = include_str!("../../../../docs/opentelemetry.md");
    let block = page.split("```").find_map(|block| block.strip_prefix("yaml\ntracing:")).unwrap();
    let lines = block.replace("{ value: 1 }", "{ value: 100 }");
    lines.lines().fold("tracing:".to_owned(), |text, line| format!("{text}\n{indent}{line}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The span that this one belongs to.
fn parent<'s>(spans: &'s [Span], span: &Span) -> Option<&'s Span> {
    spans
        .iter()
        .find(|other| other.span_id == span.parent_span_id && other.trace_id == span.trace_id)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_span_of_a_decision_is_below_that_of_envoys_call() {
    let collector = Collector::start(collector::Options::default()).unwrap();
    let endpoint = format!("http://{}", collector.address());
    let more = ["--traces", "otlp", "--otlp-endpoint", &endpoint];
    let prefix = "stat_prefix: public";
    let traced = format!("{prefix}\n{0:16}{1}", "", tracing(&" ".repeat(16)));
    let cluster = format!(
        "  clusters:
    - name: otel-collector
      typed_extension_protocol_options:
        envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
          \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
          explicit_http_config: {{ http2_protocol_options: {{}} }}
      load_assignment:
        cluster_name: otel-collector
        endpoints:
          - lb_endpoints:
              - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {} }} }} }}
",
        collector.address().port()
    );
    let replaced = [(prefix, &*traced), ("  clusters:\n", &cluster)];
    let folder = tempfile::tempdir().unwrap();
    let running = start_with(folder, unix, &more, &replaced).await;
    let traceparent = ("traceparent".to_owned(), format!("00-{TRACE}-{CLIENT}-01"));
    for headers in [vec![], vec![traceparent]] {
        let mut connection = Connection::open(running.envoy.address, Version::Http1).await.unwrap();
        let answer = connection.send("GET", "/people", "localhost", &headers, b"").await.unwrap();
        assert_eq!(answer.status, 401);
    }
    let of_rolegate = || {
        collector
            .spans()
            .into_iter()
            .filter(|span| span.name == "rolegate check")
            .collect::<Vec<_>>()
    };
    // Envoy sends its spans every five seconds.
    eventually("whole", || {
        let (spans, own) = (collector.spans(), of_rolegate());
        let roots = own.iter().filter_map(|span| parent(&spans, parent(&spans, span)?));
        let is_whole = own.len() == 2 && roots.count() == 2;
        format!("{} {spans:?}", if is_whole { "whole" } else { "not yet" })
    })
    .await;
    let (spans, own) = (collector.spans(), of_rolegate());
    for span in &own {
        let call = parent(&spans, span).unwrap();
        let request = parent(&spans, call).unwrap();
        assert_eq!(call.kind, 3, "a client's: {call:?}");
        let of_client = if hex(&span.trace_id) == TRACE { CLIENT } else { "" };
        assert_eq!(hex(&request.parent_span_id), of_client, "{request:?}");
        assert!(call.start_time_unix_nano <= span.end_time_unix_nano);
    }
    assert_eq!(own.iter().filter(|span| hex(&span.trace_id) == TRACE).count(), 1, "{own:?}");
}
