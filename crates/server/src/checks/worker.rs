//! A worker thread, with its own runtime, connections, buffers and counters.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use runtime::counters::ThreadCounters;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::age::Age;
use super::checker::Checker;
use super::context::{Shared, WorkerContext};
use super::metrics::ConnectionCounters;
use super::notices::Peer;
use super::registry::{RegisteredConnection, Registry};
use super::tls::{PeerCertificate, Tls};
use super::unix_socket::UnixSocket;
use crate::forward_auth::{self, ForwardAuth};
use crate::grpc::connection::{self, max_half_heads};
use crate::grpc::turns::TurnQueue;

/// How often a draining worker checks whether its connections have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of task polls after which the runtime polls for I/O events, even if more tasks are ready.
/// With Tokio's default, 61, that many busy connections in a row would delay the requests of all
/// others. Chosen, not measured: with fewer, a busy worker makes more system calls.
const EVENT_INTERVAL: u32 = 8;

/// A command to a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serve this connection.
    Serve(NewConnection),
    /// Close an idle connection, because file descriptors have run out.
    CloseIdle,
    /// Shut down all connections gracefully, then end.
    Drain,
}

/// The protocol by which the checks of a listener come.
#[derive(Clone, Debug)]
pub enum Protocol {
    /// gRPC, with health and reflection beside it.
    Grpc,
    /// HTTP forward-auth.
    Http(Arc<ForwardAuth>),
}

/// An accepted connection that is not yet registered with a worker's runtime.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) protocol: Protocol,
    pub(crate) socket: NewSocket,
}

#[derive(Debug)]
pub(crate) enum NewSocket {
    /// With the address of the peer.
    Tcp(std::net::TcpStream, SocketAddr),
    Unix(std::os::unix::net::UnixStream),
}

/// The handle to a worker thread.
#[derive(Debug)]
pub(crate) struct WorkerHandle {
    pub(crate) commands: UnboundedSender<Command>,
    pub(crate) checks: Arc<ThreadCounters>,
    pub(crate) connections: Arc<ConnectionCounters>,
    /// Resolves when the worker has ended.
    pub(crate) ended: oneshot::Receiver<()>,
}

struct Worker {
    context: Rc<WorkerContext>,
    registry: Rc<Registry>,
}

/// Spawns a worker. It ends at once when the sender of its commands is dropped.
pub(crate) fn spawn(number: usize, shared: Arc<Shared>) -> io::Result<WorkerHandle> {
    let (commands, receiver) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel();
    let (report, started) = std::sync::mpsc::channel();
    let (checks, connections) =
        (Arc::<ThreadCounters>::default(), Arc::<ConnectionCounters>::default());
    let counters = (Arc::clone(&checks), Arc::clone(&connections));
    thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        match runtime() {
            Ok(runtime) => {
                let _ = report.send(Ok(()));
                runtime.block_on(work(shared, counters, receiver));
            }
            Err(error) => drop(report.send(Err(error))),
        }
        drop(end);
    })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("a worker did not start")))?;
    Ok(WorkerHandle { commands, checks, connections, ended })
}

fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build_local(LocalOptions::default())
}

async fn work(
    shared: Arc<Shared>,
    (checks, connections): (Arc<ThreadCounters>, Arc<ConnectionCounters>),
    mut commands: UnboundedReceiver<Command>,
) {
    let options = &shared.options;
    let max_connections = options.max_connections.div_ceil(options.threads.max(1));
    let registry = Registry::new(max_connections, max_half_heads(options), connections);
    let checker = Checker::new(shared.policy.clone(), checks, options.explain_header.clone());
    let (turns, turn_giver) = TurnQueue::new();
    let context = Rc::new(WorkerContext {
        shared,
        checker,
        encoder: RefCell::default(),
        turns,
        token_queue: Rc::default(),
    });
    // Ends with the runtime.
    spawn_local(Rc::clone(&context.token_queue).run());
    let worker = Worker { context, registry };
    // `turn_giver` is polled here and not in a task of its own. The runtime polls this future after
    // each poll for I/O events, but a task only after all tasks that became ready before it. Many
    // connections with little to do would then delay the turns of the others.
    tokio::select! {
        biased;
        () = worker.execute(&mut commands) => {}
        () = turn_giver => {}
    }
}

