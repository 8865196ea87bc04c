//! What attackers send.

use testbed::proxy::Kind;

use super::recorder::{Received, names};
use super::{Stage, request, status};

/// Paths of attackers. Each arrives exactly as it was decided about, or not at all.
const TARGETS: &[&str] = &[
    "/people",
    "/people?path=/../admin&b=%2e%2e",
    "/people?a=1;b=2&c=%3b",
    "/static/../people",
    "/static/%2e%2e/people",
    "/static/%2E./people",
    "/../people",
    "/./people/.",
    "/people/..",
    "//people",
    "//evil.example/people",
    "/a//people",
    "/a///../people",
    "/people%2fx",
    "/people%5c..%5cx",
    "/people%252e%252e/x",
    "/%70eople",
    "/people%00",
    "/people%0d%0ax",
    "/people%",
    "/people%zz",
    "/people;a=../b",
    "/people\\..\\x",
    "/people#/../x",
    "/people%23",
    "/people%3fx",
    "/PEOPLE",
    "/%ff%c0%ae",
    "/{}|^\"<>`",
    "http://localhost/people",
    "http://evil.example/people",
    "http:people",
    "people",
    "*",
    "",
];

/// Requests of attackers: what names it, its bytes, and how many requests may arrive of it.
fn attacks() -> Vec<(&'static str, String, usize)> {
    let post = |headers: &str, body: &str| {
        format!(
            "POST /people HTTP/1.1\r\nHost: localhost\r\nAuthorization: alice\r\n{headers}\r\n{body}"
        )
    };
    let hidden = "GET /admin HTTP/1.1\r\nHost: localhost\r\nAuthorization: alice\r\n\
                  Connection: close\r\n\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    let with = |line: &str| format!("{line}\r\n");
    vec![
        (
            "length, then chunked",
            post(&(with("Content-Length: 4") + chunked), &format!("0\r\n\r\n{hidden}")),
            1,
        ),
        (
            "chunked, then length",
            post(&(chunked.to_owned() + &with("Content-Length: 4")), &format!("0\r\n\r\n{hidden}")),
            1,
        ),
        (
            "length over a hidden request",
            post(
                &(with(&format!("Content-Length: {}", hidden.len())) + "Connection: close\r\n"),
                hidden,
            ),
            1,
        ),
        ("two lengths", post("Content-Length: 0\r\nContent-Length: 9\r\n", hidden), 0),
        ("a list of lengths", post("Content-Length: 0, 9\r\n", hidden), 0),
        ("a signed length", post("Content-Length: +0\r\n", hidden), 0),
        (
            "another encoding",
            post("Transfer-Encoding: xchunked\r\n", &format!("0\r\n\r\n{hidden}")),
            0,
        ),
        (
            "two encodings",
            post(
                "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n",
                &format!("0\r\n\r\n{hidden}"),
            ),
            1,
        ),
        (
            "space before the colon",
            post("Transfer-Encoding : chunked\r\n", &format!("0\r\n\r\n{hidden}")),
            0,
        ),
        (
            "a tab in the value",
            post("Transfer-Encoding:\tchunked\r\n", &format!("0\r\n\r\n{hidden}")),
            1,
        ),
        ("a chunk of another size", post(chunked, &format!("0x0\r\n\r\n{hidden}")), 1),
        ("a line in a chunk's extension", post(chunked, &format!("0;a=\n\r\n\r\n{hidden}")), 1),
        (
            "pipelined",
            format!(
                "GET /people HTTP/1.1\r\nHost: localhost\r\nAuthorization: alice\r\n\r\n{hidden}"
            ),
            1,
        ),
        ("two hosts", request("GET /people", "Host: evil.example\r\n"), 0),
        (
            "no host",
            "GET /people HTTP/1.1\r\nAuthorization: alice\r\nConnection: close\r\n\r\n".to_owned(),
            0,
        ),
        (
            "no host in HTTP/1.0",
            "GET /people HTTP/1.0\r\nAuthorization: alice\r\n\r\n".to_owned(),
            0,
        ),
        ("two credentials", request("GET /people", "Authorization: bob\r\n"), 0),
        ("a folded line", request("GET /people", "X-A: b\r\n X-User: bob\r\n"), 1),
        ("a bare line feed", request("GET /people", "X-A: b\nX-User: bob\r\n"), 1),
        ("a bare carriage return", request("GET /people", "X-A: b\rX-User: bob\r\n"), 1),
        ("no colon", request("GET /people", "X-User\r\n"), 1),
        ("a space in the name", request("GET /people", "X-User : bob\r\n"), 1),
        ("another method", request("get /people", ""), 1),
        ("CONNECT", request("CONNECT localhost:80", ""), 0),
        ("TRACE", request("TRACE /people", ""), 1),
        ("the path of nginx's own", request("GET /_rolegate", ""), 1),
        (
            "another's path",
            request(
                "GET /admin",
                "X-Original-Uri: /people\r\nX-Forwarded-Uri: /people\r\nX-Original-Url: /people\r\nX-Rewrite-Url: /people\r\nX_Original_Uri: /people\r\n",
            ),
            0,
        ),
        (
            "without its path",
            request(
                "GET /admin",
                "Connection: x-original-uri, x-forwarded-uri, x-real-ip, x-forwarded-for\r\n",
            ),
            0,
        ),
        ("a long header", request("GET /people", &with(&format!("X-A: {}", "a".repeat(6000)))), 1),
        (
            "too long a header",
            request("GET /people", &with(&format!("X-A: {}", "a".repeat(200_000)))),
            1,
        ),
        (
            "a body that the service is not sent",
            post("Content-Length: 5\r\nConnection: close\r\n", "hello"),
            1,
        ),
    ]
}

