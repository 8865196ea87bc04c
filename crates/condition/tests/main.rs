//! The tests of this crate, in one program.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::string_slice,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a failed set-up is a failed test, which reads files of CEL"
)]

mod cel;
mod language;
mod limits;
mod steps;
