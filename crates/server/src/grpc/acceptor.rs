//! Accepts connections and hands them to the workers in rotation. Envoy opens few connections and keeps them, so
//! spreading them at random (`SO_REUSEPORT`) would load the workers unevenly.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Listener;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::accept_error::{AcceptError, AcceptErrors};
use super::command::{Accepted, Command};
use super::phase::Phase;

/// Sends commands to the workers in rotation.
#[derive(Debug)]
struct RoundRobin {
    workers: Vec<UnboundedSender<Command>>,
    /// The worker that gets the next connection.
    next: AtomicUsize,
    /// The worker that closes the next idle connection. Separate from `next`: if accepts and failures alternated, one
    /// of two workers would get all connections and the other all commands to close one.
    next_to_close: AtomicUsize,
    errors: Arc<AcceptErrors>,
}

enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// Pause after an accept failed for lack of a resource, such as file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);

/// Spawns the acceptor thread. It ends when `phase` becomes [`Phase::Draining`] or its sender is dropped.
pub(super) fn start(
    listeners: Vec<Listener>,
    workers: Vec<UnboundedSender<Command>>,
    errors: Arc<AcceptErrors>,
    phase: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let sockets = sockets(&runtime, listeners)?;
    let round_robin = Arc::new(RoundRobin {
        workers,
        next: AtomicUsize::new(0),
        next_to_close: AtomicUsize::new(0),
        errors,
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

/// Accepts until the drain begins, then also accepts the connections that are already in the kernel's backlog.
async fn accept(socket: Socket, round_robin: Arc<RoundRobin>, mut phase: watch::Receiver<Phase>) {
    loop {
        let accepted = tokio::select! {
            accepted = poll_fn(|cx| socket.poll_accept(cx)) => accepted,
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => break,
        };
        match accepted {
            Ok(accepted) => round_robin.hand_over(accepted),
            Err(error) => round_robin.back_off(&error).await,
        }
    }
    poll_fn(|cx| {
        while let Poll::Ready(Ok(accepted)) = socket.poll_accept(cx) {
            round_robin.hand_over(accepted);
        }
        Poll::Ready(())
    })
    .await;
}

impl Socket {
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        match self {
            Self::Tcp(listener) => listener.poll_accept(cx).map(|accepted| {
                let (stream, address) = accepted?;
                // `TCP_NODELAY`: an answer must not wait until the previous one is acknowledged.
                stream.set_nodelay(true)?;
                stream.into_std().map(|stream| Accepted::Tcp(stream, address))
            }),
            Self::Unix(listener) => listener.poll_accept(cx).map(|accepted| {
                let (stream, _) = accepted?;
                stream.into_std().map(Accepted::Unix)
            }),
        }
    }
}

impl RoundRobin {
    fn hand_over(&self, accepted: Accepted) {
        self.send(&self.next, Command::Serve(accepted));
    }

    /// Handles a failed accept; accepting always goes on. If only that one connection failed, nothing else happens.
    /// Otherwise, for example without file descriptors, a worker closes an idle connection, and accepting pauses.
    async fn back_off(&self, error: &io::Error) {
        if self.errors.notice(error) != AcceptError::Connection {
            self.send(&self.next_to_close, Command::CloseIdle);
            tokio::time::sleep(ACCEPT_BACKOFF).await;
        }
    }

    fn send(&self, next: &AtomicUsize, command: Command) {
        let worker = next.fetch_add(1, Relaxed) % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(worker) {
            // Sending fails only to a worker that has ended, together with the server.
            let _ = worker.send(command);
        }
    }
}
