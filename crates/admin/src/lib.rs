//! The admin pages over HTTP (`/healthz`, `/readyz`, `/metrics`, `/histograms`, `/jwks`, `/reload`, `/console`), and the
//! sockets that servers listen on.
//!
//! `sidecar` and `module` serve the same pages. [`Admin`] is the HTTP server. [`Backend`] connects it to the running
//! program: its metrics, its [`Console`], and how to reload. [`Metrics`] is what its pages show, and [`AuthorizationStats`] the counters of
//! what authorizes requests: `sidecar`'s gRPC server or `module`'s filter. [`BoundSocket`] is a listening socket at an
//! [`Address`].

#![deny(clippy::wildcard_enum_match_arm)]

mod address;
mod listener;
mod metrics;
mod server;
mod socket;

pub use address::{Address, AddressError, AdminAddress};
pub use listener::Listener;
pub use metrics::{AuthorizationStats, FailureCount, Metrics, MetricsPage};
pub use server::{Admin, Backend, Console, ConsoleAnswer, Pages};
pub use socket::{BindError, BoundSocket, SocketFile};
