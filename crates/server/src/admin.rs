//! The admin pages over HTTP (`/healthz`, `/readyz`, `/metrics`, `/histograms`, `/jwks`, `/reload`,
//! `/console`).
//!
//! `rolegate serve` and `module` serve the same pages. [`Admin`] is the HTTP server. [`Backend`]
//! connects it to the running program: the [`PageSources`], its [`Console`], and how to reload.
//! [`PageSources`] has all that the pages show, and [`AuthorizationStats`] the counters of the gRPC
//! server or of `module`'s filter.

mod metrics;
mod server;

use clap::{ArgAction, Args};

use crate::AdminAddress;

pub(crate) use metrics::whole;
pub use metrics::{AuthorizationStats, FailureCount, MetricsPage, PageSources};
pub use server::{Admin, Backend, Console, ConsoleAnswer, Pages};

/// Where the admin pages are served, and the console.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Admin pages")]
pub struct AdminSettings {
    /// Address of the admin listener (health, metrics, reload), or `off`.
    ///
    /// It asks for no credentials: an address that other machines can reach causes a warning.
    #[arg(id = "admin", long = "admin", value_name = "ADDR", default_value = "127.0.0.1:9192")]
    pub address: AdminAddress,

    /// Whether the admin listener serves the console, a page for people on call.
    ///
    /// The console only reads. It shows rules, roles, user names and the last denials to everybody
    /// who can reach the admin listener. So give `admin` a loopback address or a Unix socket, or
    /// let only few reach it, for example by a firewall.
    #[arg(
        long,
        value_name = "BOOL",
        num_args = 0..=1,
        default_value_t = false,
        default_missing_value = "true",
        action = ArgAction::Set
    )]
    pub console: bool,

    /// Names that browsers may use for the console, such as that of a proxy.
    ///
    /// `localhost` and loopback addresses need no entry.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub console_host: Vec<String>,
}
