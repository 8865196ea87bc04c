//! The gRPC server. `Check` has a fast path directly on `h2`; health and reflection are served on the same
//! connections.
//!
//! Where to start: `server` starts and stops it, `worker` and `connection` serve connections, `exchange` and `check`
//! serve requests. Threads: one acceptor, N workers and a few that hash passwords. Each worker has its own
//! current-thread runtime, counters and buffers, so that requests of cached callers write to nothing
//! that workers share.

mod accept_error;
mod acceptor;
mod age;
mod check;
mod command;
mod connection;
mod context;
mod counters;
mod exchange;
mod frame_reader;
mod half_head;
mod message;
mod metrics;
mod muted_waker;
mod notices;
mod options;
mod other_services;
mod overload;
mod phase;
mod registry;
mod request_body;
mod respond;
mod server;
mod slices;
mod tls;
mod token_queue;
mod unfinished;
mod unix_socket;
mod verifications;
mod worker;
mod wrong_protocol;

pub use accept_error::AcceptError;
pub use counters::ServerTotals;
pub use metrics::Served;
pub use options::Options;
pub use overload::Overload;
pub use server::{Counters, Running, Server};
pub use tls::{ClientName, ClientNameError, Tls, TlsError, TlsFailure, TlsFiles, TlsTotals};
pub use wrong_protocol::WrongProtocol;
