//! `rolegate decide`: decisions about lines of JSON.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use policy::cases::{self, Case, Credentials};
use serde_json::{Value, json};

use crate::process::{PolicyFolder, ended, example, rolegate, run_with};

const POLICY: &str = r#"version: 1
identity:
  basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", groups: [staff] } } }
  jwt:
    - issuer: https://id.example.com
      audiences: [x]
      keys: { url: "https://127.0.0.1:1/jwks" }
      claims: { user: sub, groups: groups }
      user_prefix: "id:"
roles:
  anyone: { allow: [GET /open] }
  reader: { allow: ["GET /reports/{id}"], deny: ["* /reports/locked"] }
  late: { allow: [{ rule: GET /late, when: 'request.time > timestamp("2026-01-01T00:00:00Z") && request.headers["x-team"] == "red"' }] }
grants:
  reader: { groups: [staff] }
  late: { groups: [staff] }
allow_response: { set_headers: { x-user: "{user}" }, remove_headers: [x-debug] }
"#;

fn decide(policy: &str, lines: &str) -> (i32, Vec<Value>, String) {
    let (code, out, err) = run_with(&["decide", "--policy", policy], lines);
    assert!(out.is_empty() || out.ends_with('\n'), "{out}");
    (code, out.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), err)
}

/// The only answer to a line, which is not valid.
fn error(policy: &str, line: &str) -> String {
    let (code, mut answers, err) = decide(policy, line);
    assert_eq!((code, answers.len()), (2, 1), "{line}: {answers:?} {err}");
    assert!(err.contains("1 line not valid, so not decided: line 1"), "{err}");
    let answer = answers.remove(0);
    assert_eq!((&answer["allowed"], &answer["line"]), (&json!(false), &json!(1)), "{line}");
    assert_eq!(answer.get("status"), None);
    answer["error"].as_str().unwrap().to_owned()
}

