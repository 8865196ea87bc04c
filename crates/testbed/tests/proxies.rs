//! nginx, HAProxy, Caddy and Traefik with the shipped configurations. Attackers send bytes to them; what
//! they ask of an authorization service, and what the application receives, is recorded. The
//! service allows callers that it should not, so that the paths of attackers are seen to arrive as
//! they were decided about.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::panic, reason = "the answers of the proxies are the message of a failed test")]
#![expect(clippy::indexing_slicing, reason = "a missing request is a failed test")]

#[path = "proxies/attacks.rs"]
mod attacks;
#[path = "proxies/recorder.rs"]
mod recorder;

use std::net::SocketAddr;
use std::time::Duration;

use tempfile::TempDir;
use testbed::proxy::{Kind, Proxy, Timeouts};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use recorder::{Received, Recorder};

/// Caddy and Traefik take minutes to build: `make test-proxies` does it, and runs their tests.
const BUILT: [Kind; 2] = [Kind::Caddy, Kind::Traefik];
const FETCHED: [Kind; 2] = [Kind::Nginx, Kind::Haproxy];

/// The longest time for an answer. HAProxy asks a service that is silent four times, 2 s each.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A proxy with a service that it asks and an application behind it.
struct Stage {
    proxy: Proxy,
    service: Recorder,
    application: Recorder,
    _folder: TempDir,
}

impl Stage {
    async fn start(kind: Kind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let service = Recorder::start(move |asked| recorder::decide(kind, asked)).await;
        let application = Recorder::start(|_| recorder::arrived()).await;
        let addresses = (service.address, application.address);
        let proxy = Proxy::start(kind, addresses, folder.path(), Timeouts::Shipped).await.unwrap();
        proxy.wait_for_routes().await.unwrap();
        let stage = Self { proxy, service, application, _folder: folder };
        stage.service.take();
        stage
    }

    /// Sends bytes on a connection of their own, and returns the answer with what the service and
    /// the application received meanwhile.
    async fn send(&self, bytes: &str) -> (String, Vec<Received>, Vec<Received>) {
        let answer = exchange(self.proxy.address, bytes).await;
        (answer, self.service.take(), self.application.take())
    }
}

/// Sends bytes, and reads until the proxy closes the connection.
async fn exchange(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let read = tokio::time::timeout(ANSWER_TIMEOUT, stream.read_to_end(&mut answer)).await;
    // A proxy may reset the connection of an attacker.
    let _ = read.unwrap_or_else(|_| {
        panic!("no end of the answer to {bytes:?}: {}", String::from_utf8_lossy(&answer))
    });
    String::from_utf8_lossy(&answer).into_owned()
}

/// The status of an answer; 0 if there is none.
fn status(answer: &str) -> u16 {
    let last = answer.rsplit("HTTP/1.").find(|part| !part.contains(" 100 Continue"));
    last.and_then(|part| part.split(' ').nth(1)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// A request of alice.
fn request(line: &str, headers: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: alice\r\n{headers}\
         Connection: close\r\n\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_arrives_is_what_was_decided() {
    for kind in FETCHED {
        attacks::arrive_as_decided(kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Caddy and Traefik: `make test-proxies`"]
async fn what_arrives_is_what_was_decided_with_those_that_are_built() {
    for kind in BUILT {
        attacks::arrive_as_decided(kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_says_who_they_are() {
    for kind in FETCHED {
        attacks::cannot_say_who_they_are(kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Caddy and Traefik: `make test-proxies`"]
async fn nobody_says_who_they_are_with_those_that_are_built() {
    for kind in BUILT {
        attacks::cannot_say_who_they_are(kind).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_allowed_does_not_arrive() {
    let (nginx, haproxy) = (without_allowance(Kind::Nginx), without_allowance(Kind::Haproxy));
    tokio::join!(nginx, haproxy);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Caddy and Traefik: `make test-proxies`"]
async fn what_is_not_allowed_does_not_arrive_with_those_that_are_built() {
    let (caddy, traefik) = (without_allowance(Kind::Caddy), without_allowance(Kind::Traefik));
    tokio::join!(caddy, traefik);
}

/// Denials and failures of the service, each with the status that the client gets, as on the pages.
async fn without_allowance(kind: Kind) {
    let passes_on = kind != Kind::Nginx;
    // Of the service's 500 and 302, of its silence, and without it.
    let [failed, redirected, silent, unreachable] = match kind {
        Kind::Nginx | Kind::Haproxy => [503; 4],
        Kind::Caddy => [500, 302, 504, 502],
        Kind::Traefik => [500, 302, 500, 500],
    };
    let stage = Stage::start(kind).await;
    for (answer, expected) in [
        ("400", 400),
        ("401", 401),
        ("403", 403),
        ("413", if passes_on { 413 } else { 503 }),
        ("500", failed),
        ("503", 503),
        ("302", redirected),
        ("silence", silent),
    ] {
        let sent = request("GET /people", &format!("X-Answer: {answer}\r\n"));
        let (got, asked, arrived) = stage.send(&sent).await;
        assert_eq!(status(&got), expected, "{kind:?}, {answer}: {got}");
        assert!(!asked.is_empty(), "{kind:?}, {answer}: nobody was asked");
        assert_eq!(arrived, [], "{kind:?}, {answer}");
        let challenges = got.to_ascii_lowercase().matches("www-authenticate: ").count();
        let expected = usize::from(answer == "401");
        assert!(challenges >= expected && (challenges == 0) == (expected == 0), "{kind:?}: {got}");
    }

    let Stage { proxy, service, application, _folder } = stage;
    drop(service);
    for sent in [request("GET /people", ""), request("OPTIONS /public", "")] {
        let got = exchange(proxy.address, &sent).await;
        assert_eq!(status(&got), unreachable, "{kind:?}: {got}");
    }
    assert_eq!(application.take(), [], "{kind:?}");
}
