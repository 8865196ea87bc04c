//! The AuthZEN listener of the running program.

mod certification;

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::process::{LONG, PolicyFolder, Server, run, wait_until};
use crate::tls::{Certificates, dns};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const NEXT: &str = "fedcba9876543210fedcba9876543210";
const POLICY: &str = r#"
version: 1
identity: { basic: { users: { ann: { password: "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=" } } } }
roles: { reader: { allow: ["GET /records/{id}"] } }
grants: { reader: { users: [ann] } }
authzen:
  subjects: { user: {} }
  actions: { view: GET }
  resources: { record: { path: "/records/{id}" } }
"#;
const EVALUATION: &str = "/access/v1/evaluation";
const EVALUATIONS: &str = "/access/v1/evaluations";
const METADATA: &str = "/.well-known/authzen-configuration";

/// A folder with the policy and a file of tokens.
struct Fixture {
    folder: PolicyFolder,
    tokens: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = PolicyFolder::new(POLICY);
        folder.write("tokens", TOKEN);
        let tokens = folder.path().join("tokens").display().to_string();
        Self { folder, tokens }
    }

    fn policy(&self) -> String {
        self.folder.path().join("policy.yaml").display().to_string()
    }

    fn serve(&self, more: &[&str]) -> Server {
        let authzen = ["--authzen", "127.0.0.1:0", "--authzen-tokens", &self.tokens];
        let server = Server::start(&self.policy(), &[&authzen, more].concat());
        server.wait_for_log("\"AuthZEN\"");
        server
    }
}

fn question() -> Value {
    json!({
        "subject": { "type": "user", "id": "ann" },
        "action": { "name": "view" },
        "resource": { "type": "record", "id": "101" },
    })
}

fn address(server: &Server) -> SocketAddr {
    server.logged_address("AuthZEN")
}

/// A request: its first line, and its header lines besides `host` and `content-length`.
fn request(first: &str, lines: &[&str], body: &str) -> String {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    format!(
        "{first} HTTP/1.1\r\nhost: pdp.example:8\r\ncontent-length: {length}\r\n{lines}\r\n{body}"
    )
}

fn authorization(token: &str) -> String {
    format!("authorization: Bearer {token}")
}

/// The status, the head in lower case, and the body.
fn parsed(answer: &str) -> (u16, String, String) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
}

