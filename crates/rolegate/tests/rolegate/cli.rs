//! The commands that read a policy, print something and exit.

use std::fs;
use std::process::Command;

use testbed::manifests::deploy;

use crate::process::{PolicyFolder, ended, example, rolegate, run, run_with};

const BROKEN: &str = "\
version: 1
roles:
  guest:
    allow: [\"GET people\"]
    extends: [gest]
grants:
  gues: { users: [alice] }
";

#[test]
fn a_valid_policy_passes_the_check() {
    for name in ["people", "jwt", "owner", "api", "grpc"] {
        let (code, out, _) = run(&["check", &example(name)]);
        assert_eq!(code, 0, "{name}: {out}");
        assert!(out.contains(": ok, "), "{out}");
    }
}

#[test]
fn every_problem_of_a_broken_policy_is_printed_with_its_place() {
    let folder = PolicyFolder::new(BROKEN);
    let (code, out, _) = run(&["check", &folder.arg()]);
    assert_eq!(code, 3);
    for place in ["policy.yaml:4:", "policy.yaml:5:15:", "policy.yaml:7:3:"] {
        assert!(out.contains(place), "{place}\n{out}");
    }
    assert!(out.contains("did you mean `guest`?"), "{out}");
    assert!(out.lines().last().unwrap().contains(": 3 errors"), "{out}");
}

/// The warning about the method is accepted, so the other one is left.
#[test]
fn a_strict_check_fails_on_a_warning_that_nobody_accepted() {
    let policy = |path: &str| {
        format!(
            "version: 1\nroles:\n  anyone:\n    allow:\n      \
             # accept: unusual-method because our own clients send it\n      - REFRESH /a\n      - GET {path}\n"
        )
    };
    let (fine, doubtful) = (PolicyFolder::new(&policy("/b")), PolicyFolder::new(&policy("/b/*")));
    let (code, out, _) = run(&["check", "--strict", &fine.arg()]);
    assert_eq!((code, out.contains("warning")), (0, false), "{out}");
    let (code, out, _) = run(&["check", &doubtful.arg()]);
    assert_eq!((code, out.contains("warning[single-segment]")), (0, true), "{out}");
    assert!(out.contains("write above its line: `# accept: NAME because REASON`"), "{out}");
    let (code, out, _) = run(&["check", "--strict", &doubtful.arg()]);
    assert_eq!(code, 3, "{out}");
    let summary = out.lines().last().unwrap();
    assert!(
        summary.contains(": 1 role, 2 rules, 1 warning, not accepted (--strict), policy "),
        "{out}"
    );
    let (code, out, _) = run(&["check", "--strict", "--output", "json", &doubtful.arg()]);
    assert!(code == 3 && out.contains("\"ok\": false"), "{out}");
}

#[test]
fn an_unreadable_hash_and_an_unknown_role_are_reported_at_once() {
    let folder = PolicyFolder::new(
        "version: 1
identity:
  basic:
    realm: r
    users:
      alice: { password: \"$2b$99$x\" }
grants:
  guest: { users: [alice] }
",
    );
    let (code, out, _) = run(&["check", &folder.arg()]);
    assert_eq!(code, 3);
    for place in ["policy.yaml:6:26: error", "policy.yaml:8:3: error: unknown role `guest`"] {
        assert!(out.contains(place), "{place}\n{out}");
    }
}

#[test]
fn problems_are_printed_as_json_too() {
    let folder = PolicyFolder::new(BROKEN);
    let (code, out, _) = run(&["check", "--output", "json", &folder.arg()]);
    assert_eq!(code, 3);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["ok"], false);
    let problems = report["problems"].as_array().unwrap();
    let errors: Vec<_> = problems.iter().filter(|problem| problem["severity"] == "error").collect();
    assert_eq!(errors.iter().map(|error| &error["line"]).collect::<Vec<_>>(), [4, 5, 7], "{out}");
    assert_eq!(errors[1]["help"], "did you mean `guest`?");
}

/// As the last argument, by `--policy`, in the environment, and by default `./policy.yaml`.
#[test]
fn every_command_takes_the_policy_in_the_same_ways() {
    let people = example("people");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (log, bundle) = (path("decisions.log"), path("bundle.tar.gz"));
    let line = "{\"decision\":\"allowed\",\"rule\":\"guest: GET /people\",\"user\":\"alice\",\"roles\":[\"guest\"],\
                \"method\":\"GET\",\"host\":\"h\",\"path\":\"/people\"}\n";
    fs::write(&log, line).unwrap();
    let commands: [&[&str]; 11] = [
        &["check"],
        &["test"],
        &["explain", "GET", "/people"],
        &["explain", "--decision", &log],
        &["who-can", "GET", "/people"],
        &["what-can"],
        &["diff", &people],
        &["replay", &log],
        &["bundle", "build", "--force", "--out", &bundle, "--revision", "1"],
        &["suggest", &log],
        &["access-review", &log],
    ];
    for command in commands {
        let with = |more: &[&str]| rolegate(&[command, more].concat());
        let printed = |mut command: Command| {
            let (code, out, err) = ended(&command.output().unwrap());
            (code, format!("{out}{err}").replace(&format!("{people}/"), "").replace("./", ""))
        };
        let by_flag = printed(with(&["--policy", &people]));
        assert!(by_flag.0 <= 1, "{command:?}: {}", by_flag.1);
        // The last arguments of `access-review` are logs.
        let takes_argument = command[0] != "access-review";
        if takes_argument {
            let mut by_argument = with(&[&people]);
            by_argument.env("ROLEGATE_POLICY", "/nowhere");
            assert_eq!(printed(by_argument), by_flag, "{command:?}");
        }
        // `suggest` needs none.
        if command[0] != "suggest" {
            let mut by_default = with(&[]);
            by_default.current_dir(&people);
            assert_eq!(printed(by_default), by_flag, "{command:?}");
        }
        // `test` takes cases and a policy.
        if command[0] != "test" && takes_argument {
            let (code, text) = printed(with(&["--policy", &people, &people]));
            assert!(code == 2 && text.contains("given twice"), "{command:?}: {text}");
        }
    }
    let (code, _, err) = run(&["explain", ".", "GET", "/people"]);
    assert!(code == 2 && err.contains("the policy comes last"), "{err}");
}

#[test]
fn a_missing_policy_is_a_policy_error() {
    let (code, out, _) = run(&["check", "/nowhere/policy.yaml"]);
    assert_eq!(code, 3);
    assert!(out.contains("/nowhere/policy.yaml") && out.contains("no such file"), "{out}");
}

#[test]
fn invalid_arguments_have_their_own_exit_code() {
    for args in [
        &["chek", "x"][..],
        &["explain", "--policy", "p", "--basic", "a:b", "--user", "c", "GET", "/"],
        &["explain", "--policy", "p", "--role", "r", "GET", "/"],
        &["check", "--output", "xml", "p"],
    ] {
        let (code, _, err) = run(args);
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains("error:"), "{err}");
    }
}

