//! Keeps a policy active and current, for a process that answers requests. It knows no transport:
//! `server` answers Envoy over gRPC with it, `module` inside Envoy. A *worker thread* answers
//! requests. Read [`LoadedPolicy`] and [`Runtime`] first, which start and stop everything, then
//! [`ThreadAuthorizer`], which a worker thread uses to answer. The other modules:
//!
//! * `reload` with [`compiled_policy`] and [`files`]: loads and activates policies; [`keys`] and
//!   `bundles`: fetch keys and bundles;
//! * [`hashing`]: hashes passwords off the worker threads, and asks about opaque tokens by
//!   `introspection`; [`fair_queue`]: the order in which a worker thread verifies waiting tokens;
//! * `shadow`: compares the decisions of a shadow policy (the *candidate*) with those of the active
//!   policy;
//! * `decisions` with [`lines`]: the decision log; `otlp` with `trace_context`: sends it, and spans
//!   of decisions, to a collector; `denials`: the last denials, for the console (a web page that
//!   shows operators what happens and what is wrong);
//! * [`counters`], [`status`] and [`conditions`]: metrics, the current state, and present faults;
//! * [`threads`]: starts threads, and turns panics into errors.

#![deny(clippy::wildcard_enum_match_arm)]

mod active_policy;
mod backoff;
mod bundle_source;
mod bundles;
mod client_network;
pub mod clock;
pub mod compiled_policy;
pub mod conditions;
pub mod counters;
mod decisions;
mod denials;
mod errors;
pub mod fair_queue;
pub mod files;
pub mod hashing;
mod https;
mod introspection;
pub mod keys;
pub mod lines;
mod otlp;
mod record;
mod reload;
mod runtime;
pub mod settings;
mod shadow;
mod share;
pub mod status;
#[cfg(test)]
mod test_log;
mod thread_authorizer;
pub mod threads;
mod trace_context;
pub mod units;

pub use active_policy::ActivePolicy;
pub use client_network::ClientNetwork;
pub use denials::{Denial, MAX_DENIALS, RecentDenials};
pub use errors::{LoadError, start_error};
pub use otlp::OtlpCounts;
pub use record::{DecisionContext, DecisionRecord, DecisionSink, Received, Via, is_logged};
pub use reload::{PolicyNotices, log_problems};
pub use runtime::{Caches, LoadedPolicy, Reloads, Runtime, STOP_TIMEOUT, Unwritten, shadow_span};
pub use shadow::ShadowStats;
pub use thread_authorizer::ThreadAuthorizer;
pub use trace_context::{DecisionTrace, TraceContext, Tracing};
