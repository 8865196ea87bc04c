//! What `deploy/` ships: every variant can be built, is valid, runs with the least rights, and lets
//! nothing pass without an answer.

#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::panic, reason = "what a tool says is the message of the failed test")]
#![expect(clippy::indexing_slicing, reason = "JSON without a member is null here")]
#![expect(clippy::disallowed_methods, reason = "the tree is what is tested")]

#[path = "manifests/chart.rs"]
mod chart;
#[path = "manifests/deployment_options.rs"]
mod deployment_options;
#[path = "manifests/envoys.rs"]
mod envoys;
#[path = "manifests/pods.rs"]
mod pods;
#[path = "manifests/variants.rs"]
mod variants;
#[path = "manifests/wiring.rs"]
mod wiring;
