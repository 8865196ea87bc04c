//! The process `rolegate` as its users see it: command line, settings, start, reload and stop.
//!
//! Every test starts the real program on ports that the system chooses, and ends it by its process
//! id.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

mod access_review;
mod admin;
mod api_keys;
mod authzen;
mod bundle_cli;
mod bundle_files;
mod bundle_https;
mod bundle_server;
mod bundle_shadow;
mod bundles;
mod cases;
mod cli;
mod client;
mod cluster;
mod console;
mod decide;
mod decision_log;
mod decisions;
mod denials;
mod diff;
mod discovery;
mod documented;
mod explain;
mod forward_auth;
mod import;
mod keys;
mod lint_proxy;
mod metrics;
mod otlp;
mod passwd;
mod process;
mod readiness;
mod reference;
mod reloading;
mod replay;
mod s3_server;
mod schema;
mod search_cluster;
mod secrets;
mod serving;
mod settings;
mod shadow;
mod stopping;
mod stores;
mod tls;
mod token_claims;
mod unknown_keys;
mod what_can;
mod wrong_protocol;
