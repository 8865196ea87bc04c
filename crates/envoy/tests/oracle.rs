//! Another implementation as the oracle: what `envoy-types` encodes we decode, and what we encode
//! it decodes.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::collections::HashMap;

use envoy::{CheckRequest, DecodeError, EncodeError, Encoder, Header, Metadata};
use envoy_types::pb::envoy::config::core::v3 as core;
use envoy_types::pb::envoy::service::auth::v3 as auth;
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::check_response::HttpResponse;
use proptest::collection::{hash_map, vec};
use proptest::prelude::*;
use prost::Message as _;

type Lines = Vec<(Vec<u8>, Vec<u8>)>;

fn decode(message: &[u8]) -> Result<(CheckRequest<'_>, Lines), DecodeError> {
    let mut lines = Lines::new();
    let request = CheckRequest::decode(message, |Header { name, value }| {
        lines.push((name.to_vec(), value.to_vec()))
    })?;
    Ok((request, lines))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[ -~]{0,24}", 1 => "\\PC{0,200}"]
}

fn peer() -> impl Strategy<Value = Peer> {
    (text(), text(), hash_map(text(), text(), 0..3)).prop_map(|(service, principal, labels)| Peer {
        address: Some(socket_address()),
        service,
        labels,
        principal,
        certificate: String::new(),
    })
}

fn socket_address() -> core::Address {
    use core::address::Address;
    use core::socket_address::PortSpecifier;
    let socket = core::SocketAddress {
        address: "127.0.0.1".into(),
        port_specifier: Some(PortSpecifier::PortValue(65535)),
        ..Default::default()
    };
    core::Address { address: Some(Address::SocketAddress(socket)) }
}

fn header_value() -> impl Strategy<Value = core::HeaderValue> {
    (text(), text(), vec(any::<u8>(), 0..40))
        .prop_map(|(key, value, raw_value)| core::HeaderValue { key, value, raw_value })
}

prop_compose! {
    fn http()(
        id in text(), method in text(), headers in hash_map(text(), text(), 0..8), path in text(), host in text(),
        scheme in text(), rest in (text(), prop_oneof![Just(-1), any::<i64>()], text(), vec(any::<u8>(), 0..4)),
        header_map in proptest::option::of(vec(header_value(), 0..8)),
    ) -> HttpRequest {
        let (protocol, size, body, raw_body) = rest;
        // Both together are an error.
        let headers = if header_map.is_some() { HashMap::new() } else { headers };
        HttpRequest {
            id, method, headers, path, host, scheme, protocol, size, body, raw_body,
            query: "q=1".into(), fragment: "f".into(),
            header_map: header_map.map(|headers| core::HeaderMap { headers }),
        }
    }
}

prop_compose! {
    fn check_request()(
        source in proptest::option::of(peer()), destination in proptest::option::of(peer()), http in http(),
        context_extensions in hash_map(
            prop_oneof![text(), Just("request_body".to_owned())],
            prop_oneof![text(), Just("buffered".to_owned())],
            0..3,
        ),
    ) -> auth::CheckRequest {
        auth::CheckRequest { attributes: Some(auth::AttributeContext {
            source, destination, context_extensions,
            request: Some(Request { time: Some(Default::default()), http: Some(http) }),
            tls_session: Some(auth::attribute_context::TlsSession { sni: "sni.example.com".into() }),
            ..Default::default()
        }) }
    }
}

fn http_of(request: &auth::CheckRequest) -> &HttpRequest {
    request.attributes.as_ref().unwrap().request.as_ref().unwrap().http.as_ref().unwrap()
}

