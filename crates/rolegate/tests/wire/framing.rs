//! Messages in several pieces, and bytes that are not a message.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use runtime::ActivePolicy;
use server::Address;
use server::checks::Options;

use crate::frames::*;
use crate::support::*;

/// Sends a body in these pieces, then ends the stream, and reads the answer.
async fn send(client: &Client, pieces: &[&[u8]]) -> Reply {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    for piece in pieces {
        stream.send_data(Bytes::copy_from_slice(piece), false).unwrap();
        tokio::task::yield_now().await;
    }
    stream.send_data(Bytes::new(), true).unwrap();
    reply(response).await.unwrap()
}

#[tokio::test]
async fn a_message_may_be_split_anywhere() {
    let server = serve();
    let client = connect(&server).await;
    let whole = framed(&by_alice());
    for at in [0, 1, 4, 5, 6, whole.len() - 1, whole.len()] {
        let (first, second) = whole.split_at(at);
        assert!(send(&client, &[first, second]).await.is_ok(), "{at}");
    }
    let bytes: Vec<&[u8]> = whole.chunks(1).collect();
    assert!(send(&client, &bytes).await.is_ok());
}

/// More of them than a connection continues itself, and some for longer than it does.
#[tokio::test]
async fn many_messages_whose_rest_comes_later_are_answered() {
    let server = serve();
    let client = connect(&server).await;
    let whole = framed(&by_alice());
    for pause in [Duration::ZERO, Duration::from_millis(20), Duration::from_millis(250)] {
        let mut begun = Vec::new();
        for number in 0..100 {
            let mut client = client.clone().ready().await.unwrap();
            let (response, mut stream) =
                client.send_request(head().body(()).unwrap(), false).unwrap();
            let at = number * whole.len() / 100;
            stream.send_data(whole.slice(..at), false).unwrap();
            begun.push((response, stream, whole.slice(at..)));
        }
        tokio::time::sleep(pause).await;
        assert!(check(&client, &by_alice()).await.is_ok());
        assert_eq!(server.totals().in_flight, 100);
        for (_, stream, rest) in begun.iter_mut().rev() {
            stream.send_data(rest.clone(), true).unwrap();
        }
        for (response, ..) in begun {
            assert!(reply(response).await.unwrap().is_ok(), "after {pause:?}");
        }
        assert_eq!(server.totals().in_flight, 0);
    }
}

#[tokio::test]
async fn an_unfinished_message_does_not_delay_other_streams() {
    let server = serve();
    let client = connect(&server).await;
    let whole = framed(&by_alice());
    let (first, second) = whole.split_at(20);
    let mut slow = client.clone().ready().await.unwrap();
    let (response, mut stream) = slow.send_request(head().body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::copy_from_slice(first), false).unwrap();
    for _ in 0..3 {
        assert!(check(&client, &by_alice()).await.is_ok());
    }
    assert_eq!(server.totals().in_flight, 1);
    stream.send_data(Bytes::copy_from_slice(second), true).unwrap();
    assert!(reply(response).await.unwrap().is_ok());
}

/// Many times as much as all windows together.
#[tokio::test]
async fn large_messages_reopen_the_flow_control_windows() {
    let server = serve();
    let client = connect(&server).await;
    let large =
        message_with_body(Shape::Raw, "GET", "/people", &[("authorization", ALICE)], 3 << 20);
    let medium =
        message_with_body(Shape::Raw, "GET", "/people", &[("authorization", ALICE)], 10_000);
    for _ in 0..4 {
        assert!(check(&client, &large).await.is_ok());
    }
    for _ in 0..300 {
        assert!(check(&client, &medium).await.is_ok());
    }
}

