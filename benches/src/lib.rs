//! What several benchmarks measure with: messages as Envoy sends them, keys that sign tokens, the policy of the people,
//! prost's form of our messages, and [`note`]s of figures that criterion does not measure.
//!
//! `src/bin/results` makes records, curves and verdicts of a run of them.

pub mod message;
pub mod note;
pub mod people;
pub mod proto;
pub mod signer;
