//! A client that sends checks as Envoy does.

use std::net::SocketAddr;

use bytes::Bytes;
use load::check_message::{CHECK_PATH, Checked};
use prost::Message as _;
pub(crate) use testbed::grpc::basic;
use testbed::grpc::{Client, Reply, call, handshake, head};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic_health::pb::HealthCheckResponse;
use tonic_health::pb::health_check_response::ServingStatus;

/// The answer to a check: the HTTP status (200 where allowed), or the gRPC status of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Http(i32),
    Error(u32),
}

/// A connection, as an Envoy worker has one.
pub(crate) struct Envoy(Client);

impl Envoy {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self(handshake(stream).await.unwrap())
    }

    /// Begins a check and never ends it: it stays in flight for as long as this is held.
    pub(crate) async fn begin(&mut self) -> h2::SendStream<Bytes> {
        let mut send = self.0.clone().ready().await.unwrap();
        let (_, mut body) = send.send_request(head(CHECK_PATH).body(()).unwrap(), false).unwrap();
        body.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
        body
    }

    /// The status that `grpc.health.v1` reports for the process.
    pub(crate) async fn health(&mut self) -> ServingStatus {
        let message = Bytes::from_static(&[0; 5]);
        let reply = call(&self.0, "/grpc.health.v1.Health/Check", message).await.unwrap();
        HealthCheckResponse::decode(reply.body.get(5..).unwrap()).unwrap().status()
    }

    /// Sends a check.
    pub(crate) async fn send(&mut self, request: Checked<'_>) -> Reply {
        call(&self.0, CHECK_PATH, request.framed()).await.unwrap()
    }

    /// Sends a check of a request with these headers.
    pub(crate) async fn check(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let reply = self
            .send(Checked { method, path, headers, raw_headers: false, ..Checked::default() })
            .await;
        reply.status().map_or_else(|| Answer::Error(reply.error().parse().unwrap()), Answer::Http)
    }
}

/// Sends one check, on a connection of its own.
pub(crate) async fn check(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Answer {
    Envoy::connect(address).await.check(method, path, headers).await
}
