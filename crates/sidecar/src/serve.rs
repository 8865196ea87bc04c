//! `rolegate serve`: starts, runs and stops the server.
//!
//! Everything that can fail comes first: the policy is loaded and every address is bound before anything is answered.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use policy::Problem;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

use crate::address::{Address, AdminAddress};
use crate::admin::{Admin, Pages};
use crate::decisions::Decisions;
use crate::grpc::{self, CheckService, Listener, Running};
use crate::keys::Fetcher;
use crate::lines::{Counts, Writer};
use crate::metrics::Metrics;
use crate::output::problem_lines;
use crate::reload::{Event, Policies, Reloader};
use crate::settings::Settings;
use crate::socket::{BindError, Bound, SocketFile};
use crate::status::Status;

mod signals;

pub use signals::{Signal, signals};

/// How long shutdown waits for the last lines of the decision log to be read.
const LAST_LINES: Duration = Duration::from_secs(2);

/// A server that is ready to start: its policy is loaded and its addresses are bound.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    /// Counters of the lines of the log.
    logs: Arc<Counts>,
    status: Arc<Status>,
    current: Arc<ArcSwapOption<authorizer::Authorizer>>,
    reloader: Reloader,
    listeners: Vec<(Address, Listener)>,
    /// The HTTP listeners, and which pages each of them serves.
    pages: Vec<(Pages, Address, Listener)>,
    /// Files of Unix sockets, removed when the server has stopped.
    files: Vec<SocketFile>,
}

/// Why a server did not start, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The policy does not compile.
    #[error("the policy does not compile\n{}", problem_lines(.0))]
    Policy(Vec<Problem>),
    /// An address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system cannot provide a thread, a socket or the like.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// A second signal to stop came before all requests had ended.
    #[error("stopped at once by a second signal")]
    Interrupted,
}

impl Server {
    /// Loads the policy and binds the addresses.
    ///
    /// # Errors
    /// When the policy does not compile, or an address cannot be bound.
    pub(crate) fn new(settings: Settings, logs: Arc<Counts>) -> Result<Self, ServeError> {
        let status = Arc::new(Status::new(settings.keys_needed));
        let current = Arc::new(ArcSwapOption::empty());
        let reloader =
            Reloader::first(&settings, current.clone(), status.clone()).map_err(ServeError::Policy)?;
        let mut files = Vec::new();
        let mut bind = |address| -> Result<_, ServeError> {
            let bound = Bound::new(address, settings.socket_mode)?;
            files.extend(bound.file);
            Ok((bound.address, bound.listener))
        };
        let listeners = settings.listen.iter().map(&mut bind).collect::<Result<_, _>>()?;
        let mut pages = Vec::new();
        for (which, address) in [(Pages::All, &settings.admin), (Pages::Metrics, &settings.metrics)] {
            if let AdminAddress::On(address) = address {
                let (address, listener) = bind(address)?;
                pages.push((which, address, listener));
            }
        }
        Ok(Self { settings, logs, status, current, reloader, listeners, pages, files })
    }

    /// The addresses where requests are answered, with the actual ports.
    #[must_use]
    pub fn addresses(&self) -> Vec<Address> {
        self.listeners.iter().map(|(address, _)| address.clone()).collect()
    }

    /// The address of the admin pages, unless they are off.
    #[must_use]
    pub fn admin_address(&self) -> Option<Address> {
        let all = self.pages.iter().find(|(which, ..)| *which == Pages::All);
        all.map(|(_, address, _)| address.clone())
    }

    /// Serves until a signal to stop, then drains in two phases. Must run in a current-thread runtime with time and
    /// I/O.
    ///
    /// # Errors
    /// When the system cannot provide a thread or a socket, or a second signal to stop came.
    pub async fn run(self, mut signals: UnboundedReceiver<Signal>) -> Result<(), ServeError> {
        let serving = self.begin().await?;
        serving.until_stopped(&mut signals).await;
        serving.end(&mut signals).await
    }

