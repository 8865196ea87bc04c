//! The process `rolegate` as its users meet it: its command line, its settings, how it starts, reloads and stops.
//!
//! Every test starts the real program on ports that the system chooses, and ends it by its number.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed set-up is a failed test"
)]

mod admin;
mod asking;
mod cli;
mod keys;
mod process;
mod reloading;
mod secrets;
mod serving;
mod settings;
