//! Accepts connections and hands them to the workers in rotation. Envoy opens few connections and
//! keeps them, so spreading them at random (`SO_REUSEPORT`) would load the workers unevenly.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::context::Shared;
use super::notices::AcceptError;
use super::worker::{Command, NewConnection, NewSocket, Protocol};
use crate::Listener;
use crate::grpc::other_services::Phase;
use crate::listener::{Accepted, AsyncListener};

/// Pause after an accept failed for lack of a resource, such as file descriptors.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(20);

/// Sends commands to the workers in rotation.
#[derive(Debug)]
struct RoundRobin {
    workers: Vec<UnboundedSender<Command>>,
    /// The worker that gets the next connection.
    next: AtomicUsize,
    /// The worker that closes the next idle connection. Separate from `next`: if accepts and
    /// failures alternated between two workers, the first would get all connections, and the second
    /// all commands to close a connection.
    next_to_close: AtomicUsize,
    shared: Arc<Shared>,
}

/// Spawns the acceptor thread. It ends when `phase` becomes [`Phase::Draining`] or its sender is
/// dropped.
pub(crate) fn start(
    listeners: Vec<(Protocol, Listener)>,
    workers: Vec<UnboundedSender<Command>>,
    shared: Arc<Shared>,
    phase: watch::Receiver<Phase>,
) -> io::Result<JoinHandle<()>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let entered = runtime.enter();
    let listeners = listeners
        .into_iter()
        .map(|(protocol, listener)| Ok((protocol, listener.into_async()?)))
        .collect::<io::Result<Vec<_>>>()?;
    drop(entered);
    let (next, next_to_close) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let round_robin = Arc::new(RoundRobin { workers, next, next_to_close, shared });
    thread::Builder::new().name("acceptor".to_owned()).spawn(move || {
        runtime.block_on(async {
            let mut loops = JoinSet::new();
            for listener in listeners {
                loops.spawn(accept(listener, Arc::clone(&round_robin), phase.clone()));
            }
            while loops.join_next().await.is_some() {}
        });
    })
}

/// Accepts until the drain begins, then also accepts the connections that are already in the
/// kernel's backlog.
async fn accept(
    (protocol, listener): (Protocol, AsyncListener),
    round_robin: Arc<RoundRobin>,
    mut phase: watch::Receiver<Phase>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
            _ = phase.wait_for(|phase| *phase == Phase::Draining) => break,
        };
        if let Err(error) = accepted.and_then(|accepted| round_robin.hand_over(&protocol, accepted))
        {
            round_robin.back_off(&error).await;
        }
    }
    poll_fn(|cx| {
        while let Poll::Ready(Ok(accepted)) = listener.poll_accept(cx) {
            // This fails only if the connection is broken.
            let _ = round_robin.hand_over(&protocol, accepted);
        }
        Poll::Ready(())
    })
    .await;
}

impl RoundRobin {
    fn hand_over(&self, protocol: &Protocol, accepted: Accepted) -> io::Result<()> {
        let socket = match accepted {
            Accepted::Tcp(stream, peer) => {
                // `TCP_NODELAY`: an answer must not wait until the previous answer is acknowledged.
                stream.set_nodelay(true)?;
                NewSocket::Tcp(stream.into_std()?, peer)
            }
            Accepted::Unix(stream) => NewSocket::Unix(stream.into_std()?),
        };
        let connection = NewConnection { protocol: protocol.clone(), socket };
        self.send(&self.next, Command::Serve(connection));
        Ok(())
    }

    /// Handles a failed accept. If the system lacks something, such as file descriptors, a worker
    /// closes an idle connection, and accepting pauses.
    async fn back_off(&self, error: &io::Error) {
        if self.shared.accept_errors.report(error) != AcceptError::Connection {
            self.send(&self.next_to_close, Command::CloseIdle);
            tokio::time::sleep(ACCEPT_BACKOFF).await;
        }
    }

    fn send(&self, next: &AtomicUsize, command: Command) {
        let worker = next.fetch_add(1, Relaxed) % self.workers.len().max(1);
        if let Some(worker) = self.workers.get(worker) {
            // Sending fails only if the worker has ended, and then the server is ending too.
            let _ = worker.send(command);
        }
    }
}
