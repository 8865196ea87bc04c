//! The settings: flags win over the environment, the environment over a settings file, the file over the defaults.
//!
//! There is one list of settings, [`Settings`], and one parser, that of the command line. The values of a settings
//! file become its defaults, so names and values mean the same everywhere.

mod decision_log;
mod environment;
mod file;
mod otlp;
mod tls;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, ValueEnum};
use runtime::settings::{self, BundleSettings, PolicySettings, PolicySource};
use runtime::units;
use server::{Address, AdminAddress};

pub use decision_log::{DecisionLog, DecisionLogArgs, DecisionLogTo, MaskUsers};
pub(crate) use environment::with_variable;
pub use file::SettingsError;
pub use otlp::{OtlpArgs, Traces};
pub(crate) use tls::TlsSettings;

/// The settings of `rolegate serve`.
///
/// The environment variable of a setting is `ROLEGATE_` and the name of its flag (`ROLEGATE_HASH_QUEUE`). None is a
/// variable that Kubernetes sets for a service named `rolegate`, such as `ROLEGATE_PORT` or `ROLEGATE_SERVICE_HOST`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy: a file, a folder that contains a `policy.yaml`, or the URL of a bundle (`rolegate bundle --help`): `https:`
    /// (`http:` on a loopback address), or an object in a store, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or
    /// `az://CONTAINER/PATH`, whose credentials are in the environment.
    #[arg(
        long,
        env = "ROLEGATE_POLICY",
        hide_env_values = true,
        value_name = "FILE|DIR|URL",
        default_value = "policy.yaml"
    )]
    pub policy: PolicySource,

    /// A shadow policy (the candidate), to try it before it counts: a file, a folder or a URL like `--policy`. It decides requests as well, as
    /// many as the machine has time for, and never changes an answer. The metric `rolegate_shadow_checks_total` counts how they compare: `would_allow` and `would_deny` are other
    /// answers, `other_rule` is the same answer by another rule or for another reason, `unknown_caller` a caller that the candidate
    /// does not accept, `not_compared` a request that was denied before its caller was known, or that came before a candidate was loaded. The
    /// log has samples of `would_allow`, `would_deny` and `unknown_caller`, with `--log-level debug` also of `other_rule`, at most five per second of each. At the start, files
    /// that do not load are an error; a bundle may arrive later. Later, its last good version is kept.
    #[arg(long, env = "ROLEGATE_SHADOW", hide_env_values = true, value_name = "FILE|DIR|URL")]
    pub shadow: Option<PolicySource>,

    /// File with an Ed25519 public key in PEM. Each bundle must be signed by the private key of one of the given public keys. For more than
    /// one, such as the next key, repeat the flag or separate them by commas. Without it no signature is verified: whatever bundle the server gives is accepted, signed
    /// or not.
    #[arg(long, env = "ROLEGATE_BUNDLE_PUBLIC_KEY", value_name = "FILE", value_delimiter = ',')]
    pub bundle_public_key: Vec<PathBuf>,

    /// Interval at which the bundle server is asked for a new one. It is up to a tenth shorter, at random.
    #[arg(long, env = "ROLEGATE_BUNDLE_INTERVAL", value_name = "TIME", default_value = "60s", value_parser = units::duration)]
    pub bundle_interval: Duration,

    /// Folder that keeps the last good bundle, which is used at a start without the server.
    #[arg(long, env = "ROLEGATE_BUNDLE_CACHE", value_name = "DIR")]
    pub bundle_cache: Option<PathBuf>,

    /// File with certificate authorities, in PEM: only a bundle server with a certificate of one of these is trusted;
    /// by default those of the system.
    #[arg(long, env = "ROLEGATE_BUNDLE_CA", value_name = "FILE")]
    pub bundle_ca: Option<PathBuf>,

    /// File with credentials for the bundle server with an `https:` URL: `USER:PASSWORD`, or a bearer token.
    #[arg(long, env = "ROLEGATE_BUNDLE_CREDENTIALS", value_name = "FILE")]
    pub bundle_credentials: Option<PathBuf>,

    /// Maximum size of all files in a bundle together, unpacked.
    #[arg(
        long,
        env = "ROLEGATE_BUNDLE_MAX_SIZE",
        value_name = "SIZE",
        default_value = "64MiB",
        value_parser = units::size
    )]
    pub bundle_max_size: usize,

    /// Address of the gRPC listener for Envoy, such as `127.0.0.1:9191` or `unix:/run/rolegate.sock`. For more
    /// than one, repeat the flag or separate them by commas. Port 0 lets the system choose a free port.
    #[arg(
        long,
        env = "ROLEGATE_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:9191",
        value_delimiter = ','
    )]
    pub listen: Vec<Address>,

    /// TLS of the gRPC listeners.
    #[command(flatten)]
    pub tls: TlsSettings,

    /// Address of the admin listener, which serves /healthz, /readyz, /metrics, /histograms, /jwks and /reload, or `off`.
    #[arg(long, env = "ROLEGATE_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9192")]
    pub admin: AdminAddress,

    /// Serve the console, a page for people on call, at /console on the admin listener.
    ///
    /// It only reads. It shows rules, roles, user names and the last denials to whoever can reach the admin listener. So give
    /// `--admin` a loopback address or a Unix socket, or let only few reach it, for example by a firewall. For other addresses there is
    /// only a warning in the log.
    #[arg(
        long,
        env = "ROLEGATE_CONSOLE",
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub console: bool,

    /// Name that browsers may use for the console besides `localhost` and loopback addresses, such as that of a proxy in front
    /// of it. Repeat the flag or separate them by commas.
    #[arg(long, env = "ROLEGATE_CONSOLE_HOST", value_name = "NAME", value_delimiter = ',')]
    pub console_host: Vec<String>,

    /// Address of another HTTP listener, which serves only /metrics, or `off`.
    ///
    /// With it a Prometheus on another host can read the metrics while the admin listener stays on loopback.
    #[arg(long, env = "ROLEGATE_METRICS", value_name = "ADDR", default_value = "off")]
    pub metrics: AdminAddress,

    /// Permissions of the Unix sockets that rolegate creates, in octal.
    #[arg(long, env = "ROLEGATE_SOCKET_MODE", value_name = "MODE", default_value = "0660", value_parser = units::mode)]
    pub socket_mode: u32,

    /// Number of threads that serve requests; 0 means one per core.
    #[arg(long, env = "ROLEGATE_THREADS", value_name = "N", default_value = "0", value_parser = units::count)]
    pub threads: u16,

    /// Maximum size of a CheckRequest, at least 1KiB. It contains the headers of a request and, if Envoy sends it, its body.
    #[arg(
        long,
        env = "ROLEGATE_MAX_MESSAGE_SIZE",
        value_name = "SIZE",
        default_value = "4MiB",
        value_parser = units::message_size
    )]
    pub max_message_size: usize,

    /// Maximum number of open gRPC connections, at least 1, divided evenly among the worker threads. When a thread has its share, the
    /// connection that has been idle for longest is closed; if none is idle (without a request for one second), the new
    /// one is closed. Each worker thread of Envoy opens at least one connection to each endpoint of the cluster, and more if
    /// more checks wait than its connections may have streams.
    #[arg(long, env = "ROLEGATE_MAX_CONNECTIONS", value_name = "N", default_value = "1024", value_parser = units::positive_count)]
    pub max_connections: u16,

    /// Age at which a gRPC connection is drained: Envoy sends its next requests on a new one, which may reach another
    /// instance behind the same address. Up to a tenth less, at random, so that not all end together; 0 means no limit.
    #[arg(
        long,
        env = "ROLEGATE_MAX_CONNECTION_AGE",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_connection_age: Duration,

    /// Maximum number of checks that wait at once, at least 1: for the rest of their message, or until their credentials are verified.
    /// One more is denied at once with 503 (`overloaded`). Callers whose credentials are cached wait
    /// for the rest of their message only. Of one client network (an IPv4 address, or the /64 of an IPv6 address) at most a quarter may wait for verification, or 16 if that is more.
    #[arg(
        long,
        env = "ROLEGATE_MAX_WAITING_CHECKS",
        value_name = "N",
        default_value = "8192",
        value_parser = units::positive_count
    )]
    pub max_waiting_checks: u16,

    /// Number of threads that hash passwords; 0 means half the cores, at least 1 and at most 8.
    #[arg(long, env = "ROLEGATE_HASH_THREADS", value_name = "N", default_value = "0", value_parser = units::count)]
    pub hash_threads: u16,

    /// Maximum number of passwords that wait to be hashed, at least 1. When the queue is full, passwords are denied with 503, first
    /// those from the IPv4 address, or the /64 of an IPv6 address, that has sent the most wrong passwords recently.
    #[arg(long, env = "ROLEGATE_HASH_QUEUE", value_name = "N", default_value = "256", value_parser = units::positive_count)]
    pub hash_queue: u16,

    /// Time after SIGTERM during which requests are still served while health checks already report `NOT_SERVING`. If
    /// it is longer than one health-check interval of Envoy and the time of an answer, Envoy uses another instance before connections are
    /// closed, whatever its `unhealthy_threshold`: that does not count for `NOT_SERVING`, only for checks without an answer.
    #[arg(
        long,
        env = "ROLEGATE_DRAIN_DELAY",
        value_name = "TIME",
        default_value = "1s",
        value_parser = units::duration
    )]
    pub drain_delay: Duration,

    /// Maximum time that requests in flight may take after the drain delay; then their connections are closed.
    #[arg(
        long,
        env = "ROLEGATE_DRAIN_TIMEOUT",
        value_name = "TIME",
        default_value = "10s",
        value_parser = units::duration
    )]
    pub drain_timeout: Duration,

    /// Interval at which the policy's files are checked for changes, in addition to notifications of the system. 0
    /// relies on the notifications, and checks once per hour. A folder that cannot be watched is checked every second, whatever
    /// the interval. With `--max-policy-age` or `--max-keys-age`, the interval is at most half of it. The TLS files are read
    /// again at `--poll-interval` only (with 0, once per hour) and on SIGHUP.
    #[arg(
        long,
        env = "ROLEGATE_POLL_INTERVAL",
        value_name = "TIME",
        default_value = "5s",
        value_parser = units::duration
    )]
    pub poll_interval: Duration,

    /// How long newer files (or a bundle) may fail to load until the last good policy counts as stale; 0 means never. It counts from
    /// the first failure in this process.
    /// A stale policy is reported by a log line and a metric, and used further, unless `--on-stale unavailable` ends its use.
    #[arg(
        long,
        env = "ROLEGATE_MAX_POLICY_AGE",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_policy_age: Duration,

    /// Age at which fetched keys count as stale, while they cannot be fetched again; 0 means never. Stale keys are
    /// reported, and used further, unless `--on-stale unavailable` ends their use.
    #[arg(
        long,
        env = "ROLEGATE_MAX_KEYS_AGE",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_keys_age: Duration,

    /// What happens with a policy or fetched keys that are stale.
    #[arg(long, env = "ROLEGATE_ON_STALE", value_enum, default_value_t = OnStale::Keep)]
    pub on_stale: OnStale,

    /// Maximum time that the start waits for the first attempt to fetch keys, a bundle and the inventory of a search cluster
    /// (the names of its indices, aliases and data streams). Until then the process is not ready, and answers no request. Tokens get 401 as long as their keys are missing.
    #[arg(long, env = "ROLEGATE_KEYS_WAIT", value_name = "TIME", default_value = "3s", value_parser = units::duration)]
    pub keys_wait: Duration,

    /// Which issuers' keys must be fetched before /readyz and gRPC health checks report ready for the first time. Once they
    /// have, missing keys no longer matter: an issuer that fails, or a new one, must not take all instances out of service.
    #[arg(long, env = "ROLEGATE_KEYS_NEEDED", value_enum, default_value_t = KeysNeeded::None)]
    pub keys_needed: KeysNeeded,

    /// Whether the inventory of a search cluster must be fetched before /readyz and gRPC health checks report ready for the first time.
    /// Without an inventory, a pattern in a request is permitted only where one pattern of a role covers it, and an alias only by its own name. A later failure does not matter.
    #[arg(
        long,
        env = "ROLEGATE_INVENTORY_NEEDED",
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set
    )]
    pub inventory_needed: bool,

    /// Name of a response header, which begins with `x-`, such as `x-rolegate-reason`, in which each denial tells the client why: the reason and the rule.
    /// For test systems: it discloses the policy. By default there is none.
    #[arg(long, env = "ROLEGATE_EXPLAIN_HEADER", value_name = "NAME", value_parser = header_name)]
    pub explain_header: Option<String>,

    /// Format of log lines.
    #[arg(long, env = "ROLEGATE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Which messages are logged, to standard error.
    #[arg(long, env = "ROLEGATE_LOG_LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,

    /// The decision log.
    #[command(flatten)]
    pub decisions: DecisionLogArgs,

    /// OTLP.
    #[command(flatten)]
    pub otlp: OtlpArgs,
}

