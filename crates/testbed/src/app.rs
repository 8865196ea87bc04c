//! The test application behind the proxy. It stores nothing and echoes each request in its response.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::process::Failed;

/// The application: HTTP/1.1 on a free loopback port, until it is dropped.
#[derive(Debug)]
pub struct App {
    /// Where it listens.
    pub address: SocketAddr,
    seen: Arc<Seen>,
    accepting: JoinHandle<()>,
}

/// Counts of the requests that reached the application.
#[derive(Debug, Default)]
struct Seen {
    requests: AtomicU64,
    forbidden: AtomicU64,
}

/// Requests with this header must never reach the application. Tests set it on requests that must be denied.
pub const MUST_NOT_ARRIVE: &str = "x-must-not-arrive";

impl App {
    /// Starts it.
    ///
    /// # Errors
    /// If there is no free port.
    pub async fn start() -> Result<Self, Failed> {
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|error| Failed::io("app", &error))?;
        let address = listener.local_addr().map_err(|error| Failed::io("app", &error))?;
        let seen = Arc::new(Seen::default());
        let accepting = tokio::spawn(accept(listener, Arc::clone(&seen)));
        Ok(Self { address, seen, accepting })
    }

    /// The number of requests that have reached it.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// The number of these that had [`MUST_NOT_ARRIVE`].
    #[must_use]
    pub fn forbidden(&self) -> u64 {
        self.seen.forbidden.load(Ordering::SeqCst)
    }
}

impl Drop for App {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, seen: Arc<Seen>) {
    loop {
        // A connection that ended before it was accepted is not an error of the listener.
        let Ok((stream, _)) = listener.accept().await else { continue };
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&seen)));
            // An error here means that the proxy closed the connection.
            let _ = hyper::server::conn::http1::Builder::new()
                .max_buf_size(1 << 20)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>, seen: Arc<Seen>) -> Result<Response<Full<Bytes>>, Infallible> {
    seen.requests.fetch_add(1, Ordering::SeqCst);
    if request.headers().contains_key(MUST_NOT_ARRIVE) {
        seen.forbidden.fetch_add(1, Ordering::SeqCst);
    }
    let (head, body) = request.into_parts();
    let Ok(body) = body.collect().await else { return Ok(incomplete()) };
    let echo = json!({
        "method": head.method.as_str(),
        "path": head.uri.to_string(),
        "headers": headers(&head.headers),
        "body": String::from_utf8_lossy(&body.to_bytes()),
        "people": ["alice", "bob"],
    });
    let mut response = Response::new(Full::new(Bytes::from(echo.to_string())));
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn incomplete() -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(b"the body ended early")));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

/// Each header name with the list of its values, so that duplicate lines are visible.
fn headers(headers: &http::HeaderMap) -> Value {
    let mut all = serde_json::Map::new();
    for name in headers.keys() {
        let values =
            headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        all.insert(name.as_str().to_owned(), values.collect());
    }
    Value::Object(all)
}
