//! rolegate inside Envoy: a library that Envoy loads as an HTTP filter.
//!
//! `abi` has Envoy's interface and safe types above it, `exports.rs` the symbols that Envoy looks for. The filter is
//! `filter`: it decides on Envoy's worker threads, each with its `worker`, by a policy that an `instance` keeps current.
//! Only `abi`, `exports` and `fake` have `unsafe`.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod abi;
mod exports;
#[cfg(any(test, feature = "fake-host"))]
pub mod fake;
mod filter;
mod instance;
mod log;
mod owned_verdict;
mod settings;
mod stats;
mod token_queue;
mod worker;

/// The filter that the library exports.
pub type Production = filter::Authorization;

pub use filter::{Authorization, OwnPolicy, RoutePolicy, State};
