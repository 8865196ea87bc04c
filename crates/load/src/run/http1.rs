//! An HTTP/1.1 client that costs as little as possible: it sends prepared bytes, keeps the status
//! of a response, and discards its headers and its body (RFC 9112).

use std::io;
use std::sync::Arc;

use bytes::{Buf, BytesMut};
use httparse::{EMPTY_HEADER, Status};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::socket::{self, Socket, Traffic};
use crate::address::Address;
use crate::answer::{CLOSED, Fault, io_fault};

/// A connection, and the bytes read beyond the last response.
pub(super) struct Http1 {
    socket: Socket,
    buffer: BytesMut,
    /// Whether the server keeps the connection open for more requests.
    pub(super) open: bool,
}

/// Where the body of a response ends (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    status: u16,
    length: usize,
    body: Body,
    keep: bool,
}

/// The maximum length of a response's head, and the maximum number of its header lines.
const MAX_HEAD: usize = 256 * 1024;
const MAX_HEADERS: usize = 256;

const BAD_CHUNK: Fault = Fault::Borrowed("a response with a bad chunk");

impl Http1 {
    pub(super) async fn connect(address: &Address, traffic: &Arc<Traffic>) -> io::Result<Self> {
        let socket = socket::connect(address, traffic).await?;
        Ok(Self { socket, buffer: BytesMut::with_capacity(16 * 1024), open: true })
    }

    /// Sends a request and reads the whole response. `bodiless` says that the response has no body,
    /// as after HEAD.
    pub(super) async fn request(&mut self, request: &[u8], bodiless: bool) -> Result<u16, Fault> {
        if !self.buffer.is_empty() {
            return Err("a response without a request".into());
        }
        self.socket.write_all(request).await.map_err(|error| io_fault(&error))?;
        let head = self.head(bodiless).await?;
        self.buffer.advance(head.length);
        self.open = head.keep;
        match head.body {
            Body::None => {}
            Body::Length(length) => self.skip(length).await?,
            Body::Chunked => self.skip_chunks().await?,
            Body::UntilClose => {
                while self.more().await? {
                    self.buffer.clear();
                }
            }
        }
        Ok(head.status)
    }

    /// Reads the head of the response. Interim responses (RFC 9110, 15.2) are skipped.
    async fn head(&mut self, bodiless: bool) -> Result<Head, Fault> {
        loop {
            match parse(&self.buffer, bodiless)? {
                Some(head) if (100..200).contains(&head.status) && head.status != 101 => {
                    self.buffer.advance(head.length);
                }
                Some(head) => return Ok(head),
                None if self.buffer.len() > MAX_HEAD => {
                    return Err("a response with too long a head".into());
                }
                None => self.need().await?,
            }
        }
    }

    async fn skip(&mut self, mut length: u64) -> Result<(), Fault> {
        loop {
            let available = usize::try_from(length).unwrap_or(usize::MAX).min(self.buffer.len());
            self.buffer.advance(available);
            length -= available as u64;
            if length == 0 {
                return Ok(());
            }
            self.need().await?;
        }
    }

    /// Skips chunks, then trailers (RFC 9112, 7.1).
    async fn skip_chunks(&mut self) -> Result<(), Fault> {
        loop {
            match httparse::parse_chunk_size(&self.buffer).map_err(|_| BAD_CHUNK)? {
                Status::Partial if self.buffer.len() > MAX_HEAD => return Err(BAD_CHUNK),
                Status::Partial => self.need().await?,
                Status::Complete((length, size)) => {
                    self.buffer.advance(length);
                    if size == 0 {
                        return self.skip_trailers().await;
                    }
                    // The line ending after the chunk counts, too.
                    self.skip(size.saturating_add(2)).await?;
                }
            }
        }
    }

    async fn skip_trailers(&mut self) -> Result<(), Fault> {
        loop {
            let mut lines = [EMPTY_HEADER; MAX_HEADERS];
            let trailers = httparse::parse_headers(&self.buffer, &mut lines);
            match trailers.map_err(|_| BAD_CHUNK)? {
                Status::Complete((length, _)) => {
                    self.buffer.advance(length);
                    return Ok(());
                }
                Status::Partial if self.buffer.len() > MAX_HEAD => return Err(BAD_CHUNK),
                Status::Partial => self.need().await?,
            }
        }
    }

    /// Reads more bytes. The end of the stream is a fault.
    async fn need(&mut self) -> Result<(), Fault> {
        if self.more().await? { Ok(()) } else { Err(CLOSED) }
    }

    /// Reads more bytes. Returns `false` at the end of the stream.
    async fn more(&mut self) -> Result<bool, Fault> {
        self.buffer.reserve(4096);
        let read =
            self.socket.read_buf(&mut self.buffer).await.map_err(|error| io_fault(&error))?;
        Ok(read > 0)
    }
}

/// The head at the start of these bytes, if it is complete.
fn parse(bytes: &[u8], bodiless: bool) -> Result<Option<Head>, Fault> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut lines = [EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut lines);
    let Status::Complete(length) =
        response.parse(bytes).map_err(|_| Fault::Borrowed("a response that is not HTTP/1.1"))?
    else {
        return Ok(None);
    };
    let status = response.code.unwrap_or_default();
    let (mut body, mut keep) = (Body::UntilClose, response.version == Some(1));
    for line in response.headers.iter() {
        let value = line.value.trim_ascii();
        if line.name.eq_ignore_ascii_case("transfer-encoding") {
            body = Body::Chunked;
        } else if line.name.eq_ignore_ascii_case("content-length") && body != Body::Chunked {
            let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
            body = Body::Length(length.ok_or(Fault::Borrowed("a response with a bad length"))?);
        } else if line.name.eq_ignore_ascii_case("connection") {
            keep = !value.eq_ignore_ascii_case(b"close");
        }
    }
    if bodiless || status < 200 || status == 204 || status == 304 {
        body = Body::None;
    }
    keep &= body != Body::UntilClose;
    Ok(Some(Head { status, length, body, keep }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(head: &str) -> (Body, bool) {
        let head = parse(head.as_bytes(), false).unwrap().unwrap();
        (head.body, head.keep)
    }

    #[test]
    fn finds_the_end_of_a_body() {
        assert_eq!(body("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"), (Body::Length(5), true));
        assert_eq!(
            body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            (Body::Chunked, true)
        );
        assert_eq!(body("HTTP/1.1 204 No\r\nconnection: close\r\n\r\n"), (Body::None, false));
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\n"), (Body::UntilClose, false));
        assert_eq!(body("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n"), (Body::Length(0), false));
    }

    #[test]
    fn waits_for_the_rest_and_refuses_the_wrong() {
        assert!(parse(b"HTTP/1.1 200 OK\r\ncontent-le", false).unwrap().is_none());
        assert!(parse(b"SSH-2.0-server\r\n", false).is_err());
        assert!(parse(b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", false).is_err());
    }
}
