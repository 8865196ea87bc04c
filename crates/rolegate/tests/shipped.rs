//! Compares what `deploy/` ships with the program: the flags in manifests, the policies in them,
//! and the names of metrics in alerts and dashboard, which are parsed as PromQL.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::panic, reason = "the output of a tool is the message of the failed test")]
#![expect(clippy::indexing_slicing, reason = "JSON without a member is null here")]
#![expect(clippy::disallowed_methods, reason = "the tree is what is tested")]

#[path = "shipped/promql.rs"]
mod promql;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use authorizer::Reason;
use runtime::counters::ErrorKind;
use serde_json::Value;
use server::checks::AcceptError;
use testbed::client::{Connection, Version};
use testbed::manifests::{deploy, kustomize, yaml};
use testbed::{Options, Stack};

use promql::Selected;

const ROLEGATE: &str = env!("CARGO_BIN_EXE_rolegate");

/// Settings that make every metric appear, of a collector that does not answer.
const SETTINGS: [&str; 6] =
    ["--keys-wait", "0s", "--traces", "otlp", "--otlp-endpoint", "http://127.0.0.1:9"];

/// A policy that makes every metric appear: the users of the example, and keys at a URL that does
/// not answer.
const POLICY: &str = "
version: 1
identity:
  basic: { realm: people, users_file: htpasswd }
  jwt:
    - issuer: https://id.example.com
      audiences: [people]
      keys: { url: \"http://127.0.0.1:9/keys\" }
      claims: { user: sub }
roles:
  guest: { allow: [\"GET /people\"] }
grants:
  guest: { users: [alice] }
";

/// `/metrics` of a rolegate that has allowed, denied and failed: the names of the metrics, each
/// with its labels.
async fn live() -> BTreeMap<String, BTreeSet<String>> {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy.yaml");
    fs::write(&policy, POLICY).unwrap();
    fs::copy(deploy("kubernetes/base/users/htpasswd"), folder.path().join("htpasswd")).unwrap();
    // Envoy uses a Unix socket, which has no TLS, but with these files its metrics are there.
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    fs::write(folder.path().join("tls.pem"), certificate.pem()).unwrap();
    fs::write(folder.path().join("tls.key"), key.serialize_pem()).unwrap();
    let file = |name| &*folder.path().join(name).display().to_string().leak();
    let tls = ["--tls-certificate", file("tls.pem"), "--tls-key", file("tls.key")];
    let arguments = [&SETTINGS[..], &tls].concat();
    let options = Options { arguments, ..Options::default() };
    let stack = Stack::start(Path::new(ROLEGATE), &policy, &options).await.unwrap();
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    for (path, status) in [("/people", 200), ("/secret", 403)] {
        let authorization =
            [("authorization".to_owned(), "Basic YWxpY2U6d29uZGVybGFuZA==".to_owned())];
        let answer = connection.send("GET", path, "localhost", &authorization, b"").await.unwrap();
        assert_eq!(answer.status, status, "{path}");
    }
    let rolegate = stack.rolegates.first().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        let mut admin = Connection::open(rolegate.admin, Version::Http1).await.unwrap();
        let page = admin.send("GET", "/metrics", "localhost", &[], b"").await.unwrap().text();
        // The keys are listed as soon as the first fetch has started.
        if page.contains("rolegate_keys_fetches_total") || Instant::now() > until {
            return names(&page);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn names(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let end = line.find(['{', ' ']).unwrap();
        let (name, rest) = line.split_at(end);
        let labels = rest
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'))
            .map_or("", |(labels, _)| labels);
        let own = found.entry(name.to_owned()).or_default();
        own.extend(
            labels
                .split(',')
                .filter_map(|label| label.split_once('='))
                .map(|(label, _)| label.to_owned()),
        );
    }
    found
}

/// Labels that Prometheus itself adds to a target.
const OF_PROMETHEUS: &[&str] = &["job", "instance", "namespace", "pod"];

/// What Grafana puts in the place of its variables.
const VARIABLES: &[(&str, &str)] = &[("$__rate_interval", "1m"), ("$__range", "1h")];

/// What an expression selects.
fn selected(expression: &str) -> Selected {
    let replace = |text: String, (variable, value): &(&str, &str)| text.replace(variable, value);
    let text = VARIABLES.iter().fold(expression.to_owned(), replace);
    promql::parse(&text)
}

/// Checks that an expression can be parsed, and that its metrics and labels are on the page.
fn check_expression(at: &str, expression: &str, live: &BTreeMap<String, BTreeSet<String>>) {
    let selected = selected(expression);
    assert!(!selected.metrics.is_empty(), "{at}: no metric in `{expression}`");
    let mut known: BTreeSet<&str> = OF_PROMETHEUS.iter().copied().collect();
    for metric in selected.metrics.iter().filter(|metric| *metric != "up") {
        let labels =
            live.get(metric).unwrap_or_else(|| panic!("{at}: there is no metric `{metric}`"));
        known.extend(labels.iter().map(String::as_str));
    }
    for label in &selected.labels {
        assert!(
            known.contains(&**label),
            "{at}: no metric in `{expression}` has a label `{label}`"
        );
    }
    for (label, value) in &selected.values {
        let exists = match label.as_str() {
            "kind" => ErrorKind::ALL.iter().any(|kind| kind.name() == value),
            "reason" => {
                Reason::all().any(|reason| reason.name() == value)
                    || AcceptError::ALL.iter().any(|error| error.name() == value)
            }
            _ => true,
        };
        assert!(exists, "{at}: no `{label}` in `{expression}` is called `{value}`");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboard_use_existing_metrics() {
    let live = live().await;
    for (at, expression) in alerts().into_iter().chain(dashboard()) {
        check_expression(&at, &expression, &live);
    }
}

fn alerts() -> Vec<(String, String)> {
    let documents =
        yaml(&deploy("prometheus/alerts.yaml")).unwrap_or_else(|error| panic!("{error}"));
    let rules = documents.first().unwrap()["groups"][0]["rules"].as_array().unwrap();
    let found: Vec<_> =
        rules.iter().map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect();
    assert!(found.len() >= 10, "the alerts were not found");
    found
}

fn dashboard() -> Vec<(String, String)> {
    let json = fs::read_to_string(deploy("grafana/rolegate.json")).unwrap();
    let board: Value = serde_json::from_str(&json).unwrap();
    let mut found = Vec::new();
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in board["panels"].as_array().unwrap() {
        assert!(
            ids.insert(panel["id"].as_u64().unwrap()),
            "two panels have the number {}",
            panel["id"]
        );
        let place = &panel["gridPos"];
        assert!(places.insert((place["x"].as_u64(), place["y"].as_u64())), "two panels at {place}");
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    assert!(found.len() >= 20, "the panels were not found");
    found.extend(
        board["annotations"]["list"]
            .as_array()
            .unwrap()
            .iter()
            .map(|query| (text(&query["name"]), text(&query["expr"]))),
    );
    found
}

/// Every metric that reports a failure is used by an alert.
#[test]
fn every_failure_metric_has_an_alert() {
    let alerts = alerts();
    let all: Vec<Selected> = alerts.iter().map(|(_, expression)| selected(expression)).collect();
    let has = |name: &str| {
        all.iter().any(|selected| {
            selected.metrics.contains(name)
                || selected.values.iter().any(|(_, value)| value == name)
        })
    };
    for metric in [
        "up",
        "rolegate_ready",
        "rolegate_check_errors_total",
        "rolegate_check_duration_seconds_bucket",
        "rolegate_policy_failing_seconds",
        "rolegate_policy_stale",
        "rolegate_policy_reloads_total",
        "rolegate_keys_loaded",
        "rolegate_keys_stale",
        "rolegate_accept_errors_total",
        "rolegate_tls_handshakes_failed_total",
        "rolegate_tls_certificate_expiry_timestamp_seconds",
        "overloaded",
        "deadline_exceeded",
        "rolegate_decision_log_lines_total",
        "rolegate_otlp_records_total",
    ] {
        assert!(has(metric), "no alert asks for `{metric}`");
    }
}

/// The policy that ships for Kubernetes passes `rolegate check` and the cases of the example that
/// it is a copy of.
#[test]
fn the_policy_of_the_base_is_the_example() {
    let folder = tempfile::tempdir().unwrap();
    let policy = folder.path().join("policy");
    let users = folder.path().join("users");
    fs::create_dir(&policy).unwrap();
    fs::create_dir(&users).unwrap();
    fs::copy(deploy("kubernetes/base/policy/policy.yaml"), policy.join("policy.yaml")).unwrap();
    fs::copy(deploy("kubernetes/base/users/htpasswd"), users.join("htpasswd")).unwrap();
    fs::copy(deploy("../policies/people/cases.yaml"), policy.join("cases.yaml")).unwrap();
    let done = Command::new(ROLEGATE).arg("test").arg(&policy).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

/// A misspelt flag would keep every pod from starting.
#[test]
fn manifests_use_valid_flags() {
    let mut seen = 0;
    for name in ["overlays/shared", "overlays/shared-bundle", "examples/sidecar"] {
        let manifests =
            kustomize(&deploy("kubernetes").join(name)).unwrap_or_else(|error| panic!("{error}"));
        for pod in manifests.iter().map(|manifest| &manifest["spec"]["template"]["spec"]) {
            for container in ["containers", "initContainers"]
                .iter()
                .flat_map(|kind| pod[kind].as_array())
                .flatten()
            {
                if container["name"] == "rolegate" {
                    takes(container["args"].as_array().unwrap().iter().map(text).collect());
                    probes(container);
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 3);
    let unit = fs::read_to_string(deploy("systemd/rolegate.service")).unwrap();
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart=/usr/local/bin/rolegate "))
        .unwrap();
    takes(start.split(' ').map(str::to_owned).collect());
}

/// Checks that the commands of its probes are valid. Here no server answers them.
fn probes(container: &Value) {
    let mut seen = 0;
    for probe in ["startupProbe", "readinessProbe", "livenessProbe"] {
        let Some(command) = container[probe]["exec"]["command"].as_array() else { continue };
        let (program, arguments) = command.split_first().unwrap();
        assert_eq!(program, "/rolegate", "{probe}");
        let mut command = Command::new(ROLEGATE);
        command
            .args(arguments.iter().map(text))
            .env("ROLEGATE_ADMIN", "unix:/nonexistent/rolegate.sock");
        let done = command.output().unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(5), "{arguments:?}: {stderr}");
        seen += 1;
    }
    assert!(seen > 0, "no probe by a command");
}

/// Checks that these arguments are valid: the only error is that their policy, or the key of its
/// bundle, does not exist here.
fn takes(mut arguments: Vec<String>) {
    let place = arguments.iter_mut().find(|argument| argument.contains("/etc/rolegate")).unwrap();
    *place = place.replace("/etc/rolegate", "/nonexistent/rolegate");
    let done = Command::new(ROLEGATE).args(&arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    let is_bundle = stderr.contains("cannot start: the bundle");
    assert_eq!(done.status.code(), Some(if is_bundle { 2 } else { 3 }), "{arguments:?}: {stderr}");
    assert!(stderr.contains("/nonexistent/rolegate"), "{arguments:?}: {stderr}");
}

/// The chart accepts every setting, except for those that it sets itself.
#[test]
fn the_chart_knows_every_setting() {
    let help = Command::new(ROLEGATE).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let flags = help.lines().filter_map(|line| line.trim_start().strip_prefix("--"));
    let mut own: BTreeSet<&str> = flags.filter_map(|flag| flag.split([' ', '[']).next()).collect();
    for set in ["config", "policy", "listen", "admin", "metrics", "socket-mode"] {
        assert!(own.remove(set), "no setting `{set}`");
    }
    let schema = fs::read_to_string(deploy("helm/rolegate/values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let known = schema["properties"]["settings"]["propertyNames"]["enum"].as_array().unwrap();
    assert_eq!(own, known.iter().map(|name| name.as_str().unwrap()).collect());
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
