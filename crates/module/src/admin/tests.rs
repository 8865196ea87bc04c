//! The admin pages of the library, in a fake Envoy.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use testbed::pages::table;
use testbed::port::ReservedPort;

use crate::Authorization;
use crate::fake::{self, Host};

const POLICY: &str = "version: 1\nroles: { anyone: { allow: [\"GET /open\"] } }\n";

/// A folder with a policy and the socket of its admin listener.
struct Test(TempDir);

impl Test {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("policy.yaml"), POLICY).unwrap();
        Self(folder)
    }

    fn address(&self) -> String {
        format!("unix:{}", self.0.path().join("admin").display())
    }

    /// Loads a filter with this policy and admin listener, and more settings.
    fn load(&self, admin: &str, more: &str) -> Option<Host<Authorization>> {
        let policy = self.0.path().display();
        let config = format!(
            r#"{{"policy": "{policy}", "admin": "{admin}", "decision-log": "off", "poll-interval": "1h"{more}}}"#
        );
        Host::load(b"rolegate", config.as_bytes())
    }

    fn host(&self, more: &str) -> Host<Authorization> {
        self.load(&self.address(), more).unwrap_or_else(|| panic!("{:?}", fake::logged()))
    }

    /// The response to a request without a body; empty if nothing listens, or no longer.
    fn ask(&self, request: &str) -> String {
        self.ask_as("a", request)
    }

    /// The same, with this `Host`.
    fn ask_as(&self, host: &str, request: &str) -> String {
        let mut text = String::new();
        if let Ok(mut stream) = UnixStream::connect(self.0.path().join("admin")) {
            let _ = write!(stream, "{request} HTTP/1.1\r\nhost: {host}\r\n\r\n");
            let _ = stream.read_to_string(&mut text);
        }
        text
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let page = self.ask("GET /metrics");
        page.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    }

    fn until(&self, name: &str, value: f64) {
        let end = Instant::now() + Duration::from_secs(60);
        while self.metric(name) != Some(value) {
            assert!(Instant::now() < end, "{name}: {}", self.ask("GET /metrics"));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Sends requests to this path.
fn send(host: &Host<Authorization>, path: &str, times: usize) {
    for _ in 0..times {
        let headers: [(&[u8], &[u8]); 3] =
            [(b":method", b"GET"), (b":path", path.as_bytes()), (b":authority", b"example.com")];
        host.stream(&headers).unwrap().request_headers(true);
    }
}

const ALLOWED: &str = "rolegate_checks_total{decision=\"allowed\",reason=\"\"}";
const FAILED: &str = "rolegate_policy_reloads_total{result=\"failed\"}";
const UNCHANGED: &str = "rolegate_policy_reloads_total{result=\"unchanged\"}";

#[test]
fn pages_show_what_was_counted_and_the_status_of_the_policy() {
    let test = Test::new();
    let host = test.host("");
    send(&host, "/open", 2);
    send(&host, "/closed", 1);
    assert_eq!(test.metric(ALLOWED), Some(2.0));
    assert_eq!(test.metric("rolegate_check_duration_seconds_count"), Some(3.0));
    assert_eq!(test.metric("rolegate_hash_queue_length"), Some(0.0));
    assert!(test.ask("GET /histograms").contains("\"count\":3"));
    assert!(test.ask("GET /readyz").starts_with("HTTP/1.1 200 OK"));
    assert!(test.ask("GET /healthz").ends_with("ok\n"));
    let page = include_str!("../../../../docs/reference/metrics.md");
    let listed: Vec<&str> =
        table(page, "| metric | labels |").iter().map(|row| row[0].trim_matches('`')).collect();
    for line in test.ask("GET /metrics").lines().filter(|line| line.starts_with("rolegate_")) {
        let name = line.split(['{', ' ']).next().unwrap();
        let known = |listed: &&str| {
            name.strip_prefix(*listed)
                .is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest))
        };
        assert!(listed.iter().any(known), "`{name}` is not in docs/reference/metrics.md");
    }
}