    async fn begin(self) -> Result<Serving, ServeError> {
        let Self { settings, logs, status, current, reloader, listeners, pages, files } = self;
        let decisions = Arc::new(Counts::default());
        // Set once requests are answered. Kept until the process ends, so that the last requests are counted, too.
        let counters = Arc::new(OnceLock::<grpc::Counters>::new());
        let metrics = {
            let counters = counters.clone();
            let totals = Box::new(move || counters.get().map(grpc::Counters::totals).unwrap_or_default());
            let (status, decisions) = (status.clone(), decisions.clone());
            Arc::new(Metrics { status, decisions, logs, totals })
        };
        for (which, address, listener) in pages {
            tokio::spawn(Admin::new(listener, which, metrics.clone())?.run());
            match which {
                Pages::All => tracing::info!(%address, "admin pages"),
                Pages::Metrics => tracing::info!(%address, "metrics"),
            }
        }
        let keys = reloader.key_urls();
        let policies = reloader.start()?;
        let fetcher = Fetcher { current: current.clone(), events: policies.events(), status: status.clone() };
        tokio::spawn(fetcher.run(keys));
        wait_for_keys(&status, settings.keys_wait).await;

        let (service, writer) = check_service(&settings, current, status.clone(), decisions)?;
        let (addresses, listeners): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
        let running = grpc::Server::start(listeners, service, options(&settings))?;
        let _ = counters.set(running.counters());
        status.listen();
        for address in addresses {
            tracing::info!(%address, "listening");
        }
        Ok(Serving {
            drain_delay: settings.drain_delay,
            drain_timeout: settings.drain_timeout,
            status,
            running,
            policies,
            writer,
            _files: files,
        })
    }
}

/// A server that answers requests.
struct Serving {
    drain_delay: Duration,
    drain_timeout: Duration,
    status: Arc<Status>,
    running: Running,
    policies: Policies,
    writer: Option<Writer>,
    /// Files of Unix sockets, removed when the server has stopped.
    _files: Vec<SocketFile>,
}

impl Serving {
    /// Passes on signals to reload, until one to stop comes or no signal can come any more.
    async fn until_stopped(&self, signals: &mut UnboundedReceiver<Signal>) {
        while let Some(Signal::Reload) = signals.recv().await {
            if self.policies.events().send(Event::Reload).is_err() {
                tracing::error!("the policy thread has ended: the policy cannot be reloaded");
            }
        }
    }

    /// Waits for requests to end, then stops the threads.
    async fn end(self, signals: &mut UnboundedReceiver<Signal>) -> Result<(), ServeError> {
        let Self { drain_delay, drain_timeout, status, running, policies, writer, _files } = self;
        tokio::select! {
            () = drain(&status, running, drain_delay, drain_timeout) => {}
            () = stop_signal(signals) => return Err(ServeError::Interrupted),
        }
        policies.stop();
        if let Some(writer) = writer {
            writer.finish(LAST_LINES);
        }
        Ok(())
    }
}

/// First the end is announced (readiness ends, health reports `NOT_SERVING`), then connections are closed in two
/// phases.
async fn drain(status: &Status, running: Running, delay: Duration, timeout: Duration) {
    tracing::info!(?timeout, "stopping: waiting for requests in flight");
    status.drain();
    running.announce();
    // Envoy checks health only from time to time; until it knows, a closed listener is a failure to it.
    sleep(delay).await;
    if running.drain(timeout).await {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped: the drain timeout passed, and open connections were closed");
    }
}

fn check_service(
    settings: &Settings,
    current: Arc<ArcSwapOption<authorizer::Authorizer>>,
    status: Arc<Status>,
    counts: Arc<Counts>,
) -> io::Result<(CheckService, Option<Writer>)> {
    let service = CheckService::new(current).with_readiness(status);
    Ok(match Decisions::start(settings.decision_log, io::stdout(), counts)? {
        Some((decisions, writer)) => (service.with_decisions(Arc::new(decisions)), Some(writer)),
        None => (service, None),
    })
}

fn options(settings: &Settings) -> grpc::Options {
    grpc::Options {
        threads: settings.threads.into(),
        max_message_size: settings.max_message_size,
        max_connections: settings.max_connections.into(),
        hash_threads: settings.hash_threads.into(),
        hash_queue: settings.hash_queue.into(),
        ..grpc::Options::default()
    }
}

/// Waits for the first attempt to fetch the keys of each issuer, so that the first tokens find them. The wait is bounded,
/// because requests that do not need keys must not wait for an issuer that is down.
async fn wait_for_keys(status: &Status, wait: Duration) {
    let end = Instant::now() + wait;
    while !status.facts().all_keys_tried() && Instant::now() < end {
        sleep(Duration::from_millis(5)).await;
    }
    let facts = status.facts();
    if !facts.all_keys_loaded() {
        let issuers = facts.issuers_without_keys();
        tracing::warn!(%issuers, "no keys yet: tokens of {issuers} get 401 until they arrive");
    }
}

/// Resolves on a signal to stop. Signals to reload are ignored: the server is stopping.
async fn stop_signal(signals: &mut UnboundedReceiver<Signal>) {
    loop {
        match signals.recv().await {
            Some(Signal::Stop) => return,
            Some(Signal::Reload) => {}
            None => std::future::pending().await,
        }
    }
}
