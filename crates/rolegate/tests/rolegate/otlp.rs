//! Spans and the decision log over OTLP, received by a collector.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use load::check_message::{CHECK_PATH, Checked};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
use rcgen::{CertificateParams, CertifiedIssuer, KeyPair};
use rustix::process::Signal;
use serde_json::Value;
use testbed::collector::{Answers, Collector, Options, attribute};
use testbed::grpc::{handshake, head, reply};
use testbed::manifests::schema_errors;
use testbed::port::ReservedPort;
use tokio::net::TcpStream;
use tonic::Code;

use crate::client::{Answer, Envoy, basic};
use crate::process::{Server, example, run, wait_until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const ENVOY: &str = "53995c3f42cd8ad8";

/// A server with these settings, which exports to `collector`.
fn serve(collector: &Collector, more: &[&str]) -> Server {
    let endpoint = format!("http://{}", collector.address());
    Server::start(&example("people"), &[&["--otlp-endpoint", &endpoint], more].concat())
}

fn traceparent(span: &str, flags: &str) -> String {
    format!("00-{TRACE}-{span}-{flags}")
}

/// What of Basic credentials nobody may see.
fn encoded(basic: &str) -> &str {
    basic.strip_prefix("Basic ").unwrap()
}

fn wait_for_spans(collector: &Collector, number: usize) -> Vec<Span> {
    wait_until(|| collector.spans().len() >= number, || format!("{number} spans in {collector:?}"));
    collector.spans()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_decision_is_a_span_of_the_trace_of_its_request() {
    let collector = Collector::start(Options::default()).unwrap();
    let server = serve(&collector, &["--traces", "otlp", "--decision-log", "all"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let (alice, sampled) = (basic("alice:wonderland"), traceparent(CALLER, "01"));
    let before = runtime::clock::now();
    for path in ["/people?token=s3cret", "/secret"] {
        let headers =
            [("authorization", &*alice), ("traceparent", &sampled), ("x-request-id", "x-1")];
        let host = "people.example:8443";
        let request = Checked {
            path,
            host,
            headers: &headers,
            raw_headers: false,
            source: Some("10.1.2.3"),
            ..Checked::default()
        };
        envoy.send(request).await;
    }
    let spans = wait_for_spans(&collector, 2);
    let after = runtime::clock::now();
    assert_ne!(spans[0].span_id, spans[1].span_id);
    for span in &spans {
        assert_eq!((hex(&span.trace_id), hex(&span.parent_span_id)), (TRACE.into(), CALLER.into()));
        assert_eq!((span.span_id.len(), &*span.name, span.kind), (8, "rolegate check", 2));
        assert_eq!(span.flags, 0x301);
        let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
        let (start, end) = (Duration::from_nanos(start), Duration::from_nanos(end));
        assert!(
            before <= start && start < end && end <= after,
            "{before:?} {start:?} {end:?} {after:?}"
        );
    }
    let of = |name: &str| {
        let values = spans.iter().map(|span| attribute(&span.attributes, name));
        values.map(|value| value.unwrap_or_default()).collect::<Vec<_>>()
    };
    let line = server.wait_for_decision();
    let revision = line["policy"].as_str().unwrap();
    for (name, expected) in [
        ("rolegate.decision", ["allowed", "denied"]),
        ("rolegate.reason", ["", "not_allowed"]),
        ("rolegate.rule", ["guest: GET /people", ""]),
        ("rolegate.revision", [revision, revision]),
        ("rolegate.x_request_id", ["x-1", "x-1"]),
        ("http.request.method", ["GET", "GET"]),
        ("http.response.status_code", ["", "403"]),
        ("url.path", ["/people", "/secret"]),
        ("server.address", ["people.example", "people.example"]),
        ("server.port", ["8443", "8443"]),
        ("client.address", ["10.1.2.3", "10.1.2.3"]),
        ("enduser.id", ["alice", "alice"]),
    ] {
        assert_eq!(of(name), expected, "{name}");
    }
    assert_eq!(line["trace_id"], TRACE);
    assert!(
        !collector.has("s3cret") && !collector.has("wonderland") && !collector.has(encoded(&alice))
    );
    let resources = collector.resources();
    let resource = |name: &str| attribute(&resources[0], name);
    assert_eq!(resource("service.name").as_deref(), Some("rolegate"));
    assert_eq!(resource("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    server
        .wait_for_metric("rolegate_otlp_records_total{signal=\"traces\",result=\"exported\"}", 2.0);
}

/// Makes a check with a `traceparent` in the metadata of the call, as Envoy does, and perhaps
/// another in the request.
async fn check_of_envoy(server: &Server, of_call: &str, of_request: &[(&str, &str)]) {
    let client = handshake(TcpStream::connect(server.address()).await.unwrap()).await.unwrap();
    let mut client = client.ready().await.unwrap();
    let head = head(CHECK_PATH).header("traceparent", of_call).body(()).unwrap();
    let (response, mut stream) = client.send_request(head, false).unwrap();
    let request = Checked { headers: of_request, raw_headers: false, ..Checked::default() };
    stream.send_data(request.framed(), true).unwrap();
    assert_eq!(reply(response).await.unwrap().status(), Some(401));
}

/// Envoy's own span is in the metadata of its call; the headers of the request have that of its
/// client.
#[tokio::test]
async fn the_span_of_envoys_call_is_the_parent() {
    let collector = Collector::start(Options::default()).unwrap();
    let server = serve(&collector, &["--traces", "otlp"]);
    let (of_call, of_client) = (traceparent(ENVOY, "01"), traceparent(CALLER, "00"));
    check_of_envoy(&server, &of_call, &[("traceparent", &of_client)]).await;
    check_of_envoy(
        &server,
        &traceparent(ENVOY, "00"),
        &[("traceparent", &traceparent(CALLER, "01"))],
    )
    .await;
    check_of_envoy(&server, "00-not-valid-01", &[("traceparent", &traceparent(CALLER, "01"))])
        .await;
    let spans = wait_for_spans(&collector, 2);
    let parents: Vec<String> = spans.iter().map(|span| hex(&span.parent_span_id)).collect();
    assert_eq!(parents, [ENVOY, CALLER]);
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    let traces: Vec<_> =
        server.wait_for_decisions(3).iter().map(|line| line["trace_id"].clone()).collect();
    assert_eq!(traces, [TRACE, TRACE, TRACE]);
}

/// Waits until the server has ended, so that everything was sent.
fn end(mut server: Server) {
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
}

#[tokio::test]
async fn the_sampled_flag_counts_and_without_a_trace_the_ratio() {
    for (ratio, expected) in [("0", 2), ("1", 3)] {
        let collector = Collector::start(Options::default()).unwrap();
        let server = serve(&collector, &["--traces", "otlp", "--trace-ratio", ratio]);
        let mut envoy = Envoy::connect(server.address()).await;
        for flags in ["00", "01", "02", "03"] {
            envoy.check("GET", "/people", &[("traceparent", &traceparent(CALLER, flags))]).await;
        }
        envoy.check("GET", "/people", &[]).await;
        end(server);
        let spans = collector.spans();
        assert_eq!(spans.len(), expected, "ratio {ratio}");
        let (of_caller, begun): (Vec<&Span>, Vec<&Span>) =
            spans.iter().partition(|span| hex(&span.trace_id) == TRACE);
        assert_eq!(of_caller.len(), 2);
        for span in begun {
            assert_eq!(
                (span.trace_id.len(), &*span.parent_span_id, span.flags),
                (16, &[][..], 0x101)
            );
        }
    }
}

/// The JSON in the body of a log record.
fn body(record: &LogRecord) -> Value {
    match record.body.clone().unwrap().value.unwrap() {
        Any::StringValue(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn log_records_are_the_lines_of_the_decision_log() {
    let schema = serde_json::from_str(&run(&["schema", "decision"]).1).unwrap();
    let collector = Collector::start(Options::default()).unwrap();
    let to = ["--decision-log", "all", "--decision-log-to", "file,otlp", "--traces", "otlp"];
    let masks = ["--decision-log-mask-path", "/people/{id}", "--decision-log-mask-users", "hash"];
    let mut server = serve(&collector, &[&to[..], &masks].concat());
    let mut envoy = Envoy::connect(server.address()).await;
    let (alice, token) = (basic("alice:wonderland"), "Bearer header.t0ken.signature");
    let (sampled, unsampled) = (traceparent(CALLER, "01"), traceparent(CALLER, "00"));
    for (path, headers) in [
        ("/people?a=s3cret", &[("authorization", &*alice), ("traceparent", &sampled)][..]),
        ("/people/5", &[("authorization", &*alice), ("traceparent", &unsampled)]),
        ("/people", &[("authorization", token), ("cookie", "s3cret")]),
    ] {
        envoy.check("GET", path, headers).await;
    }
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    let (records, spans) = (collector.logs(), collector.spans());
    assert_eq!(records.iter().map(body).collect::<Vec<_>>(), server.decisions());
    let bodies: Vec<Value> = records.iter().map(body).collect();
    assert!(schema_errors(&schema, &bodies).unwrap().concat().is_empty(), "{bodies:?}");
    for record in &records {
        assert_eq!(record.event_name, "rolegate.decision");
        assert!(
            record.time_unix_nano > 0 && record.observed_time_unix_nano > record.time_unix_nano
        );
        assert_eq!(attribute(&record.attributes, "url.path").unwrap(), body(record)["path"]);
    }
    let severities: Vec<(i32, &str)> =
        records.iter().map(|record| (record.severity_number, &*record.severity_text)).collect();
    let expected =
        if body(&records[1])["decision"] == "allowed" { (9, "INFO") } else { (13, "WARN") };
    assert_eq!(severities, [(9, "INFO"), expected, (13, "WARN")]);
    // The first has a span of its own, the second is within that of its caller, the third has no
    // trace.
    assert_eq!(spans.len(), 1);
    let ids: Vec<(String, String, u32)> = records
        .iter()
        .map(|record| (hex(&record.trace_id), hex(&record.span_id), record.flags))
        .collect();
    let own = (TRACE.to_owned(), hex(&spans[0].span_id), 1);
    assert_eq!(ids, [own, (TRACE.into(), CALLER.into(), 0), (String::new(), String::new(), 0)]);
    // Masked alike, in the span too.
    let hash = attribute(&spans[0].attributes, "enduser.id").unwrap();
    assert!(hash.starts_with("hmac:") && body(&records[0])["user"] == hash, "{hash}");
    assert_eq!(attribute(&records[1].attributes, "url.path").as_deref(), Some("/people/*"));
    for secret in
        ["alice", "wonderland", encoded(&alice), "t0ken", "signature", "s3cret", "/people/5"]
    {
        assert!(!collector.has(secret), "{secret}");
    }
}

#[tokio::test]
async fn decisions_can_be_sent_to_a_collector_alone_and_by_share() {
    let collector = Collector::start(Options::default()).unwrap();
    let more = [
        "--decision-log",
        "all",
        "--decision-log-to",
        "otlp",
        "--decision-log-sample",
        "allowed=0",
    ];
    let mut server = serve(
        &collector,
        &[&more[..], &["--otlp-service-name", "gate", "--otlp-resource", "a=b,service.version=7"]]
            .concat(),
    );
    let mut envoy = Envoy::connect(server.address()).await;
    let alice = basic("alice:wonderland");
    assert_eq!(
        envoy.check("GET", "/people", &[("authorization", &alice)]).await,
        Answer::Http(200)
    );
    assert_eq!(envoy.check("GET", "/people", &[]).await, Answer::Http(401));
    server.wait_for_metric("rolegate_decision_log_lines_total{result=\"sampled_out\"}", 1.0);
    server.wait_for_metric("rolegate_otlp_records_total{signal=\"logs\",result=\"exported\"}", 1.0);
    server.signal(Signal::TERM);
    assert_eq!((server.ended(), server.out()), (0, String::new()));
    let reasons: Vec<Value> =
        collector.logs().iter().map(|record| body(record)["reason"].clone()).collect();
    assert_eq!(reasons, ["missing_credentials"]);
    let resources = collector.resources();
    let names: BTreeSet<&str> = resources[0].iter().map(|attribute| &*attribute.key).collect();
    assert_eq!(names, BTreeSet::from(["a", "service.name", "service.version"]));
    assert_eq!(attribute(&resources[0], "service.version").as_deref(), Some("7"));
}

/// Sends this many checks, each of which must be answered.
async fn check_repeatedly(server: &Server, number: usize) {
    let mut envoy = Envoy::connect(server.address()).await;
    let sampled = traceparent(CALLER, "01");
    for _ in 0..number {
        assert_eq!(
            envoy.check("GET", "/people", &[("traceparent", &sampled)]).await,
            Answer::Http(401)
        );
    }
}

const EVERYTHING: [&str; 6] =
    ["--traces", "otlp", "--decision-log", "all", "--decision-log-to", "otlp"];
const EXPORTED: &str = "rolegate_otlp_records_total{signal=\"logs\",result=\"exported\"}";
const DROPPED: &str = "rolegate_otlp_records_total{signal=\"logs\",result=\"dropped\"}";

#[tokio::test]
async fn what_a_collector_that_is_away_misses_is_sent_when_it_is_there() {
    let port = ReservedPort::new().unwrap();
    let address = port.address();
    let endpoint = format!("http://{address}");
    let server = Server::start(
        &example("people"),
        &[&EVERYTHING[..], &["--otlp-endpoint", &endpoint]].concat(),
    );
    check_repeatedly(&server, 3).await;
    server.wait_for_log_line(&["the collector does not take the logs", &endpoint, "refused"]);
    let collector =
        Collector::start(Options { address: Some(address), ..Options::default() }).unwrap();
    wait_until(
        || collector.logs().len() == 3 && collector.spans().len() == 3,
        || format!("{collector:?}"),
    );
    server.wait_for_log("the collector takes the logs again");
    // It is killed, and another one takes its place.
    drop(collector);
    check_repeatedly(&server, 3).await;
    let collector =
        Collector::start(Options { address: Some(address), ..Options::default() }).unwrap();
    wait_until(|| collector.logs().len() == 3, || format!("{collector:?}"));
    server.wait_for_metric(EXPORTED, 6.0);
    assert_eq!(server.metric(DROPPED), Some(0.0));
    let warnings = server.log().matches("does not take the logs").count();
    assert!((1..=2).contains(&warnings), "{}", server.log());
}

#[tokio::test]
async fn a_collector_that_never_answers_costs_records_and_no_time() {
    let collector =
        Collector::start(Options { answers: Answers::Never, ..Options::default() }).unwrap();
    let path = format!("/{}", "x".repeat(900));
    let mut server = serve(
        &collector,
        &[&EVERYTHING[..], &["--otlp-timeout", "500ms", "--drain-timeout", "100ms"]].concat(),
    );
    let before = server.resident();
    let mut envoy = Envoy::connect(server.address()).await;
    // Enough for more than the queue.
    for number in 0..20_000 {
        envoy.check("GET", &path, &[("traceparent", &traceparent(CALLER, "01"))]).await;
        if number % 500 == 0 && server.metric(DROPPED) > Some(100.0) {
            break;
        }
    }
    assert!(server.metric(DROPPED) > Some(100.0), "{}", server.page("/metrics").1);
    server.wait_for_log_line(&[
        "the collector does not take the traces",
        "no answer within `otlp-timeout`",
    ]);
    let grown = server.resident().saturating_sub(before);
    assert!(grown < 40 << 10, "{grown} KiB");
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
}

#[tokio::test]
async fn what_a_collector_does_not_accept_is_counted() {
    for (answers, exported, dropped, logged) in [
        (Answers::Error(Code::Unimplemented), 0.0, 2.0, "cannot process the logs"),
        (Answers::AllButOne, 1.0, 1.0, "too old"),
    ] {
        let collector = Collector::start(Options { answers, ..Options::default() }).unwrap();
        let more = ["--decision-log-to", "otlp"];
        let server = serve(&collector, &more);
        check_repeatedly(&server, 2).await;
        server.wait_for_metric(DROPPED, dropped);
        server.wait_for_metric(EXPORTED, exported);
        server.wait_for_log(logged);
        assert_eq!(collector.requests(), 1, "they are sent together");
    }
}

/// As a gateway before the collector does that reads what passes.
const REFUSES_A_PATH: Answers = Answers::ErrorIf(Code::PermissionDenied, "/etc/passwd");

#[tokio::test]
async fn a_batch_that_is_always_refused_is_dropped_alone() {
    let collector =
        Collector::start(Options { answers: REFUSES_A_PATH, ..Options::default() }).unwrap();
    let server = serve(&collector, &EVERYTHING);
    let mut envoy = Envoy::connect(server.address()).await;
    envoy.check("GET", "/etc/passwd", &[("traceparent", &traceparent(CALLER, "01"))]).await;
    for signal in ["logs", "traces"] {
        server.wait_for_log_line(&[
            &format!("refuses the {signal}"),
            "PermissionDenied: not with nothing",
        ]);
    }
    check_repeatedly(&server, 2).await;
    assert!(collector.logs().is_empty() && collector.spans().is_empty(), "{collector:?}");
    wait_until(|| collector.logs().len() == 2 && collector.spans().len() == 2, || server.log());
    for signal in ["logs", "traces"] {
        server.wait_for_log_line(&[&format!("takes the {signal} again"), "\"dropped\":1"]);
        for (result, records) in [("dropped", 1.0), ("exported", 2.0)] {
            let name =
                format!("rolegate_otlp_records_total{{signal=\"{signal}\",result=\"{result}\"}}");
            server.wait_for_metric(&name, records);
        }
    }
}

#[tokio::test]
async fn a_refused_batch_does_not_keep_the_last_ones_from_being_sent() {
    let collector =
        Collector::start(Options { answers: REFUSES_A_PATH, ..Options::default() }).unwrap();
    let server = serve(&collector, &["--decision-log-to", "otlp", "--otlp-batch-size", "1"]);
    let mut envoy = Envoy::connect(server.address()).await;
    envoy.check("GET", "/etc/passwd", &[]).await;
    check_repeatedly(&server, 2).await;
    end(server);
    assert_eq!(collector.logs().len(), 2);
}

#[tokio::test]
async fn credentials_of_the_collector_are_sent_and_never_shown() {
    let answers = Answers::Error(Code::Unauthenticated);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    fs::write(&file, "Authorization: Bearer c0llector-key\nx-tenant: one\n").unwrap();
    let headers = ["--otlp-headers", &file.display().to_string(), "--decision-log-to", "otlp"];
    let port = ReservedPort::new().unwrap();
    let address = Some(port.address());
    let refusing = Collector::start(Options { answers, address, ..Options::default() }).unwrap();
    let server = serve(&refusing, &headers);
    check_repeatedly(&server, 1).await;
    server.wait_for_log_line(&["refuses the logs", "Unauthenticated"]);
    assert!(
        refusing.has("authorization: Bearer c0llector-key\n") && refusing.has("x-tenant: one\n")
    );
    // The file is read again: nothing is lost.
    fs::write(&file, "authorization: Bearer renewed").unwrap();
    drop(refusing);
    let collector = Collector::start(Options { address, ..Options::default() }).unwrap();
    wait_until(|| collector.logs().len() == 1, || format!("{collector:?}"));
    assert!(collector.has("Bearer renewed") && !collector.has("c0llector-key"));
    assert!(
        !server.log().contains("c0llector") && !server.out().contains("c0llector"),
        "{}",
        server.log()
    );
    // Nor a part of it: nothing that the collector says.
    assert!(!server.log().contains("not with"), "{}", server.log());
}

#[tokio::test]
async fn a_collector_with_tls_is_trusted_by_its_own_authority_only() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    fs::write(&ca, authority.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &authority)
        .unwrap();
    let tls = Some((certificate.pem(), key.serialize_pem()));
    let collector = Collector::start(Options { tls, ..Options::default() }).unwrap();
    let endpoint = format!("https://localhost:{}", collector.address().port());
    let settings = ["--otlp-endpoint", &*endpoint, "--decision-log-to", "otlp"];
    let server = Server::start(&example("people"), &settings);
    check_repeatedly(&server, 1).await;
    server.wait_for_log_line(&["does not take the logs", "not issued by a trusted authority"]);
    drop(server);
    let other = folder.path().join("other.pem");
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    fs::write(&other, params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()).unwrap();
    let other = other.display().to_string();
    let server =
        Server::start(&example("people"), &[&settings[..], &["--otlp-ca", &other]].concat());
    check_repeatedly(&server, 1).await;
    server.wait_for_log_line(&["does not take the logs", "not issued by an authority in the file"]);
    drop(server);
    let ca = ca.display().to_string();
    let server = Server::start(&example("people"), &[&settings[..], &["--otlp-ca", &ca]].concat());
    check_repeatedly(&server, 1).await;
    wait_until(|| collector.logs().len() == 1, || server.log());
}

#[test]
fn a_wrong_setting_of_otlp_ends_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("headers");
    fs::write(&file, "authorization Bearer c0llector-key\n").unwrap();
    let (file, people) = (file.display().to_string(), example("people"));
    let good = "http://127.0.0.1:1";
    for (more, expected) in [
        (&["--traces", "otlp"][..], "`traces: otlp` needs `otlp-endpoint`"),
        (&["--decision-log-to", "otlp"], "`decision-log-to: otlp` needs `otlp-endpoint`"),
        (
            &["--otlp-endpoint", "http://u:s3cret@otel:4317"],
            "`otlp-endpoint` is not the URL of a collector",
        ),
        (&["--otlp-endpoint", "otel:4317"], "`otlp-endpoint` is not the URL of a collector"),
        (&["--otlp-endpoint", good, "--otlp-headers", &file], "line 1 is not a header"),
        (&["--otlp-endpoint", good, "--otlp-ca", &file], "no certificate in PEM"),
        (&["--otlp-endpoint", good, "--otlp-ca", "/nowhere"], "`otlp-ca` /nowhere"),
        (&["--trace-ratio", "2"], "write a number from 0 to 1"),
        (&["--otlp-timeout", "0"], "invalid value '0'"),
        (&["--otlp-resource", "a"], "deployment.environment.name=production"),
    ] {
        let serve = ["serve", "--policy", &people, "--listen", "127.0.0.1:0", "--admin", "off"];
        let (code, _, err) = run(&[&serve[..], more].concat());
        assert!(code == 2 && err.contains(expected), "{more:?}: {code} {err}");
        assert!(!err.contains("s3cret") && !err.contains("c0llector"), "{err}");
    }
}