/// Sends this on a connection of its own, and reads the answer to its end.
fn send(at: SocketAddr, text: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(text.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    parsed(&answer)
}

/// Asks with a token.
fn post(at: SocketAddr, path: &str, body: &str) -> (u16, String, String) {
    let lines = [&*authorization(TOKEN), "content-type: application/json"];
    send(at, &request(&format!("POST {path}"), &lines, body))
}

fn decision(at: SocketAddr, body: &Value) -> bool {
    let (status, head, body) = post(at, EVALUATION, &body.to_string());
    assert_eq!(status, 200, "{body}");
    assert!(head.contains("content-type: application/json\r\n"), "{head}");
    serde_json::from_str::<Value>(&body).unwrap()["decision"].as_bool().unwrap()
}

#[test]
fn questions_are_answered_counted_and_logged() {
    let fixture = Fixture::new();
    let log = fixture.folder.path().join("decisions.log").display().to_string();
    let server = fixture.serve(&["--decision-log", "all", "--decision-log-file", &log]);
    let at = address(&server);
    let mut other = question();
    other["subject"]["id"] = json!("bob");
    assert!(decision(at, &question()));
    assert!(!decision(at, &other));
    let body = json!({
        "subject": { "type": "user", "id": "ann" },
        "action": { "name": "view" },
        "evaluations": [
            { "resource": { "type": "record", "id": "1" } },
            { "resource": { "type": "record", "id": "../x" } },
        ],
    });
    let (status, _, answer) = post(at, EVALUATIONS, &body.to_string());
    assert_eq!(
        (status, &*answer),
        (200, r#"{"evaluations":[{"decision":true},{"decision":false}]}"#)
    );
    let allowed = "rolegate_checks_total{decision=\"allowed\",reason=\"\"}";
    server.wait_for_metric(allowed, 2.0);
    let refused = "rolegate_checks_total{decision=\"denied\",reason=\"invalid_path\"}";
    server.wait_for_metric(refused, 1.0);
    // No credentials were verified.
    let page = server.page("/metrics").1;
    assert!(
        !page.contains("rolegate_credentials_total{scheme=\"basic\",result=\"valid\"} 1"),
        "{page}"
    );
    let lines = || -> Vec<Value> {
        let text = fs::File::open(&log).and_then(std::io::read_to_string).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    wait_until(|| lines().len() == 4, || format!("{:?}", lines()));
    let first = &lines()[0];
    assert_eq!(first["via"], "authzen");
    assert_eq!(first["decision"], "allowed");
    assert_eq!((&first["user"], &first["method"]), (&json!("ann"), &json!("GET")));
    assert_eq!(first["path"], "/records/101");
    let second = &lines()[1];
    assert_eq!((&second["reason"], &second["user"]), (&json!("bad_password"), &json!(null)));
    assert_eq!(second["attempted_user"], "bob");
    assert!(!format!("{:?}", lines()).contains(TOKEN) && !server.log().contains(TOKEN));
}

#[test]
fn nobody_asks_without_a_token() {
    let fixture = Fixture::new();
    let server = fixture.serve(&[]);
    let at = address(&server);
    let body = question().to_string();
    let json = "content-type: application/json";
    let right = authorization(TOKEN);
    let wrong: [&[&str]; 9] = [
        &[json],
        &[json, "authorization: Bearer "],
        &[json, "authorization: Bearer"],
        &[json, right.strip_suffix("f").unwrap()],
        &[json, &format!("{right}0")],
        &[json, &format!("authorization: Basic {TOKEN}")],
        &[json, &format!("authorization: {TOKEN}")],
        &[json, &right, &right],
        &[json, &format!("{right}, x")],
    ];
    for lines in wrong {
        let (status, head, text) = send(at, &request("POST /access/v1/evaluation", lines, &body));
        assert_eq!(status, 401, "{lines:?}");
        assert!(head.contains("www-authenticate: bearer"), "{head}");
        assert!(!text.contains("decision"), "{text}");
    }
    for first in [
        "GET /access/v1/evaluation",
        "POST /",
        "GET /.well-known/x",
        "POST /access/v1/search/subject",
    ] {
        assert_eq!(send(at, &request(first, &[json], &body)).0, 401, "{first}");
    }
    let lower = format!("authorization: bearer  {TOKEN}");
    assert_eq!(send(at, &request("POST /access/v1/evaluation", &[json, &lower], &body)).0, 200);
    server.wait_for_log("without a token");
}

#[test]
fn what_is_no_question_gets_no_decision() {
    let fixture = Fixture::new();
    let server = fixture.serve(&[]);
    let at = address(&server);
    let token = authorization(TOKEN);
    let whole = question().to_string();
    for (body, path) in
        [("", EVALUATION), ("{", EVALUATION), ("[]", EVALUATIONS), ("{}", EVALUATIONS)]
    {
        let (status, _, text) = post(at, path, body);
        assert!(status == 400 && !text.contains("decision"), "{body}: {status} {text}");
    }
    let types = ["text/plain", "application/jsonx", "application/x-www-form-urlencoded", ""];
    for kind in types.map(|kind| format!("content-type: {kind}")) {
        let (status, ..) =
            send(at, &request("POST /access/v1/evaluation", &[&token, &kind], &whole));
        assert_eq!(status, 400, "{kind}");
    }
    let (status, ..) = send(at, &request("POST /access/v1/evaluation", &[&token], &whole));
    assert_eq!(status, 400, "without a content type");
    let kind = "content-type: Application/JSON; charset=utf-8";
    let (status, ..) = send(at, &request("POST /access/v1/evaluation", &[&token, kind], &whole));
    assert_eq!(status, 200);
    for method in ["GET", "PUT", "DELETE", "OPTIONS"] {
        let (status, head, _) =
            send(at, &request(&format!("{method} {EVALUATION}"), &[&token], ""));
        assert!(status == 405 && head.contains("allow: post"), "{method}: {status} {head}");
    }
    for path in ["/", "/access/v1/evaluation/", "/access/v1/search", "/metrics"] {
        assert_eq!(post(at, path, &whole).0, 404, "{path}");
    }
    // Its beginning is enough to refuse it.
    let large =
        request("POST /access/v1/evaluation", &[&token, "content-type: application/json"], "");
    let large = large.replace("content-length: 0", "content-length: 9999999");
    assert_eq!(send(at, &large).0, 413);
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 16, "x".repeat(1 << 16)).repeat(16);
    let chunked = request(
        "POST /access/v1/evaluation",
        &[&token, "content-type: application/json", "transfer-encoding: chunked"],
        "",
    );
    let chunked = chunked.replace("content-length: 0\r\n", "");
    assert_eq!(send(at, &format!("{chunked}{chunk}1\r\nx\r\n")).0, 413);
    // A whole body that never comes is no question either.
    let half =
        request("POST /access/v1/evaluation", &[&token, "content-type: application/json"], &whole);
    let (half, _) = half.split_at(half.len() - 10);
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(half.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    assert!(!answer.contains("decision"), "{answer}");
    assert!(decision(at, &question()));
    let allowed = "rolegate_checks_total{decision=\"allowed\",reason=\"\"}";
    server.wait_for_metric(allowed, 2.0);
}

#[test]
fn a_connection_takes_several_questions_and_ids_are_returned() {
    let fixture = Fixture::new();
    let server = fixture.serve(&[]);
    let (token, body) = (authorization(TOKEN), question().to_string());
    let ask = |id: &str| {
        let lines = [&*token, "content-type: application/json", &format!("X-Request-ID: {id}")];
        request("POST /access/v1/evaluation", &lines, &body)
    };
    let (_, head, _) = send(address(&server), &format!("{}{}", ask("one-1"), ask("two 2")));
    assert!(head.contains("x-request-id: one-1\r\n"), "{head}");
    let refused = request("POST /access/v1/evaluation", &["x-request-id: three"], &body);
    let (status, head, _) = send(address(&server), &refused);
    assert!(status == 401 && head.contains("x-request-id: three\r\n"), "{head}");
    let mut stream = TcpStream::connect(address(&server)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    for id in ["a", "b", "c"] {
        stream.write_all(ask(id).as_bytes()).unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"{\"decision\":true}") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1);
            answer.push(byte[0]);
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.contains(&format!("x-request-id: {id}\r\n")), "{answer}");
    }
}

#[test]
fn the_metadata_name_the_endpoints() {
    let fixture = Fixture::new();
    let server = fixture.serve(&[]);
    let (status, head, body) =
        send(address(&server), &request(&format!("GET {METADATA}"), &[], ""));
    assert!(status == 200 && head.contains("content-type: application/json"), "{head}");
    let base = "http://pdp.example:8";
    let expected = json!({
        "policy_decision_point": base,
        "access_evaluation_endpoint": format!("{base}/access/v1/evaluation"),
        "access_evaluations_endpoint": format!("{base}/access/v1/evaluations"),
        "search_subject_endpoint": format!("{base}/access/v1/search/subject"),
        "search_resource_endpoint": format!("{base}/access/v1/search/resource"),
        "search_action_endpoint": format!("{base}/access/v1/search/action"),
    });
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), expected);
    assert_eq!(send(address(&server), &request(&format!("POST {METADATA}"), &[], "")).0, 405);
    for host in ["", "a\"b", "a/b", "u@a", "a b"] {
        let text = request(&format!("GET {METADATA}"), &[], "").replace("pdp.example:8", host);
        assert_eq!(send(address(&server), &text).0, 400, "{host}");
    }
}

