//! Accepting connections and handing them to the workers in turn. Envoy opens few connections and keeps them, so chance
//! (`SO_REUSEPORT`) would spread them badly.

use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::listener::Listener;
use super::server::Phase;
use super::worker::Order;

/// A connection, accepted and not yet served.
#[derive(Debug)]
pub(super) enum Accepted {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// The workers in turn.
#[derive(Debug)]
struct RoundRobin {
    workers: Vec<UnboundedSender<Order>>,
    /// Which worker gets the next connection.
    next: AtomicUsize,
    /// Which worker closes the next idle connection. Apart from `next`: where connections and failures alternate, one of
    /// two workers would get all connections and the other be asked to close them.
    next_to_close: AtomicUsize,
    errors: Arc<AtomicU64>,
    /// When a failure was logged last.
    logged: Mutex<Option<Instant>>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// How long to wait when the system has nothing to accept with.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);
/// How often such a failure is logged. It may last for as long as all connections are busy.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Starts accepting. It ends when `phase` comes to draining, or ends.
pub(super) fn start(
    listeners: Vec<Listener>,
    workers: Vec<UnboundedSender<Order>>,
    errors: Arc<AtomicU64>,
    phase: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let sockets = sockets(&runtime, listeners)?;
    let round_robin = Arc::new(RoundRobin {
        workers,
        next: AtomicUsize::new(0),
        next_to_close: AtomicUsize::new(0),
        errors,
        logged: Mutex::new(None),
    });
    thread::Builder::new().name("acceptor".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut loops = JoinSet::new();
            for socket in sockets {
                loops.spawn(accept(socket, Arc::clone(&round_robin), phase.clone()));
            }
            while loops.join_next().await.is_some() {}
        });
    })
}

fn sockets(runtime: &Runtime, listeners: Vec<Listener>) -> io::Result<Vec<Socket>> {
    let _entered = runtime.enter();
    let socket = |listener| match listener {
        Listener::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener).map(Socket::Tcp)
        }
        Listener::Unix(listener) => {
            listener.set_nonblocking(true)?;
            UnixListener::from_std(listener).map(Socket::Unix)
        }
    };
    listeners.into_iter().map(socket).collect()
}

/// Accepts until the drain begins, and then what the system has accepted by then.
async fn accept(socket: Socket, round_robin: Arc<RoundRobin>, mut phase: watch::Receiver<Phase>) {
    loop {
        let accepted = tokio::select! {
            accepted = poll_fn(|cx| socket.poll_accept(cx)) => accepted,
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => break,
        };
        match accepted {
            Ok(accepted) => round_robin.give(accepted),
            Err(error) => round_robin.back_off(&error).await,
        }
    }
    poll_fn(|cx| {
        while let Poll::Ready(Ok(accepted)) = socket.poll_accept(cx) {
            round_robin.give(accepted);
        }
        Poll::Ready(())
    })
    .await;
}

impl Socket {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(cx).map(|accepted| {
                let (stream, _) = accepted?;
                // An answer must not wait for the acknowledgement of the one before.
                stream.set_nodelay(true)?;
                stream.into_std().map(Accepted::Tcp)
            }),
            Self::Unix(listener) => listener.poll_accept(cx).map(|accepted| {
                let (stream, _) = accepted?;
                stream.into_std().map(Accepted::Unix)
            }),
        }
    }
}

impl RoundRobin {
    fn give(&self, accepted: Accepted) {
        self.tell(&self.next, Order::Serve(accepted));
    }

    /// After a failed accept. It never ends the loop: a connection that is gone again is none of ours, and without file
    /// descriptors left an idle connection makes room.
    async fn back_off(&self, error: &io::Error) {
        self.errors.fetch_add(1, Relaxed);
        if !is_of_the_connection(error) {
            if self.is_to_be_logged() {
                tracing::warn!(%error, "cannot accept a connection; closing an idle one, if there is one");
            }
            self.tell(&self.next_to_close, Order::MakeRoom);
            tokio::time::sleep(ACCEPT_BACKOFF).await;
        }
    }

    fn is_to_be_logged(&self) -> bool {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let due = logged.is_none_or(|last| last.elapsed() >= LOG_INTERVAL);
        if due {
            *logged = Some(Instant::now());
        }
        due
    }

    fn tell(&self, next: &AtomicUsize, order: Order) {
        let worker = next.fetch_add(1, Relaxed) % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(worker) {
            // A worker that is gone ends with the server.
            let _ = worker.send(order);
        }
    }
}

/// Whether a connection failed, and not accepting (accept(2), "Error handling").
fn is_of_the_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted, InvalidInput, NotConnected,
        TimedOut,
    };
    matches!(
        error.kind(),
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | Interrupted
            | InvalidInput
            | NotConnected
            | TimedOut
    )
}