/// What happens with a policy or fetched keys that are stale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnStale {
    /// They are still used; a log line and a metric report it.
    Keep,
    /// With a stale policy rolegate is not ready and answers every check with the gRPC status UNAVAILABLE (Envoy answers
    /// with its `status_on_error`, and lets it pass with `failure_mode_allow: true`). Tokens whose keys are stale get 401.
    #[value(alias = "deny")]
    Unavailable,
}

/// Which issuers' keys must be fetched before the process is ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum KeysNeeded {
    /// No keys: an issuer that is down costs only its own tokens, which get 401, even while instances restart.
    #[default]
    None,
    /// Those of at least one issuer, if there are any: a rollout stops where no issuer can be reached.
    Any,
    /// Those of every issuer: one that is down keeps every new instance from becoming ready.
    All,
}

/// Format of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object per line, also for the error that ends the process.
    Json,
    /// Text for people.
    Text,
}

/// Which messages are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Errors: rolegate cannot do part of its work.
    Error,
    /// Errors, and warnings: somebody should look at them.
    Warn,
    /// Errors, warnings, and events such as start, reload and stop.
    Info,
    /// All of these, and details that help to find the cause of a problem.
    Debug,
}

/// The name of a header that a response can have beside its own.
fn header_name(text: &str) -> Result<String, String> {
    let name = http::HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| "not the name of a header: write one such as `x-rolegate-reason`".to_owned())?;
    if name.as_str().starts_with("x-") {
        Ok(name.as_str().to_owned())
    } else {
        Err("not a name that begins with `x-`".to_owned())
    }
}

