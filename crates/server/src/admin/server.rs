//! The admin pages over HTTP/1.1: `/healthz`, `/readyz`, `/metrics`, `/histograms`, `/jwks`,
//! `/reload` and `/console` on the admin listener, `/metrics` alone on the listener of `--metrics`.
//!
//! A connection serves a single request and lives for at most ten seconds. This deadline bounds
//! slow headers and slow readers alike. (Keep-alive would save a scraper a handshake every fifteen
//! seconds, and would need a deadline for each request.)

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::address::Address;
use crate::admin::metrics::{self, PageSources};
use crate::connections::{Bounds, Connections};
use crate::listener::{Accepted, AsyncListener, Listener};
use crate::page::{Page, not_allowed, text, with_type};

mod browser;

/// Maximum time for a client to send its request header.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum lifetime of a connection, from accept until the last byte is sent.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The limits of a listener: its open connections, and the bytes of all pages that are being sent.
/// Few connections are enough, because probes and scrapers are few. The policy determines the size
/// of a page, and no client can make it larger.
const BOUNDS: Bounds = Bounds { connections: 64, bytes: 4 << 20 };
/// Maximum size of a request header, in bytes.
const MAX_HEADER: usize = 16 << 10;
/// Pause after a failed accept: there may be no file descriptors for a while.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// Minimum time between two log lines about failed accepts. While there are no file descriptors,
/// every accept fails.
const LOG_INTERVAL: Duration = Duration::from_secs(10);
/// Minimum time between two reloads that are requested over HTTP: each reads the files of the
/// policy.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// The HTTP server of a listener.
#[derive(Debug)]
pub struct Admin {
    listener: AsyncListener,
    shared: Arc<Shared>,
}

/// The program behind the pages.
pub trait Backend: Send + Sync {
    /// The sources of the pages; `None` inside Envoy while it has no filter of rolegate.
    fn sources(&self) -> Option<Arc<PageSources>>;

    /// Reloads the policy and fetches all keys.
    fn reload(&self);

    /// The console, if it is on.
    fn console(&self) -> Option<Arc<dyn Console>> {
        None
    }
}

/// The pages for people, `/console` and paths below it.
pub trait Console: Send + Sync {
    /// Answers a GET or HEAD request for a path and a query.
    fn answer(&self, target: &Uri, host: &str) -> ConsoleAnswer;
}

/// The answer of the console. The console renders it on a thread of its own, because the thread of
/// the admin listener also answers probes.
pub type ConsoleAnswer = Pin<Box<dyn Future<Output = Response<String>> + Send>>;

/// The state that all connections of a listener share.
struct Shared {
    pages: Pages,
    backend: Arc<dyn Backend>,
    /// When a reload was requested last.
    last_reload: Mutex<Option<Instant>>,
}

/// Which pages a listener serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// All of them.
    All,
    /// Only `/metrics`, for a listener that other machines can reach.
    Metrics,
}

/// The warning if other machines can reach all pages.
const REACHABLE: &str = "other machines can reach the admin pages, which ask for no credentials: \
    give the setting `admin` a loopback address or a Unix socket, or limit who may connect";

impl Pages {
    /// Logs that these pages are served at an address, and warns if other machines can reach pages
    /// that are not meant for them.
    pub fn log(self, address: &Address) {
        match self {
            Self::All => tracing::info!(%address, "admin pages"),
            Self::Metrics => tracing::info!(%address, "metrics"),
        }
        if let Some(warning) = self.warning(address) {
            tracing::warn!(%address, "{warning}");
        }
    }

    fn warning(self, address: &Address) -> Option<&'static str> {
        (self == Self::All && !address.is_local()).then_some(REACHABLE)
    }
}

impl Admin {
    /// Creates the server. It serves pages while [`Admin::run`] is polled.
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn new(listener: Listener, pages: Pages, backend: Arc<dyn Backend>) -> io::Result<Self> {
        let shared = Arc::new(Shared { pages, backend, last_reload: Mutex::default() });
        Ok(Self { listener: listener.into_async()?, shared })
    }

    /// Serves connections. Never returns, whatever happens to a connection.
    pub async fn run(self) {
        let connections = Connections::new(BOUNDS);
        let mut last_log = None;
        loop {
            match poll_fn(|cx| self.listener.poll_accept(cx)).await {
                Ok(accepted) => {
                    match accepted {
                        Accepted::Tcp(stream, peer) => {
                            self.spawn(stream, is_local(peer), &connections)
                        }
                        Accepted::Unix(stream) => self.spawn(stream, true, &connections),
                    }
                    // Lets the new task answer a request that has already arrived, before the next
                    // connection may evict it.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    let now = Instant::now();
                    if is_due(last_log, now) {
                        last_log = Some(now);
                        tracing::warn!(%error, "an admin connection was not accepted");
                    }
                    connections.evict();
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }

    /// Serves a connection in a task of its own. `local`: whether its client is on this machine.
    fn spawn(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        local: bool,
        connections: &Connections,
    ) {
        let (connection, evicted) = connections.open();
        let (connection, shared) = (Arc::new(connection), self.shared.clone());
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let (connection, shared) = (connection.clone(), shared.clone());
                async move {
                    let page = shared.page(&request, local).await;
                    connection.set_busy(page.body().capacity());
                    Ok::<_, std::convert::Infallible>(page.map(|body| Full::new(Bytes::from(body))))
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .keep_alive(false)
                // A client that has closed its sending side may still read.
                .half_close(true)
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(MAX_HEADER)
                .serve_connection(TokioIo::new(stream), service);
            // Errors and timeouts of a client only end its connection.
            tokio::select! {
                _ = evicted => {}
                _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection) => {}
            }
        });
    }
}

impl Shared {
    async fn page(&self, request: &Request<Incoming>, local: bool) -> Page {
        if browser::is_cross_site_subrequest(request.headers()) {
            return text(StatusCode::FORBIDDEN, "a website may only link to these pages\n");
        }
        match (request.uri().path(), self.pages) {
            ("/reload", Pages::All) => self.reload(request, local),
            (path, Pages::All) if is_console_path(path) => match self.backend.console() {
                Some(console) => console_page(&*console, request).await,
                None => text(
                    StatusCode::NOT_FOUND,
                    "the console is off: the setting `console` turns it on\n",
                ),
            },
            (path, pages) => self.read_only_page(request.method(), path, pages),
        }
    }

