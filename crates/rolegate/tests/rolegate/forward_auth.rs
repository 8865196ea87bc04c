//! HTTP forward-auth, by hand: questions as each proxy asks them, and as attackers would.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use policy::cases::Case;
use rustix::process::Signal;
use testbed::golden::credentials_header;
use testbed::policies::{self, Example};
use testbed::tokens::Signer;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::client;
use crate::process::{LONG, PolicyFolder, Server, example, open_to_all, run, wait_until};
use crate::tls::{Certificates, dns};

const LISTENING: &str = "listening for HTTP forward-auth";
const ALLOWED: &str = "rolegate_checks_total{decision=\"allowed\",reason=\"\"}";
const PROFILES: [&str; 5] = ["nginx", "haproxy", "traefik", "caddy", "envoy"];
/// A guest of `policies/people`.
const ALICE: (&str, &str) = ("Authorization", "Basic YWxpY2U6d29uZGVybGFuZA==");

/// A server that trusts this machine.
fn start(policy: &str, profile: &str, more: &[&str]) -> Server {
    let args = ["--http", "127.0.0.1:0", "--http-profile", profile, "--http-trusted", "127.0.0.1"];
    let server = Server::start(policy, &[&args, more].concat());
    server.wait_for_log(LISTENING);
    server
}

/// A connection of a proxy.
struct Proxy<S = TcpStream> {
    stream: BufReader<S>,
    profile: &'static str,
}

/// An answer, with the names of its headers in lower case.
#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
struct Asked<'a> {
    method: &'a str,
    host: &'a str,
    path: &'a str,
    client: &'a str,
    headers: &'a [(&'a str, &'a str)],
}

/// A question about a request of nobody.
fn asked<'a>(path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Asked<'a> {
    Asked { method: "GET", host: "people.example.com", path, client: "192.0.2.1", headers }
}