#[test]
fn readiness_waits_for_the_inventory_of_a_search_cluster_unless_configured_otherwise() {
    let test = Test::new();
    let closed = ReservedPort::new().unwrap();
    let address = closed.address();
    let cluster = test.0.path().join("cluster");
    std::fs::create_dir(&cluster).unwrap();
    std::fs::write(cluster.join("roles.yml"), "_meta: { type: roles, config_version: 2 }\n")
        .unwrap();
    let policy = format!(
        "version: 1\nsearch: {{ folder: cluster, hosts: [search.example.com], inventory: {{ url: \"http://{address}\" }} }}\n"
    );
    std::fs::write(test.0.path().join("policy.yaml"), policy).unwrap();
    let _waiting = test.host(r#", "keys-wait": "10ms""#);
    let page = test.ask("GET /readyz");
    assert!(page.starts_with("HTTP/1.1 503"), "{page}");
    assert!(page.ends_with("not ready: no inventory of the search cluster yet\n"), "{page}");
    assert_eq!(test.metric("rolegate_ready"), Some(0.0));
    let _ready = test.host(r#", "keys-wait": "10ms", "inventory-needed": false"#);
    let page = test.ask("GET /readyz");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    assert!(page.contains("ready\nno inventory of the search cluster: "), "{page}");
}

/// Without a request, which Envoy's own gauges need.
#[test]
fn a_reload_is_requested_and_seen_on_the_pages() {
    let test = Test::new();
    let _host = test.host("");
    assert!(test.ask("POST /reload").starts_with("HTTP/1.1 202"));
    test.until(UNCHANGED, 1.0);
}

/// Whoever requests it to see why a change has no effect must not be told that nothing has changed.
#[test]
fn a_requested_reload_fails_again_while_the_files_do_not_load() {
    let test = Test::new();
    let _host = test.host("");
    std::fs::write(test.0.path().join("new"), "version: 2\n").unwrap();
    std::fs::rename(test.0.path().join("new"), test.0.path().join("policy.yaml")).unwrap();
    test.until(FAILED, 1.0);
    let page = test.ask("GET /readyz");
    assert!(
        page.contains("\r\nready\nthe changed policy does not load (policy.yaml:1:10): "),
        "{page}"
    );
    assert!(test.ask("POST /reload").starts_with("HTTP/1.1 202"));
    test.until(FAILED, 2.0);
    assert_eq!(test.metric(UNCHANGED), Some(0.0));
}

#[test]
fn equal_settings_share_the_pages_and_newer_ones_take_them_over() {
    let test = Test::new();
    let (one, two) = (test.host(""), test.host(""));
    send(&one, "/open", 1);
    send(&two, "/open", 1);
    assert_eq!(test.metric(ALLOWED), Some(2.0));
    let newer = test.host(r#", "hash-queue": 7"#);
    assert_eq!(test.metric(ALLOWED), Some(0.0));
    drop(newer);
    assert_eq!(test.metric(ALLOWED), Some(2.0));
    // Back to settings that are still in use.
    let newer = test.host(r#", "hash-queue": 7"#);
    let back = test.host("");
    assert_eq!(test.metric(ALLOWED), Some(2.0));
    drop((newer, back));
    assert_eq!(test.metric(ALLOWED), Some(2.0));
    drop((one, two));
    // At once: the listener that was dropped may not have ended yet.
    let again = test.host("");
    assert_eq!(test.metric(ALLOWED), Some(0.0));
    drop(again);
    let end = Instant::now() + Duration::from_secs(60);
    while !test.ask("GET /healthz").is_empty() {
        assert!(Instant::now() < end, "it still listens");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_address_of_another_policy_or_process_rejects_the_configuration() {
    let (test, other) = (Test::new(), Test::new());
    let host = test.host("");
    assert!(other.load(&test.address(), "").is_none());
    let log = fake::logged().concat();
    let problem = format!(
        "rolegate: `admin` {} is that of the policy {}",
        test.address(),
        test.0.path().display()
    );
    assert!(log.contains(&problem), "{log}");
    assert!(test.ask("GET /readyz").starts_with("HTTP/1.1 200 OK"));
    drop(host);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert!(test.load(&address, "").is_none());
    let log = fake::logged().concat();
    assert!(
        log.contains(&format!(
            "rolegate: `admin`: cannot listen on `{address}`: the address is in use"
        )),
        "{log}"
    );
}

/// A denial is shown by the console of the settings that denied it; the pages are those of the
/// newest.
#[test]
fn the_console_is_off_unless_the_newest_settings_have_it() {
    let test = Test::new();
    let console = || test.ask_as("localhost", "GET /console");
    let without = test.host("");
    assert!(console().starts_with("HTTP/1.1 404 "), "{}", console());
    let with = test.host(r#", "console": true"#);
    send(&without, "/of-the-old", 1);
    send(&with, "/of-the-new", 1);
    let page = console();
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("Nothing is wrong"), "{page}");
    assert!(page.contains("/of-the-new") && !page.contains("/of-the-old"), "{page}");
    assert!(test.ask_as("localhost", "POST /console").starts_with("HTTP/1.1 405 "));
    drop(with);
    assert!(console().starts_with("HTTP/1.1 404 "), "{}", console());
}

#[test]
fn the_console_answers_browsers_of_this_machine_and_configured_names() {
    let test = Test::new();
    let _host = test.host(r#", "console": true, "console-host": ["one.internal", "two.internal"]"#);
    for (host, status) in
        [("127.0.0.1:9192", 200), ("two.internal", 200), ("a", 403), ("one.internal.example", 403)]
    {
        let page = test.ask_as(host, "GET /console");
        assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{host}: {page}");
    }
}

/// The listener is what shows it.
#[test]
fn a_console_without_an_admin_listener_is_a_warning() {
    let test = Test::new();
    let _host = test.load("off", r#", "console": true"#).unwrap();
    let log = fake::logged().concat();
    assert!(log.contains("`console` has no effect: `admin` is `off`"), "{log}");
}

/// As in `rolegate serve`. The defaults are not warned of.
#[test]
fn a_setting_without_effect_is_a_warning() {
    for (settings, warnings) in [
        ("", &[][..]),
        (
            r#", "console-host": ["a.internal"]"#,
            &["`console-host` has no effect: `console` is `false`"],
        ),
        (
            r#", "bundle-interval": "5s", "trace-ratio": "0.5", "max-keys-age": "1h""#,
            &[
                "`bundle-interval` has no effect: it is about bundles, and the policy is a file",
                "`trace-ratio` has no effect: no spans are sent without `traces: otlp`",
                "`max-keys-age` has no effect: no keys of the policy have a URL",
            ],
        ),
    ] {
        let test = Test::new();
        let _host = test.load("off", settings).unwrap();
        let log = fake::logged().concat();
        let found = log.matches("has no effect").count();
        assert_eq!(found, warnings.len(), "{settings}: {log}");
        assert!(warnings.iter().all(|warning| log.contains(warning)), "{settings}: {log}");
    }
}
