//! The admin pages over HTTP (`/healthz`, `/readyz`, `/metrics`, `/histograms`, `/jwks`, `/reload`,
//! `/console`).
//!
//! `rolegate serve` and `module` serve the same pages. [`Admin`] is the HTTP server. [`Backend`]
//! connects it to the running program: its metrics, its [`Console`], and how to reload. [`Metrics`]
//! is what its pages show, and [`AuthorizationStats`] the counters of what authorizes requests: the
//! gRPC server or `module`'s filter.

mod metrics;
mod server;

use clap::{ArgAction, Args};

use crate::AdminAddress;

pub(crate) use metrics::whole;
pub use metrics::{AuthorizationStats, FailureCount, Metrics, MetricsPage};
pub use server::{Admin, Backend, Console, ConsoleAnswer, Pages};

/// Where the admin pages are served, and the console.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Admin pages")]
pub struct AdminSettings {
    /// Address of the admin listener, which serves /healthz, /readyz, /metrics, /histograms, /jwks
    /// and /reload, or `off`.
    #[arg(id = "admin", long = "admin", value_name = "ADDR", default_value = "127.0.0.1:9192")]
    pub address: AdminAddress,

    /// Serve the console, a page for people on call, at /console on the admin listener.
    ///
    /// It only reads. It shows rules, roles, user names and the last denials to whoever can reach
    /// the admin listener. So give `--admin` a loopback address or a Unix socket, or let only few
    /// reach it, for example by a firewall. For other addresses there is only a warning in the log.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub console: bool,

    /// Name that browsers may use for the console besides `localhost` and loopback addresses, such
    /// as that of a proxy in front of it. Repeat the flag or separate them by commas.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub console_host: Vec<String>,
}
