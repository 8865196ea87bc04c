//! `rolegate serve`: starts, runs and stops the server.
//!
//! Steps that can fail come first: the policy is loaded and every address is bound before any
//! request is answered.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use authorizer::Authorizer;
use console::{Console, RunsIn};
use runtime::counters::ThreadCounters;
use runtime::lines::Counts;
use runtime::settings::{EffectCheck, warn_of_settings};
use runtime::status::Status;
use runtime::{LoadError, LoadedPolicy, Reloads, Runtime, STOP_TIMEOUT};
use server::admin::{Admin, AdminSettings, AuthorizationStats, PageSources, Pages};
use server::authzen::{
    self, AuthZen, AuthZenSettings, RunningAuthZen, Tokens, TokensError, WithQuestions,
};
use server::checks::{self, OnceCounters, Protocol, RunningServer, Tls, TlsError};
use server::forward_auth;
use server::{Address, AdminAddress, BindError, BoundSocket, Listener, SocketFile};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep};

use crate::error::{CommandError, Exit};
use crate::logs;
use crate::settings::Settings;

/// Signals to stop that come within this time after the first are repetitions of it: some programs,
/// such as GNU `timeout`, signal the process and then its process group.
const SAME_SIGNAL: Duration = Duration::from_millis(100);
/// Takes the place of [`STOP_TIMEOUT`] after a second signal.
const IMMEDIATE_STOP_TIMEOUT: Duration = Duration::from_millis(200);

/// A warning about an address that other machines can reach.
const WITHOUT_TLS: &str = "other machines can reach this address, and passwords and tokens travel \
    to it unencrypted: set `tls-certificate`, `tls-key` and `tls-client-ca`, or listen on loopback \
    or a Unix socket";

/// A warning about `http-trusted`.
const TRUSTS_EVERYBODY: &str = "`http-trusted` has all addresses, so anybody who reaches `http` \
    can name any client and any request: name the networks of the proxies only";

/// The settings to lower if the system cannot create all threads.
const THREAD_SETTINGS: &str = "`threads` and `hash-threads`";

/// The default of `socket-mode`.
const SOCKET_MODE: u32 = 0o660;

/// Serves until a signal stops it.
pub(crate) fn run(settings: Settings) -> Result<Exit, CommandError> {
    let is_text = logs::is_text(settings.log_format);
    let logs = logs::start(settings.log_format, settings.log_level)?;
    let result = serve(settings, logs.counts());
    if let Err(error) = &result {
        if is_text {
            logs.text(&format!("rolegate: {error}"));
        } else {
            error.log();
        }
    }
    logs.finish();
    Ok(result.map_or_else(|error| error.exit(), |()| Exit::Success))
}

fn serve(settings: Settings, log_counts: Arc<Counts>) -> Result<(), ServeError> {
    let executor = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Without a handler, SIGHUP during the first load would end the process. The handler stays when
    // this stream of signals is dropped.
    drop(executor.block_on(async { signal(SignalKind::hangup()) })?);
    let server = Server::new(settings, log_counts)?;
    let result = executor.block_on(async { server.run(signals()?).await });
    // A DNS lookup may still run on a blocking thread: do not wait for it.
    executor.shutdown_background();
    result
}

/// A server that is ready to start: its policy is loaded and its addresses are bound.
struct Server {
    settings: Settings,
    /// Counters of the lines of the log.
    log_counts: Arc<Counts>,
    policy: LoadedPolicy,
    tls: Option<Arc<Tls>>,
    listeners: Vec<(Address, (Protocol, Listener))>,
    /// The listeners of the admin pages, and which pages each of them serves.
    pages: Vec<(Pages, Address, Listener)>,
    /// The listener for AuthZEN.
    authzen: Option<(Address, Listener)>,
    /// The tokens of the clients that may ask over AuthZEN.
    tokens: Option<Arc<Tokens>>,
    /// Files of Unix sockets, removed when the server has stopped.
    files: Vec<SocketFile>,
}

