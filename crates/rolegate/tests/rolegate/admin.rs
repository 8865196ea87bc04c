//! The admin listener under clients that keep their connections open: it must still answer the
//! kubelet and Prometheus.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use tokio::net::TcpSocket;

use crate::process::{LONG, PolicyFolder, Server, example, http_get, run, wait_until};

/// More connections than the listener keeps open.
const MANY: usize = 100;

fn connected(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Probes as a kubelet sends them, one after the other, without retries: a single reset is a failed
/// probe.
fn every_probe_is_answered(server: &Server) {
    for probe in 0..50 {
        let path = if probe % 2 == 0 { "/healthz" } else { "/readyz" };
        let answer = server.try_page(path);
        assert_eq!(answer.map(|(status, _)| status), Some(200), "probe {probe}");
    }
}

#[test]
fn kept_connections_do_not_starve_probes() {
    let server = Server::start(&example("people"), &[]);
    let _silent: Vec<_> = (0..MANY).map(|_| connected(server.admin())).collect();
    every_probe_is_answered(&server);
    let _after_a_request: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = connected(server.admin());
            write!(stream, "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n")
                .unwrap();
            assert!(stream.read(&mut [0; 16]).unwrap() > 0, "no answer");
            stream
        })
        .collect();
    every_probe_is_answered(&server);
}

/// However many connections are opened, at most 64 stay open.
#[test]
fn connections_are_bounded() {
    let server = Server::start(&example("people"), &[]);
    let before = open_sockets(&server);
    let _silent: Vec<_> = (0..3 * MANY).map(|_| connected(server.admin())).collect();
    every_probe_is_answered(&server);
    let more = open_sockets(&server) - before;
    assert!(more <= 64, "{more}");
}

#[test]
fn slow_headers_do_not_starve_probes() {
    let server = Server::start(&example("people"), &[]);
    let _slow: Vec<_> = (0..MANY)
        .map(|_| {
            let mut stream = connected(server.admin());
            write!(stream, "GET /metrics HTTP/1.1\r\nhost: a\r\nx-slow: ").unwrap();
            stream
        })
        .collect();
    every_probe_is_answered(&server);
}

#[test]
fn half_closed_connections_are_answered_and_starve_nobody() {
    let server = Server::start(&example("people"), &[]);
    let _silent: Vec<_> = (0..MANY)
        .map(|_| {
            let stream = connected(server.admin());
            stream.shutdown(Shutdown::Write).unwrap();
            stream
        })
        .collect();
    every_probe_is_answered(&server);
    let mut connection = connected(server.admin());
    write!(connection, "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    connection.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok\n"),
        "{answer}"
    );
}

/// A policy whose page of metrics is larger than socket buffers: 2 MB, because of long URLs of
/// keys.
fn policy_with_a_large_page() -> PolicyFolder {
    let mut policy = "version: 1\nidentity:\n  jwt:\n".to_owned();
    for number in 0..100 {
        let path = "p".repeat(3000);
        write!(
            policy,
            "    - issuer: https://id-{number}.example\n      audiences: [a]\n      \
             keys: {{ url: \"http://127.0.0.1:9/{number}/{path}\", refresh: 1h }}\n"
        )
        .unwrap();
    }
    PolicyFolder::new(&policy)
}

/// Requests a page and reads none of it.
async fn reads_nothing(address: SocketAddr, path: &str) -> tokio::net::TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(stream.try_write(request.as_bytes()).unwrap(), request.len());
    stream
}

