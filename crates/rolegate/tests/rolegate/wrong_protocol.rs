//! Clients that do not make `Check` calls over gRPC are told apart, in the log and in the metrics.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;

use crate::client::{Answer, basic, check};
use crate::process::{LONG, Server, example, http_get, wait_until};

/// Sends these bytes and waits until the connection is closed: the address of the client.
fn send(address: SocketAddr, bytes: &[u8]) -> SocketAddr {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(bytes).unwrap();
    // The end of the connection may be a reset, as it has unread bytes.
    let _ = stream.read_to_end(&mut Vec::new());
    stream.local_addr().unwrap()
}

/// Sends a call over HTTP/2 as gRPC for Python does to a Unix socket, and waits until its stream is
/// reset: the address of the client.
fn send_path_as_authority(address: SocketAddr) -> SocketAddr {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/envoy.service.auth.v3.Authorization/Check"),
        (":authority", "run%2Frolegate.sock"),
    ];
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    // Literal fields (RFC 7541, 6.2.2).
    let head: Vec<u8> = fields
        .iter()
        .flat_map(|(name, value)| [vec![0], text(name), text(value)].concat())
        .collect();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    let length = u8::try_from(head.len()).unwrap();
    let begin = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"[..];
    stream.write_all(&[begin, &[0, 0, length, 1, 4, 0, 0, 0, 1], &head].concat()).unwrap();
    let (mut received, reset) = (Vec::new(), [0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 1]);
    while !received.ends_with(&reset) {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        received.extend(byte);
    }
    stream.local_addr().unwrap()
}

/// Sends a request over HTTP/2: its status, and its gRPC status if it has one.
async fn request(
    address: SocketAddr,
    request: http::request::Builder,
    body: &'static [u8],
) -> (u16, Option<String>) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (send, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut send = send.ready().await.unwrap();
    let (answer, mut stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
    // The server may answer without reading the message; the stream is closed then.
    let _ = stream.send_data(Bytes::from_static(body), true);
    let answer = answer.await.unwrap();
    let status =
        answer.headers().get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    (answer.status().as_u16(), status)
}

fn grpc(method: &str) -> http::request::Builder {
    http::Request::post(format!("http://rolegate{method}"))
        .header("content-type", "application/grpc")
}

fn count(server: &Server, protocol: &str) -> f64 {
    server.metric(&format!("rolegate_wrong_protocol_total{{protocol=\"{protocol}\"}}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wrong_protocol_is_counted_and_logged_with_its_peer_and_what_to_change() {
    let server = Server::start(&example("people"), &[]);
    let address = server.address();
    let protocols = [
        "tls",
        "http1",
        "unknown",
        "invalid_http2",
        "not_grpc",
        "unknown_method",
        "not_check_request",
    ];
    let all_are = |number: f64| protocols.iter().all(|protocol| count(&server, protocol) == number);
    assert_eq!(
        check(address, "GET", "/people", &[("authorization", &basic("alice:wonderland"))]).await,
        Answer::Http(200)
    );
    // A connection that sends nothing, as of a port scan or a probe, speaks no protocol.
    drop(TcpStream::connect(address).unwrap());
    assert!(all_are(0.0), "{}", server.page("/metrics").1);

    let peers = [
        send(address, &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]),
        send(address, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        send(address, b"\x00\x00\x00\x01"),
        send_path_as_authority(address),
    ];
    let plain = http::Request::get("http://rolegate/people");
    assert_eq!(request(address, plain, b"").await, (405, None));
    let old = grpc("/envoy.service.auth.v2.Authorization/Check");
    assert_eq!(request(address, old, b"\0\0\0\0\0").await, (200, Some("12".to_owned())));
    // A CheckRequest without `attributes.request.http`, as that of the filter for networks is.
    let network = grpc("/envoy.service.auth.v3.Authorization/Check");
    assert_eq!(request(address, network, b"\0\0\0\0\x02\x0a\0").await, (200, Some("3".to_owned())));

    wait_until(|| all_are(1.0), || server.page("/metrics").1);
    for (protocol, advice) in protocols.iter().zip([
        "transport_socket",
        "http2_protocol_options",
        "the right port",
        "grpc.default_authority",
        "grpc_service",
        "transport_api_version: V3",
        "envoy.filters.http.ext_authz",
    ]) {
        // It is logged after it is counted.
        server.wait_for_log_line(&[
            &format!("\"protocol\":\"{protocol}\""),
            advice,
            "\"peer\":\"127.0.0.1:",
        ]);
    }
    for peer in peers {
        assert!(server.log().contains(&peer.to_string()), "{peer}\n{}", server.log());
    }
    assert!(
        server.log().contains("/envoy.service.auth.v2.Authorization/Check"),
        "{}",
        server.log()
    );
}

#[test]
fn the_log_of_wrong_protocols_is_limited_in_rate_and_the_counter_is_not() {
    let server = Server::start(&example("people"), &[]);
    for _ in 0..50 {
        assert_eq!(http_get(server.address(), "/people"), None);
    }
    wait_until(|| count(&server, "http1") == 50.0, || server.page("/metrics").1);
    // It is logged after it is counted.
    server.wait_for_log("\"protocol\":\"http1\"");
    let lines = server.log().matches("\"protocol\":\"http1\"").count();
    assert!((1..=5).contains(&lines), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_or_strange_method_is_logged_in_part() {
    let server = Server::start(&example("people"), &[]);
    let long = "/%0a\"{}".to_owned() + &"x".repeat(1000);
    assert_eq!(request(server.address(), grpc(&long), b"").await.1, Some("12".to_owned()));
    server.wait_for_log("unknown_method");
    let log = server.log();
    assert!(log.lines().all(|line| line.len() < 1000), "{log}");
}
