//! HTTP forward-auth: whatever goes wrong while a question is decided, nothing is allowed.

use std::sync::Arc;
use std::time::Duration;

use runtime::ActivePolicy;
use runtime::counters::ErrorKind;
use server::Listener;
use server::checks::{Options, Protocol, RunningServer, Server};
use server::forward_auth::{ForwardAuth, Profile};
use testbed::client::{Connection, Version};

use crate::checks::{Panics, errors};
use crate::hashing::slow_policy;
use crate::support::*;

fn serve_http(service: ActivePolicy, options: Options) -> RunningServer {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let forward_auth =
        ForwardAuth { profile: Profile::Nginx, path_prefix: "".into(), trusted: None };
    let protocol = Protocol::Http(Arc::new(forward_auth));
    Server::start(vec![(protocol, Listener::Tcp(listener))], service, options).unwrap()
}

async fn connect_http(server: &RunningServer) -> Connection {
    let address = server.addresses()[0].to_string().parse().unwrap();
    Connection::open(address, Version::Http1).await.unwrap()
}

/// Asks whether alice may `GET /people`: the status of the answer, and its headers as text.
async fn ask(connection: &mut Connection) -> (u16, String) {
    let headers = [
        ("x-original-method", "GET"),
        ("x-original-host", "people.example.com"),
        ("x-original-uri", "/people"),
        ("x-real-ip", "192.0.2.1"),
        ("authorization", ALICE),
    ];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let answer = connection.send("GET", "/auth", "rolegate", &headers, b"").await.unwrap();
    (answer.status, format!("{:?}", answer.headers))
}

#[tokio::test]
async fn a_panic_is_an_error_for_its_own_question_only() {
    let sink = Arc::new(Panics::default());
    let server = serve_http(ActivePolicy::new(people()).with_decisions(sink), options());
    let mut connection = connect_http(&server).await;
    for _ in 0..5 {
        let (status, headers) = ask(&mut connection).await;
        assert_eq!(status, 500, "a proxy takes it for an error");
        assert!(!headers.contains("alice"), "{headers}");
        let (status, headers) = ask(&mut connection).await;
        assert_eq!(status, 200);
        assert!(headers.contains("alice"), "{headers}");
    }
    assert_eq!(errors(&server, ErrorKind::Internal), 5);
    assert_eq!(server.totals().connections, 1);
}

/// The password is right, but its hash is not ready in time.
#[tokio::test]
async fn a_passed_deadline_is_a_denial() {
    let policy = ActivePolicy::new(publish(&slow_policy("wonderland")));
    let limits = Options { request_timeout: Duration::from_millis(1), ..options() };
    let server = serve_http(policy, limits);
    let (status, headers) = ask(&mut connect_http(&server).await).await;
    assert_eq!(status, 503, "{headers}");
    assert!(!headers.contains("x-user"), "{headers}");
    assert_eq!(server.totals().checks.denied, [("deadline_exceeded", 1)]);
}

#[tokio::test]
async fn without_a_policy_every_question_is_an_error() {
    let published = Published::default();
    let server = serve_http(ActivePolicy::new(published.clone()), options());
    let mut connection = connect_http(&server).await;
    assert_eq!(ask(&mut connection).await.0, 503);
    published.store(people().load_full());
    assert_eq!(ask(&mut connection).await.0, 200);
    published.store(None);
    assert_eq!(ask(&mut connection).await.0, 503);
    assert_eq!(errors(&server, ErrorKind::NotReady), 2);
}
