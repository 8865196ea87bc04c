//! A server in this process, clients for it, and messages as Envoy sends them.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use bytes::{Bytes, BytesMut};
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use h2::client::SendRequest;
use http::Request;
use load::check_message::Checked;
pub(crate) use load::check_message::framed;
use prost::Message as _;
use runtime::ActivePolicy;
use sidecar::Address;
use sidecar::grpc::{Listener, Options, Running, Server};
use tokio::net::{TcpStream, UnixStream};

pub(crate) type Client = SendRequest<Bytes>;
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
    let files = policy::MapFiles::of("policy.yaml", policy);
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    Authorizer::compile(Arc::new(loaded), &Default::default(), previous).unwrap().0
}

#[expect(clippy::disallowed_methods, reason = "tests read the policies from where they are")]
fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// A server with the policy of the people on a free port.
pub(crate) fn serve() -> Running {
    serve_with(ActivePolicy::new(people()), options())
}

pub(crate) fn options() -> Options {
    Options { threads: 2, hash_threads: 1, ..Options::default() }
}

pub(crate) fn serve_with(service: ActivePolicy, options: Options) -> Running {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    Server::start(vec![Listener::Tcp(listener)], service, options).unwrap()
}

/// A connection to the first listener.
pub(crate) async fn connect(server: &Running) -> Client {
    connect_to(&server.addresses()[0]).await
}

pub(crate) async fn connect_to(address: &Address) -> Client {
    match address {
        Address::Tcp(address) => handshake(TcpStream::connect(address).await.unwrap()).await,
        Address::Unix(path) => handshake(UnixStream::connect(path).await.unwrap()).await,
    }
}

pub(crate) async fn handshake<I>(io: I) -> Client
where
    I: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = h2::client::Builder::new();
    // Unread answers to streams that are reset are no attack on this client.
    builder.initial_max_send_streams(1024).data_frame_budget(1 << 20).max_concurrent_reset_streams(4096);
    let (client, connection) = builder.handshake(io).await.unwrap();
    tokio::spawn(connection);
    client.ready().await.unwrap()
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) http: u16,
    pub(crate) grpc: Option<String>,
    pub(crate) body: Bytes,
}

impl Reply {
    /// The verdict, which must have been given.
    pub(crate) fn verdict(&self) -> auth::CheckResponse {
        assert_eq!(self.grpc.as_deref(), Some("0"), "{self:?}");
        let (prefix, message) = self.body.split_at(5);
        assert_eq!(prefix, [&[0][..], &u32::try_from(message.len()).unwrap().to_be_bytes()].concat());
        auth::CheckResponse::decode(message).unwrap()
    }

    /// Whether Envoy would let the request go on.
    pub(crate) fn is_ok(&self) -> bool {
        self.grpc.as_deref() == Some("0") && self.verdict().status.unwrap_or_default().code == 0
    }

    /// The status of a denial.
    pub(crate) fn denied(&self) -> i32 {
        match self.verdict().http_response {
            Some(HttpResponse::DeniedResponse(denied)) => denied.status.unwrap().code,
            other => panic!("not denied: {other:?}"),
        }
    }

    /// The error, which must be one.
    pub(crate) fn error(&self) -> &str {
        assert!(self.body.is_empty() && !self.is_ok(), "{self:?}");
        self.grpc.as_deref().unwrap()
    }
}

/// The head of a `Check`.
pub(crate) fn head() -> http::request::Builder {
    Request::post(format!("http://rolegate{}", envoy::CHECK_PATH))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

/// One check from beginning to end.
pub(crate) async fn check(client: &Client, message: &[u8]) -> Reply {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    stream.send_data(framed(message), true).unwrap();
    reply(response).await.unwrap()
}

/// Reads an answer to its end.
pub(crate) async fn reply(response: h2::client::ResponseFuture) -> Result<Reply, h2::Error> {
    let (head, mut stream) = response.await?.into_parts();
    let mut body = BytesMut::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    let grpc = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status"));
    let grpc = grpc.map(|value| value.to_str().unwrap().to_owned());
    Ok(Reply { http: head.status.as_u16(), grpc, body: body.freeze() })
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

/// Basic credentials.
pub(crate) fn base64_of(text: &str) -> String {
    use base64::Engine as _;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(text))
}

/// `GET /people` by alice.
pub(crate) fn by_alice() -> Vec<u8> {
    message(Shape::Raw, "GET", "/people", &[("authorization", ALICE)])
}
