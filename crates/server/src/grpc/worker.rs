//! One worker thread, with its own runtime, connections, buffers and counters.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use runtime::ActivePolicy;
use runtime::counters::ThreadCounters;
use runtime::hashing::Hashing;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::age::Age;
use super::check::Checker;
use super::command::{Accepted, Command};
use super::connection::{self, max_half_heads};
use super::context::ExchangeContext;
use super::counters::ConnectionCounters;
use super::message::Limits;
use super::options::Options;
use super::other_services::OtherServices;
use super::overload::Overloads;
use super::registry::{RegisteredConnection, Registry};
use super::tls::{Client, Tls};
use super::unix_socket::UnixSocket;
use super::wrong_protocol::{Peer, WrongProtocols};

/// A worker: what its requests need, and its connections.
struct Worker {
    context: Rc<ExchangeContext>,
    registry: Rc<Registry>,
}

/// What every worker is built from.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) policy: ActivePolicy,
    pub(super) options: Options,
    pub(super) limits: Limits,
    pub(super) hashing: Arc<Hashing>,
    pub(super) other_services: OtherServices,
    pub(super) wrong_protocols: Arc<WrongProtocols>,
    pub(super) overloads: Arc<Overloads>,
}

/// The handle to a worker thread.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) commands: UnboundedSender<Command>,
    pub(super) checks: Arc<ThreadCounters>,
    pub(super) connections: Arc<ConnectionCounters>,
    /// Resolves when the worker has ended.
    pub(super) ended: oneshot::Receiver<()>,
}

/// How often a draining worker checks whether its connections have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of task polls after which the runtime polls for I/O events, even if more tasks are ready. With Tokio's
/// default, 61, that many busy connections in a row would delay the requests of all others. Chosen, not measured: with
/// fewer, a busy worker makes more system calls.
const EVENT_INTERVAL: u32 = 8;

/// Spawns a worker. It ends at once when the sender of its commands is dropped.
pub(super) fn spawn(number: usize, parts: Parts) -> io::Result<WorkerHandle> {
    let (commands, receiver) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel();
    let (report, started) = std::sync::mpsc::channel();
    let (checks, connections) = (Arc::<ThreadCounters>::default(), Arc::<ConnectionCounters>::default());
    let counters = (Arc::clone(&checks), Arc::clone(&connections));
    thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        match runtime() {
            Ok(runtime) => {
                let _ = report.send(Ok(()));
                runtime.block_on(work(parts, counters, receiver));
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
    parts: Parts,
    (checks, connections): (Arc<ThreadCounters>, Arc<ConnectionCounters>),
    mut commands: UnboundedReceiver<Command>,
) {
    let share = parts.options.max_connections.div_ceil(parts.options.threads.max(1));
    let half_heads = max_half_heads(&parts.options);
    let context = Rc::new(ExchangeContext {
        checker: Checker::new(parts.policy, checks, parts.options.explain_header.clone()),
        options: parts.options,
        limits: parts.limits,
        hashing: parts.hashing,
        other_services: parts.other_services,
        slices: Rc::default(),
        token_queue: Rc::default(),
        wrong_protocols: parts.wrong_protocols,
        overloads: parts.overloads,
    });
    let worker = Worker { context, registry: Registry::new(share, half_heads, connections) };
    // Ends with the runtime.
    spawn_local(Rc::clone(&worker.context.token_queue).run());
    let slices = Rc::clone(&worker.context.slices);
    // Not a task: the runtime polls this future each time it has polled for I/O events, but a task only after all that are ready, so that
    // many connections with little to do would delay each turn of those that wait for one.
    tokio::select! {
        biased;
        () = obey(&mut commands, &worker) => {}
        () = slices.run() => {}
    }
}

/// Does what the commands say, until the worker is to end.
async fn obey(commands: &mut UnboundedReceiver<Command>, worker: &Worker) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::Serve(accepted) => {
                worker.serve(accepted);
                // The runtime polls this future only after it has polled for I/O events, so that requests do not wait
                // until thousands of new connections are set up.
                tokio::task::yield_now().await;
            }
            Command::CloseIdle => drop(worker.registry.evict(Instant::now())),
            Command::Drain => {
                worker.registry.drain();
                tokio::select! {
                    () = worker.all_closed() => return,
                    () = serve_until_stopped(commands, worker) => return,
                }
            }
        }
    }
}

/// Serves connections that were accepted before the drain. Ends when the sender of the commands is dropped, which means
/// to stop at once.
async fn serve_until_stopped(commands: &mut UnboundedReceiver<Command>, worker: &Worker) {
    while let Some(command) = commands.recv().await {
        if let Command::Serve(accepted) = command {
            worker.serve(accepted);
        }
    }
}

/// Serves a connection after its TLS handshake. It counts among the open ones from the start, so that handshakes are bounded.
async fn serve_with_tls(
    tls: Arc<Tls>,
    context: Rc<ExchangeContext>,
    registered: RegisteredConnection,
    stream: TcpStream,
    peer: Peer,
) {
    let stream = tokio::select! {
        stream = tls.accept(stream, context.options.request_timeout, peer) => stream,
        () = registered.closed() => return,
    };
    let Ok((stream, client)) = stream else { return };
    let limits = [context.options.max_age(), client.as_ref().and_then(Client::drain_age)];
    let age = Age::start(limits.into_iter().flatten().min());
    // A task of its own, so that reading requests does not poll its timer.
    let rejected = client.map(|client| {
        let handle = registered.close_handle();
        spawn_local(async move {
            client.rejected().await;
            handle.close();
        })
    });
    connection::serve(context, registered, stream, peer, age).await;
    if let Some(task) = rejected {
        task.abort();
    }
}

impl Worker {
    fn serve(&self, accepted: Accepted) {
        // If the registry has no room, dropping `accepted` closes the connection.
        let Some(registered) = self.registry.enter(Instant::now()) else { return };
        let context = Rc::clone(&self.context);
        let age = Age::start(context.options.max_age());
        match accepted {
            Accepted::Tcp(stream, address) => {
                let Ok(stream) = TcpStream::from_std(stream) else { return };
                let peer = Peer::Tcp(address);
                match context.options.tls.clone() {
                    None => spawn_local(connection::serve(context, registered, stream, peer, age)),
                    Some(tls) => spawn_local(serve_with_tls(tls, context, registered, stream, peer)),
                };
            }
            Accepted::Unix(stream) => {
                if let Ok(stream) = UnixSocket::new(stream) {
                    spawn_local(connection::serve(context, registered, stream, Peer::Unix, age));
                }
            }
        }
    }

    async fn all_closed(&self) {
        while !self.registry.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