/// The question, as the proxy of this profile writes it.
fn question(profile: &str, asked: Asked<'_>) -> String {
    let Asked { method, host, path, client, headers } = asked;
    let (line, names) = match profile {
        "nginx" | "haproxy" => (
            "GET /auth HTTP/1.1\r\nHost: rolegate\r\n".to_owned(),
            Some(["X-Original-Method", "X-Original-Host", "X-Original-URI", "X-Real-IP"]),
        ),
        "traefik" | "caddy" => (
            "GET / HTTP/1.1\r\nHost: rolegate\r\n".to_owned(),
            Some(["X-Forwarded-Method", "X-Forwarded-Host", "X-Forwarded-Uri", "X-Forwarded-For"]),
        ),
        _ => (format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n"), None),
    };
    let values = [method, host, path, client];
    let own = names.into_iter().flatten().zip(values);
    let lines = own.chain(headers.iter().copied());
    let lines: String = lines.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{line}{lines}\r\n")
}

impl Proxy {
    fn connect(server: &Server, profile: &'static str) -> Self {
        let stream = TcpStream::connect(server.logged_address(LISTENING)).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        Self { stream: BufReader::new(stream), profile }
    }
}

impl<S: Read + Write> Proxy<S> {
    fn ask(&mut self, asked: Asked<'_>) -> Answer {
        let text = question(self.profile, asked);
        self.send(text.as_bytes());
        self.answer(asked.method == "HEAD" && self.profile == "envoy").unwrap()
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// The next answer; `None` if the connection is closed.
    fn answer(&mut self, has_no_body: bool) -> Option<Answer> {
        let mut line = String::new();
        if self.line(&mut line) == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            self.line(&mut line);
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.map_or(0, |(_, length)| length.parse().unwrap());
        let mut body = vec![0; if has_no_body { 0 } else { length }];
        self.stream.read_exact(&mut body).unwrap();
        Some(Answer { status, headers, body: String::from_utf8(body).unwrap() })
    }

    /// Whether nothing more comes and the connection is closed.
    fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        let _ = self.stream.read_to_end(&mut rest);
        rest.is_empty()
    }

    fn line(&mut self, line: &mut String) -> usize {
        match self.stream.read_line(line) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Answer {
    /// The first line of a header.
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| &**value)
    }

    /// All lines of a header, joined.
    fn lines(&self, name: &str) -> Option<String> {
        let lines = self.headers.iter().filter(|(found, _)| found == name);
        let lines: Vec<&str> = lines.map(|(_, value)| &**value).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }
}

/// Sends bytes on a connection of its own, which the server closes: the statuses of its answers.
fn statuses(server: &Server, bytes: &str) -> Vec<u16> {
    let mut proxy = Proxy::connect(server, "nginx");
    proxy.send(bytes.as_bytes());
    std::iter::from_fn(|| proxy.answer(false)).map(|answer| answer.status).collect()
}

/// Sends bytes on a connection of its own: the status of the first answer.
fn status(server: &Server, bytes: &str) -> u16 {
    let mut proxy = Proxy::connect(server, "nginx");
    proxy.send(bytes.as_bytes());
    proxy.answer(false).unwrap().status
}

#[test]
fn each_profile_gets_200_with_headers_and_401_and_403_as_over_grpc() {
    for profile in PROFILES {
        let server = start(&example("people"), profile, &["--explain-header", "x-why"]);
        let mut proxy = Proxy::connect(&server, profile);
        let allowed = proxy.ask(asked("/people", &[ALICE, ("X-User", "root")]));
        assert_eq!((allowed.status, &*allowed.body), (200, ""), "{profile}: {allowed:?}");
        assert_eq!(allowed.header("x-user"), Some("alice"), "{profile}: {allowed:?}");

        let anonymous = proxy.ask(asked("/people", &[]));
        assert_eq!(anonymous.status, 401, "{profile}: {anonymous:?}");
        assert!(anonymous.header("www-authenticate").unwrap().starts_with("Basic realm="));
        assert!(anonymous.body.contains("unauthorized"), "{anonymous:?}");

        let denied = proxy.ask(Asked { method: "DELETE", ..asked("/people/1", &[ALICE]) });
        assert_eq!(denied.status, 403, "{profile}: {denied:?}");
        assert_eq!(denied.header("x-why"), Some("not_allowed"), "{profile}: {denied:?}");

        let wrong = proxy.ask(asked("/people", &[("Authorization", "Basic YWxpY2U6eA==")]));
        assert_eq!((wrong.status, wrong.header("x-user")), (401, None), "{profile}: {wrong:?}");
        let invalid = proxy.ask(asked("/people/%2e%2e/x%2fy", &[ALICE]));
        assert_eq!(invalid.status, 400, "{profile}: {invalid:?}");
        // The connection is still open: none of these closes it.
        assert_eq!(proxy.ask(asked("/people", &[ALICE])).status, 200);
    }
}

#[test]
fn the_decision_log_says_that_a_question_came_over_http() {
    let server = start(&example("people"), "nginx", &["--decision-log", "all"]);
    Proxy::connect(&server, "nginx").ask(asked("/people?x=1", &[ALICE]));
    let line = server.wait_for_decision();
    assert_eq!((&line["via"], &line["client"]), (&"http".into(), &"192.0.2.1".into()), "{line}");
    assert_eq!((&line["path"], &line["user"]), (&"/people".into(), &"alice".into()), "{line}");
    assert_eq!(server.metric(ALLOWED), Some(1.0));
}

#[test]
fn a_question_without_its_headers_is_refused_and_not_decided() {
    for profile in ["nginx", "traefik"] {
        let policy = open();
        let server = start(&policy.arg(), profile, &["--decision-log", "all"]);
        let whole = question(profile, asked("/a", &[]));
        assert_eq!(status(&server, &whole), 200);
        let lines: Vec<&str> = whole.split_inclusive("\r\n").collect();
        for (at, line) in lines.iter().enumerate().skip(2).take(4) {
            let without = [&lines[..at], &lines[at + 1..]].concat().concat();
            assert_eq!(status(&server, &without), 400, "without {line}");
            let empty = format!("{}:\r\n", line.split(':').next().unwrap());
            let empty = [&lines[..at], &[&*empty], &lines[at + 1..]].concat().concat();
            assert_eq!(status(&server, &empty), 400, "empty {line}");
            for other in [line.to_uppercase(), line.to_lowercase()] {
                let twice = [&lines[..at], &[&*other], &lines[at..]].concat().concat();
                assert_eq!(status(&server, &twice), 400, "twice {line}");
            }
        }
        // The headers of another profile, and those with `_`, mean nothing.
        let other = if profile == "nginx" { "caddy" } else { "haproxy" };
        let other = question(other, asked("/a", &[]));
        assert_eq!(status(&server, &other), 400);
        let underscores = whole.replace("X-Original-", "X_Original_").replace("d-U", "d_U");
        assert_eq!(status(&server, &underscores), 400);
        assert_eq!(server.wait_for_decisions(1).len(), 1);
        assert!(server.metric("rolegate_http_refused_total{reason=\"headers\"}") > Some(10.0));
        server.wait_for_log("is missing");
    }
}

#[test]
fn a_client_cannot_replace_what_its_proxy_says() {
    let policy = "version: 1\nroles: { anyone: { allow: [{ methods: [GET], paths: [/a], when: 'source.ip == \"192.0.2.1\"' }, \
                  { methods: [GET], paths: [/b], when: '\"x-real-ip\" in request.headers || \"x-forwarded-for\" in request.headers || \
                  \"host\" in request.headers' }] } }\n";
    let policy = PolicyFolder::new(policy);
    let server = start(&policy.arg(), "traefik", &[]);
    let mut proxy = Proxy::connect(&server, "traefik");
    let mut from = |client, path| proxy.ask(Asked { client, ..asked(path, &[]) }).status;
    assert_eq!(from("192.0.2.1", "/a"), 200);
    assert_eq!(from("198.51.100.1,192.0.2.1", "/a"), 200);
    assert_ne!(from("192.0.2.1, 198.51.100.1", "/a"), 200);
    assert_ne!(from("192.0.2.1,", "/a"), 200);
    assert_ne!(from("192.0.2.1", "/b"), 200, "the headers of the profile are not the client's");
}

/// Nothing allows here what the answer cannot make the proxy do.
#[test]
fn a_change_that_the_proxy_cannot_make_is_a_denial() {
    let folder = PolicyFolder::new(
        "version: 1\nidentity: { basic: { users: { alice: { password: \
         \"{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\" } } } }\nroles: { anyone: { allow: [GET /a] } }\n\
         allow_response: { set_headers: { x-user: \"{user}\", x-kept: always }, remove_cookies: [session] }\n",
    );
    for profile in PROFILES {
        let server = start(&folder.arg(), profile, &["--decision-log", "all"]);
        let mut proxy = Proxy::connect(&server, profile);
        let allowed = proxy.ask(asked("/a", &[("cookie", "other=1"), ("x-kept", "forged")]));
        assert_eq!(allowed.status, 200, "{allowed:?}");
        // Without a value it is empty, so that a proxy that copies it replaces the client's.
        assert_eq!(
            (allowed.header("x-user"), allowed.header("x-kept")),
            (Some(""), Some("always"))
        );
        for header in [
            ("X-User", "root"),
            ("x_user", "root"),
            ("x.user", "root"),
            ("x_kept", "forged"),
            ("cookie", "session=1; other=1"),
            ("cookie", "session=1"),
        ] {
            let denied = proxy.ask(asked("/a", &[header]));
            assert_eq!((denied.status, denied.header("x-user")), (403, None), "{header:?}");
        }
        let lines = server.wait_for_decisions(7);
        assert!(
            lines.iter().skip(1).all(|line| line["reason"] == "unsupported_change"),
            "{lines:?}"
        );
    }
}

#[test]
fn strangers_get_403_and_nothing_is_evaluated() {
    let policy = open();
    let args = ["--http", "127.0.0.1:0", "--http-profile", "nginx", "--decision-log", "all"];
    let server =
        Server::start(&policy.arg(), &[&args[..], &["--http-trusted", "10.0.0.0/8,::1"]].concat());
    server.wait_for_log(LISTENING);
    let text = question("nginx", asked("/a", &[]));
    for _ in 0..20 {
        assert_eq!(statuses(&server, &text.repeat(2)), [403], "and closed");
    }
    let mut proxy = Proxy::connect(&server, "nginx");
    let answer = proxy.ask(asked("/a", &[]));
    assert!(answer.body.contains("`http-trusted`"), "{answer:?}");
    assert_eq!(server.metric("rolegate_http_refused_total{reason=\"untrusted\"}"), Some(21.0));
    assert_eq!(server.log().matches("may not ask").count(), 2, "one line: {}", server.log());
    assert_eq!(server.out(), "");
}

#[test]
fn without_trusted_addresses_it_does_not_start() {
    let policy = open();
    let policy = policy.arg();
    let serve = |more: &[&str]| {
        let args = ["serve", "--policy", &policy, "--listen", "127.0.0.1:0", "--admin", "off"];
        let (code, _, err) = run(&[&args, more].concat());
        assert_eq!(code, 2, "{err}");
        err
    };
    let http = ["--http", "127.0.0.1:0"];
    assert!(serve(&http).contains("`http` needs `http-profile`"));
    let error = serve(&[&http[..], &["--http-profile", "nginx"]].concat());
    assert!(error.contains("`http-trusted: 127.0.0.1/32`"), "{error}");
    let error = serve(&[&http[..], &["--http-profile", "nginx", "--http-trusted", "all"]].concat());
    assert!(error.contains("not a network"), "{error}");
    assert!(serve(&[&http[..], &["--http-profile", "guess"]].concat()).contains("guess"));
}

#[test]
fn a_unix_socket_needs_no_trusted_addresses() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("http.sock");
    let address = format!("unix:{}", socket.display());
    let policy = open();
    let server = Server::start(&policy.arg(), &["--http", &address, "--http-profile", "nginx"]);
    server.wait_for_log(LISTENING);
    let stream = BufReader::new(UnixStream::connect(&socket).unwrap());
    let mut proxy = Proxy { stream, profile: "nginx" };
    assert_eq!(proxy.ask(asked("/a", &[])).status, 200);
    assert_ne!(proxy.ask(asked("/b", &[])).status, 200);
}

