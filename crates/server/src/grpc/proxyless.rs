//! Requests about which a gRPC server asks, without Envoy (gRFC A92). What Envoy always sends may be
//! missing.

use authorizer::{Authorizer, Header};
use envoy::CheckRequest;

/// The content type of gRPC calls.
pub(super) const CONTENT_TYPE: Header<'static> =
    Header { name: b"content-type", value: b"application/grpc" };

/// No host has this name, so the request is denied as a request with an invalid host.
const NO_HOST: &[u8] = b"?";

/// The host of a request. gRPC servers leave the field `host` out, but may send `:authority` among
/// the headers. Without a host no `deny` rule for a host would match, so a policy that names hosts
/// denies the request.
pub(super) fn host<'a>(
    decoded: &CheckRequest<'a>,
    headers: &[Header<'a>],
    authorizer: &Authorizer,
) -> &'a [u8] {
    if !decoded.host.is_empty() {
        return decoded.host;
    }
    let mut lines = headers.iter().filter(|line| line.name == b":authority");
    match (lines.next(), lines.next()) {
        (Some(line), None) if !line.value.is_empty() => line.value,
        (_, None) if !authorizer.names_hosts() => b"",
        (_, _) => NO_HOST,
    }
}

/// Whether the content type is missing: some gRPC servers do not count it as a header.
pub(super) fn lacks_content_type(decoded: &CheckRequest<'_>, headers: &[Header<'_>]) -> bool {
    decoded.is_from_grpc_server
        && !headers.iter().any(|line| line.name.eq_ignore_ascii_case(CONTENT_TYPE.name))
}
