//! A server in this process, clients for it, and messages as Envoy sends them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use load::check_message::Checked;
pub(crate) use load::check_message::framed;
use prost::Message as _;
use runtime::ActivePolicy;
use server::Address;
use server::Listener;
use server::checks::{Options, Protocol, RunningServer, Server};
pub(crate) use testbed::grpc::{Client, Reply, basic as base64_of, call, handshake, reply};
use tokio::net::{TcpStream, UnixStream};

pub(crate) type Published = Arc<ArcSwapOption<Authorizer>>;

/// `alice:wonderland`, a guest of `policies/people`.
pub(crate) const ALICE: &str = "Basic YWxpY2U6d29uZGVybGFuZA==";
/// `alice:looking-glass`, which is not her password.
pub(crate) const WRONG: &str = "Basic YWxpY2U6bG9va2luZy1nbGFzcw==";

/// The policy of the tests.
pub(crate) fn people() -> Published {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/people"));
    publish(&String::from_utf8(read(&folder.join("policy.yaml"))).unwrap())
}

/// A policy, active.
pub(crate) fn publish(policy: &str) -> Published {
    Arc::new(ArcSwapOption::from_pointee(compiled(policy, None)))
}

/// A policy, compiled as one that replaces `previous`.
pub(crate) fn compiled(policy: &str, previous: Option<&Authorizer>) -> Authorizer {
    let files = document::MapFiles::new("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &Default::default(), previous).unwrap().0
}

#[expect(clippy::disallowed_methods, reason = "tests read the policies from where they are")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// A server with the policy of the people on a free port.
pub(crate) fn serve() -> RunningServer {
    serve_with(ActivePolicy::new(people()), options())
}

/// Other tests share the processors, so hashes may take longer than they usually may.
pub(crate) fn options() -> Options {
    Options {
        threads: 2,
        hash_threads: 1,
        request_timeout: Duration::from_secs(60),
        ..Options::default()
    }
}

pub(crate) fn serve_with(service: ActivePolicy, options: Options) -> RunningServer {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(vec![(Protocol::Grpc, Listener::Tcp(listener))], service, options).unwrap()
}

/// A connection to the first listener.
pub(crate) async fn connect(server: &RunningServer) -> Client {
    connect_to(&server.addresses()[0]).await
}

pub(crate) async fn connect_to(address: &Address) -> Client {
    match address {
        Address::Tcp(address) => {
            handshake(TcpStream::connect(address).await.unwrap()).await.unwrap()
        }
        Address::Unix(path) => handshake(UnixStream::connect(path).await.unwrap()).await.unwrap(),
    }
}

/// The head of a `Check`.
pub(crate) fn head() -> http::request::Builder {
    testbed::grpc::head(envoy::CHECK_PATH)
}

/// One check from beginning to end.
pub(crate) async fn check(client: &Client, message: &[u8]) -> Reply {
    call(client, envoy::CHECK_PATH, framed(message)).await.unwrap()
}

/// The form in which Envoy sends headers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Map,
    Raw,
}

/// A `CheckRequest`, encoded.
pub(crate) fn message(shape: Shape, method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    message_with_body(shape, method, path, headers, 0)
}

pub(crate) fn message_with_body(
    shape: Shape,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: usize,
) -> Vec<u8> {
    encoded(Checked {
        raw_headers: matches!(shape, Shape::Raw),
        body: &vec![b'x'; body],
        ..of(method, path, headers)
    })
}

/// The same, of a client at this address.
pub(crate) fn from(address: &str, method: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    encoded(Checked { source: Some(address), ..of(method, path, headers) })
}

fn of<'a>(method: &'a str, path: &'a str, headers: &'a [(&'a str, &'a str)]) -> Checked<'a> {
    let (id, host) = ("1234567890", "people.example.com");
    Checked { id, method, path, host, headers, source: None, ..Checked::default() }
}

fn encoded(request: Checked<'_>) -> Vec<u8> {
    request.message().encode_to_vec()
}

/// `GET /people` by alice.
pub(crate) fn by_alice() -> Vec<u8> {
    message(Shape::Raw, "GET", "/people", &[("authorization", ALICE)])
}
