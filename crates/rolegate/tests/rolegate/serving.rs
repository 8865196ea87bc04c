//! How the server starts, answers, and stops.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Answer, Envoy, basic, check};
use crate::process::{LONG, PolicyFolder, Server, example, open_to_all, rolegate, run, wait_until};

/// The exit code and standard error of a start that must fail.
fn failed_start(policy: &str, more: &[&str]) -> (i32, String) {
    let serve = ["serve", "--policy", policy, "--admin", "off"];
    let listen = ["--listen", "127.0.0.1:0"];
    let listen = if more.contains(&"--listen") { &[][..] } else { &listen[..] };
    let (code, out, err) = run(&[&serve, listen, more].concat());
    assert_eq!(out, "");
    assert!(!err.contains("listening"), "nothing may listen: {err}");
    (code, err)
}

#[test]
fn a_port_in_use_fails_the_start() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    for (setting, more) in [
        ("--admin", &["--listen", "127.0.0.1:0"][..]),
        ("--listen", &[]),
        ("--metrics", &["--listen", "127.0.0.1:0", "--admin", "off"]),
        (
            "--http",
            &["--listen", "127.0.0.1:0", "--http-profile", "nginx", "--http-trusted", "::1"],
        ),
    ] {
        let serve = ["serve", "--policy", &example("people"), setting, &at];
        let (code, _, err) = run(&[&serve, more].concat());
        assert_eq!(code, 5);
        let message = format!(
            "cannot listen on `{at}`: the address is in use; stop the process that listens there, \
             or choose another address (`{setting}`)"
        );
        assert!(err.contains(&message), "{err}");
    }
}

/// Huge pages cost seven times the memory: see `use_small_pages`.
#[test]
fn a_server_uses_pages_of_usual_size() {
    let server = Server::start(&example("people"), &[]);
    assert_eq!(server.reported("THP_enabled:"), "0");
}

#[test]
fn an_unreadable_policy_fails_the_start() {
    let (code, err) = failed_start("/nowhere", &[]);
    assert_eq!(code, 3);
    assert!(err.contains("/nowhere") && err.contains("no such file"), "{err}");
    let folder = PolicyFolder::new("version: 1\nroles: [");
    let (code, err) = failed_start(&folder.arg(), &[]);
    assert_eq!(code, 3);
    assert!(err.contains("policy.yaml:"), "{err}");
}

#[test]
fn a_failed_start_is_logged_in_the_format_of_the_log() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let folder = PolicyFolder::new("version: 1\nroles: { a: { extends: [b], allow: [GET a] } }\n");
    let (good, at) = (example("people"), taken.local_addr().unwrap().to_string());
    for (policy, listen, last) in [
        (folder.arg(), "127.0.0.1:0", "cannot start: the policy does not load"),
        (good, at.as_str(), "the address is in use"),
    ] {
        let (_, err) = failed_start(&policy, &["--log-format", "json", "--listen", listen]);
        let lines: Vec<serde_json::Value> = err
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{err}")))
            .collect();
        let message = lines.last().and_then(|line| line["message"].as_str()).unwrap();
        assert!(message.contains(last), "{err}");
        let (_, err) = failed_start(&policy, &["--log-format", "text", "--listen", listen]);
        assert!(err.lines().any(|line| line.starts_with("rolegate: ")), "{err}");
    }
}

#[test]
fn a_bad_key_file_fails_the_start() {
    let policy = "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n\
                  \x20     keys: { file: jwks.json }\nroles:\n  authenticated: { allow: [\"GET /\"] }\n";
    let folder = PolicyFolder::new(policy);
    let (code, err) = failed_start(&folder.arg(), &[]);
    assert_eq!(code, 3);
    assert!(err.contains("jwks.json"), "a missing key file: {err}");
    for keys in [
        "not json",
        "{\"keys\":[]}",
        "{\"keys\":[{\"kty\":\"oct\",\"alg\":\"HS256\",\"k\":\"c2VjcmV0\"}]}",
    ] {
        folder.write("jwks.json", keys);
        let (code, err) = failed_start(&folder.arg(), &[]);
        assert_eq!(code, 3, "{keys}");
        assert!(err.contains("policy.yaml:6:") && !err.contains("c2VjcmV0"), "{keys}: {err}");
    }
}

#[test]
fn bad_settings_fail_the_start() {
    for more in [
        ["--threads", "many"],
        ["--listen", "example.com:80"],
        ["--on-stale", "allow"],
        ["--config", "/no"],
    ] {
        assert_eq!(failed_start(&example("people"), &more).0, 2, "{more:?}");
    }
}

