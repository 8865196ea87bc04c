//! A client that sends checks as Envoy does, over h2, with the messages of `envoy-types`.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use envoy_types::pb::envoy::service::auth::v3::CheckResponse;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use h2::client::SendRequest;
use load::check_message::{CHECK_PATH, Checked};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckResponse;
use tonic_health::pb::health_check_response::ServingStatus;

/// The answer to a check: the HTTP status (200 where allowed), or the gRPC status of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Http(u32),
    Error(u32),
}

/// A connection, as an Envoy worker has one.
pub(crate) struct Envoy {
    send: SendRequest<Bytes>,
}

impl Envoy {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (send, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(async move {
            let _ = connection.await;
        });
        Self { send }
    }

    /// Begins a check and never ends it: it stays in flight for as long as this is held.
    pub(crate) async fn begin(&mut self) -> h2::SendStream<Bytes> {
        let mut send = self.send.clone().ready().await.unwrap();
        let (_, mut body) = send.send_request(request(), false).unwrap();
        body.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
        body
    }

    /// The status that `grpc.health.v1` reports for the process.
    pub(crate) async fn health(&mut self) -> ServingStatus {
        let mut send = self.send.clone().ready().await.unwrap();
        let (answer, mut body) =
            send.send_request(request_to("/grpc.health.v1.Health/Check"), false).unwrap();
        body.send_data(Bytes::from_static(&[0; 5]), true).unwrap();
        let data = answer.await.unwrap().into_body().data().await.unwrap().unwrap();
        HealthCheckResponse::decode(data.get(5..).unwrap()).unwrap().status()
    }

    /// Sends a check of a request with these headers.
    pub(crate) async fn check(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let message = Checked { method, path, headers, raw_headers: false, ..Checked::default() }.framed();
        let mut send = self.send.clone().ready().await.unwrap();
        let (answer, mut body) = send.send_request(request(), false).unwrap();
        body.send_data(message, true).unwrap();
        read(answer.await.unwrap()).await
    }
}

/// Sends one check, on a connection of its own.
pub(crate) async fn check(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    Envoy::connect(address).await.check(method, path, headers).await
}

/// The value of an `Authorization` header (RFC 7617).
pub(crate) fn basic(pair: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

fn request() -> http::Request<()> {
    request_to(CHECK_PATH)
}

fn request_to(path: &str) -> http::Request<()> {
    http::Request::post(format!("http://rolegate{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

async fn read(answer: http::Response<h2::RecvStream>) -> Answer {
    let status = |headers: &http::HeaderMap| headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    let early = status(answer.headers());
    let mut stream = answer.into_body();
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        body.extend_from_slice(&data.unwrap());
    }
    let late = stream.trailers().await.unwrap().as_ref().and_then(status);
    match early.or(late) {
        Some(0) => Answer::Http(http_status(&CheckResponse::decode(body.get(5..).unwrap()).unwrap())),
        Some(code) => Answer::Error(code),
        None => panic!("no gRPC status"),
    }
}

fn http_status(response: &CheckResponse) -> u32 {
    let code = response.status.as_ref().map(|status| status.code);
    match &response.http_response {
        Some(HttpResponse::OkResponse(_)) => {
            assert_eq!(code, Some(0));
            200
        }
        Some(HttpResponse::DeniedResponse(denied)) => {
            assert_ne!(code, Some(0));
            u32::try_from(denied.status.as_ref().unwrap().code).unwrap()
        }
        _ => panic!("neither allowed nor denied"),
    }
}
