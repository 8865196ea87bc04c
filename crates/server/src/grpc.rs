//! Checks over gRPC. `Check` has a fast path directly on `h2`; health and reflection are served on
//! the same connections.
//!
//! `connection` serves a connection, `exchange` and `check` serve requests.

pub(crate) mod check;
pub(crate) mod connection;
mod exchange;
mod frames;
pub(crate) mod message;
pub(crate) mod other_services;
mod proxyless;
mod request_body;
mod respond;
pub(crate) mod turns;
