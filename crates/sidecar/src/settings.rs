//! The settings: flags win over the environment, the environment over a settings file, the file over the defaults.
//!
//! There is one list of settings, [`Settings`], and one parser, that of the command line. The values of a settings
//! file become its defaults, so names and values mean the same everywhere.

mod file;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgMatches, Args, Command, ValueEnum};

use crate::address::{Address, AdminAddress};
use crate::units;

pub use file::SettingsError;

/// The settings of `rolegate serve`.
///
/// The names in the environment end in the flag's own (`ROLEGATE_HASH_QUEUE`); none of them is one that Kubernetes
/// makes up for a service called `rolegate`, such as `ROLEGATE_PORT` or `ROLEGATE_SERVICE_HOST`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy: a file, or a folder with a `policy.yaml` in it.
    #[arg(long, env = "ROLEGATE_POLICY", value_name = "FILE|DIR")]
    pub policy: PathBuf,

    /// Where Envoy reaches rolegate; repeat it for more than one. Port 0 lets the system choose.
    #[arg(
        long,
        env = "ROLEGATE_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:9191",
        value_delimiter = ','
    )]
    pub listen: Vec<Address>,

    /// Address of the admin listener (/healthz, /readyz, /metrics, /histograms), or `off`.
    #[arg(long, env = "ROLEGATE_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9192")]
    pub admin: AdminAddress,

    /// Address of a listener that serves only /metrics, for a Prometheus on another host; or `off`.
    ///
    /// The admin address can then stay on loopback.
    #[arg(long, env = "ROLEGATE_METRICS", value_name = "ADDR", default_value = "off")]
    pub metrics: AdminAddress,

    /// The permissions of Unix sockets, in octal.
    #[arg(long, env = "ROLEGATE_SOCKET_MODE", value_name = "MODE", default_value = "0660", value_parser = units::mode)]
    pub socket_mode: u32,

    /// Number of request threads; 0 means one per core.
    #[arg(long, env = "ROLEGATE_THREADS", value_name = "N", default_value = "0")]
    pub threads: u16,

    /// Maximum size of a CheckRequest. It holds the headers of a request and, if Envoy sends it, the body.
    #[arg(
        long,
        env = "ROLEGATE_MAX_MESSAGE_SIZE",
        value_name = "SIZE",
        default_value = "4MiB",
        value_parser = units::size
    )]
    pub max_message_size: usize,

    /// Maximum number of open connections; Envoy opens one per worker and endpoint.
    #[arg(long, env = "ROLEGATE_MAX_CONNECTIONS", value_name = "N", default_value = "1024")]
    pub max_connections: u16,

    /// Number of threads that hash passwords; 0 means half the cores.
    #[arg(long, env = "ROLEGATE_HASH_THREADS", value_name = "N", default_value = "0")]
    pub hash_threads: u16,

    /// Maximum number of passwords that wait to be hashed; beyond it, those from the source (an IPv4 address, or the
    /// /64 of an IPv6 address) with the most recent unsuccessful attempts are denied with 503.
    #[arg(long, env = "ROLEGATE_HASH_QUEUE", value_name = "N", default_value = "256")]
    pub hash_queue: u16,

    /// How long requests are served as before after SIGTERM, while health checks already answer `NOT_SERVING`: more
    /// than two health-check intervals of Envoy, so that it uses another instance before connections are closed.
    #[arg(
        long,
        env = "ROLEGATE_DRAIN_DELAY",
        value_name = "TIME",
        default_value = "1s",
        value_parser = units::duration
    )]
    pub drain_delay: Duration,

    /// Maximum time for requests in flight to finish, after the drain delay.
    #[arg(
        long,
        env = "ROLEGATE_DRAIN_TIMEOUT",
        value_name = "TIME",
        default_value = "10s",
        value_parser = units::duration
    )]
    pub drain_timeout: Duration,

    /// How often the files of the policy are compared with the active policy, in addition to watching them; 0 means
    /// never, except for a folder that cannot be watched: it is checked every second.
    #[arg(
        long,
        env = "ROLEGATE_POLL_INTERVAL",
        value_name = "TIME",
        default_value = "5s",
        value_parser = units::duration
    )]
    pub poll_interval: Duration,

    /// Maximum staleness of the policy: how long the last good one is kept while its files do not load; 0 means no
    /// limit.
    #[arg(
        long,
        env = "ROLEGATE_MAX_POLICY_AGE",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_policy_age: Duration,

    /// Maximum staleness of fetched keys: how long they are kept while they cannot be fetched again; 0 means no limit.
    #[arg(
        long,
        env = "ROLEGATE_MAX_KEYS_AGE",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_keys_age: Duration,

    /// What happens to a policy, or to keys, beyond their maximum staleness.
    #[arg(long, env = "ROLEGATE_ON_STALE", value_enum, default_value_t = OnStale::Keep)]
    pub on_stale: OnStale,

    /// How long the start waits for keys that are fetched. Until they arrive, tokens that need them get 401.
    #[arg(long, env = "ROLEGATE_KEYS_WAIT", value_name = "TIME", default_value = "3s", value_parser = units::duration)]
    pub keys_wait: Duration,

    /// What log lines look like; `auto` is text on a terminal and JSON elsewhere.
    #[arg(long, env = "ROLEGATE_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// What is logged, to standard error.
    #[arg(long, env = "ROLEGATE_LOG_LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,

    /// Which decisions are logged, one line of JSON each, to standard output.
    #[arg(long, env = "ROLEGATE_DECISION_LOG", value_enum, default_value_t = DecisionLog::Denied)]
    pub decision_log: DecisionLog,
}

