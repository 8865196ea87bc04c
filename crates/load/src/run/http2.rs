//! HTTP/2 as a client (RFC 9113), known beforehand, and the gRPC of Check calls on top of it.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use h2::client::{Builder, SendRequest};
use http::{HeaderMap, Request};

use super::fault;
use super::socket::{Socket, Traffic};
use super::tally::{Answer, Fault};
use crate::address::Address;
use crate::check_message;

/// A connection that many ask through at once. It is made anew after it has ended.
#[derive(Debug)]
pub(super) struct Http2 {
    address: Address,
    traffic: Arc<Traffic>,
    sender: RefCell<Option<SendRequest<Bytes>>>,
    /// One at a time makes the connection anew.
    connecting: tokio::sync::Mutex<()>,
}

/// What the server may send ahead. Answers are read at once, so the window only saves updates of it.
const WINDOW: u32 = 4 << 20;

/// The longest message that an answer to a Check call may hold.
const LONGEST_MESSAGE: usize = 4 << 20;

impl Http2 {
    /// One that is not yet connected.
    pub(super) fn new(address: Address, traffic: Arc<Traffic>) -> Self {
        Self { address, traffic, sender: RefCell::new(None), connecting: tokio::sync::Mutex::new(()) }
    }

    /// Connects, unless it is.
    pub(super) async fn connect(&self) -> io::Result<()> {
        if self.sender.borrow().is_some() {
            return Ok(());
        }
        let _one = self.connecting.lock().await;
        if self.sender.borrow().is_some() {
            return Ok(());
        }
        let socket = Socket::connect(&self.address, &self.traffic).await?;
        let (sender, connection) = Builder::new()
            .enable_push(false)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(socket)
            .await
            .map_err(io::Error::other)?;
        tokio::task::spawn_local(async move {
            // Whoever asks through it hears of its end.
            let _ = connection.await;
        });
        *self.sender.borrow_mut() = Some(sender);
        Ok(())
    }

    /// Asks for a page.
    pub(super) async fn ask(self: &Rc<Self>, request: Request<()>, body: Bytes) -> Result<Answer, Fault> {
        let (status, mut stream) = self.send(request, body).await?;
        while let Some(chunk) = stream.data().await {
            let chunk = chunk.map_err(|error| fault::of_h2(&error))?;
            let _ = stream.flow_control().release_capacity(chunk.len());
        }
        Ok(Answer::Status(status.status.as_u16()))
    }

    /// Makes a Check call.
    pub(super) async fn check(self: &Rc<Self>, request: Request<()>, body: Bytes) -> Result<Answer, Fault> {
        let (head, mut stream) = self.send(request, body).await?;
        if head.status != http::StatusCode::OK {
            return Err(format!("HTTP status {} instead of a gRPC answer", head.status.as_u16()).into());
        }
        let mut message = BytesMut::new();
        while let Some(chunk) = stream.data().await {
            let chunk = chunk.map_err(|error| fault::of_h2(&error))?;
            let _ = stream.flow_control().release_capacity(chunk.len());
            if message.len() + chunk.len() > LONGEST_MESSAGE {
                return Err("an answer that is too long".into());
            }
            message.extend_from_slice(&chunk);
        }
        let trailers = stream.trailers().await.map_err(|error| fault::of_h2(&error))?;
        succeeded(trailers.as_ref().unwrap_or(&head.headers))?;
        check_message::read(&message)
    }

    async fn send(
        self: &Rc<Self>,
        request: Request<()>,
        body: Bytes,
    ) -> Result<(http::response::Parts, h2::RecvStream), Fault> {
        let sender = self.sender.borrow().clone();
        let Some(sender) = sender else { return Err(fault::CLOSED) };
        let sent = exchange(sender, request, body).await;
        sent.map_err(|error| {
            if !error.is_reset() {
                *self.sender.borrow_mut() = None;
            }
            fault::of_h2(&error)
        })
    }
}

async fn exchange(
    sender: SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
) -> Result<(http::response::Parts, h2::RecvStream), h2::Error> {
    let mut sender = sender.ready().await?;
    let (response, mut stream) = sender.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        stream.send_data(body, true)?;
    }
    Ok(response.await?.into_parts())
}

/// The status of a call (the gRPC specification, "Responses"): one that is absent is no success.
fn succeeded(trailers: &HeaderMap) -> Result<(), Fault> {
    match trailers.get("grpc-status").map(http::HeaderValue::as_bytes) {
        Some(b"0") => Ok(()),
        Some(code) => {
            let code: u8 = std::str::from_utf8(code).ok().and_then(|it| it.parse().ok()).unwrap_or(2);
            Err(format!("grpc-status {code}").into())
        }
        None => Err("an answer without grpc-status".into()),
    }
}