impl Settings {
    /// Those about how the policy is kept current.
    #[must_use]
    pub(crate) fn of_policy(&self) -> PolicySettings {
        PolicySettings {
            policy: self.policy.clone(),
            shadow: self.shadow.clone(),
            bundle: BundleSettings {
                public_keys: self.bundle_public_key.clone(),
                interval: self.bundle_interval,
                cache: self.bundle_cache.clone(),
                ca: self.bundle_ca.clone(),
                credentials: self.bundle_credentials.clone(),
                max_size: self.bundle_max_size,
            },
            poll_interval: self.poll_interval,
            max_policy_age: self.max_policy_age,
            max_keys_age: self.max_keys_age,
            on_stale: match self.on_stale {
                OnStale::Keep => settings::OnStale::Keep,
                OnStale::Unavailable => settings::OnStale::Unavailable,
            },
            keys_needed: match self.keys_needed {
                KeysNeeded::None => settings::KeysNeeded::None,
                KeysNeeded::Any => settings::KeysNeeded::Any,
                KeysNeeded::All => settings::KeysNeeded::All,
            },
            inventory_needed: self.inventory_needed,
            decision_log: self.decisions.settings(),
            otlp: self.otlp.settings(),
        }
    }
}

/// The arguments of `rolegate serve`: the settings, and the path of a settings file.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// The policy, in place of `--policy`.
    #[arg(id = "POLICY", value_name = "POLICY")]
    argument: Option<PolicySource>,

    /// A YAML file with settings, named like the flags below without their leading dashes.
    #[arg(long, env = "ROLEGATE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The settings themselves.
    #[command(flatten)]
    pub settings: Settings,
}

