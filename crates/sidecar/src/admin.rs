//! The admin pages over HTTP/1.1: `/healthz`, `/readyz`, `/metrics`, `/histograms`.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;

use crate::grpc::Listener;
use crate::metrics::{self, Metrics, histograms};

/// Probes and scrapers are few; more connections than this are closed at once.
const CONNECTIONS: usize = 64;
/// How long a client may take for a request's header, also between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a connection lives at most.
const LIFETIME: Duration = Duration::from_secs(300);
/// How long nothing is accepted after an accept failed: there may be no file descriptors for a while.
const PAUSE: Duration = Duration::from_millis(100);

/// The admin pages on one socket.
#[derive(Debug)]
pub(crate) struct Admin {
    socket: Socket,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Admin {
    /// Serves the pages on this socket, once [`Admin::run`] is polled.
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub(crate) fn new(listener: Listener, metrics: Arc<Metrics>) -> io::Result<Self> {
        let socket = match listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Socket::Tcp(TcpListener::from_std(listener)?)
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Socket::Unix(UnixListener::from_std(listener)?)
            }
        };
        Ok(Self { socket, metrics })
    }

    /// Never ends by itself, whatever happens to a connection.
    pub(crate) async fn run(self) {
        let room = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let accepted = match &self.socket {
                Socket::Tcp(listener) => {
                    listener.accept().await.map(|(stream, _)| self.answer(stream, &room))
                }
                Socket::Unix(listener) => {
                    listener.accept().await.map(|(stream, _)| self.answer(stream, &room))
                }
            };
            if let Err(error) = accepted {
                tracing::warn!(%error, "an admin connection was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    fn answer(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, room: &Arc<Semaphore>) {
        let Ok(place) = room.clone().try_acquire_owned() else { return };
        let metrics = self.metrics.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| std::future::ready(page(&request, &metrics)));
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(16 << 10)
                .serve_connection(TokioIo::new(stream), service);
            // What a client does wrong, or does not do in time, is its own affair.
            let _ = tokio::time::timeout(LIFETIME, connection).await;
            drop(place);
        });
    }
}

type Page = Response<Full<Bytes>>;

fn page(request: &Request<Incoming>, metrics: &Arc<Metrics>) -> Result<Page, Infallible> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut page = text(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n".to_owned());
        page.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return Ok(page);
    }
    Ok(match request.uri().path() {
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" => match metrics.status.ready() {
            Ok(()) => text(StatusCode::OK, "ready\n".to_owned()),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
        },
        "/metrics" => match metrics.render() {
            Ok(rendered) => with_type(StatusCode::OK, metrics::CONTENT_TYPE, rendered),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        },
        "/histograms" => with_type(StatusCode::OK, histograms::CONTENT_TYPE, metrics.histograms()),
        _ => {
            text(StatusCode::NOT_FOUND, "there are /healthz, /readyz, /metrics and /histograms\n".to_owned())
        }
    })
}

fn text(status: StatusCode, body: String) -> Page {
    with_type(status, "text/plain; charset=utf-8", body)
}

fn with_type(status: StatusCode, content_type: &'static str, body: String) -> Page {
    let mut page = Response::new(Full::from(body));
    *page.status_mut() = status;
    let headers = page.headers_mut();
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, hyper::header::HeaderValue::from_static("no-store"));
    page
}