#[test]
fn tokens_and_the_policy_are_read_again() {
    let fixture = Fixture::new();
    let server = fixture.serve(&["--poll-interval", "100ms"]);
    let at = address(&server);
    let status = |token: &str| {
        let lines = [&*authorization(token), "content-type: application/json"];
        send(at, &request("POST /access/v1/evaluation", &lines, &question().to_string())).0
    };
    assert_eq!((status(TOKEN), status(NEXT)), (200, 401));
    fixture.folder.write("tokens", &format!("{TOKEN}\n{NEXT}\n"));
    wait_until(|| status(NEXT) == 200, || server.log());
    assert_eq!(status(TOKEN), 200);
    fixture.folder.write("tokens", NEXT);
    server.signal(Signal::HUP);
    wait_until(|| status(TOKEN) == 401, || server.log());
    fixture.folder.write("tokens", "x");
    server.wait_for_log("the last good tokens of AuthZEN stay in use");
    assert_eq!((status(TOKEN), status(NEXT)), (401, 200));
    // Without the section, nothing has a meaning.
    let (without, _) = POLICY.split_once("authzen:").unwrap();
    fixture.folder.write("policy.yaml", without);
    let lines = [&*authorization(NEXT), "content-type: application/json"];
    let ask = request("POST /access/v1/evaluation", &lines, &question().to_string());
    wait_until(|| send(at, &ask).2 == "{\"decision\":false}", || server.log());
}

