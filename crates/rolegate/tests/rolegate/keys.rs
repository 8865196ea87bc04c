//! Keys that are fetched from an issuer, here on the loopback interface.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use serde_json::json;
use testbed::port::ReservedPort;
use testbed::tokens::Signer;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::client::{Answer, Envoy};
use crate::process::{PolicyFolder, Server, rolegate, run, wait_until};

/// The thread that answers probes does not read root certificates, which may be on a file system
/// that hangs.
#[test]
fn probes_are_answered_while_root_certificates_are_read() {
    let policy = PolicyFolder::new(
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      \
         keys: { url: \"https://127.0.0.1:9/keys\" }\nroles:\n  authenticated: { allow: [\"GET /\"] }\n",
    );
    // Opening a FIFO to read blocks until it is opened to write.
    let folder = tempfile::tempdir().unwrap();
    let roots = folder.path().join("roots.pem");
    mknodat(CWD, &roots, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let arg = policy.arg();
    let args = [
        "serve",
        "--policy",
        &arg,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--keys-wait",
        "10ms",
    ];
    let mut command = rolegate(&args);
    command.env("SSL_CERT_FILE", &roots);
    let mut server = Server::spawn(command);
    server.wait_for_log("listening");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.page("/healthz").0, 200);
    server.signal(Signal::TERM);
    assert_eq!(server.ended(), 0);
}

/// An issuer's key server.
pub(crate) struct Issuer {
    pub(crate) at: SocketAddr,
    answer: Arc<Mutex<String>>,
    fetches: Arc<AtomicUsize>,
}

impl Issuer {
    pub(crate) fn start(keys: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new(ok(keys)));
        let fetches = Arc::new(AtomicUsize::new(0));
        let (served, counts) = (answer.clone(), fetches.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                counts.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(served.lock().unwrap().as_bytes());
            }
        });
        Self { at, answer, fetches }
    }

    pub(crate) fn publish(&self, keys: &str) {
        self.answer(ok(keys));
    }

    pub(crate) fn answer(&self, answer: String) {
        *self.answer.lock().unwrap() = answer;
    }

    pub(crate) fn fetches(&self) -> usize {
        self.fetches.load(Ordering::SeqCst)
    }

    pub(crate) fn policy(&self, refresh: &str) -> PolicyFolder {
        PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      \
             keys: {{ url: \"http://{}/keys\", refresh: {refresh} }}\nroles:\n  \
             authenticated: {{ allow: [\"GET /\"] }}\n  anyone: {{ allow: [\"GET /open\"] }}\n",
            self.at
        ))
    }

    fn metric(&self, result: &str) -> String {
        format!(
            "rolegate_keys_fetches_total{{issuer=\"https://id.example\",url=\"http://{}/keys\",result=\"{result}\"}}",
            self.at
        )
    }

    fn loaded(&self) -> String {
        format!(
            "rolegate_keys_loaded{{issuer=\"https://id.example\",url=\"http://{}/keys\"}}",
            self.at
        )
    }
}

pub(crate) fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

/// A token for an hour, with this `kid`.
#[expect(clippy::disallowed_methods, reason = "a token has a time, and this is a test")]
pub(crate) fn token(signer: &Signer, kid: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let claims =
        json!({ "iss": "https://id.example", "aud": "a", "sub": "carol", "exp": now + 3600 });
    format!("Bearer {}", signer.sign(&json!({ "alg": "ES256", "kid": kid }), &claims))
}

/// The signer's keys, under another `kid`.
pub(crate) fn key_set(signer: &Signer, kid: &str) -> String {
    let mut set: serde_json::Value = serde_json::from_str(&signer.key_set()).unwrap();
    set["keys"][0]["kid"] = json!(kid);
    set.to_string()
}

/// The log lines with this message.
pub(crate) fn lines(server: &Server, message: &str) -> Vec<serde_json::Value> {
    let lines =
        server.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<_>>();
    lines.into_iter().filter(|line: &serde_json::Value| line["message"] == message).collect()
}

