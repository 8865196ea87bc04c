//! The filter in a fake Envoy.

mod bulk;
mod lifetime;
mod search;

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tempfile::TempDir;

use super::Authorization;
use crate::abi::hooks;
use crate::fake::{self, FakeStream, Host};

/// `{SHA}` costs nothing to verify, so that a test sees more of the order of events.
const POLICY: &str = "version: 1
identity: { basic: { realm: r, users: { ann: { password: HASH }, bob: { password: HASH } } } }
roles:
  anyone: { allow: [\"GET /open\"] }
  reader: { allow: [\"GET /reports/**\"] }
grants: { reader: { users: [ann] } }
allow_response: { set_headers: { x-user: \"{user}\", x-rule: \"{rule}\" }, remove_headers: [authorization] }
";

struct Test {
    folder: TempDir,
}

impl Test {
    fn new() -> Self {
        Self::with(POLICY)
    }

    fn with(policy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let users =
            "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
        std::fs::write(folder.path().join("users"), users).unwrap();
        let policy = policy.replace(
            "users: { ann: { password: HASH }, bob: { password: HASH } }",
            "users_file: users",
        );
        std::fs::write(folder.path().join("policy.yaml"), policy).unwrap();
        Self { folder }
    }

    /// The configuration, with more of it.
    fn config(&self, more: &str) -> Vec<u8> {
        let log = self.folder.path().join("decisions");
        format!(
            r#"{{"policy": "{}", "decision-log-file": "{}"{more}}}"#,
            self.folder.path().display(),
            log.display()
        )
        .into_bytes()
    }

    fn host(&self, more: &str) -> Host<Authorization> {
        Host::load(b"rolegate", &self.config(more))
            .unwrap_or_else(|| panic!("{:?}", fake::logged()))
    }
}

fn get<'h>(
    host: &'h Host<Authorization>,
    path: &str,
    headers: &[(&str, &str)],
) -> FakeStream<'h, Authorization> {
    let mut all = vec![(":method", "GET"), (":path", path), (":authority", "example.com")];
    all.extend(headers);
    let all: Vec<(&[u8], &[u8])> =
        all.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
    host.stream(&all).unwrap()
}

fn basic(pair: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

/// Delivers events until the request is decided. Returns the status of a response; 200 if it went
/// on.
fn decided(stream: &FakeStream<'_, Authorization>) -> u32 {
    if stream.request_headers(true) == hooks::CONTINUE {
        return 200;
    }
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        stream.deliver_events();
        if stream.resumed() > 0 {
            return 200;
        }
        if let Some(sent) = stream.sent() {
            return sent.status;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("never decided");
}

/// Whether this process runs only the test of this name. If not, one is started that does, and must
/// pass. Needed by tests of what a process has once: its threads, and the gauges, which are sums
/// over the policies of all tests.
fn alone(test: &str) -> bool {
    const ALONE: &str = "TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    let output = command.args([test, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}{output:?}");
    false
}

#[test]
fn a_request_is_allowed_with_its_headers_changed_or_answered() {
    let test = Test::new();
    let host = test.host("");
    let (ann, bob) = (basic("ann:password"), basic("bob:password"));
    let stream = get(
        &host,
        "/reports/1",
        &[("authorization", &ann), ("x-user", "root"), ("x_user", "root")],
    );
    assert_eq!(decided(&stream), 200);
    let value = |name: &[u8]| {
        let headers = stream.headers();
        let values: Vec<_> = headers
            .iter()
            .filter(|header| header.0 == name)
            .map(|header| header.1.clone())
            .collect();
        values.concat()
    };
    assert_eq!(value(b"x-user"), b"ann");
    assert_eq!(value(b"x-rule"), b"reader: GET /reports/**");
    for removed in [&b"x_user"[..], b"authorization"] {
        assert!(value(removed).is_empty(), "{removed:?}");
    }
    let stream = get(&host, "/reports/1", &[("authorization", &bob)]);
    assert_eq!(decided(&stream), 403);
    let sent = stream.sent().unwrap();
    assert_eq!(sent.headers, [(b"content-type".to_vec(), b"application/json".to_vec())]);
    assert!(sent.body.starts_with(b"{\"error\":\"forbidden\""), "{sent:?}");
    let stream = get(&host, "/reports/1", &[]);
    assert_eq!(stream.request_headers(true), hooks::STOP);
    let challenge = stream.sent().unwrap().headers.pop().unwrap();
    assert_eq!(challenge.0, b"www-authenticate");
    assert_eq!(decided(&get(&host, "/open%2F", &[])), 400);
    assert_eq!(decided(&get(&host, "/open", &[])), 200);
    assert_eq!(host.metric("rolegate.allowed"), 2);
    assert_eq!(host.metric("rolegate.denied.not_allowed"), 1);
    assert_eq!(host.metric("rolegate.denied.missing_credentials"), 1);
    assert!(host.metric("rolegate.authorization_ns") > 0);
}

#[test]
fn one_cookie_is_removed_and_the_others_stay() {
    let policy = POLICY.replace("remove_headers:", "remove_cookies: [session], remove_headers:");
    let test = Test::with(&policy);
    let host = test.host("");
    let cookies = |headers: &[(&str, &str)]| {
        let stream = get(&host, "/open", headers);
        assert_eq!(decided(&stream), 200);
        let headers = stream.headers();
        let cookies = headers.iter().filter(|header| header.0 == b"cookie");
        cookies.map(|header| String::from_utf8_lossy(&header.1).into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(cookies(&[("cookie", "a=1; session=x; b=\"2\"")]), ["a=1; b=\"2\""]);
    assert_eq!(cookies(&[("cookie", "session=x")]), [""; 0]);
    assert_eq!(cookies(&[("cookie", "a=1; sessions=x")]), ["a=1; sessions=x"]);
}

/// The second request of a caller does not wait, and allocates nothing but the object of its
/// stream, which Envoy begins before.
#[test]
fn a_known_caller_costs_no_allocation() {
    let test = Test::new();
    let traces = r#", "traces": "otlp", "otlp-endpoint": "http://127.0.0.1:9""#;
    // Of a trace that is not sampled there is nothing to record.
    for (traces, flags) in [("", "01"), (traces, "00")] {
        let host = test.host(&format!(r#", "decision-log": "off"{traces}"#));
        let ann = basic("ann:password");
        let traceparent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        let headers = [
            ("authorization", &*ann),
            ("x-user", "root"),
            ("cookie", "a=b"),
            ("traceparent", &*traceparent),
        ];
        assert_eq!(decided(&get(&host, "/reports/1", &headers)), 200);
        assert_eq!(get(&host, "/reports/2", &headers).request_headers(true), hooks::CONTINUE);
        // Those of one request that also sets the gauges do not count.
        let fewest = (0..3).map(|_| {
            let stream = get(&host, "/reports/3", &headers);
            let allocated = allocation_counter::measure(|| {
                assert_eq!(stream.request_headers(true), hooks::CONTINUE);
            });
            allocated.count_total
        });
        assert_eq!(fewest.min(), Some(0), "{flags}");
    }
}

/// Nor does the second request with a token, also with a role of its own and headers from its
/// claims.
#[test]
fn a_known_token_costs_no_allocation() {
    let (folder, signer) = (tempfile::tempdir().unwrap(), testbed::tokens::Signer::default());
    let example = testbed::policies::Example::signed_by("jwt", folder.path(), &signer).unwrap();
    let test = Test { folder };
    let host = test.host(r#", "decision-log": "off""#);
    let claims = r#"{"iss": "https://id.example.com", "sub": "carol", "realm_access": {"roles": ["reader"]}, "tenant": {"id": 7}}"#;
    let bearer =
        format!("Bearer {}", signer.valid(&example.loaded.policy.identity, claims).unwrap());
    let headers = [("authorization", &*bearer), ("x-user", "root"), ("cookie", "a=b")];
    assert_eq!(decided(&get(&host, "/people/1", &headers)), 200);
    assert_eq!(get(&host, "/people/2", &headers).request_headers(true), hooks::CONTINUE);
    let fewest = (0..3).map(|_| {
        let allowed = get(&host, "/people/3", &headers);
        let allocated = allocation_counter::measure(|| {
            assert_eq!(allowed.request_headers(true), hooks::CONTINUE);
        });
        allocated.count_total
    });
    assert_eq!(fewest.min(), Some(0));
    assert_eq!(decided(&get(&host, "/elsewhere", &headers)), 403);
}

#[test]
fn metadata_say_what_was_decided() {
    let test = Test::new();
    let host = test.host(r#", "metadata": true"#);
    let stream = get(&host, "/reports/1", &[("authorization", &basic("bob:password"))]);
    assert_eq!(decided(&stream), 403);
    let of = |key: &str| stream.metadata(&format!("rolegate.{key}"));
    assert_eq!(of("decision").as_deref(), Some("denied"));
    assert_eq!(of("reason").as_deref(), Some("not_allowed"));
    assert_eq!(of("user").as_deref(), Some("bob"));
    assert_eq!(of("revision").map(|revision| revision.len()), Some(12));
}

/// With the setting `metadata` and without. Fields need a newer Envoy than the fake one.
#[test]
fn metadata_of_the_policy_is_set_for_an_allowed_request() {
    let chosen = "allow_response: { metadata: { name: \"{user}\", rate: { reader: 1000, else: 1 }, \
        on: true, limit: { else: { unit: HOUR } } },";
    let test = Test::with(&POLICY.replace("allow_response: {", chosen));
    for (more, decision) in [("", None), (r#", "metadata": true"#, Some("allowed"))] {
        let host = test.host(more);
        let value = |stream: &FakeStream<'_, Authorization>, key: &str| {
            stream.metadata(&format!("rolegate.{key}"))
        };
        let allowed = get(&host, "/reports/1", &[("authorization", &basic("ann:password"))]);
        assert_eq!(decided(&allowed), 200);
        let keys = ["name", "rate", "on", "limit", "decision"];
        let values = keys.map(|key| value(&allowed, key));
        let expected = [Some("ann"), Some("1000.0"), Some("true"), None, decision];
        assert_eq!(values.each_ref().map(Option::as_deref), expected);
        let denied = get(&host, "/reports/1", &[("authorization", &basic("bob:password"))]);
        assert_eq!(decided(&denied), 403);
        assert_eq!(["name", "rate", "on"].map(|key| value(&denied, key)), [None, None, None]);
    }
}

#[test]
fn a_stream_that_ends_while_it_waits_is_forgotten() {
    let test = Test::new();
    let host = test.host("");
    for round in 0..50_u64 {
        let stream =
            get(&host, "/reports/1", &[("authorization", &basic(&format!("ann:{round}")))]);
        assert_eq!(stream.request_headers(true), hooks::STOP);
        std::thread::sleep(Duration::from_micros(100 * (round % 5)));
        stream.end();
        assert_eq!((stream.late_commits(), stream.schedulers()), (0, 0));
    }
    assert_eq!(
        decided(&get(&host, "/reports/1", &[("authorization", &basic("ann:password"))])),
        200
    );
}

/// `SECURITY.md`, S7: what nobody decides about is not forwarded.
#[test]
fn an_event_that_nobody_waits_for_allows_nothing() {
    let test = Test::new();
    let host = test.host("");
    let stream = get(&host, "/reports/1", &[("authorization", &basic("ann:password"))]);
    assert_eq!(stream.request_headers(true), hooks::STOP);
    stream.scheduled(77);
    assert_eq!((stream.resumed(), stream.sent().unwrap().status), (0, 503));
    assert_eq!(host.metric("rolegate.error.internal"), 1);
    stream.deliver_events();
    assert_eq!(stream.resumed(), 0);
}

/// Envoy would answer 200 and `grpc-status: 0`.
#[test]
fn a_grpc_request_is_denied_with_a_grpc_status() {
    let test = Test::new();
    let host = test.host("");
    let bob = basic("bob:password");
    let status = |content_type: &str, path: &str, authorization: &str| {
        let stream =
            get(&host, path, &[("authorization", authorization), ("content-type", content_type)]);
        decided(&stream);
        let sent = stream.sent().unwrap();
        let mut found = sent.headers.into_iter().filter(|(name, _)| name == b"grpc-status");
        let status = found.next().map(|(_, value)| String::from_utf8(value).unwrap());
        assert_eq!(found.next(), None);
        status
    };
    for content_type in ["application/grpc", "application/grpc+proto"] {
        assert_eq!(status(content_type, "/reports/1", &bob).as_deref(), Some("7"));
        assert_eq!(status(content_type, "/reports/1", "Bearer x").as_deref(), Some("16"));
        assert_eq!(status(content_type, "/open%2F", &bob).as_deref(), Some("3"));
    }
    for content_type in ["application/grpc-web", "application/json", "application/grpc; a=b"] {
        assert_eq!(status(content_type, "/reports/1", &bob), None, "{content_type}");
    }
    let foreign =
        get(&host, "/open", &[("content-type", "application/grpc")]).with_foreign_route(&[0; 4]);
    assert_eq!(decided(&foreign), 503);
    assert_eq!(foreign.sent().unwrap().headers, [(b"grpc-status".to_vec(), b"14".to_vec())]);
}

/// The user may be changed while the first password is hashed: then the request waits for another
/// one.
#[test]
fn the_time_of_an_earlier_wait_does_not_end_another_one() {
    let test = Test::new();
    let host = test.host("");
    let ann = basic("ann:password");
    let stream = get(&host, "/reports/1", &[("authorization", &ann)]);
    assert_eq!(stream.request_headers(true), hooks::STOP);
    stream.scheduled(super::TIMEOUT | 9);
    assert_eq!((stream.resumed(), stream.sent()), (0, None));
    let until = Instant::now() + Duration::from_secs(60);
    while stream.resumed() == 0 {
        assert!(Instant::now() < until && stream.sent().is_none(), "{:?}", stream.sent());
        stream.deliver_events();
        std::thread::sleep(Duration::from_millis(1));
    }
    let stream = get(&host, "/reports/1", &[("authorization", &basic("ann:another"))]);
    assert_eq!(stream.request_headers(true), hooks::STOP);
    stream.scheduled(super::TIMEOUT | 1);
    assert_eq!((stream.resumed(), stream.sent().unwrap().status), (0, 503));
}

/// `SECURITY.md`, S12: an identity header that cannot be removed must not arrive.
#[test]
fn a_header_that_cannot_be_removed_is_not_forwarded() {
    let only_removes = "version: 1
roles: { anyone: { allow: [\"GET /open\"] } }
allow_response: { remove_headers: [x-user] }
";
    let test = Test::with(only_removes);
    let host = test.host("");
    let stream = || get(&host, "/open", &[("x-user", "root")]);
    assert_eq!(decided(&stream()), 200);
    assert_eq!(decided(&stream().with_frozen_headers()), 503);
}

#[test]
fn a_route_is_authorized_by_another_policy_or_not_at_all() {
    let (test, other) = (Test::new(), Test::new());
    let closed = "version: 1\nroles: { anyone: { allow: [\"GET /other\"] } }\n";
    std::fs::write(other.folder.path().join("policy.yaml"), closed).unwrap();
    let host = test.host("");
    let own = Host::<Authorization>::route(b"", &other.config("")).unwrap();
    let disabled = Host::<Authorization>::route(b"", br#"{"disabled": true}"#).unwrap();
    assert!(Host::<Authorization>::route(b"", br#"{"disabled": false}"#).is_none());
    assert_eq!(decided(&get(&host, "/other", &[]).with_route(&own)), 200);
    assert_eq!(decided(&get(&host, "/open", &[]).with_route(&own)), 401);
    assert_eq!(decided(&get(&host, "/anything", &[]).with_route(&disabled)), 200);
    assert_eq!(decided(&get(&host, "/open", &[]).with_foreign_route(&[0; 4])), 503);
    assert_eq!(host.metric("rolegate.error.not_ready"), 1);
}

/// Envoy has one set of gauges for all filters and routes: those of the process.
#[test]
fn the_gauges_count_the_policies_of_all_routes() {
    if !alone("filter::tests::the_gauges_count_the_policies_of_all_routes") {
        return;
    }
    let (test, other) = (Test::new(), Test::new());
    let host = test.host(r#", "poll-interval": "10ms""#);
    let own =
        Host::<Authorization>::route(b"", &other.config(r#", "poll-interval": "10ms""#)).unwrap();
    std::fs::write(other.folder.path().join("policy.yaml"), "version: 2\n").unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while host.metric("rolegate.policy_failing") != 1 {
        assert_eq!(decided(&get(&host, "/open", &[])), 200);
        assert!(Instant::now() < until, "{}", host.metric("rolegate.policy_failing"));
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(decided(&get(&host, "/open", &[]).with_route(&own)), 200);
    // November 2023, and later.
    assert!(host.metric("rolegate.policy_loaded_timestamp_seconds") > 1_700_000_000);
    assert_eq!(host.metric("rolegate.keys_fetched_timestamp_seconds"), 0, "there are none");
    assert_eq!(host.metric("rolegate.credential_cache_entries"), 0);
    let ann = basic("ann:password");
    while host.metric("rolegate.credential_cache_entries") != 1 {
        assert_eq!(decided(&get(&host, "/reports/1", &[("authorization", &ann)])), 200);
        assert!(Instant::now() < until, "the gauge does not change");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(host.metric("rolegate.credential_cache_bytes") > 100);
    deny_until(|| host.metric("rolegate.decision_log_written") >= 3, &host);
    assert_eq!(host.metric("rolegate.decision_log_dropped"), 0);
}

/// Sends requests that are denied, and so logged, until a gauge shows it.
fn deny_until(shows: impl Fn() -> bool, host: &Host<Authorization>) {
    let until = Instant::now() + Duration::from_secs(60);
    while !shows() {
        assert_eq!(decided(&get(host, "/elsewhere", &[])), 401);
        assert!(Instant::now() < until, "the gauge does not change");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lines that are lost are counted where the admin listener is off, too.
#[test]
fn a_gauge_counts_lines_of_the_decision_log_that_are_lost() {
    if !alone("filter::tests::a_gauge_counts_lines_of_the_decision_log_that_are_lost") {
        return;
    }
    let test = Test::new();
    // A file that is always full.
    let config = format!(
        r#"{{"policy": "{}", "decision-log-file": "/dev/full"}}"#,
        test.folder.path().display()
    );
    let host = Host::<Authorization>::load(b"rolegate", config.as_bytes()).unwrap();
    deny_until(|| host.metric("rolegate.decision_log_dropped") > 0, &host);
    assert_eq!(host.metric("rolegate.decision_log_written"), 0);
}

/// The thread that changes the status may have a lower priority than Envoy's workers.
#[test]
fn the_gauges_wait_for_no_other_thread() {
    if !alone("filter::tests::the_gauges_wait_for_no_other_thread") {
        return;
    }
    let test = Test::new();
    let host = test.host("");
    let status = std::sync::Arc::clone(&host.filter().policy.as_ref().unwrap().status);
    let (changing, is_changing) = channel();
    let (end, until_end) = channel::<()>();
    let changer = std::thread::spawn(move || {
        status.update(|_| {
            changing.send(()).unwrap();
            let _ = until_end.recv_timeout(Duration::from_secs(10));
        });
    });
    is_changing.recv().unwrap();
    let loaded = || host.metric("rolegate.policy_loaded_timestamp_seconds");
    assert_eq!(decided(&get(&host, "/open", &[])), 200);
    assert_eq!((loaded(), changer.is_finished()), (0, false));
    end.send(()).unwrap();
    changer.join().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while loaded() == 0 {
        assert!(Instant::now() < until, "the gauge does not change");
        assert_eq!(decided(&get(&host, "/open", &[])), 200);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Filters of several listeners share a policy, its caches and its threads.
#[test]
fn equal_settings_share_one_policy() {
    let test = Test::new();
    let (one, two, three) = (test.host(""), test.host(""), test.host(r#", "hash-queue": 7"#));
    let policy = |host: &Host<Authorization>| {
        host.filter().policy.as_ref().map(std::sync::Arc::as_ptr).unwrap()
    };
    assert_eq!(policy(&one), policy(&two));
    assert_ne!(policy(&one), policy(&three));
    let ann = basic("ann:password");
    assert_eq!(decided(&get(&one, "/reports/1", &[("authorization", &ann)])), 200);
    assert_eq!(
        get(&two, "/reports/1", &[("authorization", &ann)]).request_headers(true),
        hooks::CONTINUE
    );
}

#[test]
fn the_client_is_the_address_without_its_port() {
    let test = Test::new();
    let host = test.host("");
    for (address, client) in
        [("192.0.2.1:80", "192.0.2.1"), ("[2001:db8::1]:80", "2001:db8::1"), ("", "")]
    {
        let stream = get(&host, "/reports/1", &[]).with_source_address(address.as_bytes());
        assert_eq!(stream.request_headers(true), hooks::STOP);
        drop(stream);
        let log = test.folder.path().join("decisions");
        let until = Instant::now() + Duration::from_secs(60);
        let line = loop {
            let text = runtime::files::text(&log).unwrap_or_default();
            if let Some(line) = text.lines().last() {
                let line: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
                if line["client"].as_str().unwrap_or_default() == client {
                    break line;
                }
            }
            assert!(Instant::now() < until, "{address}: {text}");
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(line["decision"], "denied");
    }
}

#[test]
fn a_shadow_policy_is_compared_and_changes_nothing() {
    if !alone("filter::tests::a_shadow_policy_is_compared_and_changes_nothing") {
        return;
    }
    let (test, candidate) = (Test::new(), Test::with(&POLICY.replace("GET /open", "GET /new")));
    let shadow = candidate.folder.path().display();
    let host = test.host(&format!(r#", "shadow": "{shadow}""#));
    let until = Instant::now() + Duration::from_secs(60);
    let ann = basic("ann:password");
    let differences = ["shadow.same", "shadow.would_deny", "shadow.would_allow"];
    // Requests set the gauges, at most once per second.
    while differences.iter().any(|name| host.metric(&format!("rolegate.{name}")) == 0) {
        assert!(
            Instant::now() < until,
            "{:?}",
            differences.map(|name| host.metric(&format!("rolegate.{name}")))
        );
        assert_eq!(decided(&get(&host, "/reports/1", &[("authorization", &ann)])), 200);
        assert_eq!(decided(&get(&host, "/open", &[])), 200);
        assert_eq!(decided(&get(&host, "/new", &[])), 401);
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(host.metric("rolegate.shadow.error"), 0);
}
