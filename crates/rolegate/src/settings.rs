//! The settings: flags win over the environment, the environment over a settings file, the file
//! over the defaults.
//!
//! [`Settings`] lists all settings, and the command line's parser reads them. The values of a
//! settings file become defaults of that parser, so names and values mean the same everywhere.

mod environment;
mod file;
mod tls;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, ValueEnum};
use runtime::settings::{HashingSettings, PolicySettings, PolicySource, command_of};
use runtime::units;
use server::admin::AdminSettings;
use server::authzen::AuthZenSettings;
use server::forward_auth::ForwardAuthSettings;
use server::{Address, AdminAddress};

use crate::cli::POLICY_ARGUMENT;
pub(crate) use environment::{with_environment, with_variable};
pub use file::SettingsError;
pub(crate) use tls::TlsSettings;

/// The settings of `rolegate serve`.
///
/// The environment variable of a setting is `ROLEGATE_` and the name of its flag
/// (`ROLEGATE_HASH_QUEUE`). None of these names is a variable that Kubernetes sets for a service
/// named `rolegate`, such as `ROLEGATE_PORT` or `ROLEGATE_SERVICE_HOST`.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The policy, and how it is kept current.
    #[command(flatten)]
    pub policy: PolicySettings,

    /// Addresses where Envoy connects: `ADDR:PORT` or `unix:PATH`.
    ///
    /// Port 0 lets the system choose a free port. An address that other machines can reach, without
    /// TLS, causes a warning.
    #[arg(
        long,
        help_heading = "Listeners",
        value_name = "ADDR",
        default_value = "127.0.0.1:9191",
        value_delimiter = ','
    )]
    pub listen: Vec<Address>,

    /// TLS of the listeners for gRPC and HTTP forward-auth.
    #[command(flatten)]
    pub tls: TlsSettings,

    /// HTTP forward-auth.
    #[command(flatten)]
    pub http: ForwardAuthSettings,

    /// AuthZEN.
    #[command(flatten)]
    pub authzen: AuthZenSettings,

    /// The admin pages.
    #[command(flatten)]
    pub admin: AdminSettings,

    /// Address of a listener that serves only `/metrics`, or `off`.
    ///
    /// With it, a Prometheus on another host can read the metrics while the admin listener stays on
    /// loopback.
    #[arg(long, help_heading = "Admin pages", value_name = "ADDR", default_value = "off")]
    pub metrics: AdminAddress,

    /// Permissions of Unix sockets, in octal.
    #[arg(long, help_heading = "Listeners", value_name = "MODE", default_value = "0660", value_parser = units::mode)]
    pub socket_mode: u32,

    /// Number of worker threads, which serve requests; 0 means one per core.
    #[arg(long, help_heading = "Serving", value_name = "N", default_value = "0", value_parser = units::count)]
    pub threads: u16,

    /// Maximum size of a `CheckRequest`, at least `1KiB`.
    ///
    /// It contains the headers of a request and, if Envoy sends it, its body.
    #[arg(
        long, help_heading = "Limits",
        value_name = "SIZE",
        default_value = "4MiB",
        value_parser = units::message_size
    )]
    pub max_message_size: usize,

    /// Maximum number of open connections for gRPC and HTTP forward-auth, at least 1.
    ///
    /// They are divided evenly among the worker threads. When a thread has its share, the
    /// connection that has been idle for longest is closed; if none is idle (without a request for
    /// one second), the new one is closed. Each worker thread of Envoy opens at least one
    /// connection to each endpoint.
    #[arg(long, help_heading = "Limits", value_name = "N", default_value = "1024", value_parser = units::positive_count)]
    pub max_connections: u16,

    /// Age at which a connection for gRPC or HTTP forward-auth is drained, up to a tenth less at random.
    ///
    /// Envoy opens a new one, which may reach another instance behind the same address. No request
    /// in flight is lost. 0 means no limit. Set it (`30m`) where several Envoys reach several
    /// instances through one address, such as a Kubernetes `Service` that is not headless.
    #[arg(
        long, help_heading = "Limits",
        value_name = "TIME",
        default_value = "0",
        value_parser = units::duration
    )]
    pub max_connection_age: Duration,

    /// Maximum number of checks that wait at once, at least 1.
    ///
    /// A check waits if its message is incomplete after 100 ms, or while its credentials are
    /// verified. Further checks get 503 (`overloaded`). One client network (an IPv4 address or an
    /// IPv6 /64) may have at most a quarter of them wait for a verification, or 16 if that is more.
    #[arg(
        long, help_heading = "Limits",
        value_name = "N",
        default_value = "8192",
        value_parser = units::positive_count
    )]
    pub max_waiting_checks: u16,

    /// How passwords are hashed.
    #[command(flatten)]
    pub hashing: HashingSettings,

    /// Time after SIGTERM in which requests are served and health checks fail.
    ///
    /// Health checks report `NOT_SERVING`. If this is longer than one health-check interval of
    /// Envoy and the time of an answer, Envoy uses another instance before connections are closed.
    #[arg(long, help_heading = "Serving", value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    pub drain_delay: Duration,

    /// Maximum time that requests in flight may take after the drain delay.
    ///
    /// Then their connections are closed.
    #[arg(long, help_heading = "Serving", value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    pub drain_timeout: Duration,

    /// Response header that tells clients why they are denied, for test systems.
    ///
    /// Its name begins with `x-`, such as `x-rolegate-reason`. Its value has the reason and the
    /// rule, so it discloses the policy. By default there is none.
    #[arg(long, help_heading = "Serving", value_name = "NAME", value_parser = header_name)]
    pub explain_header: Option<String>,

    /// Format of log lines.
    #[arg(long, help_heading = "Log", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Which messages are logged, to standard error.
    #[arg(long, help_heading = "Log", value_enum, default_value_t = LogLevel::Info)]
    pub log_level: LogLevel,
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