/// A proxy and a server that disagree about where a request ends give an attacker the answer to a
/// question that nobody has asked.
#[test]
fn nothing_after_a_body_is_a_question() {
    let policy = open();
    let server = start(&policy.arg(), "nginx", &["--decision-log", "all"]);
    let allowed = question("nginx", asked("/a", &[]));
    let with = |headers: &[(&str, &str)], body: &str| {
        format!("{}{body}", question("nginx", asked("/a", headers)))
    };
    let smuggled = [
        with(
            &[("Content-Length", "0"), ("Transfer-Encoding", "chunked")],
            &format!("0\r\n\r\n{allowed}"),
        ),
        with(
            &[("Transfer-Encoding", "chunked"), ("Content-Length", "5")],
            &format!("0\r\n\r\n{allowed}"),
        ),
        with(&[("Transfer-Encoding", "chunked")], &format!("0\r\n\r\n{allowed}")),
        with(&[("Content-Length", "5")], &format!("hello{allowed}")),
        with(&[("Content-Length", "4"), ("Content-Length", "5")], &format!("hello{allowed}")),
        with(&[("Content-Length", "5, 5")], &format!("hello{allowed}")),
        with(&[("Content-Length", "+5")], &format!("hello{allowed}")),
        with(&[("Content-Length", "-1")], &allowed),
        with(&[("Transfer-Encoding", "xchunked")], &format!("0\r\n\r\n{allowed}")),
        with(&[("Transfer-Encoding", "chunked, identity")], &format!("0\r\n\r\n{allowed}")),
        with(&[("Transfer-Encoding", "\u{b}chunked")], &format!("0\r\n\r\n{allowed}")),
        with(&[("Transfer-Encoding ", "chunked")], &format!("0\r\n\r\n{allowed}")),
        with(&[("Content-Length", "99999999999999999999")], &allowed),
    ];
    for text in &smuggled {
        let got = statuses(&server, text);
        assert!(got.len() <= 1, "{got:?} to {text}");
    }
    let mut proxy = Proxy::connect(&server, "nginx");
    proxy.send(allowed.repeat(3).as_bytes());
    assert_eq!([(); 3].map(|()| proxy.answer(false).unwrap().status), [200; 3], "pipelined");
}

