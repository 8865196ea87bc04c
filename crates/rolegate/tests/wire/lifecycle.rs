//! The lifecycle of connections: cancelled checks, the connection limit, and the drain of the
//! server.

use std::time::{Duration, Instant};

use runtime::ActivePolicy;
use runtime::counters::ErrorKind;
use server::checks::Options;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

use crate::frames::*;
use crate::support::*;

/// Envoy cancels checks when they time out: that must not close its connection.
#[tokio::test]
async fn a_burst_of_cancelled_checks_does_not_close_the_connection() {
    let server = serve();
    let client = connect(&server).await;
    assert!(check(&client, &by_alice()).await.is_ok());
    for _ in 0..3 {
        let mut calls = Vec::new();
        for _ in 0..1000 {
            let mut client = client.clone().ready().await.unwrap();
            let (response, mut stream) =
                client.send_request(head().body(()).unwrap(), false).unwrap();
            stream.send_data(framed(&by_alice()), true).unwrap();
            calls.push((response, stream));
        }
        for (_, stream) in &mut calls {
            stream.send_reset(h2::Reason::CANCEL);
        }
        drop(calls);
        assert!(check(&client, &by_alice()).await.is_ok());
    }
    assert_eq!((server.totals().connections, server.totals().connections_accepted), (1, 1));
}

/// The same with many connections, each of which may have few streams.
#[tokio::test]
async fn a_burst_of_cancelled_checks_closes_none_of_many_connections() {
    let server = serve();
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(connect(&server).await);
    }
    let server::Address::Tcp(address) = server.addresses()[0].clone() else { panic!("not TCP") };
    let left = tokio::task::spawn_blocking(move || {
        let mut raw = Raw::open(address, &[]).unwrap();
        raw.acknowledge_settings().unwrap();
        let message = framed(&message(Shape::Raw, "GET", "/people", &[]));
        for round in 0..25_u32 {
            let burst = (0..40).flat_map(|number| {
                let stream = 2 * (40 * round + number) + 1;
                let head = frame(HEADERS, END_HEADERS, stream, &check_head());
                let reset = frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
                [head, frame(DATA, END_STREAM, stream, &message), reset].concat()
            });
            raw.write(&burst.collect::<Vec<u8>>()).unwrap();
        }
        raw.write(&frame(HEADERS, END_HEADERS, 2001, &check_head())).unwrap();
        raw.write(&frame(DATA, END_STREAM, 2001, &message)).unwrap();
        // Other tests share the processors, so the answer may take its time.
        let (mut all, end) = (raw.reaction(), Instant::now() + Duration::from_secs(30));
        while all.data == 0 && all.closed == 0 && Instant::now() < end {
            all += raw.reaction();
        }
        all
    });
    let reaction = left.await.unwrap();
    assert!(reaction.calm == 0 && reaction.closed == 0 && reaction.data > 0, "{reaction:?}");
}