/// The memory of all is four times the maximum size of a message.
#[tokio::test]
async fn four_messages_of_the_maximum_size_may_arrive_at_once() {
    let whole = framed(&message_with_body(
        Shape::Raw,
        "GET",
        "/people",
        &[("authorization", ALICE)],
        9 << 20,
    ));
    // The 10 KiB are for what each takes beside its message.
    let options = Options { max_message_size: whole.len() + (10 << 10), ..options() };
    let server = serve_with(ActivePolicy::new(people()), options);
    let client = connect(&server).await;
    assert!(check(&client, &by_alice()).await.is_ok());
    let mut begun = Vec::new();
    for _ in 0..4 {
        let mut client = client.clone().ready().await.unwrap();
        let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
        stream.send_data(whole.slice(..whole.len() - 1), false).unwrap();
        begun.push((response, stream));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (_, stream) in &mut begun {
        stream.send_data(whole.slice(whole.len() - 1..), true).unwrap();
    }
    for (response, _) in begun {
        assert!(reply(response).await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_message_over_the_limit_is_denied_at_once() {
    let service = ActivePolicy::new(people());
    let server = serve_with(service, Options { max_message_size: 1000, ..options() });
    let client = connect(&server).await;
    let mut slow = client.clone().ready().await.unwrap();
    let (response, mut stream) = slow.send_request(head().body(()).unwrap(), false).unwrap();
    // Only the prefix; the rest is never sent.
    stream.send_data(Bytes::from_static(&[0, 0, 0, 3, 233]), false).unwrap();
    assert_eq!(reply(response).await.unwrap().denied(), 413);
    assert!(check(&client, &by_alice()).await.is_ok());
    drop(stream);
}

#[tokio::test]
async fn a_body_that_is_not_exactly_one_message_is_an_error() {
    let server = serve();
    let client = connect(&server).await;
    let whole = framed(&by_alice());
    let twice = [&whole[..], &whole].concat();
    let mut compressed = whole.to_vec();
    compressed[0] = 1;
    let mut strange = whole.to_vec();
    strange[0] = 2;
    let cases: [(&str, &[u8], &str); 9] = [
        ("nothing", b"", "13"),
        ("half a prefix", b"\0\0\0", "13"),
        ("a prefix without its message", &whole[..5], "13"),
        ("a message cut short", &whole[..whole.len() - 1], "13"),
        ("a message and a byte", &[&whole[..], b"\0"].concat(), "13"),
        ("two messages", &twice, "13"),
        ("a compressed message", &compressed, "12"),
        ("a flag that does not exist", &strange, "13"),
        ("an empty message", &[0; 5], "3"),
    ];
    for (what, bytes, code) in cases {
        assert_eq!(send(&client, &[bytes]).await.error(), code, "{what}");
    }
    assert_eq!(send(&client, &[&framed(b"\xFF\xFF garbage")]).await.error(), "3");
    assert_eq!(send(&client, &[&whole, &whole]).await.error(), "13");
    assert!(send(&client, &[&whole]).await.is_ok());
}

#[tokio::test]
async fn a_message_truncated_at_any_byte_is_never_allowed() {
    let server = serve();
    let client = connect(&server).await;
    let message = by_alice();
    assert!(check(&client, &message).await.is_ok());
    for length in 0..message.len() {
        let reply = check(&client, &message[..length]).await;
        assert!(!reply.is_ok(), "{length}");
    }
}

#[tokio::test]
async fn a_check_is_denied_if_the_rest_of_its_message_is_late() {
    let service = ActivePolicy::new(people());
    let server =
        serve_with(service, Options { request_timeout: Duration::from_millis(50), ..options() });
    let mut client = connect(&server).await.ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    stream.send_data(Bytes::from_static(&[0, 0, 0, 0, 9, 1]), false).unwrap();
    assert_eq!(reply(response).await.unwrap().denied(), 503);
    assert_eq!(server.totals().in_flight, 0);
}

/// The message is complete, but the stream has not ended.
#[tokio::test]
async fn a_check_is_denied_if_the_end_of_its_stream_is_late() {
    let service = ActivePolicy::new(people());
    let server =
        serve_with(service, Options { request_timeout: Duration::from_millis(50), ..options() });
    let mut client = connect(&server).await.ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    stream.send_data(framed(&by_alice()), false).unwrap();
    assert_eq!(reply(response).await.unwrap().denied(), 503);
    assert_eq!(server.totals().in_flight, 0);
}

#[tokio::test]
async fn a_request_that_is_not_grpc_gets_an_http_status() {
    let server = serve();
    let client = connect(&server).await;
    let uri = format!("http://rolegate{}", envoy::CHECK_PATH);
    let json = Request::post(&uri).header("content-type", "application/json");
    let near = Request::post(&uri).header("content-type", "application/grpcx");
    let none = Request::post(&uri);
    let get = Request::get(&uri).header("content-type", "application/grpc");
    for (head, status) in [(json, 415), (near, 415), (none, 415), (get, 405)] {
        let mut client = client.clone().ready().await.unwrap();
        let (response, _) = client.send_request(head.body(()).unwrap(), true).unwrap();
        let reply = reply(response).await.unwrap();
        assert_eq!((reply.http, reply.grpc), (status, None));
    }
    for content in ["application/grpc+proto", "application/grpc; charset=utf-8"] {
        let mut client = client.clone().ready().await.unwrap();
        let head = Request::post(&uri).header("content-type", content);
        let (response, mut stream) = client.send_request(head.body(()).unwrap(), false).unwrap();
        stream.send_data(framed(&by_alice()), true).unwrap();
        assert!(reply(response).await.unwrap().is_ok(), "{content}");
    }
}

#[tokio::test]
async fn trailers_after_a_message_are_ignored() {
    let server = serve();
    let mut client = connect(&server).await.ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    stream.send_data(framed(&by_alice()), false).unwrap();
    stream
        .send_trailers(
            [(http::HeaderName::from_static("x"), "y".parse().unwrap())].into_iter().collect(),
        )
        .unwrap();
    assert!(reply(response).await.unwrap().is_ok());
}

/// Envoy adds the `tracestate` of the client to its call if it records spans. It is as long as the
/// client makes it, up to Envoy's own limit (`max_request_headers_kb`: 60 by default, 96 in our
/// configurations).
#[tokio::test]
async fn a_check_with_a_long_tracestate_is_decided() {
    let server = serve();
    let client = connect(&server).await;
    for (kib, message) in
        [(60, by_alice()), (95, by_alice()), (95, message(Shape::Raw, "GET", "/people", &[]))]
    {
        let mut client = client.clone().ready().await.unwrap();
        let head = head().header("tracestate", "t".repeat(kib << 10));
        let (response, mut stream) = client.send_request(head.body(()).unwrap(), false).unwrap();
        stream.send_data(framed(&message), true).unwrap();
        let reply = reply(response).await.unwrap();
        assert!(reply.decision().is_some(), "{kib}: {reply:?}");
    }
}

/// Such heads come in several frames.
#[tokio::test]
async fn a_connection_is_closed_if_the_end_of_a_head_is_late() {
    let service = ActivePolicy::new(people());
    let server =
        serve_with(service, Options { request_timeout: Duration::from_secs(2), ..options() });
    let Address::Tcp(address) = server.addresses()[0] else { panic!() };
    let results = tokio::task::spawn_blocking(move || {
        let mut raw = Raw::open(address, &[]).unwrap();
        raw.acknowledge_settings().unwrap();
        let head = check_head();
        let (first, rest) = head.split_at(20);
        let begin = |stream| frame(HEADERS, END_STREAM, stream, first);
        let end = |stream| frame(CONTINUATION, END_HEADERS, stream, rest);
        // Each ends in time, though the connection is within one nearly always.
        for stream in [1, 3, 5, 7, 9] {
            raw.write(&begin(stream)).unwrap();
            std::thread::sleep(Duration::from_millis(500));
            raw.write(&end(stream)).unwrap();
        }
        let mut served = Reaction::default();
        while served.heads < 5 && served.closed == 0 {
            served += raw.reaction();
        }
        raw.write(&begin(11)).unwrap();
        let mut late = Reaction::default();
        while late.closed == 0 {
            late += raw.reaction();
        }
        served
    });
    let served = tokio::time::timeout(Duration::from_secs(60), results).await;
    let served = served.expect("the connection is closed").unwrap();
    assert!(served.heads >= 5 && served.closed == 0, "{served:?}");
}