/// Sends each attack. What the application receives is what the service allowed.
pub(crate) async fn arrive_as_decided(kind: Kind) {
    let stage = Stage::start(kind).await;
    let targets = TARGETS.iter().map(|target| (*target, request(&format!("GET {target}"), ""), 1));
    let mut arrivals = Vec::new();
    for (what, bytes, most) in targets.chain(attacks()) {
        let (answer, asked, arrived) = stage.send(&bytes).await;
        let what = format!("{kind:?}, {what:?}");
        let seen = format!("{answer}\nasked: {asked:#?}\narrived: {arrived:#?}");
        assert!(arrived.len() <= most, "{what}: {} arrived: {seen}", arrived.len());
        assert!(arrived.len() <= asked.len(), "{what}: {seen}");
        for (asked, arrived) in asked.iter().zip(&arrived) {
            is_as_decided(kind, asked, arrived)
                .unwrap_or_else(|why| panic!("{what}: {why}: {seen}"));
        }
        assert!(asked.iter().all(|asked| asked.body.is_empty()), "{what}: {seen}");
        if !arrived.is_empty() {
            arrivals.push(what);
        } else {
            assert_ne!(status(&answer), 200, "{what}: {seen}");
        }
    }
    assert!(arrivals.len() > 12, "{kind:?}: too few arrived: {arrivals:#?}");
}

/// Whether the application received the request that was decided about.
fn is_as_decided(kind: Kind, asked: &Received, arrived: &Received) -> Result<(), String> {
    let [method, host, uri, client] = names(kind).map(|name| asked.values(name).join(", "));
    // The application's server drops a fragment.
    let uri = uri.split('#').next().unwrap_or_default();
    for (what, decided, arrived) in [
        ("method", method.as_str(), arrived.method.as_str()),
        ("host", &host, &arrived.values("host").join(", ")),
        ("path", uri, &arrived.path),
        ("client", &client, &arrived.values("x-forwarded-for").join(", ")),
        ("client", &client, "127.0.0.1"),
        ("user", &asked.values("authorization").join(", "), &arrived.values("x-user").join(", ")),
        ("roles", "guest", &arrived.values("x-roles").join(", ")),
    ] {
        if decided != arrived {
            return Err(format!("{what} {arrived:?} arrived, {decided:?} was decided"));
        }
    }
    match arrived.path.contains("admin") {
        true => Err("what is denied arrived".to_owned()),
        false => Ok(()),
    }
}