/// Why a server did not start, or did not stop cleanly.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    NotLoaded(#[from] LoadError),
    /// A setting needs another setting.
    #[error("{0}")]
    Settings(&'static str),
    #[error(transparent)]
    ForwardAuth(#[from] forward_auth::SettingsError),
    #[error(transparent)]
    AuthZen(#[from] authzen::SettingsError),
    #[error(transparent)]
    Tokens(#[from] TokensError),
    #[error("TLS: {0}")]
    Tls(#[from] TlsError),
    #[error(
        "two of `listen`, `http`, `authzen`, `admin` and `metrics` are the address `{0}`: choose \
         another one for each"
    )]
    SameAddress(Address),
    #[error("{error} (`--{setting}`)")]
    Bind { setting: &'static str, error: BindError },
    /// The system cannot provide a thread, a socket or the like.
    #[error("cannot start: {}", runtime::start_error(.0, THREAD_SETTINGS))]
    System(#[from] io::Error),
    #[error("stopped at once by a second signal")]
    Interrupted,
}

impl ServeError {
    const fn exit(&self) -> Exit {
        match self {
            Self::NotLoaded(LoadError::Policy(_) | LoadError::Shadow(_)) => Exit::Policy,
            Self::NotLoaded(LoadError::Setting(_))
            | Self::SameAddress(_)
            | Self::Settings(_)
            | Self::ForwardAuth(_)
            | Self::AuthZen(_) => Exit::Arguments,
            Self::Bind { .. }
            | Self::Tls(_)
            | Self::Tokens(_)
            | Self::System(_)
            | Self::Interrupted => Exit::Failed,
        }
    }

    /// Logs the error as JSON lines, so that every line of the log is JSON.
    fn log(&self) {
        let Self::NotLoaded(error) = self else { return tracing::error!("{self}") };
        match error {
            LoadError::Policy(problems) => {
                runtime::log_problems(problems);
                tracing::error!("cannot start: the policy does not load");
            }
            LoadError::Shadow(problems) => runtime::shadow_span().in_scope(|| {
                runtime::log_problems(problems);
                tracing::error!(
                    "cannot start: the shadow policy does not load: mend it, or start without \
                     `shadow`"
                );
            }),
            LoadError::Setting(error) => tracing::error!("cannot start: {error}"),
        }
    }
}

impl Server {
    /// Loads the policy and binds the addresses.
    fn new(settings: Settings, log_counts: Arc<Counts>) -> Result<Self, ServeError> {
        let policy = LoadedPolicy::load(settings.policy.clone())?;
        warn_of_settings(effect_checks(&settings));
        if let Some(address) = repeated_address(&settings) {
            return Err(ServeError::SameAddress(address.clone()));
        }
        let tls = settings.tls.files().map_err(ServeError::Settings)?;
        let tls = tls.map(Tls::load).transpose()?.map(Arc::new);
        settings.authzen.check(tls.is_some(), settings.tls.tls_client_ca.is_some())?;
        let has_authzen = settings.authzen.address != AdminAddress::Off;
        let tokens = settings.authzen.authzen_tokens.clone().filter(|_| has_authzen);
        let tokens = tokens.map(Tokens::load).transpose()?.map(Arc::new);
        let (mut listeners, mut pages, mut files) = (Vec::new(), Vec::new(), Vec::new());
        let forward_auth = settings.http.listener(settings.tls.tls_client_ca.is_some())?;
        let mut authzen = None;
        for (kind, address) in addresses(&settings) {
            let socket = BoundSocket::new(address, settings.socket_mode)
                .map_err(|error| ServeError::Bind { setting: kind.setting(), error })?;
            files.extend(socket.file);
            match kind {
                ListenerKind::Grpc => {
                    listeners.push((socket.address, (Protocol::Grpc, socket.listener)));
                }
                ListenerKind::ForwardAuth => {
                    if let Some((_, forward_auth)) = &forward_auth {
                        let protocol = Protocol::Http(forward_auth.clone());
                        listeners.push((socket.address, (protocol, socket.listener)));
                    }
                }
                ListenerKind::AuthZen => authzen = Some((socket.address, socket.listener)),
                ListenerKind::Pages(served) => {
                    pages.push((served, socket.address, socket.listener))
                }
            }
        }
        Ok(Self { settings, log_counts, policy, tls, listeners, pages, authzen, tokens, files })
    }

    /// Serves until a signal to stop, then drains: see [`drain`]. Must run in a current-thread
    /// runtime with time and I/O.
    async fn run(self, mut signals: UnboundedReceiver<Signal>) -> Result<(), ServeError> {
        let mut reload_was_requested = false;
        let serving = {
            let mut begin = std::pin::pin!(self.begin());
            loop {
                tokio::select! {
                    serving = &mut begin => break serving?,
                    // Signals are handled meanwhile, because the first fetch of keys may take long.
                    Some(signal) = signals.recv() => match signal {
                        Signal::Reload => reload_was_requested = true,
                        Signal::Stop => {
                            tracing::info!("stopped before requests were answered");
                            return Ok(());
                        }
                    },
                }
            }
        };
        if reload_was_requested {
            serving.reloads.request();
        }
        // The loop ends at a signal to stop, or when no signal can come any more.
        while let Some(Signal::Reload) = signals.recv().await {
            serving.reloads.request();
        }
        serving.end(&mut signals).await
    }

    async fn begin(self) -> Result<Serving, ServeError> {
        let Self { settings, log_counts, policy, tls, listeners, pages, authzen, tokens, files } =
            self;
        let policy = if settings.admin.console { policy.keeping_last_denials() } else { policy };
        let has_http = settings.http.address != AdminAddress::Off;
        let policy = if has_http { policy.with_notices(http_notices) } else { policy };
        let runtime = policy.start()?;
        let counters = Arc::new(OnceCounters::default());
        let question_counters = Arc::new(ThreadCounters::default());
        let mut checks: Arc<dyn AuthorizationStats> = counters.clone();
        if authzen.is_some() {
            checks = Arc::new(WithQuestions { checks, questions: question_counters.clone() });
            let snapshot = runtime.policy.snapshot();
            if snapshot.is_some_and(|policy| policy.loaded().policy.authzen.is_none()) {
                return Err(authzen::SettingsError::NoSection.into());
            }
        }
        let sources = Arc::new(PageSources {
            status: runtime.status.clone(),
            shadow: runtime.shadow().cloned(),
            caches: runtime.caches(),
            decisions: runtime.decision_lines.clone(),
            otlp: runtime.otlp.clone(),
            logs: Some(log_counts),
            checks,
        });
        let reloads =
            AllReloads { policy: runtime.reloads(), tls: tls.clone(), tokens: tokens.clone() };
        let console =
            settings.admin.console.then(|| console(&settings, &runtime, &sources)).transpose()?;
        let backend = Arc::new(AdminBackend { sources, reloads: reloads.clone(), console });
        // With the poll interval 0, the TLS files and the tokens are read on request and once per
        // hour. The policy has its own timer.
        let interval = settings.policy.poll_interval;
        let interval = if interval.is_zero() { Duration::from_secs(3600) } else { interval };
        if let Some(tls) = tls.clone() {
            tokio::spawn(tls.keep_current(interval));
        }
        for (served_pages, address, listener) in pages {
            tokio::spawn(Admin::new(listener, served_pages, backend.clone())?.run());
            served_pages.log(&address);
        }
        tokio::spawn(runtime.fetch());
        runtime.wait_for_first_fetch(settings.policy.keys_wait).await;

        let (addresses, listeners): (Vec<_>, Vec<_>) = listeners.into_iter().unzip();
        let is_http: Vec<bool> =
            listeners.iter().map(|(protocol, _)| matches!(protocol, Protocol::Http(_))).collect();
        let has_tls = tls.is_some();
        let checks_server = checks::Server::start(
            listeners,
            runtime.policy.clone(),
            checks::Options { tls: tls.clone(), ..options(&settings) },
        )?;
        counters.set(checks_server.counters());
        runtime.status.set_answering();
        if settings.http.trusts_everybody() {
            tracing::warn!("{TRUSTS_EVERYBODY}");
        }
        for (address, is_http) in addresses.into_iter().zip(is_http) {
            if is_http {
                tracing::info!(%address, "listening for HTTP forward-auth");
            } else {
                tracing::info!(%address, "listening");
            }
            if let Some(warning) = warning_of_listener(&address, has_tls) {
                tracing::warn!(%address, "{warning}");
            }
        }
        let authzen = match authzen {
            Some((address, listener)) => {
                let authzen = AuthZen {
                    listener,
                    policy: runtime.policy.clone(),
                    tokens,
                    tls,
                    url: settings.authzen.authzen_url.clone(),
                    interval,
                    counters: question_counters,
                };
                let running = authzen.start()?;
                tracing::info!(%address, "AuthZEN");
                Some(running)
            }
            None => None,
        };
        Ok(Serving {
            authzen,
            drain_delay: settings.drain_delay,
            drain_timeout: settings.drain_timeout,
            checks: checks_server,
            runtime,
            reloads,
            _files: files,
        })
    }
}

/// The data of the admin pages.
struct AdminBackend {
    sources: Arc<PageSources>,
    reloads: AllReloads,
    console: Option<Arc<Console>>,
}

/// Starts the console, and the task that samples the counters for it.
fn console(
    settings: &Settings,
    runtime: &Runtime,
    sources: &Arc<PageSources>,
) -> io::Result<Arc<Console>> {
    let console = Console::start(console::Sources {
        pages: sources.clone(),
        policy: runtime.policy_without_records(),
        shadow: runtime.shadow_policy(),
        denials: runtime.denials.clone(),
        hosts: settings.admin.console_host.clone(),
        runs_in: RunsIn::OwnProcess,
    })?;
    tokio::spawn(console.samples());
    Ok(Arc::new(console))
}

/// The policy, the TLS files and the tokens, which are reloaded on request.
#[derive(Clone)]
struct AllReloads {
    policy: Reloads,
    tls: Option<Arc<Tls>>,
    tokens: Option<Arc<Tokens>>,
}

impl AllReloads {
    fn request(&self) {
        self.policy.request();
        if let Some(tls) = &self.tls {
            tls.request_reload();
        }
        if let Some(tokens) = &self.tokens {
            tokens.request_reload();
        }
    }
}

impl server::admin::Backend for AdminBackend {
    fn sources(&self) -> Option<Arc<PageSources>> {
        Some(self.sources.clone())
    }

    fn reload(&self) {
        self.reloads.request();
    }

    fn console(&self) -> Option<Arc<dyn server::admin::Console>> {
        self.console.clone().map(|console| console as Arc<dyn server::admin::Console>)
    }
}

/// A server that answers requests.
struct Serving {
    drain_delay: Duration,
    drain_timeout: Duration,
    checks: RunningServer,
    authzen: Option<RunningAuthZen>,
    runtime: Runtime,
    reloads: AllReloads,
    /// Files of Unix sockets, removed when the server has stopped.
    _files: Vec<SocketFile>,
}

impl Serving {
    /// Waits for requests to end, then stops the threads.
    async fn end(self, signals: &mut UnboundedReceiver<Signal>) -> Result<(), ServeError> {
        let Self { drain_delay, drain_timeout, checks, authzen, runtime, reloads: _, _files } =
            self;
        let drained = drain(&runtime.status, (checks, authzen), drain_delay, drain_timeout);
        let (result, limit) = tokio::select! {
            () = drained => (Ok(()), STOP_TIMEOUT),
            () = second_signal(signals) => (Err(ServeError::Interrupted), IMMEDIATE_STOP_TIMEOUT),
        };
        runtime.stop_within(limit).log(limit);
        result
    }
}

/// Fails health checks (`/readyz`, and `NOT_SERVING` over gRPC) for the time `delay`. Then closes
/// connections as soon as they have no requests, and after `timeout` all of them.
async fn drain(
    status: &Status,
    (checks, authzen): (RunningServer, Option<RunningAuthZen>),
    delay: Duration,
    timeout: Duration,
) {
    tracing::info!(?timeout, "stopping: waiting for requests in flight");
    status.set_draining();
    checks.fail_health_checks();
    // Envoy sends requests until its next health check fails: a closed listener would fail them.
    sleep(delay).await;
    let authzen = async {
        match authzen {
            Some(authzen) => authzen.drain(timeout).await,
            None => true,
        }
    };
    if tokio::join!(checks.drain(timeout), authzen) == (true, true) {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped: the drain timeout passed, and open connections were closed");
    }
}

/// A notice for each part of a policy that does nothing, or denies, over HTTP forward-auth.
fn http_notices(authorizer: &Authorizer) -> Vec<String> {
    let parts = forward_auth::unsupported(authorizer).into_iter();
    parts.map(|part| format!("not over HTTP forward-auth: {part}")).collect()
}

enum ListenerKind {
    Grpc,
    ForwardAuth,
    AuthZen,
    Pages(Pages),
}

impl ListenerKind {
    /// The setting that has its address.
    const fn setting(&self) -> &'static str {
        match self {
            Self::Grpc => "listen",
            Self::ForwardAuth => "http",
            Self::AuthZen => "authzen",
            Self::Pages(Pages::All) => "admin",
            Self::Pages(Pages::Metrics) => "metrics",
        }
    }
}

fn addresses(settings: &Settings) -> impl Iterator<Item = (ListenerKind, &Address)> {
    let pages = [(Pages::All, &settings.admin.address), (Pages::Metrics, &settings.metrics)];
    let pages = pages.into_iter().filter_map(|(pages, address)| match address {
        AdminAddress::On(address) => Some((ListenerKind::Pages(pages), address)),
        AdminAddress::Off => None,
    });
    let http = match &settings.http.address {
        AdminAddress::On(address) => Some((ListenerKind::ForwardAuth, address)),
        AdminAddress::Off => None,
    };
    let authzen = match &settings.authzen.address {
        AdminAddress::On(address) => Some((ListenerKind::AuthZen, address)),
        AdminAddress::Off => None,
    };
    let grpc = settings.listen.iter().map(|address| (ListenerKind::Grpc, address));
    grpc.chain(http).chain(authzen).chain(pages)
}

/// An address that is set twice. With port 0 the system chooses different ports.
fn repeated_address(settings: &Settings) -> Option<&Address> {
    let mut previous = Vec::new();
    addresses(settings).map(|(_, address)| address).find(|address| {
        let has_port_0 = matches!(address, Address::Tcp(socket) if socket.port() == 0);
        let is_repeated = previous.contains(address) && !has_port_0;
        previous.push(*address);
        is_repeated
    })
}

/// The settings of listeners that may have no effect because of other settings.
fn effect_checks(settings: &Settings) -> [EffectCheck; 8] {
    let AdminSettings { address, console, console_host } = &settings.admin;
    let no_socket = addresses(settings).all(|(_, address)| !matches!(address, Address::Unix(_)));
    let http = &settings.http;
    let (no_http, why) = (http.address == AdminAddress::Off, "`http` is `off`");
    let not_envoy = http.http_profile != Some(forward_auth::Profile::Envoy);
    let AuthZenSettings { address: authzen, authzen_tokens, authzen_url } = &settings.authzen;
    [
        ("http-profile", no_http && http.http_profile.is_some(), why),
        ("http-trusted", no_http && !http.http_trusted.is_empty(), why),
        (
            "http-path-prefix",
            http.http_path_prefix.is_some() && (no_http || not_envoy),
            "only with `http` and `http-profile: envoy`",
        ),
        (
            "authzen-tokens",
            authzen_tokens.is_some() && *authzen == AdminAddress::Off,
            "`authzen` is `off`",
        ),
        (
            "authzen-url",
            authzen_url.is_some() && *authzen == AdminAddress::Off,
            "`authzen` is `off`",
        ),
        ("console", *console && *address == AdminAddress::Off, "`admin` is `off`"),
        ("console-host", !console && !console_host.is_empty(), "`console` is `false`"),
        (
            "socket-mode",
            settings.socket_mode != SOCKET_MODE && no_socket,
            "no listener is a Unix socket",
        ),
    ]
}

fn warning_of_listener(address: &Address, has_tls: bool) -> Option<&'static str> {
    (!has_tls && !address.is_local()).then_some(WITHOUT_TLS)
}

fn options(settings: &Settings) -> checks::Options {
    checks::Options {
        threads: settings.threads.into(),
        max_message_size: settings.max_message_size,
        max_connections: settings.max_connections.into(),
        max_connection_age: settings.max_connection_age,
        max_waiting_checks: settings.max_waiting_checks.into(),
        hash_threads: settings.hashing.hash_threads.into(),
        hash_queue: settings.hashing.hash_queue.into(),
        explain_header: settings.explain_header.as_deref().map(Into::into),
        ..checks::Options::default()
    }
}

/// A signal to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// Stop; a second signal stops at once (SIGTERM, SIGINT).
    Stop,
    /// Reload the policy, the TLS files and the tokens (SIGHUP).
    Reload,
}

/// Installs the signal handlers. Returns the signals from now on.
fn signals() -> io::Result<UnboundedReceiver<Signal>> {
    let (sender, signals) = unbounded_channel();
    let kinds = [
        (SignalKind::terminate(), Signal::Stop),
        (SignalKind::interrupt(), Signal::Stop),
        (SignalKind::hangup(), Signal::Reload),
    ];
    for (kind, meaning) in kinds {
        let mut stream = signal(kind)?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() && sender.send(meaning).is_ok() {}
        });
    }
    Ok(signals)
}

/// Resolves on a second signal to stop. Signals to reload are ignored: the server is stopping.
async fn second_signal(signals: &mut UnboundedReceiver<Signal>) {
    let first_signal = Instant::now();
    loop {
        match signals.recv().await {
            Some(Signal::Stop) if first_signal.elapsed() >= SAME_SIGNAL => return,
            Some(Signal::Stop | Signal::Reload) => {}
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_for_other_machines_without_tls_causes_a_warning() {
        for (address, has_tls, warns) in [
            ("0.0.0.0:9191", false, true),
            ("[::]:9191", false, true),
            ("10.0.0.1:9191", false, true),
            ("0.0.0.0:9191", true, false),
            ("127.0.0.1:9191", false, false),
            ("[::1]:9191", false, false),
            ("unix:/run/rolegate.sock", false, false),
        ] {
            let address: Address = address.parse().unwrap();
            assert_eq!(
                warning_of_listener(&address, has_tls).is_some(),
                warns,
                "{address} {has_tls}"
            );
        }
    }
}