fn lines_of(http: &HttpRequest) -> Lines {
    let map = http
        .headers
        .iter()
        .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()));
    let list = http.header_map.iter().flat_map(|map| &map.headers).map(|line| {
        let value = if line.raw_value.is_empty() {
            line.value.clone().into_bytes()
        } else {
            line.raw_value.clone()
        };
        (line.key.clone().into_bytes(), value)
    });
    let mut lines: Lines = map.chain(list).collect();
    lines.sort();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn decodes_what_prost_encodes(request in check_request()) {
        let bytes = request.encode_to_vec();
        let (read, mut lines) = decode(&bytes).unwrap();
        lines.sort();
        let http = http_of(&request);
        prop_assert_eq!(lines, lines_of(http));
        prop_assert_eq!(read.method, http.method.as_bytes());
        prop_assert_eq!(read.path, http.path.as_bytes());
        prop_assert_eq!(read.host, http.host.as_bytes());
        prop_assert_eq!(read.id, http.id.as_bytes());
        prop_assert_eq!(read.body, &http.raw_body[..]);
        prop_assert_eq!(read.has_text_body, !http.body.is_empty());
        prop_assert_eq!(read.is_from_grpc_server, http.size == -1);
        let attributes = request.attributes.as_ref().unwrap();
        let extension = attributes.context_extensions.get("request_body");
        prop_assert_eq!(read.buffers_body, extension.is_some_and(|value| value == "buffered"));
        prop_assert_eq!(read.source_ip(), if attributes.source.is_some() { &b"127.0.0.1"[..] } else { b"" });
    }

    /// Two messages one after the other are one message, merged (protobuf.dev, "Encoding", "Last
    /// One Wins").
    #[test]
    fn messages_merge_as_prost_merges_them(first in check_request(), second in check_request()) {
        let bytes = [first.encode_to_vec(), second.encode_to_vec()].concat();
        let merged = auth::CheckRequest::decode(&bytes[..]).unwrap();
        let http = http_of(&merged);
        let in_map = http.header_map.as_ref().is_some_and(|map| !map.headers.is_empty());
        if in_map && !http.headers.is_empty() {
            prop_assert_eq!(decode(&bytes), Err(DecodeError::TwoHeaderMaps));
            return Ok(());
        }
        let (read, lines) = decode(&bytes).unwrap();
        prop_assert_eq!(read.path, http.path.as_bytes());
        prop_assert_eq!(read.method, http.method.as_bytes());
        prop_assert_eq!(read.host, http.host.as_bytes());
        prop_assert_eq!(lines.len(), lines_of(http_of(&first)).len() + lines_of(http_of(&second)).len());
        prop_assert!(lines_of(http).iter().all(|line| lines.contains(line)));
    }

    /// What is cut short is an error to us where it is one to them, and never more than they read.
    #[test]
    fn a_truncated_message_is_decoded_as_prost_decodes_it(request in check_request(), at in any::<prop::sample::Index>()) {
        let bytes = request.encode_to_vec();
        let cut = &bytes[..at.index(bytes.len())];
        match (auth::CheckRequest::decode(cut), decode(cut)) {
            (Err(_), ours) => prop_assert!(ours.is_err()),
            (Ok(theirs), Ok((read, _))) => prop_assert_eq!(read.path, http_of(&theirs).path.as_bytes()),
            (Ok(_), Err(error)) => prop_assert_eq!(error, DecodeError::NoHttpRequest),
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_rejected(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
    }

    /// One byte changed: whatever we read of it, they read the same, if they read it at all.
    #[test]
    fn a_changed_byte_is_decoded_as_prost_decodes_it(
        request in check_request(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = request.encode_to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let (Ok(theirs), Ok((read, _))) = (auth::CheckRequest::decode(&bytes[..]), decode(&bytes)) {
            prop_assert_eq!(read.path, http_of(&theirs).path.as_bytes());
            prop_assert_eq!(read.host, http_of(&theirs).host.as_bytes());
        }
    }

    #[test]
    fn prost_decodes_an_allowed_answer(set in vec(line(), 0..6), remove in vec("[a-z_.-]{1,30}", 0..4)) {
        let answer = Encoder::default().allowed(pairs(&set), remove.iter().map(String::as_str)).unwrap();
        let response = read(&answer);
        prop_assert_eq!(response.status.unwrap().code, 0);
        let Some(HttpResponse::OkResponse(ok)) = response.http_response else { panic!("not allowed") };
        prop_assert_eq!(&ok.headers_to_remove, &remove);
        prop_assert_eq!(headers(&ok.headers), set);
    }

    #[test]
    fn prost_decodes_a_denied_answer(
        status in prop_oneof![Just(400_u16), Just(401), Just(403), 400_u16..600], set in vec(line(), 0..6), body in "\\PC{0,300}",
    ) {
        let answer = Encoder::default().denied(status, pairs(&set), &body).unwrap();
        let response = read(&answer);
        let code = match status { 400 => 3, 401 => 16, _ => 7 };
        prop_assert_eq!(response.status.unwrap().code, code);
        let Some(HttpResponse::DeniedResponse(denied)) = response.http_response else { panic!("not denied") };
        prop_assert_eq!(denied.status.unwrap().code, i32::from(status));
        prop_assert_eq!(denied.body, body);
        prop_assert_eq!(headers(&denied.headers), set);
    }
}

/// Envoy gets it with an answer of either kind, and with the next answer no more.
#[test]
fn prost_decodes_dynamic_metadata() {
    use envoy_types::pb::google::protobuf::value::Kind;
    let mut encoder = Encoder::default();
    let long = "ä".repeat(1000);
    for allowed in [true, false] {
        let entries = [("decision", "denied"), ("rule", ""), ("user", "älice"), ("long", &*long)];
        encoder.describe(entries.into_iter());
        let mut answer = || match allowed {
            true => encoder.allowed([("x-user", "a")].into_iter(), std::iter::empty()),
            false => encoder.denied(403, std::iter::empty(), "no"),
        };
        let fields = read(&answer().unwrap()).dynamic_metadata.unwrap().fields;
        let mut texts: Vec<(&str, &str)> = fields
            .iter()
            .map(|(key, value)| match value.kind.as_ref().unwrap() {
                Kind::StringValue(text) => (&**key, &**text),
                other => panic!("{other:?}"),
            })
            .collect();
        texts.sort_unstable();
        assert_eq!(texts, [("decision", "denied"), ("long", &*"ä".repeat(512)), ("user", "älice")]);
        assert_eq!(read(&answer().unwrap()).dynamic_metadata, None);
    }
}

#[test]
fn prost_decodes_metadata_of_each_type() {
    use envoy_types::pb::google::protobuf::value::Kind;
    let mut encoder = Encoder::default();
    encoder.describe([("decision", "allowed")].into_iter());
    let mut limit = Metadata::default();
    limit.text("unit", "HOUR");
    limit.number("requests_per_unit", 1000.0);
    let metadata = encoder.metadata();
    metadata.text("empty", "");
    metadata.number("zero", 0.0);
    metadata.number("large", -9_007_199_254_740_992.0);
    metadata.boolean("on", true);
    metadata.boolean("off", false);
    metadata.text("long", &"ä".repeat(8192));
    metadata.fields("limit", &limit);
    metadata.fields("none", &Metadata::default());
    let answer = encoder.allowed(std::iter::empty(), std::iter::empty()).unwrap();
    let mut fields = read(&answer).dynamic_metadata.unwrap().fields;
    let mut kind = |key: &str| fields.remove(key).unwrap().kind.unwrap();
    assert_eq!(kind("decision"), Kind::StringValue("allowed".into()));
    assert_eq!(kind("empty"), Kind::StringValue(String::new()));
    assert_eq!(kind("zero"), Kind::NumberValue(0.0));
    assert_eq!(kind("large"), Kind::NumberValue(-9_007_199_254_740_992.0));
    assert_eq!(kind("on"), Kind::BoolValue(true));
    assert_eq!(kind("off"), Kind::BoolValue(false));
    assert_eq!(kind("long"), Kind::StringValue("ä".repeat(8192)));
    let Kind::StructValue(limit) = kind("limit") else { panic!("not a struct") };
    assert_eq!(limit.fields["unit"].kind, Some(Kind::StringValue("HOUR".into())));
    assert_eq!(limit.fields["requests_per_unit"].kind, Some(Kind::NumberValue(1000.0)));
    assert_eq!(kind("none"), Kind::StructValue(Default::default()));
    assert!(fields.is_empty());
    let next = encoder.allowed(std::iter::empty(), std::iter::empty()).unwrap();
    assert_eq!(read(&next).dynamic_metadata, None);
}

fn line() -> impl Strategy<Value = (String, String)> {
    ("[a-zA-Z0-9_.-]{1,20}", prop_oneof![3 => "[ -~]{0,300}", 1 => "[ -~ä€😀]{0,40}"])
}

fn pairs(lines: &[(String, String)]) -> impl Iterator<Item = (&str, &str)> + Clone {
    lines.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

/// Takes the gRPC prefix off and decodes; what is left is read whole.
fn read(answer: &[u8]) -> auth::CheckResponse {
    let (&[flag, ref length @ ..], message) = answer.split_first_chunk::<5>().unwrap();
    assert_eq!(flag, 0);
    assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
    let response = auth::CheckResponse::decode(message).unwrap();
    assert_eq!(response.encoded_len(), message.len(), "fields that they do not know");
    response
}

/// The lines of an answer, each of which must overwrite, to every version of Envoy.
#[expect(deprecated, reason = "versions of Envoy that do not read `append_action` need `append`")]
fn headers(options: &[core::HeaderValueOption]) -> Vec<(String, String)> {
    let overwrite = core::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd;
    let line = |option: &core::HeaderValueOption| {
        assert_eq!(option.append.map(|append| append.value), Some(false));
        assert_eq!(option.append_action(), overwrite);
        let header = option.header.clone().unwrap();
        assert!(header.raw_value.is_empty());
        (header.key, header.value)
    };
    options.iter().map(line).collect()
}

#[test]
fn the_grpc_prefix_is_correct() {
    let answer = Encoder::default().allowed(std::iter::empty(), std::iter::empty()).unwrap();
    assert_eq!(answer, [0, 0, 0, 0, 4, 0x0A, 0, 0x1A, 0]);
    assert_eq!(answer.capacity(), answer.len());
}

/// RFC 9110, 5.5 and 5.6.2; response splitting (CWE-113).
#[test]
fn harmful_headers_are_not_written() {
    for name in ["", "a b", "a:b", ":path", ":method", "a\r\nb", "a\0", "ä"] {
        let set = [(name, "v")];
        let allowed = Encoder::default().allowed(set.into_iter(), std::iter::empty());
        let denied = Encoder::default().denied(403, set.into_iter(), "");
        let remove = Encoder::default().allowed(std::iter::empty(), [name].into_iter());
        let wanted = if name == ":path" { EncodeError::Path } else { EncodeError::HeaderName };
        assert_eq!(allowed, Err(wanted), "{name:?}");
        for answer in [denied, remove] {
            assert_eq!(answer, Err(EncodeError::HeaderName), "{name:?}");
        }
    }
    let path = |path| Encoder::default().allowed([(":path", path)].into_iter(), std::iter::empty());
    assert!(path("/a,b/_search?index=%C3%BC").is_ok());
    for value in ["", "a", "*", "/a b", "/a\r\nb", "/ä", "/a#b", "/\0"] {
        assert_eq!(path(value), Err(EncodeError::Path), "{value:?}");
    }
    assert!(Encoder::default().denied(403, [(":path", "/a")].into_iter(), "").is_err());
    for value in ["a\rb", "a\nb", "a\0", "\u{1b}[0m", "\u{7f}", "a\tb"] {
        let set = [("a", value)];
        assert_eq!(
            Encoder::default().allowed(set.into_iter(), std::iter::empty()),
            Err(EncodeError::HeaderValue)
        );
        assert_eq!(
            Encoder::default().denied(403, set.into_iter(), ""),
            Err(EncodeError::HeaderValue)
        );
    }
}

#[test]
fn a_denial_has_a_status_from_400_to_599() {
    for status in [0, 100, 200, 302, 399, 600, u16::MAX] {
        assert_eq!(
            Encoder::default().denied(status, std::iter::empty(), ""),
            Err(EncodeError::Status)
        );
    }
}

#[test]
fn a_message_without_an_http_request_is_an_error() {
    let attributes = |request| auth::CheckRequest {
        attributes: Some(auth::AttributeContext { request, ..Default::default() }),
    };
    for request in [
        auth::CheckRequest { attributes: None },
        attributes(None),
        attributes(Some(Request { time: None, http: None })),
    ] {
        assert_eq!(decode(&request.encode_to_vec()), Err(DecodeError::NoHttpRequest));
    }
    assert_eq!(decode(b""), Err(DecodeError::NoHttpRequest));
}

fn with_http(http: HttpRequest) -> Vec<u8> {
    let request = Some(Request { time: None, http: Some(http) });
    auth::CheckRequest {
        attributes: Some(auth::AttributeContext { request, ..Default::default() }),
    }
    .encode_to_vec()
}

#[test]
fn header_lines_are_bounded() {
    let headers = |count: usize| HttpRequest {
        headers: (0..count).map(|n| (format!("h{n}"), String::new())).collect::<HashMap<_, _>>(),
        ..Default::default()
    };
    assert!(decode(&with_http(headers(envoy::request::MAX_HEADERS))).is_ok());
    let over = with_http(headers(envoy::request::MAX_HEADERS + 1));
    assert!(decode(&over).unwrap().0.too_many_headers);
}

#[test]
fn one_name_twice_in_the_map_is_two_lines() {
    let entry = [0x1A, 6, 0x0A, 1, b'a', 0x12, 1, b'b'];
    let http = [&entry[..], &entry].concat();
    let request = [&[0x12, 16][..], &http].concat();
    let attributes = [&[0x22, 18][..], &request].concat();
    let message = [&[0x0A, 20][..], &attributes].concat();
    assert_eq!(decode(&message).unwrap().1.len(), 2);
}

/// Whether they have the same lines or not: nobody sends both.
#[test]
fn headers_in_two_places_are_an_error() {
    let line = core::HeaderValue { key: "a".into(), value: "b".into(), raw_value: Vec::new() };
    let request = |headers: &[(&str, &str)], lines: Vec<core::HeaderValue>| {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let header_map = Some(core::HeaderMap { headers: lines });
        with_http(HttpRequest { headers: headers.collect(), header_map, ..Default::default() })
    };
    let lines = vec![line];
    assert!(decode(&request(&[], lines.clone())).is_ok());
    assert!(decode(&request(&[("a", "b")], Vec::new())).is_ok());
    for headers in [("a", "b"), ("a", "c"), ("c", "b")] {
        let both = request(&[headers], lines.clone());
        assert_eq!(decode(&both), Err(DecodeError::TwoHeaderMaps));
    }
}

#[test]
fn a_known_field_of_another_type_is_an_error() {
    // `attributes`, `request`, `http` and `method` as numbers.
    assert_eq!(decode(&[0x08, 1]), Err(DecodeError::Type(1, "CheckRequest")));
    assert_eq!(decode(&[0x0A, 2, 0x20, 1]), Err(DecodeError::Type(4, "AttributeContext")));
    assert_eq!(decode(&[0x0A, 4, 0x22, 2, 0x10, 1]), Err(DecodeError::Type(2, "Request")));
    assert_eq!(
        decode(&[0x0A, 6, 0x22, 4, 0x12, 2, 0x10, 1]),
        Err(DecodeError::Type(2, "HttpRequest"))
    );
    // `size` as a text.
    assert_eq!(
        decode(&[0x0A, 6, 0x22, 4, 0x12, 2, 0x4A, 0]),
        Err(DecodeError::Type(9, "HttpRequest"))
    );
}

/// A client can get any bytes into these, and must not be able to cause an error by them.
#[test]
fn strings_that_are_not_utf8_are_returned_unchanged() {
    let message = |key: u8| [0x0A, 7, 0x22, 5, 0x12, 3, key << 3 | 2, 1, 0xFF];
    let read = |key: u8| decode(&message(key)).map(|_| ());
    for key in [1, 2, 4, 5] {
        assert_eq!(read(key), Ok(()), "{key}");
    }
    assert_eq!(decode(&message(2)).unwrap().0.method, b"\xFF");
    assert_eq!(decode(&message(5)).unwrap().0.host, b"\xFF");
    let line = [0x0A, 12, 0x22, 10, 0x12, 8, 0x1A, 6, 0x0A, 1, 0xFE, 0x12, 1, 0xFF];
    assert_eq!(decode(&line).unwrap().1, [(vec![0xFE], vec![0xFF])]);
}

/// It only sorts checks; so what cannot be read is no error.
#[test]
fn a_source_that_cannot_be_read_has_no_address() {
    let message = |address: &[u8]| {
        let length = |bytes: &[u8]| u8::try_from(bytes.len()).unwrap();
        let peer = [&[0x0A, length(address)], address].concat();
        let attributes = [&[0x22, 2, 0x12, 0, 0x0A, length(&peer)], &peer[..]].concat();
        [&[0x0A, length(&attributes)], &attributes[..]].concat()
    };
    let socket =
        |address: &[u8]| decode(&message(address)).map(|(read, _)| read.source_ip().to_vec());
    assert_eq!(socket(&[0x0A, 3, 0x12, 1, b'x']), Ok(b"x".to_vec()));
    // A pipe, no address, an address that is a number, one cut short.
    for address in [&[0x12, 2, 0x0A, 0][..], &[], &[0x0A, 2, 0x10, 1], &[0x0A, 9]] {
        assert_eq!(socket(address), Ok(Vec::new()), "{address:?}");
    }
}
