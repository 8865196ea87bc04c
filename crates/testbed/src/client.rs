//! An HTTP/1.1 and HTTP/2 client without TLS that sends requests unmodified, even if they are
//! invalid.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::process::Failed;

/// The HTTP version of a [`Connection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge (RFC 9113, 3.3).
    Http2,
}

/// An open connection. An HTTP/2 connection can be shared by concurrent requests.
#[derive(Debug)]
pub struct Connection(Sender);

#[derive(Debug)]
enum Sender {
    Http1(http1::SendRequest<Pieces>),
    Http2(http2::SendRequest<Pieces>),
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

/// The maximum time for a response.
const TIMEOUT: Duration = Duration::from_secs(20);

/// `GET path` on a connection of its own.
pub async fn get(
    address: SocketAddr,
    path: &str,
    headers: &[(String, String)],
) -> Result<Answer, Failed> {
    let mut connection = Connection::open(address, Version::Http1).await?;
    connection.send("GET", path, "localhost", headers, b"").await
}

/// Runs a future to its end on this thread, for callers that are not asynchronous.
pub fn block_on<T>(future: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failed::io("runtime", &error))?.block_on(future)
}

impl Connection {
    /// Opens a connection.
    pub async fn open(address: SocketAddr, version: Version) -> Result<Self, Failed> {
        let stream =
            TcpStream::connect(address).await.map_err(|error| Failed::io("connect", &error))?;
        stream.set_nodelay(true).map_err(|error| Failed::io("connect", &error))?;
        let stream = TokioIo::new(stream);
        Ok(Self(match version {
            Version::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                tokio::spawn(connection);
                Sender::Http1(sender)
            }
            Version::Http2 => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        }))
    }

    /// Another handle to the same connection; HTTP/2 only.
    pub fn share(&self) -> Option<Self> {
        match &self.0 {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self(Sender::Http2(sender.clone()))),
        }
    }

    /// Sends a request and waits up to 20 s for the whole response.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        host: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> Result<Answer, Failed> {
        self.send_pieces(method, path, host, headers, Pieces::whole(body)).await
    }

    /// The same with a body that arrives in pieces. With HTTP/1, `*` and any path that begins with
    /// `/` are sent unmodified.
    pub async fn send_pieces(
        &mut self,
        method: &str,
        path: &str,
        host: &str,
        headers: &[(String, String)],
        body: Pieces,
    ) -> Result<Answer, Failed> {
        let mut request = match &self.0 {
            Sender::Http1(_) => Request::builder().uri(path).header("host", host.as_bytes()),
            Sender::Http2(_) => Request::builder()
                .uri(Uri::builder().scheme("http").authority(host).path_and_query(path).build()?),
        };
        for (name, value) in headers {
            request = request.header(name.as_str(), value.as_bytes());
        }
        let request = request.method(method).body(body)?;
        let response = tokio::time::timeout(TIMEOUT, self.answer(request)).await;
        response.unwrap_or_else(|_| Err(Failed::new("request", "no answer after 20 s")))
    }

    async fn answer(&mut self, request: Request<Pieces>) -> Result<Answer, Failed> {
        let response = match &mut self.0 {
            Sender::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
    }
}

/// The body of a request.
#[derive(Debug)]
pub struct Pieces {
    frames: VecDeque<Frame<Bytes>>,
    is_endless: bool,
    /// The announced length.
    length: Option<u64>,
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its last piece.
    Data,
    /// With trailers.
    Trailers,
    /// Never.
    Never,
}

/// The trailer of a body that ends with trailers.
const TRAILER: HeaderName = HeaderName::from_static("x-checksum");

impl Pieces {
    /// A body in a single piece, whose length is announced.
    pub fn whole(body: &[u8]) -> Self {
        Self::split(body, body.len(), End::Data)
    }

    /// A body in pieces of this size, each in a frame or chunk of its own. Its length is not
    /// announced if there are several, or it does not end with data.
    pub fn split(body: &[u8], size: usize, end: End) -> Self {
        let pieces = body.chunks(size.max(1)).map(Bytes::copy_from_slice);
        let mut frames: VecDeque<Frame<Bytes>> = pieces.map(Frame::data).collect();
        let is_announced = frames.len() < 2 && end == End::Data;
        if end == End::Trailers {
            let trailers = HeaderMap::from_iter([(TRAILER, HeaderValue::from_static("1"))]);
            frames.push_back(Frame::trailers(trailers));
        }
        let length = is_announced.then_some(body.len() as u64);
        Self { frames, is_endless: end == End::Never, length }
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.frames.pop_front() {
            None if self.is_endless => Poll::Pending,
            frame => Poll::Ready(frame.map(Ok)),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && !self.is_endless
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Answer {
    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; `Null` if it is not JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The values of a header, joined by `, ` if there are several.
    pub fn header(&self, name: &str) -> Option<String> {
        let values = self.headers.get_all(name).iter();
        let values: Vec<_> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }
}

impl From<http::Error> for Failed {
    fn from(error: http::Error) -> Self {
        Self::new("request", error.to_string())
    }
}

impl From<hyper::Error> for Failed {
    fn from(error: hyper::Error) -> Self {
        let causes = std::iter::successors(Some(&error as &(dyn Error + 'static)), |error| {
            Error::source(*error)
        });
        Self::new("request", causes.map(ToString::to_string).collect::<Vec<_>>().join(": "))
    }
}
