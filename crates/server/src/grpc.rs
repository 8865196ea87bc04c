//! The gRPC server. `Check` has a fast path directly on `h2`; health and reflection are served on
//! the same connections.
//!
//! `server` starts and stops it, `worker` and `connection` serve connections, `exchange` and
//! `check` serve requests. Threads: an acceptor, N workers and a few that hash passwords. Each
//! worker has its own current-thread runtime, counters and buffers, so that requests of cached
//! callers write to nothing that workers share.

mod acceptor;
mod age;
mod check;
mod connection;
mod context;
mod exchange;
mod frames;
mod message;
mod metrics;
mod notices;
mod options;
mod other_services;
mod proxyless;
mod registry;
mod request_body;
mod respond;
mod server;
mod tls;
mod token_queue;
mod turns;
mod unix_socket;
mod verifications;
mod worker;

pub use metrics::{Counters, OnceCounters, ServerTotals};
pub use notices::{AcceptError, Overload, TlsFailure, WrongProtocol};
pub use options::Options;
pub use server::{RunningServer, Server};
pub use tls::{ClientName, ClientNameError, Tls, TlsError, TlsFiles, TlsTotals};
