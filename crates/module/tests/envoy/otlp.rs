//! Spans and the decision log of the library over OTLP, received by a collector.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use serde_json::Value;
use testbed::client::{Connection, Version};
use testbed::collector::{Answers, Collector, Options, attribute};
use testbed::policies::Example;

use super::admin_pages::{metric, metrics};
use super::{ALICE, PATIENT, each_form, start, with};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";

/// Lines of the configuration with which everything goes to this collector.
fn everything_to(collector: &Collector) -> [&'static str; 3] {
    let endpoint = format!("otlp-endpoint: http://{}", collector.address());
    ["traces: otlp", endpoint.leak(), "decision-log-to: [file, otlp]"]
}

/// Headers of alice, in a trace with these flags.
fn traced(flags: &str) -> [(String, String); 2] {
    [("authorization", ALICE.to_owned()), ("traceparent", format!("00-{TRACE}-{CALLER}-{flags}"))]
        .map(|(name, value)| (name.to_owned(), value))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The JSON in the body of a log record.
fn body(record: &LogRecord) -> Value {
    match record.body.clone().unwrap().value.unwrap() {
        Any::StringValue(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_and_log_records_arrive_also_the_last_ones() {
    let people = Example::named("people").unwrap();
    for mut options in each_form() {
        let collector = Collector::start(Options::default()).unwrap();
        options.arguments.extend(everything_to(&collector));
        options.arguments.push("otlp-service-name: gate");
        let mut stack = start(&people.file, &options).await;
        let mut connection = stack.connect(Version::Http1).await.unwrap();
        for (path, flags, status) in
            [("/people?token=s3cret", "01", 200), ("/secret", "01", 403), ("/people", "00", 200)]
        {
            let answer =
                connection.send("GET", path, "people.example", &traced(flags), b"").await.unwrap();
            assert_eq!(answer.status, status, "{}", stack.envoy.log());
        }
        let until = Instant::now() + PATIENT;
        while collector.spans().len() < 2 || collector.logs().len() < 3 {
            assert!(Instant::now() < until, "{collector:?}: {}", stack.envoy.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let spans = collector.spans();
        for span in &spans {
            assert_eq!(
                (hex(&span.trace_id), hex(&span.parent_span_id)),
                (TRACE.into(), CALLER.into())
            );
            assert_eq!((&*span.name, span.kind), ("rolegate check", 2));
        }
        for (name, expected) in [
            ("rolegate.decision", ["allowed", "denied"]),
            ("rolegate.reason", ["", "not_allowed"]),
            ("http.response.status_code", ["", "403"]),
            ("url.path", ["/people", "/secret"]),
            ("server.address", ["people.example", "people.example"]),
            ("client.address", ["127.0.0.1", "127.0.0.1"]),
            ("enduser.id", ["alice", "alice"]),
        ] {
            let values =
                spans.iter().map(|span| attribute(&span.attributes, name).unwrap_or_default());
            assert_eq!(values.collect::<Vec<_>>(), expected, "{name}");
        }
        let of_logs: Vec<String> =
            collector.logs().iter().map(|record| hex(&record.span_id)).collect();
        assert_eq!(of_logs, [hex(&spans[0].span_id), hex(&spans[1].span_id), CALLER.to_owned()]);
        let service = attribute(&collector.resources()[0], "service.name");
        assert_eq!(service.as_deref(), Some("gate"));
        // Envoy ends at once after these, before a batch is due.
        for _ in 0..200 {
            let answer =
                connection.send("GET", "/people", "people.example", &traced("01"), b"").await;
            assert_eq!(answer.unwrap().status, 200);
        }
        stack.envoy.end().await.unwrap();
        assert_eq!(
            (collector.spans().len(), collector.logs().len()),
            (202, 203),
            "{}",
            stack.envoy.log()
        );
        assert_eq!(collector.logs().iter().map(body).collect::<Vec<_>>(), stack.decisions());
        for secret in ["s3cret", "wonderland", ALICE.strip_prefix("Basic ").unwrap()] {
            assert!(!collector.has(secret), "{secret}");
        }
    }
}

/// Sends requests until it is told to end. Returns how many there were.
async fn send_until(ended: Arc<AtomicBool>, mut connection: Connection) -> usize {
    let path = format!("/{}", "x".repeat(900));
    let mut sent = 0;
    while !ended.load(Ordering::Relaxed) {
        let answer = connection.send("GET", &path, "localhost", &traced("01"), b"").await.unwrap();
        assert_eq!(answer.status, 403);
        sent += 1;
    }
    sent
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_never_answers_blocks_no_request_and_what_is_dropped_is_counted() {
    let people = Example::named("people").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let admin: PathBuf = folder.path().join("admin");
    let collector =
        Collector::start(Options { answers: Answers::Never, ..Options::default() }).unwrap();
    let mut options = with(&everything_to(&collector));
    let more = [
        "hash-timeout: 15s",
        "otlp-timeout: 500ms",
        &*format!("admin: unix:{}", admin.display()).leak(),
    ];
    options.arguments.extend(more);
    let mut stack = start(&people.file, &options).await;
    let ended = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let connection = stack.connect(Version::Http1).await.unwrap();
        clients.spawn(send_until(ended.clone(), connection));
    }
    let dropped = |signal: &str| {
        let name = format!("rolegate_otlp_records_total{{signal=\"{signal}\",result=\"dropped\"}}");
        metric(&metrics(&admin).unwrap(), &name)
    };
    // More than the queues hold.
    let until = Instant::now() + Duration::from_secs(120);
    while dropped("traces") < 100.0 || dropped("logs") < 100.0 {
        assert!(Instant::now() < until, "{:?}", metrics(&admin));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    ended.store(true, Ordering::Relaxed);
    let sent: usize = clients.join_all().await.into_iter().sum();
    for logged in
        ["does not take the traces", "does not take the logs", "no answer within `otlp-timeout`"]
    {
        while !stack.envoy.log().contains(logged) {
            assert!(Instant::now() < until, "{logged}: {}", stack.envoy.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    // Envoy ends all the same, and the file has every line.
    stack.envoy.end().await.unwrap();
    assert_eq!(stack.decisions().len(), sent);
    assert!(collector.logs().is_empty() && collector.spans().is_empty());
}
