//! `measure compare`, `measure filters` and `measure wire` as they are called, with a real Envoy
//! and real rolegates: small, but whole.
//!
//! They stand apart from the other tests, so that their load is on the machine when no delay is
//! being measured.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the reports are files")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

fn program() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_measure"));
    let rolegate = program.with_file_name("rolegate");
    assert!(
        rolegate.is_file(),
        "no rolegate beside it: run `cargo build --package rolegate --bin rolegate`"
    );
    Command::new(program)
}

/// Runs it to its end, and gives what it printed.
fn run(arguments: &[&str]) -> String {
    let output = program().args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// A server that somebody else has started.
struct Peer(Child, String);

impl Peer {
    fn start() -> Self {
        let baseline = Command::new(env!("CARGO_BIN_EXE_baseline"))
            .arg("127.0.0.1:0")
            .stdout(Stdio::piped())
            .spawn();
        let mut child = baseline.unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self(child, address)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both transports, both clients, a peer: everybody answers, and every figure is there.
#[test]
fn a_whole_comparison_in_little() {
    let (folder, peer) = (tempfile::tempdir().unwrap(), Peer::start());
    let out = folder.path().to_str().unwrap();
    let peer = format!("opa={},pid={}", peer.1, peer.0.id());
    let arguments =
        ["compare", "--rates", "100", "--rounds", "1", "--budget", "12s", "--no-reload"];
    let printed = run(&[&arguments[..], &["--out", out, "--peer", &peer]].concat());
    assert!(printed.contains("+ rolegate, JWT, TCP, Google's client"), "{printed}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    let scenarios = report["scenarios"].as_array().unwrap();
    assert_eq!(scenarios.len(), 2 + 4 * 4 + 2);
    for scenario in scenarios {
        let name = scenario["name"].as_str().unwrap();
        let cell = &scenario["rates"][0];
        let round = &cell["rounds"][0];
        // The first request of a window is sent even if the machine is so busy that it comes after
        // its end.
        assert!(cell["latency"]["count"].as_u64().unwrap() >= 1, "{name}: {cell}");
        assert_eq!(round["wrong"], 0, "{name}");
        let used = |part: &str| {
            round[part]["cores"].as_f64().unwrap() > 0.0
                && round[part]["resident"].as_u64() > Some(0)
        };
        assert!(used("app"), "{name}: {round}");
        assert_eq!(used("envoy"), name != "app", "{name}: {round}");
        assert_eq!(used("server"), name.starts_with('+'), "{name}: {round}");
        let inside = cell["handler"]["count"].as_u64() >= cell["latency"]["count"].as_u64();
        assert_eq!(inside, name.starts_with("+ rolegate"), "{name}: {cell}");
    }
    for file in ["report.html", "report.json", "report.txt", "envoy.yaml"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        for secret in ["wonderland", "d29uZGVybGFuZA", "eyJ"] {
            assert!(!text.contains(secret), "{file} contains a secret");
        }
    }
}

/// What `make load QUICK=1` does, with fewer rates.
#[test]
fn a_quick_look_has_the_closed_loop_and_the_reloads() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let printed = run(&[
        "compare", "--quick", "--rates", "max", "--rounds", "1", "--budget", "4s", "--out", out,
    ]);
    assert!(
        printed.contains("P2 requests/s through Envoy, closed loop: rolegate, Basic ÷ baseline"),
        "{printed}"
    );
    assert!(printed.contains(
        "P6 requests that failed during reloads at 5,000/s (10,000 rules, 100 roles, 10,000 grants)"
    ));
    let report: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).unwrap()).unwrap();
    assert_eq!(report["reload"]["failed"], 0, "{}", report["reload"]);
    assert_eq!(report["reload"]["took"].as_array().unwrap().len(), 2);
}

/// Needs the library, which `cargo test --workspace` builds, too.
#[test]
fn filters_of_envoy_are_compared_with_the_library() {
    let folder = tempfile::tempdir().unwrap();
    let module = Path::new(env!("CARGO_BIN_EXE_measure")).parent().unwrap().to_str().unwrap();
    let out = folder.path().to_str().unwrap();
    let arguments = ["filters", "--rounds", "1", "--duration", "100ms", "--requests", "500"];
    let printed = run(&[&arguments[..], &["--module", module, "--out", out]].concat());
    for row in
        ["basic_auth + rbac", "jwt_authn + rbac", "rolegate, 10,000 rules", "rbac, 10,000 rules"]
    {
        assert!(printed.lines().any(|line| line.trim_start().starts_with(row)), "{row}: {printed}");
    }
    assert!(!printed.contains("not measured") && !printed.contains("do not trust"), "{printed}");
    let records = std::fs::read_to_string(folder.path().join("records.csv")).unwrap();
    assert!(records.contains("filters/rolegate, Basic/to no filter"), "{records}");
}

#[test]
fn each_server_is_measured_alone() {
    let printed = run(&["wire", "--rounds", "1", "--duration", "200ms"]);
    for server in ["rolegate-basic", "baseline", "rolegate-jwt", "baseline-jwt"] {
        let line = printed.lines().find(|line| line.starts_with(&format!("1 {server} "))).unwrap();
        assert!(line.split(' ').skip(2).all(|figure| figure.parse::<u64>().unwrap() > 0), "{line}");
    }
    for ratio in [
        "Basic ÷ baseline ",
        "JWT ÷ Basic ",
        "baseline with token ÷ without ",
        "with shadow policy ÷ without ",
    ] {
        let measured = printed.lines().find_map(|line| line.strip_prefix(ratio)).unwrap();
        assert!(measured.parse::<f64>().unwrap() > 0.0, "{printed}");
    }
}

#[test]
fn what_cannot_be_done_is_said_before_anything_starts() {
    let output = program().args(["compare", "--budget", "5s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(5));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("measurements do not fit into 5 s; they need"), "{errors}");
}
