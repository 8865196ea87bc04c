//! The real thing on one machine: an application, Envoy before it and rolegate beside it, for the demo and the tests.
//!
//! Read [`Stack`] first, which starts all three on free ports of the loopback interface and stops them when it is
//! dropped; then [`app`], [`envoy`] and [`rolegate`], [`client`] to send requests, and [`golden`], which holds a running
//! stack to the cases beside a policy.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate starts processes and writes their files: all it does is I/O"
)]

pub mod app;
pub mod client;
pub mod envoy;
pub mod golden;
pub mod manifests;
pub mod policies;
mod process;
pub mod rolegate;
mod stack;
pub mod tokens;
pub mod traffic;

pub use app::App;
pub use envoy::Envoy;
pub use process::{Failed, Process, repository};
pub use rolegate::Rolegate;
pub use stack::{Options, Stack, program};