/// What happens to a policy, or to keys, beyond their maximum staleness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnStale {
    /// They are kept, with a log line and a metric.
    Keep,
    /// A stale policy answers every check with an error, and readiness ends; stale keys verify no token.
    Deny,
}

/// What log lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object a line.
    Json,
    /// Text for people.
    Text,
}

/// What is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What keeps the process from its work.
    Error,
    /// And what somebody should look at.
    Warn,
    /// And what happens now and then: start, reload, stop.
    Info,
    /// And what helps to find a fault.
    Debug,
}

/// Which decisions are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DecisionLog {
    /// None.
    Off,
    /// Those that refuse.
    Denied,
    /// All.
    All,
}

/// The arguments of `rolegate serve`: the settings, and where the file with them is.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// A YAML file with settings: the names of the flags below, without the dashes before them.
    #[arg(long, env = "ROLEGATE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The settings themselves.
    #[command(flatten)]
    pub settings: Settings,
}

/// Makes the values of the settings file, if one is named, the defaults behind flags and environment.
///
/// `command` is the whole command line, in which `serve` has [`ServeArgs`]. Returns it with the new defaults.
///
/// # Errors
/// When the file cannot be read, or an entry in it is unknown or not valid.
pub(crate) fn with_file(command: Command, arguments: &[OsString]) -> Result<Command, SettingsError> {
    let Some(path) = config_of(command.clone(), arguments) else { return Ok(command) };
    let entries = file::read(&path, &settings_command())?;
    Ok(command.mut_subcommand("serve", |mut serve| {
        for entry in entries {
            serve = serve.mut_arg(entry.id, |arg| arg.required(false).default_values(entry.values));
        }
        serve
    }))
}

/// The settings file that flags or environment name. `None` also if the arguments are not valid: the real parse
/// reports that.
fn config_of(command: Command, arguments: &[OsString]) -> Option<PathBuf> {
    let lenient = command.mut_subcommand("serve", |serve| serve.mut_args(|arg| arg.required(false)));
    let matches = lenient.try_get_matches_from(arguments).ok()?;
    serve_matches(&matches)?.get_one::<PathBuf>("config").cloned()
}

fn serve_matches(matches: &ArgMatches) -> Option<&ArgMatches> {
    matches.subcommand().filter(|(name, _)| *name == "serve").map(|(_, matches)| matches)
}

/// The settings alone, with nothing required and no environment, to validate an entry of a file by itself.
fn settings_command() -> Command {
    Settings::augment_args(Command::new("settings")).mut_args(|arg| arg.required(false).env(None::<&str>))
}
