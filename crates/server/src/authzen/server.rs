//! The listener on a thread of its own.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use runtime::counters::{ThreadCounters, Totals};
use runtime::hashing::HashingTotals;
use runtime::threads::{Priority, spawn};
use runtime::{ActivePolicy, ThreadAuthorizer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;

use super::exchange::Answerer;
use super::settings::PublicUrl;
use super::tokens::Tokens;
use crate::admin::{AuthorizationStats, FailureCount, MetricsPage};
use crate::checks::Tls;
use crate::checks::notices::Peer;
use crate::checks::tls::PeerCertificate;
use crate::connections::{Bounds, Connections, OpenConnection};
use crate::listener::{Accepted, AsyncListener, Listener};

/// Maximum time that a connection waits for the complete header of its next request. So it also
/// limits how long a connection is idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum time of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a request's header, in bytes.
const MAX_HEADER: usize = 16 << 10;
/// Each connection may keep a request body of a mebibyte in memory, so their number is limited.
/// Answers are small, so their bytes are not.
const BOUNDS: Bounds = Bounds { connections: 256, bytes: usize::MAX };
/// Pause after a failed accept: there may be no file descriptors for a while.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// The data of the listener.
#[derive(Debug)]
pub struct AuthZen {
    /// Its socket.
    pub listener: Listener,
    /// The policy.
    pub policy: ActivePolicy,
    /// The tokens of those who may ask; without them, `tls` must require client certificates.
    pub tokens: Option<Arc<Tokens>>,
    /// TLS, which a Unix socket does not use.
    pub tls: Option<Arc<Tls>>,
    /// The URL at which clients reach it.
    pub url: Option<PublicUrl>,
    /// How often the file of tokens is read again.
    pub interval: Duration,
    /// Counts the decisions.
    pub counters: Arc<ThreadCounters>,
}

/// A running listener. Dropping it stops it at once.
#[derive(Debug)]
pub struct RunningAuthZen {
    drain: watch::Sender<bool>,
    ended: oneshot::Receiver<()>,
}

/// The counters of checks and of questions together.
pub struct WithQuestions {
    /// The counters of checks.
    pub checks: Arc<dyn AuthorizationStats>,
    /// The counters of questions.
    pub questions: Arc<ThreadCounters>,
}

impl AuthorizationStats for WithQuestions {
    fn decisions(&self) -> Totals {
        let mut totals = self.checks.decisions();
        totals.add(&self.questions);
        totals
    }

    fn hashing(&self) -> HashingTotals {
        self.checks.hashing()
    }

    fn failure_counts(&self) -> Vec<FailureCount> {
        self.checks.failure_counts()
    }

    fn certificate_expiry(&self) -> Option<Duration> {
        self.checks.certificate_expiry()
    }

    fn write_metrics(&self, page: &mut MetricsPage<'_>) {
        self.checks.write_metrics(page);
    }
}

impl AuthZen {
    /// Starts the thread, which serves until the [`RunningAuthZen`] is dropped or drained.
    ///
    /// # Errors
    /// When a thread or a runtime cannot be created, or the socket cannot be used.
    pub fn start(self) -> io::Result<RunningAuthZen> {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let Self { listener, policy, tokens, tls, url, interval, counters } = self;
        let entered = executor.enter();
        let listener = listener.into_async()?;
        drop(entered);
        let tls = tls.filter(|_| matches!(listener, AsyncListener::Tcp(_)));
        let (drain, drained) = watch::channel(false);
        let (end, ended) = oneshot::channel();
        spawn("authzen", Priority::Normal, move || {
            if let Some(tokens) = tokens.clone() {
                executor.spawn(tokens.keep_current(interval));
            }
            let answerer = Answerer {
                thread: ThreadAuthorizer::new(policy, counters),
                tokens,
                scheme: if tls.is_some() { "https" } else { "http" },
                url,
                last_refusal: Cell::new(None),
            };
            let serving = Serving { answerer: Rc::new(answerer), tls, drained };
            LocalSet::new().block_on(&executor, serving.run(listener));
            let _ = end.send(());
            // A file may still be read on a blocking thread: do not wait for it.
            executor.shutdown_background();
        })?;
        Ok(RunningAuthZen { drain, ended })
    }
}

impl RunningAuthZen {
    /// Accepts no new connections, and ends each open connection after its current request. Waits
    /// for that, at most for the time `deadline`. Returns whether all connections ended in time.
    pub async fn drain(self, deadline: Duration) -> bool {
        let Self { drain, ended } = self;
        drain.send_replace(true);
        let in_time = tokio::time::timeout(deadline, ended).await.is_ok();
        drop(drain);
        in_time
    }
}

#[derive(Clone)]
struct Serving {
    answerer: Rc<Answerer>,
    tls: Option<Arc<Tls>>,
    /// Becomes true when the drain begins. If its sender is dropped, everything stops at once.
    drained: watch::Receiver<bool>,
}

impl Serving {
    async fn run(self, listener: AsyncListener) {
        let connections = Connections::new(BOUNDS);
        let mut drained = self.drained.clone();
        let mut open = tokio::task::JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
                _ = drained.wait_for(|drained| *drained) => break,
                Some(_) = open.join_next() => continue,
            };
            match accepted {
                Ok(accepted) => {
                    let (connection, evicted) = connections.open();
                    open.spawn_local(self.clone().serve(accepted, connection, evicted));
                }
                Err(error) => {
                    tracing::debug!(%error, "a connection for AuthZEN was not accepted");
                    connections.evict();
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
        drop(listener);
        while open.join_next().await.is_some() {}
    }

    /// Serves a connection until it ends, is evicted, or its certificate is not accepted any more.
    async fn serve(
        self,
        accepted: Accepted,
        connection: OpenConnection,
        evicted: oneshot::Receiver<()>,
    ) {
        let mut stopped = self.drained.clone();
        let serving = async {
            match accepted {
                Accepted::Unix(stream) => self.exchange(stream, connection).await,
                Accepted::Tcp(stream, address) => {
                    let _ = stream.set_nodelay(true);
                    match self.tls.clone() {
                        None => self.exchange(stream, connection).await,
                        Some(tls) => {
                            self.exchange_with_tls(&tls, stream, Peer::Tcp(address), connection)
                                .await;
                        }
                    }
                }
            }
        };
        tokio::select! {
            () = serving => {}
            _ = evicted => {}
            // Ends only when the sender has been dropped.
            () = async { while stopped.changed().await.is_ok() {} } => {}
        }
    }

    async fn exchange_with_tls(
        &self,
        tls: &Arc<Tls>,
        stream: TcpStream,
        peer: Peer,
        connection: OpenConnection,
    ) {
        let accepted = tls.accept(stream, true, HANDSHAKE_TIMEOUT, peer).await;
        let Ok((stream, certificate)) = accepted else { return };
        let rejected = async {
            match certificate {
                Some(certificate) => PeerCertificate::rejected(certificate).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.exchange(stream, connection) => {}
            () = rejected => {}
        }
    }

    async fn exchange(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        connection: OpenConnection,
    ) {
        let (answerer, connection) = (Rc::clone(&self.answerer), Rc::new(connection));
        let service = service_fn(move |request| {
            let (answerer, connection) = (Rc::clone(&answerer), Rc::clone(&connection));
            async move { Ok::<_, Infallible>(answerer.respond(request, &connection).await) }
        });
        let mut served = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .half_close(true)
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(MAX_HEADER)
                .serve_connection(TokioIo::new(stream), service)
        );
        let mut drained = self.drained.clone();
        tokio::select! {
            // Errors of a client only end its connection.
            _ = &mut served => return,
            _ = drained.wait_for(|drained| *drained) => served.as_mut().graceful_shutdown(),
        }
        let _ = served.await;
    }
}