#[tokio::test]
async fn cancelled_checks_do_not_stay_in_flight() {
    let server = serve();
    let client = connect(&server).await;
    let check_message = message(Shape::Raw, "GET", "/people", &[("authorization", WRONG)]);
    for _ in 0..100 {
        let mut client = client.clone().ready().await.unwrap();
        let (_, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
        stream.send_data(framed(&check_message), true).unwrap();
        stream.send_reset(h2::Reason::CANCEL);
    }
    assert!(check(&client, &by_alice()).await.is_ok());
    wait_until(|| server.totals().in_flight == 0).await;
}

/// Neither those that are reset nor those whose connection ends, at once or after a while.
#[test]
fn cancelled_messages_do_not_stay_in_flight() {
    let server = serve();
    let unfinished = framed(&by_alice()).slice(..20);
    for pause in [Duration::ZERO, Duration::from_millis(150)] {
        let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let kept = client.block_on(async {
            let client = connect(&server).await;
            let mut streams = Vec::new();
            for _ in 0..20 {
                let mut client = client.clone().ready().await.unwrap();
                let (_, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
                stream.send_data(unfinished.clone(), false).unwrap();
                streams.push(stream);
            }
            wait_until(|| server.totals().in_flight == 20).await;
            tokio::time::sleep(pause).await;
            streams.drain(..10).for_each(|mut stream| stream.send_reset(h2::Reason::CANCEL));
            wait_until(|| server.totals().in_flight == 10).await;
            streams
        });
        // The socket is closed without another frame.
        drop(client);
        drop(kept);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(wait_until(|| server.totals().in_flight == 0));
    }
    let cancelled =
        server.totals().checks.errors.into_iter().find(|(kind, _)| *kind == ErrorKind::Cancelled);
    assert_eq!(cancelled, Some((ErrorKind::Cancelled, 40)));
}

async fn wait_until(condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "timeout");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn at_the_connection_limit_an_idle_connection_is_closed() {
    let service = ActivePolicy::new(people());
    let server = serve_with(service, Options { threads: 1, max_connections: 2, ..options() });
    let first = connect(&server).await;
    let second = connect(&server).await;
    assert!(check(&second, &by_alice()).await.is_ok());
    assert!(check(&second, &by_alice()).await.is_ok() && check(&first, &by_alice()).await.is_ok());
    // Now both are busy, and neither is closed for a third one.
    let server::Address::Tcp(address) = server.addresses()[0].clone() else { panic!("not TCP") };
    let mut third = TcpStream::connect(address).await.unwrap();
    assert_eq!(third.read(&mut [0; 1]).await.unwrap_or(0), 0, "closed");
    // A connection without a request for a second is idle.
    tokio::time::sleep(Duration::from_millis(1050)).await;
    assert!(check(&first, &by_alice()).await.is_ok());
    let third = connect(&server).await;
    assert!(check(&third, &by_alice()).await.is_ok());
    assert!(check(&first, &by_alice()).await.is_ok());
    assert!(second.ready().await.is_err());
    let totals = server.totals();
    assert_eq!((totals.connections_evicted, totals.connections_rejected), (1, 1));
}

/// Sends requests, one after the other, until GOAWAY says that no new stream may be opened.
/// Returns how many were answered.
async fn check_until_goaway(client: &Client) -> usize {
    let mut answered = 0;
    while let Ok(mut client) = client.clone().ready().await {
        let Ok((response, mut stream)) = client.send_request(head().body(()).unwrap(), false)
        else {
            break;
        };
        stream.send_data(framed(&by_alice()), true).unwrap();
        match reply(response).await {
            Ok(reply) => assert!(reply.is_ok()),
            // The client of `h2` may write the head of this request after its answer to the ping
            // that comes with GOAWAY. The server then names the stream as not processed, so a
            // client sends the request again.
            Err(error) => {
                assert!(error.is_go_away() && error.is_remote(), "{error}");
                assert_eq!(error.reason(), Some(h2::Reason::NO_ERROR));
                break;
            }
        }
        answered += 1;
    }
    answered
}

/// Requests are sent all the time, over whatever connection is open: none fails when one ends, and
/// none is cut off.
#[tokio::test]
async fn an_old_connection_is_drained_and_loses_no_request() {
    let service = ActivePolicy::new(people());
    let server = serve_with(
        service,
        Options { max_connection_age: Duration::from_millis(500), ..options() },
    );
    for _ in 0..3 {
        let client = connect(&server).await;
        assert!(check_until_goaway(&client).await > 0);
    }
    wait_until(|| server.totals().connections == 0).await;
}

#[tokio::test]
async fn a_connection_without_an_http2_preface_is_closed_after_the_timeout() {
    let service = ActivePolicy::new(people());
    let server =
        serve_with(service, Options { request_timeout: Duration::from_millis(1500), ..options() });
    let server::Address::Tcp(address) = server.addresses()[0].clone() else { panic!("not TCP") };
    let mut silent = TcpStream::connect(address).await.unwrap();
    let mut buffer = Vec::new();
    tokio::time::timeout(Duration::from_secs(60), silent.read_to_end(&mut buffer))
        .await
        .unwrap()
        .unwrap();
    wait_until(|| server.totals().connections == 0).await;
    // The server goes on: it answers a request that needs no hash, which would take longer than
    // this timeout.
    let anonymous = message(Shape::Raw, "GET", "/people", &[]);
    assert_eq!(check(&connect(&server).await, &anonymous).await.denied(), 401);
}

/// Requests sent before the drain are answered, and those sent until the client knows of it.
#[tokio::test]
async fn a_drain_loses_no_request() {
    let server = serve();
    let address = server.addresses()[0].clone();
    let clients = [connect(&server).await, connect(&server).await, connect(&server).await];
    assert!(check(&clients[0], &by_alice()).await.is_ok());
    let mut callers = tokio::task::JoinSet::new();
    for client in clients {
        callers.spawn(async move { check_until_goaway(&client).await });
    }
    // A check whose password is being hashed when the drain begins.
    let late = connect_to(&address).await;
    let hashing = tokio::spawn(async move {
        check(&late, &message(Shape::Raw, "GET", "/people", &[("authorization", WRONG)])).await
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(server.drain(Duration::from_secs(10)).await);
    while let Some(answered) = callers.join_next().await {
        assert!(answered.unwrap() > 0);
    }
    assert_eq!(hashing.await.unwrap().denied(), 401);
    let server::Address::Tcp(address) = address else { panic!("not TCP") };
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_drain_ends_at_its_deadline() {
    let server = serve();
    let mut client = connect(&server).await.ready().await.unwrap();
    let (response, _stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    wait_until(|| server.totals().in_flight == 1).await;
    assert!(!server.drain(Duration::from_millis(100)).await);
    assert!(reply(response).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_dropped_stops_at_once() {
    let server = serve();
    let client = connect(&server).await;
    assert!(check(&client, &by_alice()).await.is_ok());
    drop(server);
    let gone = tokio::time::timeout(Duration::from_secs(60), async {
        while client.clone().ready().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(gone.await.is_ok());
}