impl Worker {
    /// Executes the commands until the worker ends.
    async fn execute(&self, commands: &mut UnboundedReceiver<Command>) {
        while let Some(command) = commands.recv().await {
            match command {
                Command::Serve(connection) => {
                    self.serve(connection);
                    // The next command is executed only after the runtime has polled for I/O
                    // events. So requests do not wait until thousands of new connections are set
                    // up.
                    tokio::task::yield_now().await;
                }
                Command::CloseIdle => drop(self.registry.evict(Instant::now())),
                Command::Drain => {
                    self.registry.drain();
                    tokio::select! {
                        () = self.all_closed() => return,
                        () = self.serve_until_stopped(commands) => return,
                    }
                }
            }
        }
    }

    /// Serves connections that were accepted before the drain. Ends when the sender of the commands
    /// is dropped, which means to stop at once.
    async fn serve_until_stopped(&self, commands: &mut UnboundedReceiver<Command>) {
        while let Some(command) = commands.recv().await {
            if let Command::Serve(connection) = command {
                self.serve(connection);
            }
        }
    }

    fn serve(&self, connection: NewConnection) {
        // If the registry has no room, dropping `connection` closes it.
        let Some(registered) = self.registry.enter(Instant::now()) else { return };
        let context = Rc::clone(&self.context);
        let options = &self.context.shared.options;
        let age = Age::start(options.max_age());
        let NewConnection { protocol, socket } = connection;
        match socket {
            NewSocket::Tcp(stream, address) => {
                let Ok(stream) = TcpStream::from_std(stream) else { return };
                let peer = Peer::Tcp(address);
                match options.tls.clone() {
                    None => spawn_local(protocol.serve(context, registered, stream, peer, age)),
                    Some(tls) => spawn_local(serve_with_tls(
                        tls, protocol, context, registered, stream, peer,
                    )),
                };
            }
            NewSocket::Unix(stream) => {
                if let Ok(stream) = UnixSocket::new(stream) {
                    spawn_local(protocol.serve(context, registered, stream, Peer::Unix, age));
                }
            }
        }
    }

    async fn all_closed(&self) {
        while !self.registry.all_ended() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

impl Protocol {
    /// Serves a connection until it ends.
    async fn serve<I: AsyncRead + AsyncWrite + Unpin>(
        self,
        context: Rc<WorkerContext>,
        registered: RegisteredConnection,
        io: I,
        peer: Peer,
        age: Age,
    ) {
        match self {
            Self::Grpc => connection::serve(context, registered, io, peer, age).await,
            Self::Http(forward_auth) => {
                forward_auth::connection::serve(context, forward_auth, registered, io, peer, age)
                    .await;
            }
        }
    }
}

/// Serves a connection after its TLS handshake. The connection is registered before the handshake,
/// so that the number of handshakes is bounded.
async fn serve_with_tls(
    tls: Arc<Tls>,
    protocol: Protocol,
    context: Rc<WorkerContext>,
    registered: RegisteredConnection,
    stream: TcpStream,
    peer: Peer,
) {
    let options = &context.shared.options;
    let is_http = matches!(protocol, Protocol::Http(_));
    let stream = tokio::select! {
        stream = tls.accept(stream, is_http, options.request_timeout, peer) => stream,
        () = registered.closed() => return,
    };
    let Ok((stream, certificate)) = stream else { return };
    let limits = [options.max_age(), certificate.as_ref().and_then(PeerCertificate::drain_age)];
    let age = Age::start(limits.into_iter().flatten().min());
    // A task of its own: otherwise each read would poll the timer of the certificate's expiry.
    let close_when_rejected = certificate.map(|certificate| {
        let handle = registered.close_handle();
        spawn_local(async move {
            certificate.rejected().await;
            handle.close();
        })
    });
    protocol.serve(Rc::clone(&context), registered, stream, peer, age).await;
    if let Some(task) = close_when_rejected {
        task.abort();
    }
}
