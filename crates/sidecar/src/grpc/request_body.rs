//! The body of a request, as far as Envoy shows it. Only requests to a search cluster depend on it.

use authorizer::{Header, RequestBody};
use envoy::CheckRequest;

/// The header by which Envoy says whether the body that it sends is only a part of it. Envoy removes it from what a
/// client sends.
const PARTIAL: &[u8] = b"x-envoy-auth-partial-body";

/// The body. Envoy sends one if the filter or the route has `with_request_body`, and then always adds the header
/// [`PARTIAL`]. Without that header, there may be a body that Envoy does not send: unless the route says by
/// `context_extensions: { request_body: buffered }` that Envoy sends each, the request has no `content-length` that
/// contradicts it, and does not upgrade to another protocol, whose bytes Envoy does not buffer.
pub(super) fn of<'a>(request: &CheckRequest<'a>, headers: &[Header<'a>]) -> RequestBody<'a> {
    if request.body.is_empty() && !request.buffers_body {
        return RequestBody::Unseen;
    }
    let mut partial = headers.iter().filter(|line| line.name.eq_ignore_ascii_case(PARTIAL));
    match (partial.next().map(|line| line.value), partial.next()) {
        (Some(b"false"), None) => RequestBody::Whole(request.body),
        (None, _) if request.body.is_empty() && !may_have_body(request, headers) => RequestBody::Whole(b""),
        (Some(_) | None, _) => RequestBody::Unseen,
    }
}

fn may_have_body(request: &CheckRequest<'_>, headers: &[Header<'_>]) -> bool {
    let has_body = |line: &Header<'_>| {
        let is = |name: &[u8]| line.name.eq_ignore_ascii_case(name);
        is(b"upgrade")
            || is(b":protocol")
            || is(b"transfer-encoding")
            || (is(b"content-length") && line.value != b"0")
    };
    request.method == b"CONNECT" || headers.iter().any(has_body)
}
