//! Benchmarks with the peers beside us, and what makes records, curves and verdicts of a run of them.
//!
//! [`message`], [`people`], [`proto`] and [`signer`] are what is measured with. [`record`] reads what criterion measured,
//! and the [`note`]s of what it does not measure; [`chart`] draws it; [`verdict`] compares it with what is to be
//! reached; [`report`] writes the page. `src/bin/results.rs` is these in order.

pub mod chart;
pub mod message;
pub mod note;
pub mod people;
pub mod proto;
pub mod record;
pub mod report;
pub mod signer;
pub mod verdict;