#[tokio::test]
async fn requests_are_answered_on_every_listener() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("r.sock");
    drop(UnixListener::bind(&socket).unwrap());
    let unix = format!("unix:{}", socket.display());
    let mut server = Server::start(
        &example("people"),
        &["--listen", &unix, "--socket-mode", "0600", "--decision-log", "off"],
    );
    server.wait_for_logs("\"listening\"", 2);
    server.wait_for_log(&format!("\"{unix}\""));
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let (alice, wrong) = (basic("alice:wonderland"), basic("alice:wrong"));
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(
        envoy.check("GET", "/people", &[("authorization", &alice)]).await,
        Answer::Http(200)
    );
    assert_eq!(
        envoy.check("POST", "/people", &[("authorization", &alice)]).await,
        Answer::Http(403)
    );
    assert_eq!(
        envoy.check("GET", "/people", &[("authorization", &wrong)]).await,
        Answer::Http(401)
    );
    assert_eq!(envoy.check("GET", "/a/../../b", &[]).await, Answer::Http(400));
    std::os::unix::net::UnixStream::connect(&socket).unwrap();
    drop(envoy);
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    assert!(!socket.exists(), "the socket's file is left behind");
}

#[test]
fn the_admin_pages_report_the_state() {
    let server = Server::start(&example("people"), &[]);
    assert_eq!(server.page("/healthz"), (200, "ok\n".to_owned()));
    assert_eq!(server.page("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(server.page("/other").0, 404);
    let (status, page) = server.page("/metrics");
    assert_eq!(status, 200);
    assert!(page.ends_with("# EOF\n"), "{page}");
    assert_eq!(server.metric("rolegate_ready"), Some(1.0));
}

#[tokio::test]
async fn checks_are_counted() {
    let server = Server::start(&example("people"), &[]);
    let alice = basic("alice:wonderland");
    let mut envoy = Envoy::connect(server.address()).await;
    for _ in 0..3 {
        envoy.check("GET", "/people", &[("authorization", &alice)]).await;
    }
    envoy.check("POST", "/people", &[("authorization", &alice)]).await;
    envoy.check("GET", "/people", &[]).await;
    let checks = |labels| server.metric(&format!("rolegate_checks_total{{{labels}}}"));
    assert_eq!(checks(r#"decision="allowed",reason="""#), Some(3.0));
    assert_eq!(checks(r#"decision="denied",reason="not_allowed""#), Some(1.0));
    assert_eq!(checks(r#"decision="denied",reason="missing_credentials""#), Some(1.0));
    assert_eq!(
        server.metric("rolegate_hashes_total"),
        Some(1.0),
        "a verified password is not hashed again"
    );
    assert_eq!(server.metric("rolegate_connections"), Some(1.0));
    assert_eq!(server.metric("rolegate_check_duration_seconds_count"), Some(5.0));
    let (status, page) = server.page("/histograms");
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let (handler, evaluation) = (&page["handler"], &page["evaluation"]);
    assert_eq!((status, &handler["count"], &evaluation["count"]), (200, &5.into(), &5.into()));
    assert!(evaluation["sum"].as_u64() < handler["sum"].as_u64(), "{page}");
}

/// One hash of argon2id takes 19 MiB, which must not stay in the process for ever.
#[tokio::test]
async fn the_memory_of_a_hash_returns_to_the_system() {
    let server = Server::start(&example("people"), &["--poll-interval", "500ms"]);
    let alice = basic("alice:wonderland");
    let before = server.resident();
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(
        envoy.check("GET", "/people", &[("authorization", &alice)]).await,
        Answer::Http(200)
    );
    let what = || format!("its memory: {before} KiB before, {} after", server.resident());
    wait_until(|| server.resident() < before + 12_000, what);
}

#[tokio::test]
async fn the_decision_log_says_who_and_why_and_no_secret() {
    let mut server =
        Server::start(&example("people"), &["--decision-log", "all", "--log-level", "debug"]);
    let (alice, wrong) = (basic("alice:wonderland"), basic("alice:hunter2"));
    let mut envoy = Envoy::connect(server.address()).await;
    let cookie = ("cookie", "session=c00kie");
    envoy.check("GET", "/people?token=qu3ry", &[("authorization", &alice), cookie]).await;
    envoy.check("POST", "/people#fr4gment", &[("authorization", &alice)]).await;
    envoy.check("GET", "/people", &[("authorization", &wrong)]).await;
    envoy.check("GET", "/people", &[("authorization", "Bearer t0ken")]).await;
    drop(envoy);
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
    let lines = server.decisions();
    let of = |name: &str| lines.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("decision"), ["allowed", "denied", "denied", "denied"]);
    assert_eq!(of("path"), ["/people"; 4]);
    assert_eq!(lines[0]["rule"], "guest: GET /people");
    assert_eq!(lines[0]["user"], "alice");
    assert_eq!(
        (&lines[1]["reason"], &lines[2]["reason"]),
        (&"not_allowed".into(), &"bad_password".into())
    );
    let printed = server.out() + &server.log();
    let encoded = |value: &str| value.strip_prefix("Basic ").unwrap().to_owned();
    for secret in [
        "wonderland",
        "hunter2",
        "c00kie",
        "qu3ry",
        "fr4gment",
        "t0ken",
        &encoded(&alice),
        &encoded(&wrong),
    ] {
        assert!(!printed.contains(secret), "`{secret}` in\n{printed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drain_lets_requests_end() {
    let mut server = Server::start(
        &open_to_all_folder().arg(),
        &["--drain-delay", "10ms", "--drain-timeout", "5s"],
    );
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0, "an idle connection does not hold the end up");
    let log = server.log();
    assert!(log.contains("stopping") && log.contains("\"stopped\""), "{log}");
}

/// The last requests before the end are counted too.
#[tokio::test(flavor = "multi_thread")]
async fn counters_work_during_a_drain() {
    let server = Server::start(&open_to_all_folder().arg(), &["--drain-delay", "1h"]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    assert_eq!(envoy.check("GET", "/a", &[]).await, Answer::Http(200));
    server.wait_for_metric("rolegate_checks_total{decision=\"allowed\",reason=\"\"}", 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_stops_at_once() {
    let mut server = Server::start(&example("people"), &["--drain-timeout", "1h"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let _in_flight = envoy.begin().await;
    server.wait_for_metric("rolegate_checks_waiting", 1.0);
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    assert_eq!(server.page("/readyz"), (503, "not ready: draining\n".to_owned()));
    tokio::time::sleep(Duration::from_millis(150)).await;
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 5);
}

/// The folder may be removed at once: the loaded policy is active.
fn open_to_all_folder() -> PolicyFolder {
    PolicyFolder::new(&open_to_all("/a"))
}

/// GNU `timeout` signals the process and its process group.
#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    let mut server = Server::start(&example("people"), &[]);
    server.signal(Signal::TERM);
    server.signal(Signal::INT);
    assert_eq!(server.ended(), 0);
}

#[test]
fn sigint_stops_too() {
    let mut server = Server::start(&example("people"), &[]);
    server.signal(Signal::INT);
    assert_eq!(server.ended(), 0);
}

#[test]
fn the_port_is_free_after_the_stop() {
    let mut server = Server::start(&example("people"), &[]);
    let at = server.address().to_string();
    server.signal(Signal::TERM);
    server.ended();
    let again = Server::spawn(rolegate(&[
        "serve",
        "--policy",
        &example("people"),
        "--listen",
        &at,
        "--admin",
        "off",
        "--log-format",
        "json",
    ]));
    again.wait_for_log("listening");
}

#[test]
fn text_is_for_people_and_json_for_programs() {
    let policy = example("people");
    let json = Server::start(&policy, &["--log-format", "auto"]);
    assert!(
        json.log().lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()),
        "{}",
        json.log()
    );
    let text = Server::start_unready(&policy, &["--log-format", "text"]);
    text.wait_for_log("listening");
    assert!(text.log().lines().all(|line| !line.starts_with('{')), "{}", text.log());
    assert!(text.log().contains("policy loaded"), "{}", text.log());
}

/// `SECURITY.md`, S23: EMFILE never ends the accept loop.
#[tokio::test]
async fn without_file_descriptors_idle_connections_make_room() {
    let mut command = std::process::Command::new("/bin/sh");
    let serve =
        ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--drain-timeout", "0s"];
    command.args(["-c", "ulimit -n 80; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_rolegate")]);
    command
        .args(serve)
        .args(["--threads", "2", "--policy", &example("people")])
        .env_clear()
        .stdin(std::process::Stdio::null());
    let mut server = Server::spawn(command);
    server.wait_for_log("\"listening\"");
    let alice = basic("alice:wonderland");
    let allowed =
        async || check(server.address(), "GET", "/people", &[("authorization", &alice)]).await;
    assert_eq!(allowed().await, Answer::Http(200));
    let idle: Vec<_> =
        (0..200).map(|_| std::net::TcpStream::connect(server.address()).unwrap()).collect();
    server.wait_for_log("cannot accept a connection without a file descriptor");
    assert_eq!(allowed().await, Answer::Http(200), "behind the idle ones in the queue");
    drop(idle);
    assert_eq!(allowed().await, Answer::Http(200));
    assert_eq!(server.page("/readyz").0, 200);
    let errors = server.metric("rolegate_accept_errors_total{reason=\"file_descriptors\"}");
    assert!(errors.unwrap() >= 1.0, "{errors:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
}

/// The reader of the log has gone: lines are lost, requests are not.
#[tokio::test]
async fn a_closed_log_pipe_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (listen, admin) = (folder.path().join("listen"), folder.path().join("admin"));
    let (listen, admin) =
        (format!("unix:{}", listen.display()), format!("unix:{}", admin.display()));
    let policy = open_to_all_folder();
    let mut command =
        rolegate(&["serve", "--policy", &policy.arg(), "--listen", &listen, "--admin", &admin]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    let socket = folder.path().join("listen");
    wait_until(
        || std::os::unix::net::UnixStream::connect(&socket).is_ok(),
        || "the socket".to_owned(),
    );
    let mut envoy = Envoy::over(tokio::net::UnixStream::connect(&socket).await.unwrap()).await;
    // A changed policy is logged by the thread that also has to activate the next one.
    for path in ["/one", "/two"] {
        policy.write("policy.yaml", &open_to_all(path));
        let end = Instant::now() + LONG;
        while envoy.check("GET", path, &[]).await != Answer::Http(200) {
            assert!(Instant::now() < end, "{path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn admin_may_be_off() {
    let policy = example("people");
    let server = Server::spawn(rolegate(&[
        "serve",
        "--policy",
        &policy,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "off",
    ]));
    server.wait_for_log("listening");
    assert!(!server.log().contains("admin pages"));
}

/// A container runtime that does not read standard output must not make the process grow. Once
/// thousands of lines of 20 kB were kept, a size that clients choose.
#[tokio::test]
async fn a_decision_log_that_nobody_reads_takes_no_memory() {
    let (_unread, stdout) = std::io::pipe().unwrap();
    let policy = example("people");
    let command = rolegate(&[
        "serve",
        "--policy",
        &policy,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
    ]);
    let server = Server::spawn_with_output(command, stdout);
    server.wait_for_log("\"listening\"");
    let mut envoy = Envoy::connect(server.address()).await;
    let hostile = "\u{1}".repeat(1000);
    let check = async |envoy: &mut Envoy| {
        assert_eq!(envoy.check(&hostile, &hostile, &[]).await, Answer::Http(400));
    };
    for _ in 0..10 {
        check(&mut envoy).await;
    }
    let before = server.resident();
    for _ in 0..4000 {
        check(&mut envoy).await;
    }
    let after = server.resident();
    assert!(after < before + (16 << 10), "{before} KiB before, {after} KiB after");
    assert!(server.metric("rolegate_decision_log_lines_total{result=\"dropped\"}") > Some(1000.0));
}

/// The reader of the log has stopped reading, and the pipe is full: the policy thread must not
/// block on it.
#[tokio::test]
async fn a_full_log_pipe_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, admin) = (folder.path().join("listen"), folder.path().join("admin"));
    let (listen, admin) =
        (format!("unix:{}", socket.display()), format!("unix:{}", admin.display()));
    let policy = open_to_all_folder();
    let mut command =
        rolegate(&["serve", "--policy", &policy.arg(), "--listen", &listen, "--admin", &admin]);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_until(
        || std::os::unix::net::UnixStream::connect(&socket).is_ok(),
        || "the socket".to_owned(),
    );
    let mut envoy = Envoy::over(tokio::net::UnixStream::connect(&socket).await.unwrap()).await;
    for path in ["/one", "/two", "/three"] {
        // A warning for each of these roles: some 400 kB of log, where a pipe holds 64.
        let mut text = open_to_all(path);
        for number in 0..2000 {
            text.push_str(&format!("  unused-{number}:\n    allow: [\"GET /unused\"]\n"));
        }
        policy.write("policy.yaml", &text);
        let end = Instant::now() + LONG;
        while envoy.check("GET", path, &[]).await != Answer::Http(200) {
            assert!(Instant::now() < end, "{path}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(
        crate::process::run(&["health", "--admin", &admin]).0,
        0,
        "the thread that answers probes"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What reads the log of a container takes each line as a JSON object.
#[test]
fn errors_that_end_the_process_are_json_lines_if_the_log_is() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let good = PolicyFolder::new("version: 1\nroles: { anyone: { allow: [GET /] } }\n");
    let bad = PolicyFolder::new("version: 1\nrole: {}\n");
    for (policy, listen, message, expected) in
        [(&good, &*at, "the address is in use", 5), (&bad, "127.0.0.1:0", "unknown key `role`", 3)]
    {
        let policy = policy.arg();
        let args = [
            "serve",
            "--policy",
            &policy,
            "--listen",
            listen,
            "--admin",
            "off",
            "--log-format",
            "json",
        ];
        let (code, _, err) = run(&args);
        assert_eq!(code, expected, "{err}");
        let lines: Vec<serde_json::Value> = err
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{err}")))
            .collect();
        let says = |line: &serde_json::Value| {
            line["level"] == "ERROR" && line["message"].as_str().unwrap().contains(message)
        };
        assert!(lines.iter().any(says), "{err}");
    }
}