impl ServeArgs {
    /// Uses the policy that is an argument.
    pub(crate) fn use_argument(&mut self) {
        if let Some(policy) = self.argument.take() {
            self.settings.policy = policy;
        }
    }
}

/// Uses the values of the settings file, if one is named, as defaults: flags and environment win over them.
///
/// `command` is the whole command line, in which `serve` has [`ServeArgs`]. Returns it with the new defaults.
///
/// # Errors
/// When the environment has a variable that looks like a setting and is none, the file cannot be read, or an entry in it is unknown or not valid.
pub(crate) fn with_file(command: Command, arguments: &[OsString]) -> Result<Command, SettingsError> {
    let serves = arguments.get(1).is_some_and(|command| command == "serve");
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<_> =
        names.filter(|name| serves && environment::is_unknown(name, &command)).collect();
    unknown.sort_unstable();
    if !unknown.is_empty() {
        let problems = unknown.iter().map(|name| environment::problem(name, &command)).collect();
        return Err(SettingsError::UnknownVariables(problems));
    }
    let Some(path) = config_of(command.clone(), arguments) else { return Ok(command) };
    let entries = file::read(&path, &settings_command())?;
    Ok(command.mut_subcommand("serve", |mut serve| {
        for entry in entries {
            serve = serve.mut_arg(entry.id, |arg| arg.required(false).default_values(entry.values));
        }
        serve
    }))
}

/// The settings file that flags or environment name. `None` if there is none, or if the arguments are not valid: the
/// real parse reports that.
fn config_of(command: Command, arguments: &[OsString]) -> Option<PathBuf> {
    let lenient = command.mut_subcommand("serve", |serve| serve.mut_args(|arg| arg.required(false)));
    let matches = lenient.try_get_matches_from(arguments).ok()?;
    serve_matches(&matches)?.get_one::<PathBuf>("config").cloned()
}

fn serve_matches(matches: &ArgMatches) -> Option<&ArgMatches> {
    matches.subcommand().filter(|(name, _)| *name == "serve").map(|(_, matches)| matches)
}

/// The settings alone, with nothing required and no environment, to validate an entry of a file by itself.
pub(crate) fn settings_command() -> Command {
    Settings::augment_args(Command::new("settings")).mut_args(|arg| arg.required(false).env(None::<&str>))
}