/// The ten lines of the page, with the address of this server.
#[test]
fn the_python_of_the_page_asks() {
    let fixture = Fixture::new();
    let server = fixture.serve(&[]);
    let page = include_str!("../../../../docs/authzen.md");
    let (_, code) = page.split_once("```python\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    let code = code.replace("127.0.0.1:9193", &address(&server).to_string());
    let call = "print(may('ann', 'view', '101'), may('bob', 'view', '101'))\n";
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{code}\n{call}")]).current_dir(fixture.folder.path());
    let output = python.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "True False\n", "{errors}");
}

#[test]
fn entities_are_read_again() {
    let fixture = Fixture::new();
    let when = "{ rule: \"GET /records/{id}\", when: resource.properties.owner == user }";
    let policy = POLICY.replace("\"GET /records/{id}\"", when) + "  entities: entities.yaml\n";
    fixture.folder.write("entities.yaml", "resources: { record: { \"101\": { owner: bob } } }");
    fixture.folder.write("policy.yaml", &policy);
    let server = fixture.serve(&["--poll-interval", "100ms"]);
    let at = address(&server);
    assert!(!decision(at, &question()));
    fixture.folder.write("entities.yaml", "resources: { record: { \"101\": { owner: ann } } }");
    wait_until(|| decision(at, &question()), || server.log());
    // The last good entities stay in use.
    for broken in ["", "resources: { recrod: {} }", "resources: [1]", "resources:"] {
        fixture.folder.write("entities.yaml", broken);
        server.signal(Signal::HUP);
        wait_until(
            || server.page("/readyz").1.contains("entities.yaml"),
            || server.page("/readyz").1,
        );
        assert!(decision(at, &question()), "{broken}");
    }
}

/// A search decides nothing that somebody does, so it is neither counted nor logged as a decision.
#[test]
fn searches_are_no_decisions() {
    let fixture = Fixture::new();
    let log = fixture.folder.path().join("decisions.log").display().to_string();
    let server = fixture.serve(&["--decision-log", "all", "--decision-log-file", &log]);
    let at = address(&server);
    let mut search = question();
    search["subject"].as_object_mut().unwrap().remove("id");
    let (status, _, body) = post(at, "/access/v1/search/subject", &search.to_string());
    let results = r#"{"page":{"count":1,"next_token":""},"results":[{"id":"ann","type":"user"}]}"#;
    assert_eq!((status, &*body), (200, results));
    assert!(decision(at, &question()));
    let allowed = "rolegate_checks_total{decision=\"allowed\",reason=\"\"}";
    server.wait_for_metric(allowed, 1.0);
    let logged = || fs::File::open(&log).and_then(std::io::read_to_string).unwrap_or_default();
    wait_until(|| logged().lines().count() == 1, || server.log());
}

#[test]
fn a_unix_socket_needs_tokens_too() {
    let fixture = Fixture::new();
    let socket = fixture.folder.path().join("a.sock").display().to_string();
    let authzen = format!("unix:{socket}");
    let settings = ["--authzen", &authzen, "--authzen-tokens", &fixture.tokens];
    let server = Server::start(&fixture.policy(), &settings);
    server.wait_for_log("\"AuthZEN\"");
    for (token, status) in [(TOKEN, 200), (NEXT, 401)] {
        let lines = [&*authorization(token), "content-type: application/json", "connection: close"];
        let mut stream = UnixStream::connect(&socket).unwrap();
        let text = request("POST /access/v1/evaluation", &lines, &question().to_string());
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(parsed(&answer).0, status);
    }
}

#[test]
fn unsafe_settings_are_refused() {
    let fixture = Fixture::new();
    let (without, _) = POLICY.split_once("authzen:").unwrap();
    fixture.folder.write("without.yaml", without);
    let without = fixture.folder.path().join("without.yaml").display().to_string();
    let (policy, tokens) = (fixture.policy(), &*fixture.tokens);
    let cases: [(&str, &[&str], &str); 4] = [
        (&policy, &["--authzen", "127.0.0.1:0"], "`authzen` needs `authzen-tokens`"),
        (
            &policy,
            &["--authzen", "0.0.0.0:0", "--authzen-tokens", tokens],
            "`authzen` needs `tls-certificate`",
        ),
        (
            &without,
            &["--authzen", "127.0.0.1:0", "--authzen-tokens", tokens],
            "needs the section `authzen` of the policy",
        ),
        (
            &policy,
            &["--authzen", "127.0.0.1:0", "--authzen-tokens", &policy],
            "line 2 is not a token",
        ),
    ];
    for (policy, settings, message) in cases {
        let start = ["serve", "--policy", policy, "--listen", "127.0.0.1:0", "--admin", "off"];
        let (code, _, err) = run(&[&start, settings].concat());
        assert!(code != 0 && err.contains(message), "{code} {err}");
    }
}