/// The request of a case as a line.
fn line(case: &Case) -> String {
    let request = &case.request;
    let mut line = json!({
        "method": request.method, "path": request.path, "host": request.host, "body": request.body,
    });
    let mut headers = json!({});
    for (name, value) in &request.headers {
        match headers.get_mut(name) {
            None => headers[name] = json!([value]),
            Some(lines) => lines.as_array_mut().unwrap().push(json!(value)),
        }
    }
    line["headers"] = headers;
    if !request.client.is_empty() {
        line["client"] = json!(request.client);
    }
    if let Some(names) = &request.certificate {
        line["certificate"] = json!(names);
    }
    if let Some(time) = request.at {
        let seconds = i64::try_from(time.as_secs()).unwrap();
        line["time"] = json!(jiff::Timestamp::from_second(seconds).unwrap().to_string());
    }
    match &request.credentials {
        Credentials::None => {}
        Credentials::Basic(pair) => line["basic"] = json!(pair),
        Credentials::Bearer(token) => line["bearer"] = json!(token),
        Credentials::ApiKey(key) => line["api_key"] = json!(key),
        Credentials::Claims(claims) => line["claims"] = serde_json::from_str(claims).unwrap(),
        Credentials::User { name, groups } => {
            line["user"] = json!(name);
            line["groups"] = groups.iter().map(ToString::to_string).collect();
        }
    }
    format!("{line}\n")
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the cases are files")]
fn the_cases_of_the_examples_hold() {
    for entry in std::fs::read_dir(example("")).unwrap().flatten() {
        let file = entry.path().join("cases.yaml");
        let Ok(text) = std::fs::read(&file) else { continue };
        let cases = cases::parse(&file, &text).unwrap();
        // Callers that are kept from the first round decide the second.
        let lines: String = cases.iter().chain(cases.iter()).map(line).collect();
        let folder = entry.path().display().to_string();
        let (code, answers, err) = decide(&folder, &lines);
        assert_eq!((code, answers.len()), (0, 2 * cases.len()), "{folder}: {err}");
        for (case, answer) in cases.iter().chain(cases.iter()).zip(&answers) {
            let expect = &case.expect;
            let at = format!("{}: {}: {answer}", case.at, case.name);
            assert_eq!(answer["status"], expect.status, "{at}");
            assert_eq!(answer["allowed"], expect.status == 200, "{at}");
            for (key, expected) in [("rule", &expect.rule), ("reason", &expect.reason)] {
                if let Some(expected) = expected {
                    assert_eq!(answer[key].as_str().unwrap_or_default(), expected, "{at}");
                }
            }
            for (name, value) in expect.headers.iter().filter(|_| expect.status == 200) {
                let removed = answer["remove_headers"].as_array();
                let is_removed = removed.is_some_and(|names| names.contains(&json!(name)));
                let sent = case.request.headers.iter().filter(|(sent, _)| sent == name);
                let sent = sent.map(|(_, value)| value.as_str()).filter(|_| !is_removed);
                let sent = sent.collect::<Vec<_>>().join(", ");
                assert_eq!(answer["headers"][name].as_str().unwrap_or(&sent), value, "{at}");
            }
        }
    }
}

#[test]
fn each_line_has_an_answer_in_its_place() {
    let folder = PolicyFolder::new(POLICY);
    let lines = [
        r#"{"path":"/open"}"#,
        r#"{"path":"/reports/1","user":"ann","headers":{"X-User":"root"}}"#,
        "",
        r#"{"path":"/reports/locked","user":"ann"}"#,
        r#"{"path":"/reports/1","user":"id:bob","issuer":"https://id.example.com","groups":["staff"]}"#,
        r#"{"path":"/reports/1","user":"id:bob"}"#,
        r#"{"path":"/reports/1","claims":{"iss":"https://id.example.com","sub":"eve","groups":["staff"]}}"#,
        r#"{"path":"/reports/1","basic":"ann:password"}"#,
        r#"{"path":"/reports/1","basic":"ann:wrong"}"#,
        r#"{"path":"/late","user":"ann","time":"2026-06-01T00:00:00Z","headers":{"x-team":["red"]}}"#,
        r#"{"path":"/late","user":"ann","time":"2025-06-01T00:00:00Z","headers":{"x-team":["red"]}}"#,
        r#"{"path":"/late","user":"ann","time":"2026-06-01T00:00:00Z"}"#,
        r#"{"method":"PUT","path":"/reports/a%2Fb"}"#,
    ];
    let (code, answers, err) = decide(&folder.arg(), &lines.join("\n"));
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("1 line not valid, so not decided: line 3"), "{err}");
    let reader = "reader: GET /reports/{id}";
    let expected = json!([
        { "allowed": true, "status": 200, "rule": "anyone: GET /open", "remove_headers": ["x-user", "x-debug"] },
        { "allowed": true, "status": 200, "rule": reader, "user": "ann", "headers": { "x-user": "ann" }, "remove_headers": ["x-debug"] },
        { "allowed": false, "line": 3, "error": "the line is empty" },
        { "allowed": false, "status": 403, "reason": "denied", "rule": "reader: * /reports/locked", "user": "ann" },
        { "allowed": true, "status": 200, "rule": reader, "user": "id:bob", "headers": { "x-user": "id:bob" }, "remove_headers": ["x-debug"] },
        { "allowed": false, "status": 403, "reason": "not_allowed", "user": "id:bob" },
        { "allowed": true, "status": 200, "rule": reader, "user": "id:eve", "headers": { "x-user": "id:eve" }, "remove_headers": ["x-debug"] },
        { "allowed": true, "status": 200, "rule": reader, "user": "ann", "headers": { "x-user": "ann" }, "remove_headers": ["x-debug"] },
        { "allowed": false, "status": 401, "reason": "bad_password" },
        { "allowed": true, "status": 200, "rule": "late: GET /late", "user": "ann", "headers": { "x-user": "ann" }, "remove_headers": ["x-debug"] },
        { "allowed": false, "status": 403, "reason": "condition_failed", "rule": "late: GET /late", "user": "ann" },
        { "allowed": false, "status": 403, "reason": "condition_failed", "rule": "late: GET /late", "user": "ann" },
        { "allowed": false, "status": 400, "reason": "invalid_path" },
    ]);
    assert_eq!(Value::from(answers), expected);
}

