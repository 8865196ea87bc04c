//! One request thread, with its own runtime, connections, buffers and counters.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;
use tokio::task::spawn_local;

use super::check::{CheckService, Checker};
use super::connection;
use super::context::ExchangeContext;
use super::counters;
use super::hashing::Hashing;
use super::message::Limits;
use super::options::Options;
use super::orders::{Accepted, Order};
use super::others::Others;
use super::quiet::Quiet;
use super::registry::Registry;

/// A worker: what its requests need, and its connections.
struct Worker {
    context: Rc<ExchangeContext>,
    registry: Rc<Registry>,
}

/// What every worker is built from.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) service: CheckService,
    pub(super) options: Options,
    pub(super) limits: Limits,
    pub(super) hashing: Arc<Hashing>,
    pub(super) others: Others,
}

/// The handle to a worker thread.
#[derive(Debug)]
pub(super) struct WorkerHandle {
    pub(super) orders: UnboundedSender<Order>,
    pub(super) counters: Arc<counters::Worker>,
    /// Resolves when the worker has ended.
    pub(super) ended: oneshot::Receiver<()>,
}

/// How often a draining worker checks whether its connections have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Number of task polls after which the runtime polls for I/O events, even if more tasks are ready. With Tokio's
/// default, 61, that many busy connections in a row would delay the requests of all others.
const EVENT_INTERVAL: u32 = 8;

/// Spawns a worker. It ends at once when the sender of its orders is dropped.
pub(super) fn spawn(number: usize, parts: Parts) -> io::Result<WorkerHandle> {
    let (orders, to_do) = mpsc::unbounded_channel();
    let (end, ended) = oneshot::channel();
    let (report, started) = std::sync::mpsc::channel();
    let counters = Arc::<counters::Worker>::default();
    let counts = Arc::clone(&counters);
    thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
        match runtime() {
            Ok(runtime) => {
                let _ = report.send(Ok(()));
                runtime.block_on(work(parts, counts, to_do));
            }
            Err(error) => drop(report.send(Err(error))),
        }
        drop(end);
    })?;
    started.recv().unwrap_or_else(|_| Err(io::Error::other("a worker did not start")))?;
    Ok(WorkerHandle { orders, counters, ended })
}

fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build_local(LocalOptions::default())
}

async fn work(parts: Parts, counters: Arc<counters::Worker>, mut orders: UnboundedReceiver<Order>) {
    let share = parts.options.max_connections.div_ceil(parts.options.threads.max(1));
    let context = Rc::new(ExchangeContext {
        checker: Checker::new(parts.service, Arc::clone(&counters)),
        options: parts.options,
        limits: parts.limits,
        hashing: parts.hashing,
        others: parts.others,
        slices: Rc::default(),
        token_turns: Rc::default(),
    });
    let worker = Worker { context, registry: Registry::new(share, counters) };
    // These tasks end with the runtime.
    spawn_local(Rc::clone(&worker.context.slices).run());
    spawn_local(Rc::clone(&worker.context.token_turns).run());
    while let Some(order) = orders.recv().await {
        match order {
            Order::Serve(accepted) => {
                worker.serve(accepted);
                // The runtime comes back here only after it has asked the system for events: thousands of new connections
                // must not be one piece of work that all requests wait for.
                tokio::task::yield_now().await;
            }
            Order::MakeRoom => drop(worker.registry.evict(Instant::now())),
            Order::Drain => {
                worker.registry.drain();
                tokio::select! {
                    () = worker.emptied() => return,
                    () = gone(&mut orders, &worker) => return,
                }
            }
        }
    }
}

/// Serves connections that were accepted before the drain. Ends when the sender of the orders is dropped, which means
/// to stop at once.
async fn gone(orders: &mut UnboundedReceiver<Order>, worker: &Worker) {
    while let Some(order) = orders.recv().await {
        if let Order::Serve(accepted) = order {
            worker.serve(accepted);
        }
    }
}

impl Worker {
    fn serve(&self, accepted: Accepted) {
        // If the registry has no room, dropping `accepted` closes the connection.
        let Some(connected) = self.registry.enter(Instant::now()) else { return };
        let context = Rc::clone(&self.context);
        match accepted {
            Accepted::Tcp(stream) => {
                if let Ok(stream) = TcpStream::from_std(stream) {
                    spawn_local(connection::serve(context, connected, stream));
                }
            }
            Accepted::Unix(stream) => {
                if let Ok(stream) = Quiet::new(stream) {
                    spawn_local(connection::serve(context, connected, stream));
                }
            }
        }
    }

    async fn emptied(&self) {
        while !self.registry.is_empty() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
