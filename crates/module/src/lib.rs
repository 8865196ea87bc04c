//! rolegate inside Envoy: a library that Envoy loads as an HTTP filter.
//!
//! `abi` has Envoy's interface and safe types above it, `exports.rs` the symbols that Envoy looks for.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod abi;
mod denial;
mod exports;
#[cfg(any(test, feature = "fake-host"))]
pub mod fake;

/// The filter that the library exports.
pub type Production = denial::DenyAll;