#[test]
fn help_has_examples() {
    for command in [
        "serve",
        "check",
        "test",
        "explain",
        "who-can",
        "what-can",
        "diff",
        "replay",
        "suggest",
        "access-review",
        "import",
        "lint-envoy",
        "schema",
        "hash-password",
        "passwd",
        "completions",
    ] {
        let (code, out, _) = run(&[command, "--help"]);
        assert_eq!(code, 0, "{command}");
        assert!(
            out.contains("Examples:\n  rolegate") || out.contains("Examples:\n  ROLEGATE"),
            "{command}: {out}"
        );
    }
    assert_eq!(run(&["--version"]).0, 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the shipped configuration is what is tested")]
fn a_configuration_of_envoy_is_linted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("envoy.yaml");
    let name = file.display().to_string();
    let shipped = fs::read_to_string(deploy("envoy/minimal.yaml")).unwrap();
    fs::write(&file, &shipped).unwrap();
    let (code, out, err) = run(&["lint-envoy", &name]);
    assert_eq!((code, &*err), (0, ""));
    assert_eq!(out, format!("{name}: ok\n"));
    let note = shipped.replace("use_remote_address: true", "use_remote_address: false");
    fs::write(&file, note).unwrap();
    let (code, out, _) = run(&["lint-envoy", &name]);
    assert!(code == 0 && out.ends_with(&format!("{name}: ok, 1 note\n")), "{out}");
    assert_eq!(run(&["lint-envoy", "--strict", &name]).0, 1);
    let accepted = ["lint-envoy", "--strict", "--accept", "client-address", &name];
    assert_eq!(run(&accepted), (0, format!("{name}: ok\n"), String::new()));
    fs::write(&file, shipped.replace("failure_mode_allow: false", "failure_mode_allow: true"))
        .unwrap();
    let (code, out, _) = run(&["lint-envoy", "--output", "json", &name]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let finding = &report["findings"][0];
    assert_eq!((code, &report["ok"], &finding["name"]), (1, &false.into(), &"fails-open".into()));
    assert_eq!(
        (&finding["severity"], &finding["fix"]),
        (&"unsafe".into(), &"failure_mode_allow: false".into())
    );
    let (code, _, err) = run(&["lint-envoy", "--accept", "fail-open", &name]);
    assert_eq!(code, 2);
    assert!(err.contains("did you mean `fails-open`?"), "{err}");
    let (code, _, err) = run(&["lint-envoy", &example("people")]);
    assert_eq!(code, 3);
    assert!(err.contains("cannot read"), "{err}");
    fs::write(&file, "a: 1\n").unwrap();
    let (code, _, err) = run(&["lint-envoy", &name]);
    assert_eq!(code, 3);
    assert!(err.contains("there is neither a filter `ext_authz`"), "{err}");
}

/// An application may answer 200 to any path.
#[test]
fn health_of_a_server_that_is_not_rolegate_is_no_health() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::Read::read(&mut stream, &mut [0; 1024]);
        let _ = std::io::Write::write_all(
            &mut stream,
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
        );
    });
    let (code, out, err) = run(&["health", "--admin", &address]);
    server.join().unwrap();
    assert_eq!((code, &*out), (5, ""), "{err}");
    assert!(err.contains("is not rolegate's: is this the address of its `--admin`?"), "{err}");
}