pub(crate) async fn check(envoy: &mut Envoy, token: &str) -> Answer {
    envoy.check("GET", "/", &[("authorization", token)]).await
}

/// Who revokes a compromised key does not wait for the next regular fetch.
#[tokio::test]
async fn sighup_fetches_keys_so_that_a_withdrawn_one_verifies_no_more() {
    let (leaked, new) = (Signer::default(), Signer::default());
    let issuer = Issuer::start(&key_set(&leaked, "leaked"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token(&leaked, "leaked")).await, Answer::Http(200));
    issuer.publish(&key_set(&new, "new"));
    server.signal(Signal::HUP);
    server.wait_for_log("reload requested: fetching keys");
    server.wait_for_log("reload requested: keys fetched");
    assert_eq!(lines(&server, "keys changed")[1]["removed"], "`leaked`");
    assert_eq!(check(&mut envoy, &token(&leaked, "leaked")).await, Answer::Http(401));
    assert_eq!(check(&mut envoy, &token(&new, "new")).await, Answer::Http(200));
    for _ in 0..20 {
        server.signal(Signal::HUP);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    wait_until(|| issuer.fetches() == 3, || "a fetch for all of these signals".to_owned());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(issuer.fetches(), 3, "{}", server.log());
}

/// The next regular fetch may be an hour away.
#[tokio::test]
async fn a_requested_fetch_that_fails_is_retried_as_at_the_start() {
    let (leaked, new) = (Signer::default(), Signer::default());
    let issuer = Issuer::start(&key_set(&leaked, "leaked"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token(&leaked, "leaked")).await, Answer::Http(200));
    issuer.answer(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            .to_owned(),
    );
    server.signal(Signal::HUP);
    wait_until(|| issuer.fetches() >= 3, || "the requested fetch, and a retry".to_owned());
    assert!(lines(&server, "reload requested: keys fetched").is_empty(), "{}", server.log());
    issuer.publish(&key_set(&new, "new"));
    server.wait_for_log("reload requested: keys fetched");
    let fetches = issuer.fetches();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(issuer.fetches(), fetches, "the next regular fetch is in an hour: {}", server.log());
    assert_eq!(check(&mut envoy, &token(&leaked, "leaked")).await, Answer::Http(401));
}

#[tokio::test]
async fn keys_are_fetched_again_and_the_last_good_ones_kept() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let server = Server::start(&issuer.policy("1s").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    wait_until(|| issuer.fetches() >= 3, || "regular fetches".to_owned());
    assert_eq!(server.log().matches("keys changed").count(), 1, "the same keys change nothing");
    let failing = [
        (
            "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_owned(),
            "status 500",
        ),
        (
            "HTTP/1.1 302 Go\r\nlocation: /x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                .to_owned(),
            "redirects",
        ),
        (ok(&" ".repeat((1 << 20) + 1)), "larger than 1 MiB"),
        (ok("nonsense"), "fetched keys not used"),
        (ok("<html>\n<p>sign in</p>"), "not JSON (begins with `<html>`)"),
        (
            ok("{\"issuer\":\"x\",\"jwks_uri\":\"https://id.example/jwks\"}"),
            "a discovery document, not a key set",
        ),
    ];
    for (answer, logged) in failing {
        issuer.answer(answer);
        server.wait_for_log(logged);
        server.wait_for_log("the last good ones stay active");
        assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(200), "{logged}");
    }
    assert!(server.metric(&issuer.metric("failed")) >= Some(3.0));
    assert!(server.metric(&issuer.metric("rejected")) >= Some(1.0));
    assert_eq!(server.metric(&issuer.loaded()), Some(1.0));
}

