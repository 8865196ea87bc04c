//! Check calls like those of Envoy: with the client's address, and with a stream reset after the
//! timeout.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use load::check_message::{CHECK_PATH, Checked};
use testbed::grpc::{self, call, handshake};
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
    sender: Mutex<Option<grpc::Client>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: Mutex::new(None) }
    }

    /// Makes one call. Resets its stream if there is no response within the timeout.
    pub(crate) async fn check(&self, message: &Bytes, timeout: Duration) -> Outcome {
        let call =
            async { call(&self.sender().await?, CHECK_PATH, message.clone()).await.ok()?.status() };
        match tokio::time::timeout(timeout, call).await {
            Ok(Some(200)) => Outcome::Allowed,
            Ok(Some(status)) => Outcome::Denied(status),
            Ok(None) => Outcome::Failed,
            Err(_) => Outcome::TimedOut,
        }
    }

    /// The open connection, or a new one.
    pub(crate) async fn sender(&self) -> Option<grpc::Client> {
        let mut held = self.sender.lock().await;
        if let Some(sender) = held.clone()
            && let Ok(sender) = sender.ready().await
        {
            return Some(sender);
        }
        *held = None;
        let stream = TcpStream::connect(self.address).await.ok()?;
        stream.set_nodelay(true).ok()?;
        let sender = handshake(stream).await.ok()?;
        *held = Some(sender.clone());
        Some(sender)
    }
}

/// The framed message for `GET path` from the client at `source`.
pub(crate) fn message(source: &str, path: &str, authorization: Option<&str>) -> Bytes {
    let headers: Vec<_> = authorization.map(|value| ("authorization", value)).into_iter().collect();
    let (source, host) = (Some(source), "people.example.com");
    Checked { source, host, path, headers: &headers, ..Checked::default() }.framed()
}
