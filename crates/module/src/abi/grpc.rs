//! The gRPC status of a local reply.
//!
//! Envoy answers a gRPC request with 200, and with what went wrong in `grpc-status`. For its own filters it derives that from
//! the HTTP status; for a module's reply it takes 0, which is "OK", unless the reply has such a header.

use super::message::Headers;

/// The header.
pub(super) const NAME: &[u8] = b"grpc-status";

/// Whether Envoy takes these for the headers of a gRPC request: its content type is `application/grpc`, alone or with `+` and
/// the encoding of its messages. `application/grpc-web` is not gRPC.
pub(super) fn is_grpc(headers: &Headers<'_>) -> bool {
    let content_type = headers.iter().find(|(name, _)| *name == b"content-type");
    content_type
        .and_then(|(_, value)| value.strip_prefix(b"application/grpc"))
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'+')))
}

/// The gRPC status for an HTTP status, as gRPC's "HTTP to gRPC Status Code Mapping" has it and Envoy uses it.
pub(super) fn status(http: u16) -> &'static [u8] {
    match http {
        400 => b"13",
        401 => b"16",
        403 => b"7",
        404 => b"12",
        429 | 502 | 503 | 504 => b"14",
        _ => b"2",
    }
}
