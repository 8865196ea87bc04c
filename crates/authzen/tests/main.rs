//! Decisions and searches of the AuthZEN API, without HTTP.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

mod asking;
mod conditions;
mod decisions;
mod interop;
mod search;
