//! Decodes `CheckRequest` and encodes `CheckResponse` (`envoy.service.auth.v3`).
//!
//! Both are written by hand, because generated code builds messages of maps and strings: prost
//! takes more than a microsecond to decode a message of 560 bytes, about ten times as long as this
//! decoder (November 2026; `make bench BENCH=codec`). [`request`] decodes in a single pass and
//! borrows from the message. [`Encoder`] returns each answer in a single allocation of its exact
//! size, gRPC prefix included. `proto/` defines the messages; [`FILE_DESCRIPTOR_SET`] is its
//! compiled form, for server reflection.

#![deny(clippy::wildcard_enum_match_arm)]

mod metadata;
pub mod request;
mod response;
mod wire;

pub use metadata::Metadata;
pub use request::{CheckRequest, DecodeError, Header};
pub use response::{EncodeError, Encoder};

/// The compiled `proto/`: an encoded `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptors.bin");

/// The HTTP/2 `:path` of the only method, `Check`.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The full name of the service, as health checks and reflection use it.
pub const SERVICE: &str = "envoy.service.auth.v3.Authorization";