#[tokio::test]
async fn an_issuer_that_is_down_holds_up_only_its_own_tokens() {
    let signer = Signer::default();
    let issuer = Issuer::start("");
    issuer.answer(String::new());
    let folder = issuer.policy("1s");
    let server = Server::start(&folder.arg(), &["--keys-wait", "100ms"]);
    let mut envoy = Envoy::connect(server.address()).await;
    let (status, page) = server.page("/readyz");
    let without = "ready\nno keys of https://id.example: their tokens get 401. ";
    assert!(status == 200 && page.starts_with(without), "{page}");
    server.wait_for_log("no keys yet: tokens of https://id.example get 401; next try in 1 s");
    server.wait_for_log("no keys yet: tokens of https://id.example get 401 until they arrive");
    assert!(!server.log().contains("stay active"), "there are none");
    assert_eq!(server.metric(&issuer.loaded()), Some(0.0));
    assert_eq!(envoy.check("GET", "/open", &[]).await, Answer::Http(200));
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(401));
    issuer.publish(&key_set(&signer, "k"));
    server.wait_for_metric(&issuer.loaded(), 1.0);
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(200));
}

/// Otherwise a rollout would send requests to a process that does not answer yet.
#[test]
fn the_server_is_not_ready_before_it_answers() {
    // It accepts connections, in the backlog, and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let policy = policy_with_keys_at(&format!("http://{}/keys", silent.local_addr().unwrap()));
    let server = Server::start_unready(&policy.arg(), &["--keys-wait", "2s"]);
    server.wait_for_log("admin pages");
    let early = server.page("/readyz");
    assert!(!server.log().contains("\"listening\""), "{}", server.log());
    assert_eq!(early, (503, "not ready: starting: waiting for keys\n".to_owned()));
    server.wait_for_log("listening");
    server.wait_for_metric("rolegate_ready", 1.0);
}

/// A second attempt may be long in coming, and callers with passwords do not wait for it.
#[test]
fn the_start_waits_only_for_the_first_attempt_to_fetch_keys() {
    let closed = ReservedPort::new().unwrap();
    let policy = policy_with_keys_at(&format!("http://{}/keys", closed.address()));
    Server::start(&policy.arg(), &["--keys-wait", "1h"]);
}

pub(crate) fn policy_with_keys_at(url: &str) -> PolicyFolder {
    PolicyFolder::new(&format!(
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      \
         keys: {{ url: \"{url}\" }}\nroles:\n  authenticated: {{ allow: [\"GET /\"] }}\n"
    ))
}

#[tokio::test]
async fn stale_keys_verify_nothing_if_configured() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let more = ["--max-keys-age", "4s", "--on-stale", "unavailable"];
    let server = Server::start(&issuer.policy("1s").arg(), &more);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(200));
    issuer.answer(String::new());
    server.wait_for_metric(&issuer.loaded(), 0.0);
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(401));
    let detail = "the keys of `https://id.example` are older than `max-keys-age`";
    wait_until(|| server.out().contains(detail), || server.out());
    assert_eq!(envoy.check("GET", "/open", &[]).await, Answer::Http(200));
    issuer.publish(&key_set(&signer, "k"));
    server.wait_for_metric(&issuer.loaded(), 1.0);
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(200));
}

