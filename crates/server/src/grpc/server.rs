//! Starts and stops the server.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::{Address, Listener};
use identity::VerificationResult;
use runtime::ActivePolicy;
use runtime::counters::{ThreadCounters, Totals};
use runtime::hashing::Hashing;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::accept_error::AcceptErrors;
use super::acceptor;
use super::command::Command;
use super::counters::{ConnectionCounters, ServerTotals};
use super::message::{Budget, Limits};
use super::options::Options;
use super::other_services::OtherServices;
use super::overload::Overloads;
use super::phase::Phase;
use super::tls::Tls;
use super::verifications::Verifications;
use super::worker::{self, Parts, WorkerHandle};
use super::wrong_protocol::WrongProtocols;

/// Maximum bytes that waiting requests take over all connections, for unfinished messages and those whose credentials are
/// being verified; or four times the maximum message size if that is more, so that several messages of that size can arrive at once. 32 MiB are half of what the memory may grow by in an
/// attack (S20 in SECURITY.md).
const MAX_UNFINISHED_BYTES: usize = 32 << 20;

/// The gRPC server, see [`Server::start`].
#[derive(Debug)]
pub struct Server;

/// A running server. Dropping it stops it at once.
#[derive(Debug)]
pub struct Running {
    addresses: Vec<Address>,
    phase: watch::Sender<Phase>,
    workers: Vec<WorkerHandle>,
    acceptor: JoinHandle<()>,
    counters: Counters,
}

/// The counters of a server. They can be read while it drains and after it has stopped, too.
#[derive(Clone, Debug)]
pub struct Counters {
    workers: Vec<(Arc<ThreadCounters>, Arc<ConnectionCounters>)>,
    accept_errors: Arc<AcceptErrors>,
    hashing: Arc<Hashing>,
    wrong_protocols: Arc<WrongProtocols>,
    overloads: Arc<Overloads>,
    tls: Option<Arc<Tls>>,
}

impl Server {
    /// Starts the threads and serves the listeners.
    ///
    /// # Errors
    /// When a thread or a runtime cannot be created, or a socket cannot be used.
    pub fn start(listeners: Vec<Listener>, policy: ActivePolicy, options: Options) -> io::Result<Running> {
        let addresses = listeners.iter().map(Listener::address).collect::<io::Result<_>>()?;
        let options = options.resolved();
        let (phase, phases) = watch::channel(Phase::Serving);
        let caching = policy.clone();
        let cache_result = Box::new(move |result: &VerificationResult| caching.cache_result(result));
        let hashing = Arc::new(Hashing::start(options.hash_threads, options.hash_queue, cache_result)?);
        let (wrong_protocols, overloads) = (Arc::new(WrongProtocols::new()), Arc::new(Overloads::new()));
        let tls = options.tls.clone();
        let parts = Parts {
            wrong_protocols: Arc::clone(&wrong_protocols),
            overloads: Arc::clone(&overloads),
            other_services: OtherServices::new(policy.clone(), phases.clone(), options.request_timeout)
                .map_err(io::Error::other)?,
            limits: limits(&options),
            hashing: Arc::clone(&hashing),
            policy,
            options,
        };
        let spawn = |number| worker::spawn(number, parts.clone());
        let workers = (0..parts.options.threads).map(spawn).collect::<io::Result<Vec<_>>>()?;
        let commands = workers.iter().map(|worker| worker.commands.clone()).collect();
        let accept_errors = Arc::new(AcceptErrors::new());
        let acceptor = acceptor::start(listeners, commands, Arc::clone(&accept_errors), phases)?;
        let counters_of =
            |worker: &WorkerHandle| (Arc::clone(&worker.checks), Arc::clone(&worker.connections));
        let worker_counters = workers.iter().map(counters_of).collect();
        let counters =
            Counters { workers: worker_counters, accept_errors, hashing, wrong_protocols, overloads, tls };
        Ok(Running { addresses, phase, workers, acceptor, counters })
    }
}

impl Running {
    /// The addresses that it listens on, in the order of the listeners.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The counters. The copy stays valid after this is dropped.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// The current counters, summed over all workers.
    #[must_use]
    pub fn totals(&self) -> ServerTotals {
        self.counters.totals()
    }

    /// Makes health checks report `NOT_SERVING`, while everything is served as before.
    pub fn fail_health_checks(&self) {
        self.phase.send_replace(Phase::HealthFailing);
    }

    /// Drains in two phases: first, no new connections are accepted, and open ones get a GOAWAY with the highest
    /// stream id; then, once the peer has acknowledged that, they get the final GOAWAY. What is still open after
    /// `deadline` is closed. Returns whether all connections ended by themselves.
    pub async fn drain(self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        let Self { phase, workers, acceptor, .. } = self;
        phase.send_replace(Phase::Draining);
        // Connections in the kernel's backlog are served too, so the workers drain only after the acceptor has ended.
        let accepted = tokio::task::spawn_blocking(move || acceptor.join());
        let _ = timeout_at(end, accepted).await;
        let (commands, ends): (Vec<_>, Vec<_>) =
            workers.into_iter().map(|worker| (worker.commands, worker.ended)).unzip();
        for commands in &commands {
            let _ = commands.send(Command::Drain);
        }
        let all = async {
            for ended in ends {
                let _ = ended.await;
            }
        };
        let in_time = timeout_at(end, all).await.is_ok();
        drop(commands);
        in_time
    }
}

impl Counters {
    /// The current counters, summed over all workers.
    #[must_use]
    pub fn totals(&self) -> ServerTotals {
        let mut totals = ServerTotals {
            checks: Totals::sum(self.workers.iter().map(|(checks, _)| &**checks)),
            accept_errors: self.accept_errors.counts(),
            hashing: self.hashing.totals(),
            wrong_protocols: self.wrong_protocols.counts(),
            overloads: self.overloads.counts(),
            tls: self.tls.as_ref().map(|tls| tls.totals()),
            ..ServerTotals::default()
        };
        self.workers.iter().for_each(|(_, connections)| totals.add(connections));
        totals
    }
}

fn limits(options: &Options) -> Limits {
    let bytes = MAX_UNFINISHED_BYTES.max(options.max_message_size.saturating_mul(4));
    Limits {
        message: options.max_message_size,
        budget: Budget::new(options.max_waiting_checks, bytes),
        verifications: Verifications::new(options.max_waiting_checks, bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::{mpsc, oneshot};

    use super::*;

    /// The acceptor and the workers share one deadline.
    #[tokio::test]
    async fn a_drain_takes_no_longer_than_its_deadline() {
        const DEADLINE: Duration = Duration::from_secs(3);
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let hashing = Hashing::start(1, 1, Box::new(|_| false)).unwrap();
        let (commands, _receiver) = mpsc::unbounded_channel();
        let (_end, ended) = oneshot::channel();
        let running = Running {
            addresses: Vec::new(),
            phase: watch::Sender::new(Phase::Serving),
            workers: vec![WorkerHandle {
                commands,
                checks: Arc::default(),
                connections: Arc::default(),
                ended,
            }],
            acceptor: thread::spawn(move || _ = stopped.recv()),
            counters: Counters {
                workers: Vec::new(),
                accept_errors: Arc::new(AcceptErrors::new()),
                hashing: Arc::new(hashing),
                wrong_protocols: Arc::new(WrongProtocols::new()),
                overloads: Arc::new(Overloads::new()),
                tls: None,
            },
        };
        let start = Instant::now();
        assert!(!running.drain(DEADLINE).await);
        assert!(start.elapsed() < DEADLINE * 2, "{:?}", start.elapsed());
        drop(stop);
    }
}