async fn send_over_tls(
    certificates: &Certificates,
    at: SocketAddr,
    client: Option<&str>,
    text: &str,
) -> String {
    let Ok(mut stream) = certificates.connect_http(at, client).await else { return String::new() };
    let mut answer = Vec::new();
    // A client learns by its first read that its certificate is not accepted.
    if stream.write_all(text.as_bytes()).await.is_ok() {
        let _ = stream.read_to_end(&mut answer).await;
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_take_the_place_of_tokens() {
    let certificates = Certificates::new();
    certificates.issue("server", &[dns("localhost")]);
    certificates.issue("pep", &[dns("pep.example.com")]);
    certificates.issue("other", &[dns("other.example.com")]);
    let [certificate, key, ca] =
        ["server.pem", "server.key", "ca.pem"].map(|name| certificates.text(name));
    let fixture = Fixture::new();
    let tls = [
        ["--tls-certificate", &certificate],
        ["--tls-key", &key],
        ["--tls-client-ca", &ca],
        ["--tls-client-names", "pep.example.com"],
        ["--authzen", "127.0.0.1:0"],
    ]
    .concat();
    let lines = ["content-type: application/json", "connection: close"];
    let text = request("POST /access/v1/evaluation", &lines, &question().to_string());
    let server = Server::start(&fixture.policy(), &tls);
    server.wait_for_log("\"AuthZEN\"");
    let at = address(&server);
    let answer = send_over_tls(&certificates, at, Some("pep"), &text).await;
    assert!(answer.ends_with("{\"decision\":true}"), "{answer} {}", server.log());
    for stranger in [Some("other"), None] {
        let answer = send_over_tls(&certificates, at, stranger, &text).await;
        assert_eq!(answer, "", "{stranger:?}");
    }
    let plain = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(at).unwrap();
        stream.write_all(b"POST /access/v1/evaluation HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    });
    assert!(!String::from_utf8_lossy(&plain.await.unwrap()).contains("HTTP"));
    drop(server);
    // With tokens, too, both are needed.
    let with_tokens = [&*tls, &["--authzen-tokens", &fixture.tokens]].concat();
    let server = Server::start(&fixture.policy(), &with_tokens);
    server.wait_for_log("\"AuthZEN\"");
    let answer = send_over_tls(&certificates, address(&server), Some("pep"), &text).await;
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    let metadata = request(&format!("GET {METADATA}"), &["connection: close"], "");
    let answer = send_over_tls(&certificates, address(&server), Some("pep"), &metadata).await;
    assert!(answer.contains("\"https://pdp.example:8\""), "{answer}");
}

#[test]
fn silent_clients_do_not_keep_others_out() {
    let fixture = Fixture::new();
    let server = fixture.serve(&[]);
    let silent: Vec<_> = (0..300).map(|_| TcpStream::connect(address(&server)).unwrap()).collect();
    assert!(decision(address(&server), &question()));
    drop(silent);
}

#[test]
fn a_question_in_flight_is_answered_before_the_end() {
    let fixture = Fixture::new();
    let end = ["--drain-delay", "0s", "--drain-timeout", "60s"];
    let mut server = fixture.serve(&end);
    let lines = [&*authorization(TOKEN), "content-type: application/json"];
    let text = request("POST /access/v1/evaluation", &lines, &question().to_string());
    let (before, after) = text.split_at(text.len() - 5);
    let mut stream = TcpStream::connect(address(&server)).unwrap();
    let mut idle = TcpStream::connect(address(&server)).unwrap();
    stream.write_all(before.as_bytes()).unwrap();
    assert!(decision(address(&server), &question()));
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    stream.write_all(after.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("{\"decision\":true}"), "{answer}");
    let mut rest = Vec::new();
    let _ = idle.read_to_end(&mut rest);
    assert_eq!(server.ended(), 0);
}
