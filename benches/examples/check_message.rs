//! Writes the message of the wire benchmark, in its gRPC frame: what Envoy asks of `GET /people` by alice.
//!
//! `check_message FILE [AUTHORIZATION]`
#![expect(clippy::expect_used, reason = "a benchmark that cannot start has nothing to say")]

use envoy_types::pb::envoy::config::core::v3::{Address, SocketAddress, address, socket_address};
use envoy_types::pb::envoy::service::auth::v3::attribute_context::{HttpRequest, Peer, Request};
use envoy_types::pb::envoy::service::auth::v3::{AttributeContext, CheckRequest};
use prost::Message as _;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("a file to write");
    let authorization = arguments.next().unwrap_or_else(|| "Basic YWxpY2U6d29uZGVybGFuZA==".to_owned());
    let headers = [
        (":authority", "127.0.0.1:10000"),
        (":method", "GET"),
        (":path", "/people"),
        (":scheme", "http"),
        ("authorization", &authorization),
        ("user-agent", "h2load"),
        ("x-forwarded-proto", "http"),
    ];
    let http = HttpRequest {
        id: "9412377110432157732".into(),
        method: "GET".into(),
        headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        path: "/people".into(),
        host: "127.0.0.1:10000".into(),
        scheme: "http".into(),
        protocol: "HTTP/1.1".into(),
        ..Default::default()
    };
    let attributes = AttributeContext {
        source: Some(peer(41_000)),
        destination: Some(peer(10_000)),
        request: Some(Request { time: None, http: Some(http) }),
        ..Default::default()
    };
    let message = CheckRequest { attributes: Some(attributes) }.encode_to_vec();
    let length = u32::try_from(message.len()).expect("a small message").to_be_bytes();
    std::fs::write(file, [&[0][..], &length, &message].concat()).expect("a file");
}

fn peer(port: u32) -> Peer {
    let socket = SocketAddress {
        address: "127.0.0.1".into(),
        port_specifier: Some(socket_address::PortSpecifier::PortValue(port)),
        ..Default::default()
    };
    Peer {
        address: Some(Address { address: Some(address::Address::SocketAddress(socket)) }),
        ..Default::default()
    }
}
