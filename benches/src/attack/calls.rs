//! Check calls like those of Envoy: with the client's address, and with a stream reset after the timeout.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use h2::client::SendRequest;
use http::Request;
use load::check_message::{CHECK_PATH, Checked};
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::Mutex;

/// The outcome of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    Allowed,
    Denied(i32),
    /// No decision: a gRPC error, or the connection has ended.
    Failed,
    TimedOut,
}

/// A connection that many calls share. It is reopened when it ends.
pub(crate) struct Client {
    address: SocketAddr,
    sender: Mutex<Option<SendRequest<Bytes>>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: Mutex::new(None) }
    }

    /// Makes one call. Resets its stream if there is no response within the timeout.
    pub(crate) async fn check(&self, message: &Bytes, timeout: Duration) -> Outcome {
        match tokio::time::timeout(timeout, self.call(message)).await {
            Ok(Some(response)) => outcome(response),
            Ok(None) => Outcome::Failed,
            Err(_) => Outcome::TimedOut,
        }
    }

    async fn call(&self, message: &Bytes) -> Option<auth::CheckResponse> {
        let mut sender = self.sender().await?;
        let (response, mut stream) = sender.send_request(head(CHECK_PATH), false).ok()?;
        stream.send_data(message.clone(), true).ok()?;
        let mut body = response.await.ok()?.into_body();
        let mut answer = BytesMut::new();
        while let Some(data) = body.data().await {
            let data = data.ok()?;
            body.flow_control().release_capacity(data.len()).ok()?;
            answer.extend_from_slice(&data);
        }
        // A response that has only trailers is a gRPC error.
        auth::CheckResponse::decode(answer.get(5..)?).ok()
    }

    /// The open connection, or a new one.
    pub(crate) async fn sender(&self) -> Option<SendRequest<Bytes>> {
        let mut held = self.sender.lock().await;
        if let Some(sender) = held.clone()
            && let Ok(sender) = sender.ready().await
        {
            return Some(sender);
        }
        *held = None;
        let stream = TcpStream::connect(self.address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let (sender, connection) = h2::client::Builder::new()
            .max_concurrent_reset_streams(4096)
            .initial_max_send_streams(1024)
            .handshake(stream)
            .await
            .ok()?;
        tokio::spawn(connection);
        *held = Some(sender.clone());
        sender.ready().await.ok()
    }
}

fn outcome(response: auth::CheckResponse) -> Outcome {
    if response.status.unwrap_or_default().code == 0 {
        return Outcome::Allowed;
    }
    match response.http_response {
        Some(HttpResponse::DeniedResponse(denied)) => {
            // Envoy answers 403 if there is no status.
            Outcome::Denied(denied.status.map_or(403, |status| status.code))
        }
        _ => Outcome::Failed,
    }
}

/// The headers of a call.
pub(crate) fn head(path: &str) -> Request<()> {
    let head = Request::post(format!("http://rolegate{path}"));
    head.header("content-type", "application/grpc").header("te", "trailers").body(()).unwrap()
}

/// A `Basic` header value for `user:password`.
pub(crate) fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")))
}

/// The framed message for `GET path` from the client at `source`.
pub(crate) fn message(source: &str, path: &str, authorization: Option<&str>) -> Bytes {
    let headers: Vec<_> = authorization.map(|value| ("authorization", value)).into_iter().collect();
    let (source, host) = (Some(source), "people.example.com");
    Checked { source, host, path, headers: &headers, ..Checked::default() }.framed()
}
