//! A client of gRPC calls without TLS, which makes Check calls as Envoy does.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a verdict of another form is a failed test"
)]

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{Bytes, BytesMut};
use envoy_types::pb::envoy::service::auth::v3::CheckResponse;
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use prost::Message as _;
use tokio::io::{AsyncRead, AsyncWrite};

/// A connection, for concurrent calls.
pub type Client = SendRequest<Bytes>;

/// The response to a call.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub http: u16,
    /// The gRPC status, if any.
    pub grpc: Option<String>,
    /// The messages in their frames.
    pub body: Bytes,
}

/// Opens a connection.
pub async fn handshake(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Client, h2::Error> {
    let mut builder = h2::client::Builder::new();
    // Unread answers to streams that are reset are no attack on this client.
    builder
        .initial_max_send_streams(1024)
        .data_frame_budget(1 << 20)
        .max_concurrent_reset_streams(4096);
    let (client, connection) = builder.handshake(stream).await?;
    tokio::spawn(connection);
    client.ready().await
}

/// The head of a call.
pub fn head(path: &str) -> http::request::Builder {
    Request::post(format!("http://rolegate{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
}

/// Makes a call with a single message, which is in its frame.
pub async fn call(client: &Client, path: &str, message: Bytes) -> Result<Reply, h2::Error> {
    let mut client = client.clone().ready().await?;
    let request = head(path).body(()).expect("a path");
    let (response, mut stream) = client.send_request(request, false)?;
    stream.send_data(message, true)?;
    reply(response).await
}

/// Reads a response to its end.
pub async fn reply(response: ResponseFuture) -> Result<Reply, h2::Error> {
    let (head, mut stream) = response.await?.into_parts();
    let mut body = BytesMut::new();
    while let Some(data) = stream.data().await {
        let data = data?;
        stream.flow_control().release_capacity(data.len())?;
        body.extend_from_slice(&data);
    }
    let trailers = stream.trailers().await?.unwrap_or_default();
    let grpc = head.headers.get("grpc-status").or_else(|| trailers.get("grpc-status"));
    let grpc = grpc.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    Ok(Reply { http: head.status.as_u16(), grpc, body: body.freeze() })
}

impl Reply {
    /// The verdict, if any.
    pub fn decision(&self) -> Option<CheckResponse> {
        let (prefix, message) = self.body.split_at_checked(5)?;
        let length = u32::try_from(message.len()).ok()?.to_be_bytes();
        let is_whole = self.grpc.as_deref() == Some("0") && prefix == [&[0][..], &length].concat();
        CheckResponse::decode(message).ok().filter(|_| is_whole)
    }

    /// The status that Envoy makes of the verdict: 200 if the request may go on. `None` without a
    /// verdict.
    pub fn status(&self) -> Option<i32> {
        let verdict = self.decision()?;
        match verdict.http_response {
            _ if self.is_ok() => Some(200),
            // Envoy answers 403 if there is no status.
            Some(HttpResponse::DeniedResponse(denied)) => {
                Some(denied.status.map_or(403, |status| status.code))
                    .filter(|status| *status != 200)
            }
            _ => None,
        }
    }

    /// The verdict; panics if there is none.
    pub fn verdict(&self) -> CheckResponse {
        self.decision().unwrap_or_else(|| panic!("no verdict: {self:?}"))
    }

    /// Whether Envoy would let the request go on.
    pub fn is_ok(&self) -> bool {
        self.decision().is_some_and(|verdict| verdict.status.unwrap_or_default().code == 0)
    }

    /// The status of a denial.
    pub fn denied(&self) -> i32 {
        self.status().filter(|_| !self.is_ok()).unwrap_or_else(|| panic!("not denied: {self:?}"))
    }

    /// The error; panics if there is none.
    pub fn error(&self) -> &str {
        let error = self.grpc.as_deref().filter(|_| self.body.is_empty() && !self.is_ok());
        error.unwrap_or_else(|| panic!("no error: {self:?}"))
    }
}

/// The value of an `Authorization` header with `user:password` (RFC 7617).
pub fn basic(credentials: &str) -> String {
    format!("Basic {}", BASE64_STANDARD.encode(credentials))
}
