//! The gRPC server: `Check` on a fast lane of its own, everything else through tonic on the same connection.
//!
//! Read `server` for how it starts and stops, `worker` and `connection` for the life of a connection, `exchange` and
//! `check` for the life of a request. Threads: one acceptor, N workers (each with a current-thread runtime and its own
//! counters and buffers, so that requests share nothing but the snapshot), and a few that hash passwords.

mod acceptor;
mod check;
mod connection;
mod counters;
mod decision;
mod exchange;
mod hashing;
mod listener;
mod message;
mod others;
mod quiet;
mod registry;
mod respond;
mod server;
mod slices;
mod worker;

pub use check::CheckService;
pub use counters::{Distribution, ErrorKind, HashingTotals, Totals};
pub use decision::{DecisionRecord, DecisionSink};
pub use listener::{Address, Listener};
pub use server::{Counting, Options, Running, Server};