#[test]
fn what_is_no_valid_request_is_never_allowed() {
    let policy = open();
    let server = start(&policy.arg(), "nginx", &[]);
    let allowed = question("nginx", asked("/a", &[]));
    let folded = allowed.replace("X-Original-URI: /a", "X-Original-URI:\r\n /a");
    let lines = |count: usize| -> String {
        (0..count).map(|number| format!("x-{number}: 1\r\n")).collect()
    };
    let many = allowed.replace("\r\n\r\n", &format!("\r\n{}\r\n", lines(1000)));
    let huge = allowed.replace("/auth", &format!("/{}", "a".repeat(1 << 20)));
    let long = question("nginx", asked("/a", &[("x-long", &*"a".repeat(1 << 20))]));
    for text in [
        folded,
        many,
        huge,
        long,
        allowed.replace("HTTP/1.1", "HTTP/3.0"),
        allowed.replace("X-Original-URI:", "X-Original-URI :"),
        allowed.replace("X-Real-IP: ", "X-Real-IP: \0"),
        allowed.replace("X-Original-URI: /a", "X-Original-URI: /a\u{7f}"),
        allowed.replace("\r\n\r\n", "\r\nno colon\r\n\r\n"),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\u{16}\u{3}\u{1}\0\0".to_owned(),
        allowed.trim_end().to_owned(),
    ] {
        let mut proxy = Proxy::connect(&server, "nginx");
        // The server may close while this is sent.
        let _ = proxy.stream.get_mut().write_all(text.as_bytes());
        let _ = proxy.stream.get_mut().shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = proxy.stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let start: String = text.chars().take(200).collect();
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer} to {start}");
    }
    assert!(server.metric("rolegate_http_refused_total{reason=\"invalid_http\"}") > Some(5.0));
    assert_eq!(status(&server, &allowed), 200);
}