#[test]
fn who_can_lists_users() {
    let people = example("people");
    let (code, out, _) = run(&["who-can", "--policy", &people, "POST", "/people"]);
    assert_eq!(code, 0);
    assert!(out.contains("bob") && !out.contains("alice"), "{out}");
    let (code, out, _) =
        run(&["who-can", "--policy", &people, "--output", "json", "POST", "/people"]);
    assert_eq!(code, 0);
    let who: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        who["callers"][0],
        serde_json::json!({
            "source": "basic", "users": ["bob"], "except_users": [], "needs": [], "unless": []
        })
    );
    assert_eq!(who["rules"][0]["role"], "admin");
}

#[test]
fn who_can_without_a_host_names_the_hosts_that_it_leaves_out() {
    let folder = PolicyFolder::new(
        "version: 1\nroles:\n  anyone: { allow: [GET a.example.com/report, GET b.example.com/report] }\n",
    );
    let who_can = |more: &[&str]| {
        let (_, out, _) = run(&[&["who-can", "--policy", &folder.arg()][..], more].concat());
        out
    };
    let note = "no host given, so the answer is for `localhost`; rules for the hosts \
                `a.example.com` and `b.example.com` match this path: give a URL";
    let out = who_can(&["GET", "/report"]);
    assert!(out.contains("\nrequest: GET localhost/report\n"), "{out}");
    assert!(out.contains(&format!("\nnote:    {note}\n")), "{out}");
    let out = who_can(&["--output", "json", "GET", "/report"]);
    let who: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&who["host"], &who["notes"]), (&"localhost".into(), &serde_json::json!([note])));
    for request in [
        &["GET", "https://c.example.com/report"][..],
        &["--host", "localhost", "GET", "/report"],
        &["GET", "/other"],
    ] {
        let out = who_can(request);
        assert!(out.starts_with("nobody: ") && !out.contains("no host given"), "{out}");
    }
}

#[test]
fn who_can_ends_with_1_where_nobody_may() {
    let folder = PolicyFolder::new(
        "version: 1\nroles:\n  anyone: { allow: [GET /a, GET /closed], deny: [GET /closed] }\n",
    );
    let who_can = |path| run(&["who-can", "--policy", &folder.arg(), "GET", path]);
    assert_eq!(who_can("/a").0, 0);
    for (path, why) in [
        ("/closed", "nobody: no caller can have a role that allows it without one that denies it"),
        ("/b", "nobody: no rule allows it"),
        ("b", "nobody: the request is invalid: the path does not start with `/` (invalid_path)"),
    ] {
        let (code, out, err) = who_can(path);
        assert_eq!((code, out.lines().next(), err.as_str()), (1, Some(why), ""), "{path}");
    }
    assert_eq!(run(&["who-can", "--policy", "/does/not/exist", "GET", "/a"]).0, 3);
    assert_eq!(run(&["who-can", "--policy", &folder.arg(), "GET"]).0, 2);
}

#[test]
fn a_hash_works_in_a_policy() {
    for (algorithm, start) in
        [("argon2id", "$argon2id$"), ("bcrypt", "$2b$"), ("pbkdf2-sha256", "$pbkdf2-sha256$")]
    {
        let (code, out, err) =
            run_with(&["hash-password", "--algorithm", algorithm], "correct horse\n");
        assert_eq!((code, err.as_str()), (0, ""), "{algorithm}");
        let hash = out.trim_end();
        assert!(hash.starts_with(start), "{hash}");
        let folder = PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  basic:\n    realm: r\n    users:\n      u: {{ password: \"{hash}\" }}\n\
             roles:\n  authenticated:\n    allow: [\"GET /\"]\n"
        ));
        let explain =
            ["explain", "--policy", &folder.arg(), "--basic", "u:correct horse", "GET", "/"];
        assert_eq!(run(&explain).0, 0, "{algorithm}");
    }
}

