//! What is generated from `proto/` is fresh, and `proto/` itself says what Envoy's own messages
//! say.
//!
//! After a change of `proto/`: `cargo test -p envoy --test generated -- --ignored`.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::path::Path;

use envoy_types::pb::envoy::service::auth::v3 as theirs;
use prost::Message as _;
use protox::prost_reflect::DynamicMessage;

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
const DESCRIPTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/generated/descriptors.bin");

fn compiler() -> protox::Compiler {
    let mut compiler = protox::Compiler::new([PROTO]).unwrap();
    compiler.include_imports(true);
    compiler.open_file("envoy/service/auth/v3/external_auth.proto").unwrap();
    compiler
}

/// A message of ours, by name, holding what these bytes say.
fn ours(name: &str, bytes: &[u8]) -> DynamicMessage {
    let descriptor = compiler().descriptor_pool().get_message_by_name(name).unwrap();
    DynamicMessage::decode(descriptor, bytes).unwrap()
}

#[test]
fn the_descriptors_are_fresh() {
    let fresh = compiler().encode_file_descriptor_set();
    assert!(
        fresh == envoy::FILE_DESCRIPTOR_SET,
        "run this test file with `-- --ignored` and commit the result"
    );
}

#[test]
#[ignore = "writes the generated file"]
fn write_the_descriptors() {
    let path = Path::new(DESCRIPTORS);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, compiler().encode_file_descriptor_set()).unwrap();
}

#[test]
fn the_service_and_its_call_have_the_names_on_the_wire() {
    let service = compiler().descriptor_pool().get_service_by_name(envoy::SERVICE).unwrap();
    let call = service.methods().next().unwrap();
    assert_eq!(format!("/{}/{}", service.full_name(), call.name()), envoy::CHECK_PATH);
}

#[test]
fn the_descriptors_have_every_field_that_envoy_usually_sends() {
    use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
    use envoy_types::pb::envoy::config::core::v3::{
        Address, HeaderMap, HeaderValue, Pipe, SocketAddress, address,
    };
    let header = HeaderValue { key: "a".into(), value: "b".into(), raw_value: vec![0xFF] };
    let http = theirs::attribute_context::HttpRequest {
        id: "1".into(),
        method: "GET".into(),
        headers: [("a".to_owned(), "b".to_owned())].into(),
        path: "/".into(),
        host: "h".into(),
        scheme: "https".into(),
        protocol: "HTTP/2".into(),
        body: "text".into(),
        raw_body: vec![1],
        header_map: Some(HeaderMap { headers: vec![header] }),
        ..Default::default()
    };
    let peer = |name: &str, address| theirs::attribute_context::Peer {
        address: Some(Address { address: Some(address) }),
        principal: name.into(),
        ..Default::default()
    };
    let socket = SocketAddress {
        address: "192.0.2.1".into(),
        port_specifier: Some(PortSpecifier::PortValue(65535)),
        ..Default::default()
    };
    let pipe = Pipe { path: "/run/envoy.sock".into(), ..Default::default() };
    let request = theirs::CheckRequest {
        attributes: Some(theirs::AttributeContext {
            source: Some(peer("s", address::Address::SocketAddress(socket))),
            destination: Some(peer("d", address::Address::Pipe(pipe))),
            request: Some(theirs::attribute_context::Request {
                http: Some(http),
                ..Default::default()
            }),
            context_extensions: [("c".to_owned(), "d".to_owned())].into(),
            ..Default::default()
        }),
    };
    let bytes = request.encode_to_vec();
    let ours = ours("envoy.service.auth.v3.CheckRequest", &bytes);
    assert!(nothing_unknown(&ours), "{ours:?}");
    assert_eq!(theirs::CheckRequest::decode(&ours.encode_to_vec()[..]).unwrap(), request);
}

#[test]
fn the_descriptors_have_every_field_of_an_answer() {
    let allowed = envoy::Encoder::default()
        .allowed([("x-user", "alice")].into_iter(), ["x-roles"].into_iter())
        .unwrap();
    let denied = envoy::Encoder::default()
        .denied(401, [("www-authenticate", "Basic")].into_iter(), "no")
        .unwrap();
    for answer in [allowed, denied] {
        let message = ours("envoy.service.auth.v3.CheckResponse", &answer[5..]);
        assert!(nothing_unknown(&message), "{message:?}");
        assert_eq!(message.encode_to_vec().len(), answer.len() - 5);
    }
}

#[test]
fn the_status_of_each_denial_has_a_name() {
    let codes = compiler().descriptor_pool().get_enum_by_name("envoy.type.v3.StatusCode").unwrap();
    for status in [400, 401, 403, 413, 503] {
        assert!(codes.get_value(status).is_some(), "{status}");
    }
}

/// Whether no field of a message, however deep, is unknown.
fn nothing_unknown(message: &DynamicMessage) -> bool {
    use protox::prost_reflect::Value;
    fn known(value: &Value) -> bool {
        match value {
            Value::Message(message) => nothing_unknown(message),
            Value::List(values) => values.iter().all(known),
            _ => true,
        }
    }
    message.unknown_fields().next().is_none() && message.fields().all(|(_, value)| known(value))
}