/// A slow sender takes a connection and nothing else.
#[test]
fn slow_senders_delay_nobody() {
    let policy = open();
    let server = start(&policy.arg(), "nginx", &["--max-connections", "8", "--threads", "1"]);
    let text = question("nginx", asked("/a", &[]));
    let slow: Vec<_> = (0..50)
        .map(|_| {
            let mut proxy = Proxy::connect(&server, "nginx");
            let _ = proxy.stream.get_mut().write_all(&text.as_bytes()[..20]);
            proxy
        })
        .collect();
    assert_eq!(Proxy::connect(&server, "nginx").ask(asked("/a", &[])).status, 200);
    drop(slow);
}

#[test]
fn a_drain_answers_and_closes() {
    let policy = open();
    let args = ["--drain-delay", "1s", "--drain-timeout", "1h"];
    let mut server = start(&policy.arg(), "nginx", &args);
    let (mut idle, mut unused) =
        (Proxy::connect(&server, "nginx"), Proxy::connect(&server, "nginx"));
    assert_eq!(idle.ask(asked("/a", &[])).status, 200);
    server.signal(Signal::TERM);
    server.wait_for_log("stopping");
    assert_eq!(idle.ask(asked("/a", &[])).status, 200, "during the delay");
    assert!(idle.is_closed() && unused.is_closed());
    assert_eq!(server.ended(), 0);
}

#[test]
fn a_reload_applies_to_open_connections() {
    let folder = PolicyFolder::new(&open_to_all("/a"));
    let server = start(&folder.arg(), "caddy", &["--poll-interval", "50ms"]);
    let mut proxy = Proxy::connect(&server, "caddy");
    assert_eq!(proxy.ask(asked("/a", &[])).status, 200);
    folder.write("policy.yaml", &open_to_all("/b"));
    wait_until(|| proxy.ask(asked("/b", &[])).status == 200, || "the new policy".to_owned());
    assert_ne!(proxy.ask(asked("/a", &[])).status, 200);
}

#[test]
fn no_error_allows() {
    // Its policy is too old, so none is active.
    let policy = open();
    let stale = ["--max-policy-age", "200ms", "--on-stale", "unavailable"];
    let server = start(&policy.arg(), "nginx", &stale);
    let mut proxy = Proxy::connect(&server, "nginx");
    policy.write("policy.yaml", "version: 2\n");
    server.wait_for_metric("rolegate_policy_stale", 1.0);
    let answer = proxy.ask(asked("/a", &[]));
    assert_eq!(answer.status, 503, "{answer:?}");
}

