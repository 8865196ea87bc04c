//! Starting and stopping.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use identity::PasswordChecked;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::acceptor;
use super::check::CheckService;
use super::counters::{self, Totals};
use super::hashing::Hashing;
use super::listener::{Address, Listener};
use super::message::{Budget, Limits};
use super::others::Others;
use super::worker::{self, Order, Parts, WorkerHandle};

/// Sizes and limits. The defaults are fit for production.
#[derive(Clone, Debug)]
pub struct Options {
    /// Request threads; 0 is one per core.
    pub threads: usize,
    /// The largest message accepted, in bytes.
    pub max_message_size: usize,
    /// Open connections; beyond it the one that is idle the longest makes room.
    pub max_connections: usize,
    /// Concurrent streams a connection (RFC 9113, 6.5.2).
    pub max_concurrent_streams: u32,
    /// How long a client may take for the connection preface, for the rest of a message, and to wait for a password's
    /// hash, where its `grpc-timeout` is not shorter.
    pub read_timeout: Duration,
    /// Threads that hash passwords; 0 is half the cores, at least one.
    pub hash_threads: usize,
    /// Passwords that may wait for such a thread.
    pub hash_queue: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 0,
            max_message_size: 4 << 20,
            max_connections: 1024,
            max_concurrent_streams: 1024,
            read_timeout: Duration::from_secs(10),
            hash_threads: 0,
            hash_queue: 256,
        }
    }
}

/// What unfinished messages may hold over all connections, unless one message may be larger than a quarter of it.
const UNFINISHED: usize = 32 << 20;

/// How far the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// It serves as before, and says that the end is near.
    Announced,
    /// It accepts no connection any more.
    Draining,
}

/// The server.
#[derive(Debug)]
pub struct Server;

/// A server that runs. Dropping it stops it at once.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<Address>,
    phase: watch::Sender<Phase>,
    workers: Vec<WorkerHandle>,
    acceptor: JoinHandle<()>,
    counting: Counting,
}

/// The counters of a server. They can be read while it drains and after its end.
#[derive(Clone, Debug)]
pub struct Counting {
    workers: Vec<Arc<counters::Worker>>,
    accept_errors: Arc<AtomicU64>,
    hashing: Arc<Hashing>,
}

impl Server {
    /// Starts the threads and serves the listeners.
    ///
    /// # Errors
    /// When a thread or a runtime cannot be made, or a socket is not usable.
    pub fn start(listeners: Vec<Listener>, service: CheckService, options: Options) -> io::Result<Running> {
        let addresses = listeners.iter().map(Listener::address).collect::<io::Result<_>>()?;
        let options = options.resolved();
        let (phase, phases) = watch::channel(Phase::Serving);
        let remembering = service.clone();
        let remember = Box::new(move |checked: &PasswordChecked| remembering.remember(checked));
        let hashing = Arc::new(Hashing::start(options.hash_threads, options.hash_queue, remember)?);
        let parts = Parts {
            others: Others::new(service.clone(), phases.clone(), options.read_timeout)
                .map_err(io::Error::other)?,
            limits: options.limits(),
            hashing: Arc::clone(&hashing),
            service,
            options,
        };
        let spawn = |number| worker::spawn(number, parts.clone());
        let workers = (0..parts.options.threads).map(spawn).collect::<io::Result<Vec<_>>>()?;
        let orders = workers.iter().map(|worker| worker.orders.clone()).collect();
        let accept_errors = Arc::<AtomicU64>::default();
        let acceptor = acceptor::start(listeners, orders, Arc::clone(&accept_errors), phases)?;
        let counters = workers.iter().map(|worker| Arc::clone(&worker.counters)).collect();
        let counting = Counting { workers: counters, accept_errors, hashing };
        Ok(Running { addresses, phase, workers, acceptor, counting })
    }
}

impl Running {
    /// Where it listens, in the order of the listeners.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The counters.
    #[must_use]
    pub fn counting(&self) -> Counting {
        self.counting.clone()
    }

    /// The counters, summed up now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.counting.totals()
    }

    /// Tells health checks that the end is near (`NOT_SERVING`), while everything is served as before.
    pub fn announce(&self) {
        self.phase.send_replace(Phase::Announced);
    }

    /// Ends in two phases: no new connections, and GOAWAY with the highest stream id on the open ones; then, once
    /// every client knows, the real one. Whatever is open after `deadline` is closed. Returns whether all ended by
    /// themselves.
    pub async fn drain(self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        let Self { phase, workers, acceptor, .. } = self;
        phase.send_replace(Phase::Draining);
        // What the system had accepted by now is served too; so the workers drain after the acceptor has ended.
        let accepted = tokio::task::spawn_blocking(move || acceptor.join());
        let _ = timeout_at(end, accepted).await;
        let (orders, ends): (Vec<_>, Vec<_>) =
            workers.into_iter().map(|worker| (worker.orders, worker.ended)).unzip();
        for orders in &orders {
            let _ = orders.send(Order::Drain);
        }
        let all = async {
            for ended in ends {
                let _ = ended.await;
            }
        };
        let in_time = timeout_at(end, all).await.is_ok();
        drop(orders);
        in_time
    }
}

impl Counting {
    /// The counters, summed up now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            accept_errors: self.accept_errors.load(Relaxed),
            hashing: self.hashing.totals(),
            ..Totals::sum(self.workers.iter().map(|worker| &**worker))
        }
    }
}

impl Options {
    /// With numbers in place of the zeros.
    fn resolved(mut self) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        if self.threads == 0 {
            self.threads = cores;
        }
        if self.hash_threads == 0 {
            self.hash_threads = (cores / 2).max(1);
        }
        self
    }

    fn limits(&self) -> Limits {
        let budget = UNFINISHED.max(self.max_message_size.saturating_mul(4));
        Limits { message: self.max_message_size, budget: Budget::new(budget) }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// One deadline for the acceptor and the workers together.
    #[tokio::test]
    async fn a_drain_takes_no_longer_than_its_deadline() {
        const DEADLINE: Duration = Duration::from_millis(500);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let hashing = Hashing::start(1, 1, Box::new(|_| false)).unwrap();
        let (orders, _to_do) = mpsc::unbounded_channel();
        let (_end, ended) = oneshot::channel();
        let running = Running {
            addresses: Vec::new(),
            phase: watch::Sender::new(Phase::Serving),
            workers: vec![WorkerHandle { orders, counters: Arc::default(), ended }],
            acceptor: thread::spawn(move || _ = stopped.recv()),
            counting: Counting {
                workers: Vec::new(),
                accept_errors: Arc::default(),
                hashing: Arc::new(hashing),
            },
        };
        let start = Instant::now();
        assert!(!running.drain(DEADLINE).await);
        assert!(start.elapsed() < DEADLINE * 2, "{:?}", start.elapsed());
        drop(stop);
    }
}
