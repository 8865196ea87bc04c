//! The body of a request, as far as Envoy shows it. Only requests to a search cluster depend on it.

use authorizer::{Header, RequestBody};
use envoy::CheckRequest;

/// The header that tells whether Envoy sends only a part of the body. Envoy removes it from the
/// requests of clients.
const PARTIAL: &[u8] = b"x-envoy-auth-partial-body";

/// The body of a request, if Envoy sends the whole body; otherwise `Unavailable`.
///
/// Envoy sends the body if the filter or the route has `with_request_body`. Then it always adds the
/// header [`PARTIAL`]. Without that header, Envoy may have kept the body, so the body is
/// unavailable. One exception: the body is known to be empty if all of this is true:
///
/// * The route promises by `context_extensions: { request_body: buffered }` that Envoy sends all
///   bodies.
/// * No header such as `content-length` announces a body.
/// * The request does not upgrade to another protocol, whose bytes Envoy would not buffer.
///
/// A body that Envoy sends as text may have other bytes than the cluster gets, so it is
/// unavailable.
pub(super) fn whole_body<'a>(
    request: &CheckRequest<'a>,
    headers: &[Header<'a>],
) -> RequestBody<'a> {
    if request.has_text_body || (request.body.is_empty() && !request.buffers_body) {
        return RequestBody::Unavailable;
    }
    let mut partial = headers.iter().filter(|line| line.name.eq_ignore_ascii_case(PARTIAL));
    match (partial.next().map(|line| line.value), partial.next()) {
        (Some(b"false"), None) => RequestBody::Whole(request.body),
        (None, _) if request.body.is_empty() && !may_have_body(request, headers) => {
            RequestBody::Whole(b"")
        }
        (Some(_) | None, _) => RequestBody::Unavailable,
    }
}

fn may_have_body(request: &CheckRequest<'_>, headers: &[Header<'_>]) -> bool {
    let names: [&[u8]; 3] = [b"upgrade", b":protocol", b"transfer-encoding"];
    request.method == b"CONNECT"
        || headers.iter().any(|line| {
            names.iter().any(|name| line.name.eq_ignore_ascii_case(name))
                || (line.name.eq_ignore_ascii_case(b"content-length") && line.value != b"0")
        })
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::service::auth::v3 as auth;
    use prost::Message as _;

    use super::*;

    /// The body of a request with these headers, of a route that says that Envoy sends each body,
    /// or not.
    fn seen(body: &str, headers: &[(&str, &str)], buffers: bool) -> Option<Vec<u8>> {
        seen_of("", body, headers, buffers)
    }

    /// The same for a body that Envoy sends as text and one that it sends as bytes.
    fn seen_of(text: &str, body: &str, headers: &[(&str, &str)], buffers: bool) -> Option<Vec<u8>> {
        seen_with("GET", text, body, headers, buffers)
    }

    /// The same for a request with this method.
    fn seen_with(
        method: &str,
        text: &str,
        body: &str,
        headers: &[(&str, &str)],
        buffers: bool,
    ) -> Option<Vec<u8>> {
        let http = auth::attribute_context::HttpRequest {
            method: method.into(),
            body: text.into(),
            raw_body: body.into(),
            ..Default::default()
        };
        let extensions = buffers.then(|| ("request_body".to_owned(), "buffered".to_owned()));
        let message = auth::CheckRequest {
            attributes: Some(auth::AttributeContext {
                request: Some(auth::attribute_context::Request {
                    http: Some(http),
                    ..Default::default()
                }),
                context_extensions: extensions.into_iter().collect(),
                ..Default::default()
            }),
        };
        let bytes = message.encode_to_vec();
        let request = CheckRequest::decode(&bytes, |_| {}).unwrap();
        let headers: Vec<Header<'_>> = headers
            .iter()
            .map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() })
            .collect();
        match whole_body(&request, &headers) {
            RequestBody::Whole(body) => Some(body.to_vec()),
            RequestBody::Unavailable | RequestBody::Pending => None,
        }
    }

    const WHOLE: (&str, &str) = ("x-envoy-auth-partial-body", "false");
    const PART: (&str, &str) = ("x-envoy-auth-partial-body", "true");

    #[test]
    fn only_a_body_that_envoy_calls_whole_is_whole() {
        for buffers in [false, true] {
            assert_eq!(seen("{}", &[WHOLE], buffers).as_deref(), Some(&b"{}"[..]));
            for headers in
                [&[][..], &[PART], &[WHOLE, WHOLE], &[WHOLE, PART], &[(WHOLE.0, "False")]]
            {
                assert_eq!(seen("{}", headers, buffers), None, "{headers:?}");
            }
        }
    }

    /// Envoy replaces bytes that are no UTF-8 in it, so the cluster may get another body.
    #[test]
    fn a_body_that_envoy_sends_as_text_is_not_read() {
        for buffers in [false, true] {
            for (text, body) in [("{}", ""), ("{}", "{}"), (" ", "{}")] {
                assert_eq!(seen_of(text, body, &[WHOLE], buffers), None, "{text} {body}");
                assert_eq!(seen_of(text, body, &[], buffers), None, "{text} {body}");
            }
        }
    }

    #[test]
    fn a_body_that_is_not_there_is_empty_only_where_envoy_sends_each() {
        let none = |headers: &[(&str, &str)], buffers| seen("", headers, buffers);
        assert_eq!(none(&[], true), Some(Vec::new()));
        assert_eq!(none(&[("content-length", "0")], true), Some(Vec::new()));
        assert_eq!(none(&[WHOLE], true), Some(Vec::new()));
        assert_eq!(none(&[], false), None);
        for header in [
            ("content-length", "5"),
            ("content-length", "00"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("Upgrade", "h2c"),
            (":protocol", "websocket"),
            PART,
        ] {
            assert_eq!(none(&[header], true), None, "{header:?}");
        }
        // The bytes after such a request are no body, and not buffered by Envoy (RFC 9110, 9.3.6).
        assert_eq!(seen_with("CONNECT", "", "", &[], true), None);
    }
}
