//! What several benchmarks share: messages as Envoy sends them, keys that sign tokens, the people policy, prost's
//! version of our messages, and [`note`]s of measurements that criterion does not make.
//!
//! `src/bin/results` turns a run of the benchmarks into records, charts and verdicts.

pub mod message;
pub mod note;
pub mod people;
pub mod proto;
pub mod signer;
