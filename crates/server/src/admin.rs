//! The admin pages over HTTP (`/healthz`, `/readyz`, `/metrics`, `/histograms`, `/jwks`, `/reload`, `/console`).
//!
//! `rolegate serve` and `module` serve the same pages. [`Admin`] is the HTTP server. [`Backend`] connects it to the running
//! program: its metrics, its [`Console`], and how to reload. [`Metrics`] is what its pages show, and [`AuthorizationStats`] the counters of
//! what authorizes requests: the gRPC server or `module`'s filter.

mod metrics;
mod server;
mod settings;

pub use metrics::{AuthorizationStats, FailureCount, Metrics, MetricsPage};
pub use server::{Admin, Backend, Console, ConsoleAnswer, Pages};
pub use settings::AdminSettings;