/// A line that cannot be read as what somebody meant must not be decided as something else.
#[test]
fn a_line_that_is_not_valid_is_never_allowed() {
    let folder = PolicyFolder::new(POLICY);
    let policy = &folder.arg();
    for (line, problem) in [
        ("null", "not a JSON object"),
        (r#"["GET","/open"]"#, "not a JSON object"),
        ("/open", "not a JSON object"),
        ("{}", "missing field `path`"),
        (r#"{"path":"/open"} {}"#, "trailing characters at column"),
        (r#"{"path":"/open""#, "EOF"),
        (r#"{"path":"/open","path":"/other"}"#, "duplicate field `path`"),
        (
            r#"{"path":"/open","grups":["staff"]}"#,
            "unknown field `grups`, expected one of `method`, ",
        ),
        (r#"{"path":"/open","user":null}"#, "expected a string at column"),
        (r#"{"path":"/open","groups":["staff"]}"#, "only a request with `user` has `groups`"),
        (r#"{"path":"/open","user":"ann","basic":"ann:secret"}"#, "either `basic` or `user`"),
        (r#"{"path":"/open","user":"ann","groups":"hunter2"}"#, "`groups`: expected a sequence"),
        (r#"{"path":"/open","user":"ann","groups":null}"#, "`groups`: expected a sequence"),
        (r#"{"path":"/open","user":"ann","roles":["reader"]}"#, "leave out the role `reader`"),
        (r#"{"path":"/open","user":"id:bob","issuer":"https://other"}"#, "issuer"),
        (r#"{"path":"/open","client":"hunter2"}"#, "invalid IP address syntax at column"),
        (r#"{"path":"/open","time":"hunter2"}"#, "`time` is not a time"),
        (r#"{"path":"/open","headers":{"a":1}}"#, "expected the value of a header"),
        (r#"{"path":"/open","headers":["hunter2"]}"#, "expected headers: an object at column"),
        (r#"{"path":"/open","basic":["hunter2"]}"#, "expected a string at column"),
        (r#"{"path":"/open","api_key":"hunter2"}"#, "the policy has no `identity.api_keys`"),
        ("{\"path\":\"/open\",\"user\":\"\u{1}\"}", "control character"),
    ] {
        let error = error(policy, line);
        assert!(error.contains(problem), "{line}: {error}");
        assert!(!error.contains("hunter2"), "{error}");
    }
    let mut child = start(policy);
    let lines = b"{\"path\":\"/open\",\"user\":\"\xff\"}\n{\"path\":\"/open\"}\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    let (code, out, _) = ended(&child.wait_with_output().unwrap());
    assert!(code == 2 && out.starts_with("{\"allowed\":false,\"line\":1,\"error\":"), "{out}");
    assert!(out.lines().nth(1).unwrap().starts_with("{\"allowed\":true"), "{out}");
}

fn start(policy: &str) -> Child {
    rolegate(&["decide", "--policy", policy])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn no_line_is_no_answer() {
    let folder = PolicyFolder::new(POLICY);
    assert_eq!(decide(&folder.arg(), ""), (0, vec![], String::new()));
    let (code, out, err) = run_with(&["decide", "--policy", "nowhere"], "{\"path\":\"/\"}\n");
    assert!(code == 3 && out.is_empty() && err.contains("nowhere"), "{err}");
}

/// A program may keep it running, and ask one line at a time.
#[test]
fn an_answer_does_not_wait_for_the_next_line() {
    let folder = PolicyFolder::new(POLICY);
    let mut child = start(&folder.arg());
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    for lines in ["{\"path\":\"/open\"}\n", "{\"path\":\"/open\"}\n{\"pa"] {
        stdin.write_all(lines.as_bytes()).unwrap();
        assert!(answers.next().unwrap().unwrap().starts_with("{\"allowed\":true"), "{lines}");
    }
    drop(stdin);
    assert!(answers.next().unwrap().unwrap().starts_with("{\"allowed\":false,\"line\":3"));
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it reads what the system reports about the process")]
fn an_endless_line_takes_no_memory() {
    let folder = PolicyFolder::new(POLICY);
    let mut child = start(&folder.arg());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"{\"path\":\"/open\",\"body\":\"").unwrap();
    for _ in 0..64 {
        stdin.write_all(&[b'x'; 1 << 20]).unwrap();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 40 << 10, "{peak} KiB");
    stdin.write_all(b"\"}\n{\"path\":\"/open\"}\n").unwrap();
    drop(stdin);
    let (code, out, _) = ended(&child.wait_with_output().unwrap());
    assert_eq!(code, 2);
    let long = "{\"allowed\":false,\"line\":1,\"error\":\"the line is longer than 1 MiB\"}\n";
    assert!(out.strip_prefix(long).unwrap().starts_with("{\"allowed\":true"), "{out}");
}

/// `| head` ends it without an error; an answer that cannot be written is one.
#[test]
fn answers_that_nobody_reads() {
    let folder = PolicyFolder::new(POLICY);
    let mut child = start(&folder.arg());
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    // It may end before all are written.
    while stdin.write_all(b"{\"path\":\"/open\"}\n").is_ok() {}
    let (code, _, err) = ended(&child.wait_with_output().unwrap());
    assert_eq!((code, err.as_str()), (0, ""));
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = rolegate(&["decide", "--policy", &folder.arg()]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(b"{\"path\":\"/open\"}\n");
    let (code, _, err) = ended(&child.wait_with_output().unwrap());
    assert!(code == 5 && err.contains("cannot print: "), "{err}");
}

/// The keys of this policy cannot be fetched: its other requests are decided without asking for
/// them.
#[test]
fn keys_are_fetched_for_a_token_only() {
    let folder = PolicyFolder::new(POLICY);
    let (code, _, err) = decide(&folder.arg(), "{\"path\":\"/reports/1\",\"user\":\"ann\"}\n");
    assert_eq!((code, err.as_str()), (0, ""));
    let token = "{\"path\":\"/open\",\"bearer\":\"a.b.c\"}\n";
    let lines = format!("{{\"path\":\"/open\"}}\n{token}{token}");
    let (code, answers, err) = decide(&folder.arg(), &lines);
    assert_eq!((code, err.matches("not fetched").count()), (0, 1), "{err}");
    let statuses: Vec<&Value> = answers.iter().map(|answer| &answer["status"]).collect();
    assert_eq!(statuses, [200, 401, 401]);
}
