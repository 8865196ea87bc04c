//! The program as it is called: what it prints, what it writes, how it ends.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use load::Workload;

use crate::server::{Act, Server};

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rolegate-load"));
    command.args(arguments).env_remove("ROLEGATE_LOAD_BASIC").env_remove("ROLEGATE_LOAD_BEARER");
    command
}

fn execute(arguments: &[&str]) -> Output {
    program(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn fast() -> Server {
    Server::start(|_| Act::answer(200, Duration::ZERO))
}

/// The sample application; it is killed when dropped.
struct Serving {
    child: Child,
    address: String,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let mut child = program(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, address }
    }

    fn terminate(&mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_application_can_be_loaded_and_ends_with_sigterm() {
    let mut app = Serving::start(&["app", "127.0.0.1:0"]);
    let url = format!("http://{}/people", app.address);
    let output = execute(&["http", &url, "--requests", "100", "--rate", "max"]);
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    assert!(
        printed.contains(&url) && printed.contains("p99") && printed.contains("200"),
        "{printed}"
    );
    assert_eq!(text(&output.stderr), "");
    let taken = execute(&["app", &app.address]);
    assert_eq!(taken.status.code(), Some(5));
    assert!(text(&taken.stderr).contains("cannot listen on"), "{}", text(&taken.stderr));
    assert_eq!(app.terminate(), Some(0));
}

#[test]
fn checks_are_made_over_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    let _server = crate::checks::server(&path);
    let address = format!("unix:{}", path.display());
    let output = execute(&["check", &address, "-n", "10", "--basic", "alice:wonderland"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("allowed"));
}

#[test]
fn thresholds_give_an_exit_code() {
    let server = Server::start(|_| Act::answer(403, Duration::ZERO));
    let url = server.url("/");
    let execute = |condition: &str| {
        let arguments =
            ["http", &url, "-n20", "-rmax", "--fail-if", "errors>0", "--fail-if", condition];
        let output = execute(&arguments);
        (output.status.code(), text(&output.stderr))
    };
    assert_eq!(execute("p99>60s"), (Some(0), String::new()));
    assert_eq!(
        execute("status 403>0"),
        (Some(4), "rolegate-load: `--fail-if status 403>0` is true\n".into())
    );
    assert_eq!(execute("unexpected>10%").0, Some(4));
    assert_eq!(execute("speed>3").0, Some(2));
}

#[test]
fn the_files_are_written() {
    let server = fast();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (hgrm, csv, html) = (file("a.hgrm"), file("a.csv"), file("a.html"));
    let line = format!(
        "http {} -n 20 -r max --json - --hgrm {hgrm} --csv {csv} --html {html} --labels mine",
        server.url("/")
    );
    let output = execute(&line.split(' ').collect::<Vec<_>>());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["Labels"], "mine");
    assert_eq!(json["DurationHistogram"]["Count"], 20);
    for file in [hgrm, csv, html] {
        assert!(std::fs::metadata(&file).unwrap().len() > 100, "{file}");
    }
    let nowhere = execute(&["http", &server.url("/"), "-n", "1", "--csv", &file("none/a.csv")]);
    assert_eq!(nowhere.status.code(), Some(5));
}

#[test]
fn no_secret_is_printed_whatever_goes_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("basic");
    std::fs::write(&file, "alice:wonderland\n").unwrap();
    let server = fast();
    let (url, file) = (server.url("/"), file.display().to_string());
    let cases: [(&[&str], i32); 8] = [
        (&["http", &url, "-n", "5", "--basic", "alice:wonderland"], 0),
        (&["http", &url, "-n", "5", "--basic-file", &file], 0),
        (&["http", &url, "-n", "5", "--bearer", "wonderland", "--json", "-"], 0),
        (&["http", "http://127.0.0.1:1/", "-n", "5", "--basic", "alice:wonderland"], 5),
        (&["http", &url, "--basic", "alice:wonderland", "--bearer", "wonderland"], 2),
        (&["http", &url, "--bearer", "wonder\nwonderland"], 2),
        (&["http", &url, "-H", "authorization wonderland"], 2),
        (&["http", "http://alice:wonderland@127.0.0.1:1/"], 2),
    ];
    for (arguments, code) in cases {
        let output = execute(arguments);
        let printed = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{printed}");
        assert!(
            !printed.contains("wonderland") && !printed.contains("d29uZGVybGFuZA"),
            "{printed}"
        );
    }
    let sent = server.seen();
    assert!(
        sent.iter()
            .filter(|request| request.head.contains("Basic YWxpY2U6d29uZGVybGFuZA==\r\n"))
            .count()
            == 10
    );
    let of_environment =
        program(&["http", &url, "-n", "1"]).env("ROLEGATE_LOAD_BEARER", "t0ken").output().unwrap();
    assert_eq!(of_environment.status.code(), Some(0));
    assert!(server.seen().last().unwrap().head.contains("authorization: Bearer t0ken\r\n"));
}

#[test]
fn ctrl_c_ends_a_run_with_its_results() {
    let server = fast();
    let child = program(&["http", &server.url("/"), "--duration", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    while server.requests() < 10 {
        std::thread::sleep(Duration::from_millis(10));
    }
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(130), "{printed}");
    assert!(printed.contains("interrupted") && printed.contains("p99"), "{printed}");
}

#[test]
fn the_highest_rate_under_a_limit_is_found() {
    // Two slots of 20 ms each: 100 per second and no more.
    let server = Server::start(|_| Act::answer(200, Duration::from_millis(20)));
    let arguments =
        ["http", &server.url("/"), "-c", "2", "--find-max", "--p99", "2s", "-d", "500ms"];
    let output = execute(&arguments);
    let (printed, on_the_way) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{printed}{on_the_way}");
    assert!(on_the_way.contains("closed loop") && on_the_way.contains("kept"), "{on_the_way}");
    let none = execute(&[
        "http",
        &server.url("/"),
        "-c",
        "2",
        "--find-max",
        "--p99",
        "1ms",
        "-d",
        "200ms",
    ]);
    assert_eq!(none.status.code(), Some(5));
}

#[test]
fn a_rate_at_which_requests_are_denied_is_not_the_highest() {
    let server = Server::start(|_| Act::answer(401, Duration::from_millis(5)));
    let (url, search) = (server.url("/"), ["-c", "2", "--find-max", "--p99", "2s", "-d", "200ms"]);
    let denied = execute(&[&["http", &url], &search[..]].concat());
    let (printed, on_the_way) = (text(&denied.stdout), text(&denied.stderr));
    assert_eq!(denied.status.code(), Some(5), "{printed}{on_the_way}");
    assert!(on_the_way.contains("unexpected answers: "), "{on_the_way}");
    let expected = execute(&[&["http", &url, "--expect", "401"], &search[..]].concat());
    assert_eq!(expected.status.code(), Some(0), "{}", text(&expected.stderr));
}

#[test]
fn help_has_a_place_for_those_who_come_from_elsewhere() {
    let help = text(&execute(&["--help"]).stdout);
    assert!(
        help.contains("fortio") && help.contains("loadgen") && help.contains("Exit codes"),
        "{help}"
    );
}

#[test]
fn the_workload_file_that_help_shows_can_be_used() {
    let help = text(&execute(&["http", "--help"]).stdout);
    let (_, shown) = help.split_once("A workload file (TOML):\n").unwrap();
    let (shown, _) = shown.split_once("\nA variable has ").unwrap();
    let folder = std::env::temp_dir().join(format!("rolegate-load-help-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("workload.toml");
    std::fs::write(&file, shown).unwrap();
    std::fs::write(folder.join("names.txt"), "ada\ngrace\n").unwrap();
    let workload = Workload::read(&file);
    std::fs::remove_dir_all(&folder).unwrap();
    let workload = workload.unwrap();
    assert_eq!(workload.variables.len(), 6);
    assert_eq!(workload.requests.len(), 2);
}