/// `refresh` may be longer than the maximum staleness.
#[tokio::test]
async fn keys_of_an_issuer_that_can_be_reached_do_not_become_stale() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let more = ["--max-keys-age", "12s", "--on-stale", "unavailable"];
    let server = Server::start(&issuer.policy("1h").arg(), &more);
    server.wait_for_log(
        "keys are fetched every 6s, not every 3600s (`refresh`), because `max-keys-age` is 12s",
    );
    let mut envoy = Envoy::connect(server.address()).await;
    // Past the age of the first fetch.
    while issuer.fetches() < 4 {
        assert_eq!(
            check(&mut envoy, &token(&signer, "k")).await,
            Answer::Http(200),
            "{}",
            server.log()
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// An issuer that starts, or is under maintenance, may answer with an empty set or a page for
/// people.
#[tokio::test]
async fn a_key_set_that_cannot_be_used_is_fetched_again_soon_and_is_no_success() {
    let signer = Signer::default();
    let issuer = Issuer::start("{\"keys\":[]}");
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    server.wait_for_log("the fetched keys cannot be used; next try in 1 s");
    assert_eq!(server.metric(&issuer.metric("ok")), Some(0.0));
    issuer.publish(&key_set(&signer, "k"));
    server.wait_for_metric(&issuer.loaded(), 1.0);
    assert_eq!(server.metric(&issuer.metric("ok")), Some(1.0));
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(200));
    let rejected = server.metric(&issuer.metric("rejected")).unwrap();
    issuer.publish("<html>sign in</html>");
    server.signal(Signal::HUP);
    wait_until(
        || server.metric(&issuer.metric("rejected")) >= Some(rejected + 2.0),
        || "the requested fetch, and a retry".to_owned(),
    );
    assert!(lines(&server, "reload requested: keys fetched").is_empty(), "{}", server.log());
    assert_eq!(server.metric(&issuer.metric("ok")), Some(1.0));
    assert_eq!(server.metric(&issuer.metric("failed")), Some(0.0));
    issuer.publish(&key_set(&signer, "k"));
    server.wait_for_log("reload requested: keys fetched");
}

#[tokio::test]
async fn readiness_waits_for_the_first_keys_if_configured() {
    let signer = Signer::default();
    for needed in ["any", "all"] {
        let issuer = Issuer::start("");
        issuer.answer(String::new());
        let more = ["--keys-wait", "10ms", "--keys-needed", needed];
        let folder = issuer.policy("1s");
        let server = Server::start(&folder.arg(), &more);
        assert_eq!(
            server.page("/readyz"),
            (503, "not ready: no keys yet of https://id.example\n".to_owned())
        );
        assert_eq!(server.metric("rolegate_ready"), Some(0.0));
        let mut envoy = Envoy::connect(server.address()).await;
        assert_eq!(envoy.health().await, ServingStatus::NotServing);
        issuer.publish(&key_set(&signer, "k"));
        server.wait_for_metric("rolegate_ready", 1.0);
        assert_eq!(server.page("/readyz"), (200, "ready\n".to_owned()));
        assert_eq!(envoy.health().await, ServingStatus::Serving);
    }
}

/// Each reason why keys are not fetched says what is wrong.
#[test]
fn a_server_that_does_not_speak_tls_is_named_as_such() {
    let issuer = Issuer::start("");
    for (scheme, answer, logged) in [
        ("https", ok(""), "the server does not speak TLS"),
        ("http", "\u{15}\u{3}\u{3}".to_owned(), "the answer is not HTTP"),
        (
            "http",
            String::new(),
            "the server closed the connection without an answer: if it speaks TLS, write `https:`",
        ),
    ] {
        issuer.answer(answer);
        let policy = PolicyFolder::new(&format!(
            "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      \
             keys: {{ url: \"{scheme}://{}/keys\" }}\nroles:\n  authenticated: {{ allow: [\"GET /\"] }}\n",
            issuer.at
        ));
        let server = Server::start(&policy.arg(), &["--keys-wait", "10ms"]);
        server.wait_for_log(logged);
    }
}

/// What is wrong with a token is in the decision log and in `explain`, and not in the answer.
#[tokio::test]
async fn what_a_token_was_expected_to_have_is_logged_and_explained() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k1"));
    let folder = issuer.policy("1h");
    let server = Server::start(&folder.arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let token = token(&signer, "zzz");
    assert_eq!(check(&mut envoy, &token).await, Answer::Http(401));
    wait_until(|| server.out().contains("unknown_key"), || server.out());
    let line: serde_json::Value =
        serde_json::from_str(server.out().lines().next().unwrap()).unwrap();
    assert_eq!(line["detail"], "`kid` is `zzz`, known: `k1`");
    let bearer = token.strip_prefix("Bearer ").unwrap();
    let (code, out, err) =
        run(&["explain", "--policy", &folder.arg(), "--bearer", bearer, "GET", "/"]);
    assert!(code == 1 && out.contains("because: `kid` is `zzz`, known: `k1`"), "{out}{err}");
}

#[test]
fn explain_fetches_the_keys_that_a_token_needs() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let folder = issuer.policy("1h");
    let token = token(&signer, "k");
    let token = token.strip_prefix("Bearer ").unwrap();
    let (code, out, err) =
        run(&["explain", "--policy", &folder.arg(), "--bearer", token, "GET", "/"]);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!out.contains(token));
}