/// More passwords than may wait: all others are denied, none is allowed.
#[test]
fn overload_is_a_denial() {
    let args =
        ["--max-waiting-checks", "1", "--hash-queue", "1", "--threads", "1", "--hash-threads", "1"];
    let server = start(&example("people"), "nginx", &args);
    let mut proxies: Vec<_> = (0..40).map(|_| Proxy::connect(&server, "nginx")).collect();
    for (number, proxy) in proxies.iter_mut().enumerate() {
        let wrong = format!(
            "Basic {}",
            client::basic(&format!("alice:{number}")).trim_start_matches("Basic ")
        );
        let client = format!("192.0.2.{number}");
        let text = question(
            "nginx",
            Asked { client: &client, ..asked("/people", &[("authorization", &wrong)]) },
        );
        proxy.send(text.as_bytes());
    }
    let statuses: Vec<u16> =
        proxies.iter_mut().map(|proxy| proxy.answer(false).unwrap().status).collect();
    assert!(statuses.contains(&503), "{statuses:?}");
    assert!(statuses.iter().all(|status| [401, 503].contains(status)), "{statuses:?}");
}

/// Each path with which the parser is tested gets the answer that it gets over gRPC.
#[test]
fn a_path_gets_the_answer_that_it_gets_over_grpc() {
    let policy = PolicyFolder::new(
        "version: 1\nroles: { anyone: { allow: [GET /people, \"GET /people/**\", \"GET /public/**\", \"GET /a/**\"], \
         deny: [\"GET /public/admin/**\", \"GET /a/b\"] } }\n",
    );
    let source = testbed::repository().join("crates/policy/src/canonical/tests.rs");
    let source = runtime::files::text(&source).unwrap();
    let paths: Vec<&str> = source
        .split("(\"")
        .skip(1)
        .filter_map(|text| text.split_once('"'))
        .map(|(path, _)| path)
        .filter(|path| path.starts_with('/') && !path.contains(['\\', ' ', '{']))
        .collect();
    assert!(paths.len() > 150, "{}", paths.len());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for profile in PROFILES {
        let server = start(&policy.arg(), profile, &[]);
        let mut proxy = Proxy::connect(&server, profile);
        let mut allowed = 0;
        runtime.block_on(async {
            let mut envoy = client::Envoy::connect(server.address()).await;
            // `hyper` takes no fragment, which Envoy refuses, too.
            for path in paths.iter().filter(|path| profile != "envoy" || !path.contains('#')) {
                let host = &[][..];
                let over_grpc = envoy.check("GET", path, host).await;
                let answer = proxy.ask(asked(path, &[]));
                let over_http = client::Answer::Http(answer.status.into());
                assert_eq!(over_http, over_grpc, "{profile} {path}");
                allowed += usize::from(answer.status == 200);
            }
        });
        assert!(allowed > 15, "{allowed}");
    }
}

#[test]
fn parts_of_a_policy_that_no_proxy_can_be_told_are_warned_of() {
    let folder = open();
    let server = start(&folder.arg(), "nginx", &["--poll-interval", "50ms"]);
    let warning = "not over HTTP forward-auth: `allow_response.metadata`: no proxy receives it";
    let without = Server::start(&folder.arg(), &["--poll-interval", "50ms"]);
    assert!(!server.log().contains("not over HTTP"), "{}", server.log());
    let policy = open_to_all("/b");
    folder.write("policy.yaml", &format!("{policy}allow_response: {{ metadata: {{ a: b }} }}\n"));
    server.wait_for_log(warning);
    start(&folder.arg(), "nginx", &[]).wait_for_log(warning);

    without.wait_for_log("policy reloaded");
    folder.write("policy.yaml", &open_to_all("/c"));
    server.wait_for_logs("policy reloaded", 2);
    assert_eq!(server.log().matches("not over HTTP").count(), 1, "{}", server.log());
    assert!(!without.log().contains("not over HTTP"), "without a listener for it");
}

