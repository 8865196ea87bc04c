//! rolegate inside Envoy: a library that Envoy loads as an HTTP filter.
//!
//! `abi` has Envoy's interface and safe types above it, `exports` the symbols that Envoy looks for,
//! `fake` a stand-in for Envoy, for tests. `allocator` returns large blocks to the system. Only
//! these four have `unsafe`, with their submodules.
//!
//! The filter is `filter`, with the configuration in `settings`. It decides on Envoy's worker
//! threads. Each thread has a `worker` for each `shared_policy`. All filters and routes with the
//! same settings share a policy, which keeps itself current. A request with an unverified token
//! waits in `token_queue`. A verdict is applied to the request as an `owned_verdict`, and counted
//! in `stats`. `start_error` says why a configuration is rejected, `log` writes to Envoy's log, and
//! `admin` serves the admin pages.

#![deny(clippy::wildcard_enum_match_arm)]

pub mod abi;
mod admin;
#[cfg(any(test, not(feature = "fake-host")))]
mod allocator;
mod exports;
#[cfg(any(test, feature = "fake-host"))]
pub mod fake;
mod filter;
mod log;
mod owned_verdict;
mod settings;
mod shared_policy;
mod start_error;
mod stats;
mod token_queue;
mod worker;

/// The tests do not use it, because they count allocations. The feature `fake-host` leaves it out
/// too: `fuzz/sanitize` builds with this feature, and sanitizers have their own allocators.
#[cfg(not(any(test, feature = "fake-host")))]
#[global_allocator]
static ALLOCATOR: allocator::LargeBlocks = allocator::LargeBlocks;

/// The filter that the library exports.
pub type ExportedFilter = filter::Authorization;

pub use filter::{Authorization, OwnPolicy, RoutePolicy, State};
