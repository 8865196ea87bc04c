//! An HTTP/2 client with prior knowledge (RFC 9113), and the gRPC of Check calls on top of it.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};

use super::socket::{self, Traffic};
use crate::address::Address;
use crate::answer::{Answer, CLOSED, Fault, h2_fault, io_fault};
use crate::check_message;

/// A connection for concurrent requests. It is reopened when it ends.
#[derive(Debug)]
pub(super) struct Http2 {
    address: Address,
    traffic: Arc<Traffic>,
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// Ensures that a single task reopens the connection.
    connecting: tokio::sync::Mutex<()>,
}

/// The head of a response, and its body.
type Response = (http::response::Parts, h2::RecvStream);

/// The flow control window. Responses are read immediately, so a large window only saves
/// WINDOW_UPDATE frames.
const WINDOW: u32 = 4 << 20;

/// The maximum length of a message in a response to a Check call.
const MAX_MESSAGE: usize = 4 << 20;

impl Http2 {
    pub(super) fn new(address: Address, traffic: Arc<Traffic>) -> Self {
        Self {
            address,
            traffic,
            sender: RefCell::new(None),
            connecting: tokio::sync::Mutex::new(()),
        }
    }

    /// Connects, unless it is connected.
    pub(super) async fn connect(&self) -> io::Result<()> {
        if self.sender.borrow().is_some() {
            return Ok(());
        }
        let _guard = self.connecting.lock().await;
        if self.sender.borrow().is_some() {
            return Ok(());
        }
        let socket = socket::connect(&self.address, &self.traffic).await?;
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(socket)
            .await
            .map_err(io::Error::other)?;
        tokio::task::spawn_local(async move {
            // The requests on the connection report its end.
            let _ = connection.await;
        });
        *self.sender.borrow_mut() = Some(sender);
        Ok(())
    }

    pub(super) async fn request(&self, request: Request<()>, body: Bytes) -> Result<Answer, Fault> {
        let (head, mut stream) = self.send(request, body).await?;
        while let Some(chunk) = stream.data().await {
            let chunk = chunk.map_err(|error| h2_fault(&error))?;
            let _ = stream.flow_control().release_capacity(chunk.len());
        }
        Ok(Answer::Status(head.status.as_u16()))
    }

    pub(super) async fn check(&self, request: Request<()>, body: Bytes) -> Result<Answer, Fault> {
        let (head, mut stream) = self.send(request, body).await?;
        if head.status != http::StatusCode::OK {
            let status = head.status.as_u16();
            return Err(format!("HTTP status {status} instead of a gRPC response").into());
        }
        let mut message = BytesMut::new();
        while let Some(chunk) = stream.data().await {
            let chunk = chunk.map_err(|error| h2_fault(&error))?;
            let _ = stream.flow_control().release_capacity(chunk.len());
            if message.len() + chunk.len() > MAX_MESSAGE {
                return Err("a response that is too long".into());
            }
            message.extend_from_slice(&chunk);
        }
        let trailers = stream.trailers().await.map_err(|error| h2_fault(&error))?;
        check_grpc_status(trailers.as_ref().unwrap_or(&head.headers))?;
        check_message::read(&message)
    }

    async fn send(&self, request: Request<()>, body: Bytes) -> Result<Response, Fault> {
        let mut sender = self.ready().await;
        if let Err(Some(error)) = &sender
            && error.is_go_away()
            && error.reason() == Some(h2::Reason::NO_ERROR)
        {
            // The server lets the connection end gracefully (RFC 9113, 6.8): the request was not
            // sent.
            *self.sender.borrow_mut() = None;
            self.connect().await.map_err(|error| io_fault(&error))?;
            sender = self.ready().await;
        }
        let response = match sender {
            Ok(sender) => exchange(sender, request, body).await,
            Err(error) => Err(error.ok_or(CLOSED)?),
        };
        response.map_err(|error| {
            if !error.is_reset() {
                *self.sender.borrow_mut() = None;
            }
            h2_fault(&error)
        })
    }

    /// The connection, once it accepts a request; `None` as the error if there is none.
    async fn ready(&self) -> Result<SendRequest<Bytes>, Option<h2::Error>> {
        let sender = self.sender.borrow().clone().ok_or(None)?;
        sender.ready().await.map_err(Some)
    }
}

async fn exchange(
    mut sender: SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
) -> Result<Response, h2::Error> {
    let (response, mut stream) = sender.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(body, true)?;
    }
    Ok(response.await?.into_parts())
}

/// The status of a call (gRPC specification, "Responses"). A missing status is an error.
fn check_grpc_status(trailers: &HeaderMap) -> Result<(), Fault> {
    match trailers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        Some(b"0") => Ok(()),
        Some(code) => {
            let code: u8 =
                std::str::from_utf8(code).ok().and_then(|code| code.parse().ok()).unwrap_or(2);
            Err(format!("grpc-status {code}").into())
        }
        None => Err("a response without grpc-status".into()),
    }
}
