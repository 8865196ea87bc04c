//! The whole stack on a single machine, for the demo and the tests: an application, Envoy in front
//! of it, and rolegate.
//!
//! Read [`Stack`] first: it starts all three on free loopback ports, and stops them when it is
//! dropped. Then [`app`], [`envoy`] and [`rolegate`]; [`browser`] is a headless Chromium;
//! [`proxy`] is nginx, HAProxy or Caddy in place of Envoy, and [`Guarded`] an application behind any
//! of them; [`client`] sends requests, [`grpc`] Check calls; [`collector`] receives spans and logs;
//! [`rate_limits`] counts; [`golden`] checks a running stack against the `cases.yaml` of a policy;
//! [`pages`] reads the tables of a page, for tests that compare them with the code.

#![expect(
    clippy::disallowed_methods,
    reason = "this crate starts processes and writes their files: all it does is I/O"
)]

pub mod app;
pub mod browser;
pub mod client;
pub mod collector;
pub mod envoy;
pub mod golden;
pub mod grpc;
mod guarded;
pub mod manifests;
pub mod pages;
pub mod policies;
pub mod port;
mod process;
pub mod proxy;
pub mod rate_limits;
pub mod rolegate;
mod stack;
pub mod tokens;
pub mod traffic;

pub use app::App;
pub use browser::Browser;
pub use client::block_on;
pub use envoy::Envoy;
pub use guarded::Guarded;
pub use process::{Failed, Process, Stdout, repository};
pub use rate_limits::RateLimits;
pub use rolegate::Rolegate;
pub use stack::{Options, Stack, program};