/// As a server decides that starts with such keys.
#[test]
fn explain_decides_without_keys_that_cannot_be_used() {
    let signer = Signer::default();
    let issuer = Issuer::start("<html>");
    let folder = issuer.policy("1h");
    let bearer = token(&signer, "k");
    let bearer = bearer.strip_prefix("Bearer ").unwrap();
    let (code, out, err) =
        run(&["explain", "--policy", &folder.arg(), "--bearer", bearer, "GET", "/"]);
    assert!(code == 1 && out.contains("keys_unavailable"), "{out}{err}");
    assert!(err.contains(" cannot be used: not JSON (begins with `<html>`)\n"), "{err}");
}

/// Who sees the role in the token looks for it.
#[test]
fn roles_in_a_token_that_have_no_effect_are_named() {
    let signer = Signer::default();
    let folder = PolicyFolder::new(
        "version: 1\nidentity:\n  jwt:\n    - issuer: https://id.example\n      audiences: [a]\n      \
         keys: { file: keys.json }\n      claims: { roles: roles }\n      roles_from_token: [auditor]\nroles:\n  \
         auditor: { allow: [\"GET /log\"] }\n  editor: { allow: [\"PUT /a\"] }\n",
    );
    folder.write("keys.json", &key_set(&signer, "k"));
    let claims = json!({ "iss": "https://id.example", "aud": "a", "sub": "carol", "exp": 9_999_999_999_u64,
        "roles": ["auditor", "editor", "offline_access"] });
    let token = signer.sign(&json!({ "alg": "ES256", "kid": "k" }), &claims);
    let unlisted = "ignored: `editor` in the token, because `roles_from_token` of `https://id.example` does not list it";
    let undefined =
        "ignored: `offline_access` in the token, because the policy defines no such role";
    let explain = |request: [&str; 2]| {
        run(&[&["explain", "--policy", &folder.arg(), "--bearer", &token], &request[..]].concat())
    };
    let (code, out, err) = explain(["PUT", "/a"]);
    assert!(code == 1 && out.contains(unlisted) && out.contains(undefined), "{out}{err}");
    let (code, out, err) = explain(["GET", "/log"]);
    assert!(code == 0 && !out.contains("ignored"), "{out}{err}");
    let case = format!(
        "- {{ name: a, request: {{ method: PUT, path: /a, claims: {claims} }}, expect: 200 }}\n"
    );
    folder.write("cases.yaml", &case);
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert!(code == 4 && out.contains(unlisted), "{out}{err}");
}

#[test]
fn test_fetches_the_keys_that_a_token_needs() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let folder = issuer.policy("1h");
    let token = token(&signer, "k");
    let bearer = token.strip_prefix("Bearer ").unwrap();
    for request in
        [format!("bearer: \"{bearer}\""), format!("headers: {{ Authorization: \"{token}\" }}")]
    {
        folder.write(
            "cases.yaml",
            &format!("- {{ name: a, request: {{ path: /, {request} }}, expect: 200 }}\n"),
        );
        let (code, out, err) = run(&["test", &folder.arg()]);
        assert_eq!(code, 0, "{out}{err}");
    }
    assert_eq!(issuer.fetches(), 2);
    // Without a token, nothing is fetched, so that the cases of other callers need no issuer.
    folder.write("cases.yaml", "- { name: a, request: { path: /open }, expect: 200 }\n");
    assert_eq!(run(&["test", &folder.arg()]).0, 0);
    assert_eq!(issuer.fetches(), 2);
    issuer.answer(String::new());
    folder.write(
        "cases.yaml",
        &format!("- {{ name: a, request: {{ path: /, bearer: {bearer} }}, expect: 200 }}\n"),
    );
    let (code, out, err) = run(&["test", &folder.arg()]);
    assert!(code == 4 && out.contains("keys_unavailable"), "{out}{err}");
    assert!(err.contains("keys of https://id.example at `http://"), "{err}");
}
