//! The generator against servers whose delays, stalls and errors are known.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::panic, reason = "results that are never right are a failed test")]

mod checks;
mod command;
mod errors;
mod latency;
mod server;
mod workload;
