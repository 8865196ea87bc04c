//! The server, put together and taken down: `rolegate serve`.
//!
//! Everything that can fail comes first: the policy is loaded, every address is bound. Only then does anything answer.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use policy::Problem;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep};

use crate::address::AdminAddress;
use crate::admin::Admin;
use crate::decisions::{Counts, Decisions, Writer};
use crate::grpc::{self, CheckService, Listener, Running, Totals};
use crate::keys::Fetcher;
use crate::metrics::Metrics;
use crate::reload::{Event, Policies, Reloader};
use crate::settings::Settings;
use crate::socket::{BindError, Bound, SocketFile};
use crate::status::Status;

mod signals;

pub use signals::{Signal, signals};

/// A server that has everything it needs and answers nothing yet.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    status: Arc<Status>,
    current: Arc<ArcSwapOption<authorizer::Authorizer>>,
    reloader: Reloader,
    listeners: Vec<Listener>,
    admin: Option<Listener>,
    /// Removed when the server has gone.
    files: Vec<SocketFile>,
}

/// Why a server did not start, or did not end well.
#[derive(Debug)]
pub enum ServeError {
    /// The policy does not compile.
    Policy(Vec<Problem>),
    /// An address cannot be listened on.
    Bind(BindError),
    /// The system has no threads, sockets or the like to give.
    System(io::Error),
    /// A second signal came before requests had ended.
    Interrupted,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(problems) => {
                let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
                write!(f, "the policy does not compile\n{}", lines.join("\n"))
            }
            Self::Bind(error) => error.fmt(f),
            Self::System(error) => write!(f, "cannot start: {error}"),
            Self::Interrupted => f.write_str("a second signal came: stopped at once"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl Server {
    /// Loads the policy and binds the addresses.
    ///
    /// # Errors
    /// When the policy does not compile, or an address cannot be listened on.
    pub fn new(settings: Settings) -> Result<Self, ServeError> {
        let status = Arc::new(Status::default());
        let current = Arc::new(ArcSwapOption::empty());
        let reloader =
            Reloader::first(&settings, current.clone(), status.clone()).map_err(ServeError::Policy)?;
        let bind = |address| Bound::new(address, settings.socket_mode).map_err(ServeError::Bind);
        let bound: Vec<Bound> = settings.listen.iter().map(bind).collect::<Result<_, _>>()?;
        let admin = match &settings.admin {
            AdminAddress::On(address) => Some(bind(address)?),
            AdminAddress::Off => None,
        };
        let (listeners, mut files): (Vec<_>, Vec<_>) =
            bound.into_iter().map(|it| (it.listener, it.file)).unzip();
        let (admin, file) = admin.map(|it| (it.listener, it.file)).unzip();
        files.extend(file);
        let files = files.into_iter().flatten().collect();
        Ok(Self { settings, status, current, reloader, listeners, admin, files })
    }

    /// Where requests are answered, with the real ports.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn addresses(&self) -> io::Result<Vec<grpc::Address>> {
        self.listeners.iter().map(Listener::address).collect()
    }

    /// Where the admin pages are, if they are anywhere.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn admin_address(&self) -> io::Result<Option<grpc::Address>> {
        self.admin.as_ref().map(Listener::address).transpose()
    }

    /// Serves until a signal to stop, then ends in two phases. To be run in a runtime of one thread, with time and I/O.
    ///
    /// # Errors
    /// When the system has no threads or sockets to give, or a second signal came.
    pub async fn run(self, mut signals: UnboundedReceiver<Signal>) -> Result<(), ServeError> {
        let Self { settings, status, current, reloader, listeners, admin, files } = self;
        let log = Arc::new(Counts::default());
        let totals = Arc::new(Requests::default());
        let metrics = Arc::new(Metrics {
            status: status.clone(),
            decisions: log.clone(),
            totals: Box::new({
                let totals = totals.clone();
                move || totals.totals()
            }),
        });
        if let Some(listener) = admin {
            tracing::info!(address = %listener.address()?, "admin pages");
            tokio::spawn(Admin::new(listener, metrics)?.run());
        }
        let addresses = reloader.addresses();
        let policies = reloader.start()?;
        let fetcher = Fetcher { current: current.clone(), events: policies.events(), status: status.clone() };
        tokio::spawn(fetcher.run(addresses));
        wait_for_keys(&status, settings.keys_wait).await;

        let (service, writer) = check_service(&settings, current, log)?;
        let running = grpc::Server::start(listeners, service, options(&settings))?;
        for address in running.addresses() {
            tracing::info!(%address, "listening");
        }
        totals.run(running);
        until_stopped(&mut signals, &policies).await;
        let ended = drain(&settings, &status, &totals, &mut signals).await;
        policies.stop();
        if let Some(writer) = writer
            && ended.is_ok()
        {
            writer.finish();
        }
        drop(files);
        ended
    }
}

/// The requests: those that run, and how many there were once they have ended.
#[derive(Debug, Default)]
struct Requests {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Before,
    Running(Running),
    After(Totals),
}

impl Requests {
    fn totals(&self) -> Totals {
        match &*self.state.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Before => Totals::default(),
            State::Running(running) => running.totals(),
            State::After(totals) => totals.clone(),
        }
    }

    fn run(&self, running: Running) {
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = State::Running(running);
    }

    fn end(&self) -> Option<Running> {
        let totals = self.totals();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::After(totals)) {
            State::Running(running) => Some(running),
            State::Before | State::After(_) => None,
        }
    }
}

fn check_service(
    settings: &Settings,
    current: Arc<ArcSwapOption<authorizer::Authorizer>>,
    counts: Arc<Counts>,
) -> io::Result<(CheckService, Option<Writer>)> {
    let service = CheckService::new(current);
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

/// Gives keys that are fetched a moment to come, so that the first tokens find them. Requests that do not need them
/// must not wait for an issuer that is down, so the wait has an end.
async fn wait_for_keys(status: &Status, wait: Duration) {
    let end = Instant::now() + wait;
    while !status.facts().all_keys_loaded() {
        if Instant::now() >= end {
            tracing::warn!("keys are late: tokens that need them are refused until they come");
            return;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Passes reloads on until it is time to stop. Nobody left to send signals is a reason to stop, too.
async fn until_stopped(signals: &mut UnboundedReceiver<Signal>, policies: &Policies) {
    while let Some(Signal::Reload) = signals.recv().await {
        if policies.events().send(Event::Asked).is_err() {
            tracing::error!("the thread that reloads has ended: the policy stays as it is");
        }
    }
}

/// First everybody is told (readiness ends, health says `NOT_SERVING`), then connections are closed in two phases.
async fn drain(
    settings: &Settings,
    status: &Status,
    requests: &Requests,
    signals: &mut UnboundedReceiver<Signal>,
) -> Result<(), ServeError> {
    tracing::info!(timeout = ?settings.drain_timeout, "stopping: requests in flight may end");
    status.drain();
    let Some(running) = requests.end() else { return Ok(()) };
    running.announce();
    let again = async {
        loop {
            match signals.recv().await {
                Some(Signal::Stop) => return,
                Some(Signal::Reload) => {}
                None => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        clean = running.drain(settings.drain_timeout) => {
            if clean {
                tracing::info!("stopped");
            } else {
                tracing::warn!("stopped: what was open after the drain timeout is closed");
            }
            Ok(())
        }
        () = again => Err(ServeError::Interrupted),
    }
}