/// A header name that begins with `x-`, as no standard header of a response does.
fn header_name(text: &str) -> Result<String, &'static str> {
    let name = http::HeaderName::from_bytes(text.as_bytes())
        .map_err(|_| "not the name of a header: write one such as `x-rolegate-reason`")?;
    if name.as_str().starts_with("x-") {
        Ok(name.as_str().to_owned())
    } else {
        Err("not a name that begins with `x-`")
    }
}

/// The arguments of `rolegate serve`: the settings, and the path of a settings file.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub struct ServeArgs {
    /// The policy, in place of `--policy`.
    #[arg(id = POLICY_ARGUMENT, value_name = "POLICY")]
    argument: Option<PolicySource>,

    /// A YAML file with settings, named like the flags without `--`.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The settings themselves.
    #[command(flatten)]
    pub settings: Settings,
}

impl ServeArgs {
    /// Uses the policy that is an argument.
    pub(crate) fn use_argument(&mut self) {
        if let Some(policy) = self.argument.take() {
            self.settings.policy.policy = policy;
        }
    }
}

/// Uses the values of the settings file, if one is named, as defaults: flags and environment win
/// over them.
///
/// `command` is the whole command line, in which `serve` has [`ServeArgs`]. Returns it with the new
/// defaults.
///
/// # Errors
/// When the environment has a variable that looks like a setting and is none, the file cannot be
/// read, or an entry in it is unknown or not valid.
pub(crate) fn with_file(
    command: Command,
    arguments: &[OsString],
) -> Result<Command, SettingsError> {
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
    let entries = file::read(&path, &command_of::<Settings>())?;
    Ok(command.mut_subcommand("serve", |mut serve| {
        for entry in entries {
            serve = serve.mut_arg(entry.id, |arg| arg.required(false).default_values(entry.values));
        }
        serve
    }))
}

/// The settings file, if `--config` or `ROLEGATE_CONFIG` is set. `None` also if the arguments are
/// not valid: the real parse reports that.
fn config_of(command: Command, arguments: &[OsString]) -> Option<PathBuf> {
    let lenient =
        command.mut_subcommand("serve", |serve| serve.mut_args(|arg| arg.required(false)));
    let matches = lenient.try_get_matches_from(arguments).ok()?;
    let (_, serve) = matches.subcommand().filter(|(name, _)| *name == "serve")?;
    serve.get_one::<PathBuf>("config").cloned()
}