/// Asks over TLS whether alice may read the people, as a client with this certificate: the answer,
/// empty if there is none.
async fn ask_over_tls(
    certificates: &Certificates,
    server: &Server,
    client: Option<&str>,
) -> String {
    let address = server.logged_address(LISTENING);
    let Ok(mut stream) = certificates.connect_http(address, client).await else {
        return String::new();
    };
    let text = question("nginx", asked("/people", &[ALICE, ("Connection", "close")]));
    let mut answer = Vec::new();
    // A client learns by its first read that its certificate is not accepted.
    if stream.write_all(text.as_bytes()).await.is_ok() {
        let _ = stream.read_to_end(&mut answer).await;
    }
    String::from_utf8(answer).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_only_tls_is_answered() {
    let certificates = Certificates::new();
    certificates.issue("server", &[dns("localhost")]);
    let [certificate, key] = ["server.pem", "server.key"].map(|name| certificates.text(name));
    let server =
        start(&example("people"), "nginx", &["--tls-certificate", &certificate, "--tls-key", &key]);
    let answer = ask_over_tls(&certificates, &server, None).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer} {}", server.log());
    let plain = question("nginx", asked("/people", &[ALICE]));
    let mut stream = TcpStream::connect(server.logged_address(LISTENING)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(plain.as_bytes()).unwrap();
    let mut answer = Vec::new();
    // An alert of TLS, or a reset.
    let _ = stream.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP"), "an answer without TLS");
    assert_eq!(server.metric(ALLOWED), Some(1.0));
}

/// The certificate takes the place of `http-trusted`, and does not replace it where both are set.
#[tokio::test(flavor = "multi_thread")]
async fn with_mutual_tls_only_listed_clients_may_ask() {
    let certificates = Certificates::new();
    certificates.issue("server", &[dns("localhost")]);
    certificates.issue("proxy", &[dns("proxy.example.com")]);
    certificates.issue("other", &[dns("other.example.com")]);
    let [certificate, key, ca] =
        ["server.pem", "server.key", "ca.pem"].map(|name| certificates.text(name));
    let settings = [
        ["--tls-certificate", &certificate],
        ["--tls-key", &key],
        ["--tls-client-ca", &ca],
        ["--tls-client-names", "proxy.example.com"],
        ["--http", "127.0.0.1:0"],
        ["--http-profile", "nginx"],
    ]
    .concat();
    let server = Server::start(&example("people"), &settings);
    server.wait_for_log(LISTENING);
    let answer = ask_over_tls(&certificates, &server, Some("proxy")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer} {}", server.log());
    for stranger in [Some("other"), None] {
        assert_eq!(ask_over_tls(&certificates, &server, stranger).await, "", "{stranger:?}");
    }
    assert_eq!(server.metric(ALLOWED), Some(1.0));

    let elsewhere = [&*settings, &["--http-trusted", "10.0.0.0/8"]].concat();
    let server = Server::start(&example("people"), &elsewhere);
    server.wait_for_log(LISTENING);
    let answer = ask_over_tls(&certificates, &server, Some("proxy")).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer} {}", server.log());
}

/// The cases of every example, asked by each profile.
#[test]
fn all_cases_hold_over_http() {
    let signer = Signer::default();
    let (mut wrong, mut ran) = (Vec::new(), 0);
    let mut undecidable = BTreeSet::new();
    for name in policies::names().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let example = Example::signed_by(&name, folder.path(), &signer).unwrap();
        let policy = &example.loaded.policy;
        let removed = policy.allow_response.remove_headers.iter().map(|name| name.to_string());
        let removed: Vec<String> =
            removed.chain(policy.identity.api_key_header().map(str::to_owned)).collect();
        for profile in PROFILES {
            let policy = folder.path().display().to_string();
            let server = start(&policy, profile, &["--decision-log", "all"]);
            let mut proxy = Proxy::connect(&server, profile);
            let mut decisions = 0;
            for case in example.cases.iter().filter(|case| {
                let request = &case.request;
                request.at.is_none()
                    && request.certificate.is_none()
                    && (profile != "envoy" || request.client.is_empty())
            }) {
                ran += 1;
                let identity = &example.loaded.policy.identity;
                let own = credentials_header(&case.request.credentials, identity, Some(&signer));
                let failed =
                    hold(&server, &mut proxy, case, (own.unwrap(), &removed), &mut decisions);
                match failed {
                    Some(Failure::Undecidable(reason)) => {
                        undecidable.insert(format!("{name}: {reason}: {}", case.name));
                    }
                    Some(Failure::Other(what)) => {
                        wrong.push(format!("{name}, {profile}, `{}`: {what}", case.name));
                    }
                    None => {}
                }
            }
        }
    }
    assert!(ran > 400, "only {ran} cases were found");
    assert!(wrong.is_empty(), "{} of {ran} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    let undecidable: Vec<String> = undecidable.into_iter().collect();
    assert_eq!(undecidable, NEEDS_ENVOY, "{}", undecidable.join("\n"));
}