    fn read_only_page(&self, method: &Method, path: &str, pages: Pages) -> Page {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return not_allowed("only GET and HEAD\n", "GET, HEAD");
        }
        let page: fn(&Arc<PageSources>) -> Page = match (path, pages) {
            ("/healthz", Pages::All) => return text(StatusCode::OK, "ok\n"),
            ("/metrics", Pages::All | Pages::Metrics) => metrics_page,
            ("/readyz", Pages::All) => readiness,
            ("/jwks", Pages::All) => identity_keys,
            ("/histograms", Pages::All) => {
                |sources| with_type(StatusCode::OK, "application/json", sources.histograms())
            }
            (_, Pages::All) => {
                let last = if self.backend.console().is_some() {
                    ", /reload and /console"
                } else {
                    " and /reload"
                };
                let pages =
                    format!("there are /healthz, /readyz, /metrics, /histograms, /jwks{last}\n");
                return text(StatusCode::NOT_FOUND, pages);
            }
            (_, Pages::Metrics) => {
                return text(StatusCode::NOT_FOUND, "there is /metrics\n");
            }
        };
        match self.backend.sources() {
            Some(sources) => page(&sources),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "not ready: stopped\n"),
        }
    }

    /// Reloads the policy, for clients on this machine only, and not for browsers: any website can
    /// make them send a POST. They send an `Origin` with it, and most send `Sec-Fetch-Site`.
    fn reload(&self, request: &Request<Incoming>, local: bool) -> Page {
        if *request.method() != Method::POST {
            return not_allowed("only POST\n", "POST");
        }
        if !local || browser::is_from_browser(request.headers()) {
            let clients =
                "only clients on this machine that are not browsers may request a reload\n";
            return text(StatusCode::FORBIDDEN, clients);
        }
        let now = Instant::now();
        let mut last = self.last_reload.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now.saturating_duration_since(last) < RELOAD_INTERVAL) {
            let body = "a reload was requested less than a second ago\n";
            let mut page = text(StatusCode::TOO_MANY_REQUESTS, body);
            page.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return page;
        }
        *last = Some(now);
        drop(last);
        self.backend.reload();
        text(StatusCode::ACCEPTED, "reload requested: the log and /metrics say how it ends\n")
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("pages", &self.pages).finish_non_exhaustive()
    }
}

/// Whether to log a failed accept.
fn is_due(last_log: Option<Instant>, now: Instant) -> bool {
    last_log.is_none_or(|last| now.saturating_duration_since(last) >= LOG_INTERVAL)
}

fn is_local(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

fn metrics_page(sources: &Arc<PageSources>) -> Page {
    match sources.render_metrics() {
        Ok(page) => with_type(StatusCode::OK, metrics::CONTENT_TYPE, page),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn is_console_path(path: &str) -> bool {
    path.strip_prefix("/console").is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

async fn console_page(console: &dyn Console, request: &Request<Incoming>) -> Page {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return not_allowed("only GET and HEAD\n", "GET, HEAD");
    }
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    console.answer(request.uri(), host).await
}

/// Whether this process is ready. If it is, a line follows for each condition
/// ([`runtime::conditions`]).
fn readiness(sources: &Arc<PageSources>) -> Page {
    match sources.status.ready() {
        Ok(()) => {
            let conditions = sources.conditions();
            let lines: String =
                conditions.iter().map(|condition| format!("{condition}\n")).collect();
            text(StatusCode::OK, format!("ready\n{lines}"))
        }
        Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")),
    }
}

/// The public keys that verify the JWT in the identity header, as a JWK Set (RFC 7517).
fn identity_keys(sources: &Arc<PageSources>) -> Page {
    match sources.status.facts().policy.identity_keys {
        Some(keys) => with_type(StatusCode::OK, "application/jwk-set+json", keys.to_string()),
        None => text(
            StatusCode::NOT_FOUND,
            "the active policy has no `identity_header` that is a JWT\n",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_accepts_are_logged_from_time_to_time() {
        let start = Instant::now();
        let (mut last_log, mut lines) = (None, 0);
        for now in (0..300).map(|number| start + ACCEPT_BACKOFF * number) {
            if is_due(last_log, now) {
                last_log = Some(now);
                lines += 1;
            }
        }
        assert_eq!(lines, 3, "of 300 failed accepts in 30 s");
    }

    #[test]
    fn pages_that_other_machines_can_reach_are_worth_a_warning() {
        fn warns(pages: Pages, address: &str) -> bool {
            pages.warning(&address.parse().unwrap()).is_some()
        }
        assert!(warns(Pages::All, "0.0.0.0:9192"));
        assert!(!warns(Pages::All, "127.0.0.1:9192"));
        assert!(!warns(Pages::Metrics, "0.0.0.0:9193"), "meant for a Prometheus on another host");
    }
}
