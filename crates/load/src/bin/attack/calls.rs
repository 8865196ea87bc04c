//! Check calls like those of Envoy: with the client's address, and with a stream reset after the timeout.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::{BufMut as _, Bytes, BytesMut};
use envoy_types::pb::envoy::config::core::v3::{
    Address, HeaderMap, HeaderValue, SocketAddress, address, socket_address,
};
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{
    HttpRequest, Peer, Request as AttributeRequest,
};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use h2::client::SendRequest;
use http::Request;
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
        let (response, mut stream) = sender.send_request(head(envoy::CHECK_PATH), false).ok()?;
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

/// The request that a call is about.
pub(crate) struct About<'a> {
    /// The client's address.
    pub(crate) source: &'a str,
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    pub(crate) path: &'a str,
    pub(crate) id: &'a str,
    pub(crate) authorization: Option<&'a str>,
}

/// The framed message for `GET path` from the client at `source`.
pub(crate) fn message(source: &str, path: &str, authorization: Option<&str>) -> Bytes {
    let (host, id) = ("people.example.com", "17098443014186932019");
    About { source, method: "GET", host, path, id, authorization }.framed()
}

impl About<'_> {
    /// The framed message.
    pub(crate) fn framed(&self) -> Bytes {
        let pseudo =
            [(":authority", self.host), (":method", self.method), (":path", self.path), (":scheme", "http")];
        let lines = pseudo.into_iter().chain(self.authorization.map(|value| ("authorization", value)));
        let line = |(key, value): (&str, &str)| HeaderValue {
            key: key.to_owned(),
            raw_value: value.as_bytes().to_vec(),
            ..HeaderValue::default()
        };
        let http = HttpRequest {
            id: self.id.to_owned(),
            method: self.method.to_owned(),
            path: self.path.to_owned(),
            host: self.host.to_owned(),
            scheme: "http".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            header_map: Some(HeaderMap { headers: lines.map(line).collect() }),
            ..HttpRequest::default()
        };
        let socket = SocketAddress {
            address: self.source.to_owned(),
            port_specifier: Some(socket_address::PortSpecifier::PortValue(51234)),
            ..SocketAddress::default()
        };
        let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
        let attributes = auth::AttributeContext {
            source: Some(Peer { address, ..Peer::default() }),
            request: Some(AttributeRequest { time: None, http: Some(http) }),
            ..auth::AttributeContext::default()
        };
        framed(&auth::CheckRequest { attributes: Some(attributes) }.encode_to_vec())
    }
}

/// A message with its gRPC frame prefix of five bytes.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.put_slice(message);
    framed.freeze()
}
