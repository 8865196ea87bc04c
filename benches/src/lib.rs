//! What several benchmarks share: messages as Envoy sends them, the example policy
//! `policies/people`, and [`note`] for measurements that criterion does not make (memory, and
//! checks per second).
//!
//! The program `measure` (`src/main.rs`) runs whole experiments, and turns a run of the benchmarks
//! into records, charts and verdicts.

pub mod message;
pub mod note;
pub mod people;
