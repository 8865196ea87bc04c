//! The wire: borrowed decoding of `CheckRequest`, encoding of `CheckResponse` (`envoy.service.auth.v3`).
//!
//! Both are written by hand, as a decision costs less than a message built from maps and strings would: [`request`]
//! reads in one pass and borrows from the message, [`response`] writes into one buffer of the right size, gRPC prefix
//! included. `proto/` says what is on the wire; [`FILE_DESCRIPTOR_SET`] is its compiled form, for server reflection.

pub mod request;
pub mod response;
mod wire;

pub use request::{CheckRequest, DecodeError, Header};
pub use response::EncodeError;

/// The compiled `proto/`: a `google.protobuf.FileDescriptorSet`.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptors.bin");

/// The path of the one call, as HTTP/2 carries it.
pub const CHECK_PATH: &str = "/envoy.service.auth.v3.Authorization/Check";

/// The full name of the service, as health checks and reflection use it.
pub const SERVICE: &str = "envoy.service.auth.v3.Authorization";