/// How an answer differs from its case.
enum Failure {
    /// It is denied for this reason, because it needs its body or a change that only Envoy can make.
    Undecidable(String),
    Other(String),
}

/// The cases that only Envoy can have decided as they say, and the reason over HTTP. A proxy that
/// itself removes what its clients may not send has fewer: `--test proxies` shows which.
const NEEDS_ENVOY: &[&str] = &[
    "browser: unsupported_change: a customer reads the own orders",
    "browser: unsupported_change: a form of the shop may change something",
    "jwt: unsupported_change: where the claim is missing, the header is removed, so that a \
     client cannot bring its own",
    "keys: unsupported_change: an alias of the header is no key, and does not reach the \
     application",
    "owner: unsupported_change: anyone cannot bring a name along",
    "people: unsupported_change: nor by a name that some applications read as the same",
    "search: body_needed: a comma that is encoded is a comma",
    "search: body_needed: a pattern is permitted if each index that it stands for is",
    "search: body_needed: a reader searches the logs",
    "search: body_needed: a search without an index is one of all indices",
    "search: body_needed: an alias stands for its indices",
    "search: body_needed: an index that a query reads must be permitted, too",
    "search: body_needed: each item of a bulk must be permitted",
    "search: body_needed: one index more than permitted is too much",
    "search: body_needed: one item of a bulk that is not permitted denies all",
];

/// Asks about the request of a case: how the answer differs.
fn hold(
    server: &Server,
    proxy: &mut Proxy,
    case: &Case,
    (credentials, removed): (Option<(String, String)>, &[String]),
    decisions: &mut usize,
) -> Option<Failure> {
    let request = &case.request;
    let lines = request.headers.iter().chain(&credentials);
    let lines: Vec<(&str, &str)> = lines.map(|(name, value)| (&**name, &**value)).collect();
    let client = if request.client.is_empty() { "192.0.2.1" } else { &*request.client };
    let text = question(
        proxy.profile,
        Asked {
            method: &request.method,
            host: &request.host,
            path: &request.path,
            client,
            headers: &lines,
        },
    );
    proxy.send(text.as_bytes());
    let answer = proxy.answer(request.method == "HEAD" && proxy.profile == "envoy");
    let answer = answer.unwrap();
    if answer.header("connection") == Some("close")
        || answer.body.is_empty() && answer.status == 400
    {
        *proxy = Proxy::connect(server, proxy.profile);
    }
    let is_undecided = answer.status == 400 && !answer.body.contains("bad_request");
    if is_undecided {
        let is_wrong = case.expect.status != 400;
        return is_wrong.then(|| Failure::Other(format!("not decided: {answer:?}")));
    }
    *decisions += 1;
    let line = server.wait_for_decisions(*decisions).remove(*decisions - 1);
    let reason = line["reason"].as_str();
    if let Some(reason @ ("body_needed" | "unsupported_change")) = reason {
        return Some(Failure::Undecidable(reason.to_owned()));
    }
    let expected = &case.expect;
    if answer.status != expected.status {
        let what = format!("{} instead of {}: {line}", answer.status, expected.status);
        return Some(Failure::Other(what));
    }
    if expected.reason.as_deref().is_some_and(|expected| Some(expected) != reason)
        || expected.rule.as_deref().is_some_and(|rule| line["rule"] != rule)
    {
        return Some(Failure::Other(format!("{line} instead of {expected:?}")));
    }
    // A header that is not in the answer reaches the application as the client sent it, unless its
    // proxy removes it, as it must for `remove_headers` and API keys.
    let mut headers = expected.headers.iter();
    let wrong = headers.find(|(name, value)| {
        let sent = lines.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name));
        let by_proxy = value.is_empty() && removed.iter().any(|removed| removed == name);
        let received = answer.lines(name).or(sent.map(|(_, value)| (*value).to_owned()));
        !by_proxy && received.unwrap_or_default() != **value
    });
    wrong.map(|wrong| Failure::Other(format!("{wrong:?} is not in {answer:?}")))
}

/// Everybody may GET `/a`.
fn open() -> PolicyFolder {
    PolicyFolder::new(&open_to_all("/a"))
}
