//! The admin pages over HTTP (`/healthz`, `/readyz`, `/metrics`, `/histograms`), and the sockets that servers listen on.
//!
//! `sidecar` and `module` serve the same pages. [`Admin`] is the HTTP server, [`Metrics`] has the sources of what it shows,
//! and [`Server`] is the part of them that differs. [`Bound`] is a listening socket at an [`Address`].

#![deny(clippy::wildcard_enum_match_arm)]

mod address;
mod listener;
mod metrics;
mod server;
mod socket;

pub use address::{Address, AddressError, AdminAddress};
pub use listener::Listener;
pub use metrics::{Metrics, MetricsPage, Server};
pub use server::{Admin, Pages};
pub use socket::{BindError, Bound, SocketFile};
