//! Serves: checks ([`checks`]), which come over gRPC (`grpc`) and HTTP ([`forward_auth`]),
//! questions of AuthZEN ([`mod@authzen`]), and the admin pages over HTTP ([`admin`]), on the same
//! kinds of sockets.
//!
//! `rolegate serve` uses all of these. Inside Envoy, `module` uses the admin pages alone.
//! [`BoundSocket`] is a listening socket at an [`Address`].

#![deny(clippy::wildcard_enum_match_arm)]

mod address;
pub mod admin;
pub mod authzen;
pub mod checks;
mod connections;
pub mod forward_auth;
mod grpc;
mod listener;
mod metadata;
mod page;
mod socket;

pub use address::{Address, AddressError, AdminAddress};
pub use listener::Listener;
pub use metadata::{add_metadata, exact};
pub use socket::{BindError, BoundSocket, SocketFile};
