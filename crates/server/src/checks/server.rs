//! Starts and stops the server.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use identity::VerificationResult;
use runtime::ActivePolicy;
use runtime::hashing::Hashing;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::acceptor;
use super::context::Shared;
use super::metrics::{Counters, ServerTotals};
use super::options::Options;
use super::worker::{self, Command, Protocol, WorkerHandle};
use crate::grpc::other_services::{OtherServices, Phase};
use crate::{Address, Listener};

/// The server, see [`Server::start`].
#[derive(Debug)]
pub struct Server;

/// A running server. Dropping it stops it at once.
#[derive(Debug)]
pub struct RunningServer {
    addresses: Vec<Address>,
    phase: watch::Sender<Phase>,
    workers: Vec<WorkerHandle>,
    acceptor: JoinHandle<()>,
    counters: Counters,
}

impl Server {
    /// Starts the threads and serves the listeners.
    ///
    /// # Errors
    /// When a thread or a runtime cannot be created, or a socket cannot be used.
    pub fn start(
        listeners: Vec<(Protocol, Listener)>,
        policy: ActivePolicy,
        options: Options,
    ) -> io::Result<RunningServer> {
        let addresses =
            listeners.iter().map(|(_, listener)| listener.address()).collect::<io::Result<_>>()?;
        let options = options.resolved();
        let (phase, phase_receiver) = watch::channel(Phase::Serving);
        let shared = Arc::new(shared(policy, options, phase_receiver.clone())?);
        let workers = (0..shared.options.threads)
            .map(|number| worker::spawn(number, Arc::clone(&shared)))
            .collect::<io::Result<Vec<_>>>()?;
        let commands = workers.iter().map(|worker| worker.commands.clone()).collect();
        let acceptor = acceptor::start(listeners, commands, Arc::clone(&shared), phase_receiver)?;
        let worker_counters = workers
            .iter()
            .map(|worker| (worker.checks.clone(), worker.connections.clone()))
            .collect();
        let counters = Counters::new(worker_counters, shared);
        Ok(RunningServer { addresses, phase, workers, acceptor, counters })
    }
}

fn shared(
    policy: ActivePolicy,
    options: Options,
    phase: watch::Receiver<Phase>,
) -> io::Result<Shared> {
    let caching = policy.clone();
    let cache_result = Box::new(move |result: &VerificationResult| caching.cache_result(result));
    let hashing = Hashing::start(options.hash_threads, options.hash_queue, cache_result)?;
    let other_services = OtherServices::new(policy.clone(), phase, options.request_timeout);
    Ok(Shared::new(policy, options, hashing, other_services.map_err(io::Error::other)?))
}

impl RunningServer {
    /// The addresses that it listens on, in the order of the listeners.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// A copy of the handle to the counters. It stays valid after the server is dropped.
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

    /// Drains in two phases. First, no new connections are accepted, and open connections get a
    /// GOAWAY with the highest stream id. Once the peer has acknowledged that, they get the final
    /// GOAWAY. Connections that are still open after `deadline` are closed. Returns whether all
    /// connections ended by themselves.
    pub async fn drain(self, deadline: Duration) -> bool {
        let end = Instant::now() + deadline;
        let Self { phase, workers, acceptor, .. } = self;
        phase.send_replace(Phase::Draining);
        // Connections in the kernel's backlog are served too, so the workers drain only after the
        // acceptor has ended.
        let accepted = tokio::task::spawn_blocking(move || acceptor.join());
        let _ = timeout_at(end, accepted).await;
        let (commands, ends): (Vec<_>, Vec<_>) =
            workers.into_iter().map(|worker| (worker.commands, worker.ended)).unzip();
        for worker in &commands {
            let _ = worker.send(Command::Drain);
        }
        let all_ended = async {
            for ended in ends {
                let _ = ended.await;
            }
        };
        let in_time = timeout_at(end, all_ended).await.is_ok();
        // The workers close the connections that are still open.
        drop(commands);
        in_time
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
        let (commands, _receiver) = mpsc::unbounded_channel();
        let (_end, ended) = oneshot::channel();
        let options = Options { threads: 1, hash_threads: 1, ..Options::default() };
        let mut running =
            Server::start(Vec::new(), ActivePolicy::new(Arc::default()), options).unwrap();
        let (checks, connections) = (Arc::default(), Arc::default());
        running.workers.push(WorkerHandle { commands, checks, connections, ended });
        running.acceptor = thread::spawn(move || _ = stopped.recv());
        let start = Instant::now();
        assert!(!running.drain(DEADLINE).await);
        assert!(start.elapsed() < DEADLINE * 2, "{:?}", start.elapsed());
        drop(stop);
    }
}