/// Without a bound, each connection would hold a page of 2 MB.
#[tokio::test]
async fn slow_readers_starve_nobody_and_take_no_memory() {
    let policy = policy_with_a_large_page();
    let server = Server::start(&policy.arg(), &["--keys-wait", "0s"]);
    let (status, page) = server.page("/metrics");
    assert!(status == 200 && page.len() > 1 << 20 && page.ends_with("# EOF\n"), "{}", page.len());
    let before = server.resident();
    let mut slow = Vec::new();
    // More than stay open.
    for _ in 0..70 {
        slow.push(reads_nothing(server.admin(), "/metrics").await);
        slow.push(reads_nothing(server.admin(), "/histograms").await);
    }
    every_probe_is_answered(&server);
    let after = server.resident();
    assert!(after < before + (32 << 10), "{before} KiB before, {after} KiB after");
    let (status, page) = server.page("/metrics");
    assert!(status == 200 && page.ends_with("# EOF\n"), "a scrape beside them");
}

/// No other connections come, so none is evicted: deadlines end these.
#[tokio::test]
async fn every_connection_has_a_deadline() {
    let policy = policy_with_a_large_page();
    let server = Server::start(&policy.arg(), &["--keys-wait", "0s"]);
    let open = || open_connections(server.admin());
    // On a machine that stands still for seconds, both may have ended before they are counted: then
    // again.
    let mut both = Vec::new();
    for _ in 0..5 {
        let mut slow_header = connected(server.admin());
        write!(slow_header, "GET / HTTP/1.1\r\nx-slow: ").unwrap();
        both.push((slow_header, reads_nothing(server.admin(), "/metrics").await));
        if open() >= 2 {
            break;
        }
    }
    assert!(open() > 0, "none was ever open");
    wait_until(|| open() == 0, || format!("the end of both: {} are open", open()));
    drop(both);
}

fn open_sockets(server: &Server) -> usize {
    let entries = std::fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap();
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// The connections to this listener that its process has not closed: in the state `ESTABLISHED` of
/// proc(5), `/proc/net/tcp`.
fn open_connections(listener: SocketAddr) -> usize {
    #[expect(clippy::disallowed_methods, reason = "the table of the system is what is looked at")]
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let port = format!(":{:04X}", listener.port());
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(1).is_some_and(|at| at.ends_with(&port)) && row.get(3) == Some(&"01"))
        .count()
}

/// Prometheus connects from another host, probes from this one.
#[test]
fn the_metrics_listener_has_the_metrics_and_nothing_else() {
    let server = Server::start(&example("people"), &["--metrics", "127.0.0.1:0"]);
    let metrics = server.logged_address("metrics");
    assert_ne!(metrics, server.admin());
    let (status, page) = http_get(metrics, "/metrics").unwrap();
    assert!(status == 200 && page.ends_with("# EOF\n"), "{page}");
    for path in ["/", "/healthz", "/readyz", "/histograms", "/metrics/"] {
        assert_eq!(http_get(metrics, path).unwrap().0, 404, "{path}");
    }
    let _kept: Vec<_> = (0..MANY).map(|_| connected(metrics)).collect();
    every_probe_is_answered(&server);
    assert_eq!(http_get(metrics, "/metrics").unwrap().0, 200);
}

#[test]
fn health_asks_a_running_server() {
    let server = Server::start(&example("people"), &["--drain-delay", "20s"]);
    let admin = server.admin().to_string();
    assert_eq!(run(&["health", "--admin", &admin]), (0, "ready\n".to_owned(), String::new()));
    assert_eq!(
        run(&["health", "--live", "--admin", &admin]),
        (0, "ok\n".to_owned(), String::new())
    );
    server.signal(rustix::process::Signal::TERM);
    server.wait_for_log("stopping");
    assert_eq!(
        run(&["health", "--admin", &admin]),
        (1, "not ready: draining\n".to_owned(), String::new())
    );
    assert_eq!(run(&["health", "--live", "--admin", &admin]).0, 0, "draining is no death");
    drop(server);
    let (code, out, err) = run(&["health", "--admin", &admin]);
    assert!(code == 5 && out.is_empty() && err.contains(&admin), "{code} {out} {err}");
    assert_eq!(run(&["health", "--admin", "off"]).0, 2);
}

