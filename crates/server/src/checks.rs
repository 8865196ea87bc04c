//! The server that answers checks, whatever protocol they come by.
//!
//! `server` starts and stops it; `worker` serves connections. Threads: an acceptor, N workers and a
//! few that hash passwords. Each worker has its own current-thread runtime, counters and buffers,
//! so that requests of cached callers write to nothing that workers share.

mod acceptor;
pub(crate) mod age;
pub(crate) mod budget;
pub(crate) mod checker;
pub(crate) mod context;
mod metrics;
pub(crate) mod notices;
pub(crate) mod options;
pub(crate) mod registry;
mod server;
pub(crate) mod tls;
mod token_queue;
mod unix_socket;
mod verifications;
pub(crate) mod wait;
mod worker;

pub use metrics::{Counters, OnceCounters, ServerTotals};
pub use notices::{AcceptError, Overload, RefusedQuestion, TlsFailure, WrongProtocol};
pub use options::Options;
pub use server::{RunningServer, Server};
pub use tls::{ClientName, ClientNameError, Tls, TlsError, TlsFiles, TlsTotals};
pub use worker::Protocol;