#[test]
fn an_invalid_password_is_rejected_and_not_shown() {
    assert_eq!(run_with(&["hash-password"], "\n").0, 2);
    let long = "x".repeat(73);
    let (code, out, err) = run_with(&["hash-password", "--algorithm", "bcrypt"], &long);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("72") && !err.contains("xx"), "{err}");
}

/// Nobody sees what is typed, and the hash of a mistyped password looks like any other.
#[test]
fn a_terminal_is_asked_for_the_password_twice() {
    let (code, out, err) = hash_on_terminal(&["correct horse", "correct horse"]);
    assert_eq!((code, err.as_str()), (0, "password: \npassword again: \n"));
    let folder = PolicyFolder::new(&format!(
        "version: 1\nidentity: {{ basic: {{ users: {{ u: {{ password: \"{}\" }} }} }} }}\n\
         roles: {{ authenticated: {{ allow: [GET /] }} }}\n",
        out.trim_end()
    ));
    let explain = ["explain", "--policy", &folder.arg(), "--basic", "u:correct horse", "GET", "/"];
    assert_eq!(run(&explain).0, 0);

    let (code, out, err) = hash_on_terminal(&["correct horse", "correct hrose"]);
    assert_eq!((code, out.as_str()), (5, ""));
    assert!(err.ends_with("cannot read the password: the two passwords differ\n"), "{err}");
    assert!(!err.contains("correct"), "{err}");
    let (code, _, err) = hash_on_terminal(&[""]);
    assert!(code == 2 && !err.contains("again"), "{err}");
}

/// `hash-password` with a terminal as standard input, once it has printed its prompt.
struct OnTerminal {
    child: std::process::Child,
    keyboard: std::fs::File,
    display: std::process::ChildStderr,
    shown: Vec<u8>,
}

impl OnTerminal {
    fn start() -> Self {
        use rustix::fs::{Mode, OFlags};
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        use std::process::Stdio;
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal =
            rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        let mut command = rolegate(&["hash-password"]);
        command.stdin(Stdio::from(terminal)).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let display = child.stderr.take().unwrap();
        let mut started = Self { child, keyboard: keyboard.into(), display, shown: Vec::new() };
        started.wait_for_prompt();
        started
    }

    fn wait_for_prompt(&mut self) {
        use std::io::Read as _;
        while !self.shown.ends_with(b": ") {
            let mut byte = [0];
            self.display.read_exact(&mut byte).unwrap();
            self.shown.extend(byte);
        }
    }
}

/// The result of `hash-password` on a terminal on which each of these lines is typed after a
/// prompt.
fn hash_on_terminal(lines: &[&str]) -> (i32, String, String) {
    use std::io::{Read as _, Write as _};
    let mut started = OnTerminal::start();
    for line in lines {
        // A line that is typed before the prompt is dropped.
        started.wait_for_prompt();
        started.keyboard.write_all(format!("{line}\n").as_bytes()).unwrap();
        started.shown.extend(b"\0");
    }
    started.display.read_to_end(&mut started.shown).unwrap();
    started.shown.retain(|byte| *byte != 0);
    let output = started.child.wait_with_output().unwrap();
    let (code, out, _) = crate::process::ended(&output);
    (code, out, String::from_utf8(started.shown).unwrap())
}

#[test]
fn an_interrupted_prompt_leaves_the_terminal_as_it_was() {
    use rustix::process::{Pid, Signal, kill_process};
    use rustix::termios::{LocalModes, tcgetattr};
    let mut started = OnTerminal::start();
    let shows = |keyboard: &std::fs::File| {
        tcgetattr(keyboard).unwrap().local_modes.contains(LocalModes::ECHO)
    };
    assert!(!shows(&started.keyboard));
    kill_process(Pid::from_child(&started.child), Signal::INT).unwrap();
    assert_eq!(started.child.wait().unwrap().code(), Some(130));
    assert!(shows(&started.keyboard));
}

#[test]
fn a_password_in_the_arguments_causes_a_warning() {
    let (code, out, err) = run(&["hash-password", "--output", "json", "wonderland"]);
    assert_eq!(code, 0);
    assert!(err.contains("warning") && !err.contains("wonderland"), "{err}");
    let hash: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(hash["hash"].as_str().unwrap().starts_with("$argon2id$"));
}

#[test]
fn every_shell_has_completions() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert_eq!(code, 0);
        assert!(out.contains("who-can"), "{shell}");
    }
}

#[test]
fn a_closed_pipe_is_no_error() {
    use std::process::Stdio;
    let mut child = rolegate(&["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

/// It is not truncated either: the hash would be of another password.
#[test]
fn an_endless_line_is_not_a_password() {
    let (code, out, err) = run_with(&["hash-password"], &"x".repeat(64 << 10));
    assert!(code != 0 && out.is_empty() && err.contains("64 KiB"), "{code} {out} {err}");
}