#[test]
fn health_connects_to_a_unix_socket_and_rejects_what_is_not_http() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("admin.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        for answer in [
            "HTTP/1.1 200 OK\r\n\r\nready\n",
            "HTTP/1.1 200 OK\r\n",
            "",
            "200 OK\r\n\r\n",
            // Another server, such as Python's.
            "HTTP/1.0 200 OK\r\n\r\n<html>",
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let admin = format!("unix:{}", path.display());
    let answers: Vec<_> = (0..5).map(|_| run(&["health", "--admin", &admin])).collect();
    assert_eq!(answers.iter().map(|(code, ..)| *code).collect::<Vec<_>>(), [0, 5, 5, 5, 5]);
    let named = |number: usize| &answers[number].2;
    assert!(
        (1..4).all(|number| named(number).contains(" is not HTTP: is this the address")),
        "{answers:?}"
    );
    assert!(named(4).contains(" is not rolegate's: is this the address"), "{answers:?}");
    server.join().unwrap();
}

/// The status of the response to this request.
fn status(server: &Server, request: &str) -> u16 {
    let mut connection = connected(server.admin());
    write!(connection, "{request} HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}

/// A website can make a browser on this machine send a POST, which then names it as the origin.
#[test]
fn a_reload_is_requested_by_a_post_that_no_website_sent() {
    let server = Server::start(&example("people"), &[]);
    let reloads = || server.metric("rolegate_policy_reloads_total{result=\"unchanged\"}");
    assert_eq!(status(&server, "GET /reload"), 405);
    assert_eq!(status(&server, "POST /metrics"), 405);
    let from_a_website = "POST /reload HTTP/1.1\r\norigin: https://example.com\r\nx-rest:";
    assert_eq!(status(&server, from_a_website), 403);
    // A form of a website that is sent as a link: some browsers leave the origin out.
    let by_a_form = "POST /reload HTTP/1.1\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n\
                     sec-fetch-dest: document\r\nx-rest:";
    assert_eq!(status(&server, by_a_form), 403);
    assert_eq!(reloads(), Some(0.0));
    assert_eq!(status(&server, "POST /reload"), 202);
    assert_eq!(status(&server, "POST /reload"), 429);
    wait_until(|| reloads() == Some(1.0), || "the reload".to_owned());
}

/// The public keys of the identity header, which change with the policy.
#[test]
fn the_keys_of_the_identity_header_are_served() {
    let policy = "version: 1\nidentity: { basic: { verify: false } }\n";
    let folder = PolicyFolder::new(policy);
    let server = Server::start(&folder.arg(), &[]);
    assert_eq!(server.page("/jwks").0, 404);
    for keys in ["one.pem", "two.pem, one.pem"] {
        for file in keys.split(", ") {
            let key = rcgen::KeyPair::generate().unwrap();
            folder.write(file, &key.serialize_pem());
        }
        folder.write(
            "policy.yaml",
            &format!(
                "{policy}identity_header: {{ format: jwt, audience: shop, keys: [{keys}] }}\n"
            ),
        );
        let count = keys.split(", ").count();
        let mut are_served = || {
            let (status, page) = server.page("/jwks");
            let keys: serde_json::Value = serde_json::from_str(&page).unwrap_or_default();
            let keys = keys["keys"].as_array().map_or(0, Vec::len);
            status == 200 && keys == count && page.contains("\"ES256\"") && !page.contains("\"d\"")
        };
        wait_until(&mut are_served, || "the keys of the policy".to_owned());
    }
}

#[test]
fn the_list_of_pages_has_the_console_if_it_is_on() {
    for (more, last) in
        [(&[][..], ", /jwks and /reload\n"), (&["--console"], ", /jwks, /reload and /console\n")]
    {
        let server = Server::start(&example("people"), more);
        let (status, page) = server.page("/");
        assert!(status == 404 && page.ends_with(last), "{page}");
    }
}
