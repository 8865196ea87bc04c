//! What several benchmarks share: messages as Envoy sends them, the people policy, and [`note`]s of measurements that
//! criterion does not make.
//!
//! The program `measure` (`src/main.rs`) runs whole experiments, and turns a run of the benchmarks into records, charts
//! and verdicts.

pub mod message;
pub mod note;
pub mod people;