/// Headers that the application trusts, or that some applications read, with forged values.
const FORGED: &str = "X-User: bob\r\nx-user: root\r\nX_User: bob\r\nX.User: bob\r\nX-ROLES: admin\r\n\
    X_Roles: admin\r\nx.roles: admin\r\nX-Identity: forged\r\nX_Identity: forged\r\n\
    X.Identity: forged\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-For: 8.8.8.8\r\n\
    X-Forwarded-Host: evil\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-Method: DELETE\r\n\
    X-Forwarded-Uri: /evil\r\nX-Original-Method: DELETE\r\nX-Original-Host: evil\r\n\
    X-Original-Uri: /evil\r\nX-Original-Url: /evil\r\nX-Rewrite-Url: /evil\r\nX-Real-Ip: 9.9.9.9\r\n\
    X-Http-Method-Override: DELETE\r\nForwarded: for=9.9.9.9\r\n";

/// What arrives of [`FORGED`], for a caller with this name.
fn is_clean(kind: Kind, arrived: &Received, user: &str, roles: &str) -> bool {
    let values =
        ["9.9.9.9", "8.8.8.8", "evil", "gopher", "DELETE", "forged", "bob", "root", "admin"];
    let is_forged =
        |(_, value): &(String, String)| values.iter().any(|forged| value.contains(forged));
    !arrived.headers.iter().any(is_forged)
        && [("x-user", user), ("x-roles", roles), ("x-identity", "")].iter().all(|(name, value)| {
            let values = arrived.values(name);
            // Traefik copies a header without a value, others remove it.
            values == [*value] && (!value.is_empty() || kind == Kind::Traefik)
                || values.is_empty() && value.is_empty()
        })
}

/// Sends forged headers, of a caller and of nobody.
pub(crate) async fn cannot_say_who_they_are(kind: Kind) {
    let stage = Stage::start(kind).await;
    let nobody = "GET /public HTTP/1.1\r\nHost: localhost\r\n";
    for more in ["", "Connection: x-user, x-roles, x-identity\r\n", "Connection: authorization\r\n"]
    {
        let sent = request("GET /people", &format!("{FORGED}{more}"));
        let (answer, asked, arrived) = stage.send(&sent).await;
        // A proxy that takes the credentials out, as it may, has the caller denied.
        if !(more.contains("authorization") && status(&answer) == 401) {
            assert_eq!(arrived.len(), 1, "{kind:?}, {more:?}: {answer} {asked:#?}");
        }
        for arrived in &arrived {
            assert!(is_clean(kind, arrived, "alice", "guest"), "{kind:?}, {more:?}: {arrived:#?}");
        }
        let sent = format!("{nobody}{FORGED}{more}Connection: close\r\n\r\n");
        let (answer, asked, arrived) = stage.send(&sent).await;
        assert_eq!(arrived.len(), 1, "{kind:?}, {more:?}: {answer} {asked:#?}");
        assert!(is_clean(kind, &arrived[0], "", ""), "{kind:?}, {more:?}: {arrived:#?}");
    }

    // The page of nginx says how to forward the upgrade to WebSocket; the others do.
    let sent = request(
        "GET /people",
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
    );
    let (answer, _, arrived) = stage.send(&sent.replace(": close", ": upgrade, close")).await;
    assert_eq!(arrived.len(), 1, "{kind:?}: {answer}");
    let expected = if kind == Kind::Nginx { vec![] } else { vec!["websocket"] };
    assert_eq!(arrived[0].values("upgrade"), expected, "{kind:?}: {arrived:#?}");

    // An upgrade to another protocol than WebSocket would carry requests that nobody decides about.
    for upgrade in ["h2c", "h2c\r\nUpgrade: websocket", "websocket, h2c", "TLS/1.0"] {
        let sent = format!(
            "GET /people HTTP/1.1\r\nHost: localhost\r\nAuthorization: alice\r\n\
             Upgrade: {upgrade}\r\nConnection: upgrade, http2-settings, close\r\n\
             HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        let (_, _, arrived) = stage.send(&sent).await;
        for arrived in arrived {
            let passed = arrived.values("upgrade");
            assert!(
                passed.iter().all(|to| *to == "websocket"),
                "{kind:?}, {upgrade:?}: {arrived:#?}"
            );
        }
    }
}
