//! Requests that are paused until a password is hashed or a token is verified.

use std::time::{Duration, Instant};

use testbed::client::Version;
use testbed::grpc::basic;
use testbed::policies::Example;

use super::{ALICE, PATIENT, authorization, start, with};

/// The worker thread serves other requests while passwords are hashed, and a request whose hash
/// takes too long gets 503.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_waits_for_its_hash_at_most_for_the_timeout() {
    let people = Example::named("people").unwrap();
    let stack = start(&people.file, &with(&["hash-timeout: 1ms", "hash-threads: 1"])).await;
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..40 {
        let mut connection = stack.connect(Version::Http1).await.unwrap();
        waiting.spawn(async move {
            let wrong = basic(&format!("alice:wrong-{number}"));
            connection
                .send("GET", "/people", "localhost", &authorization(&wrong), b"")
                .await
                .unwrap()
                .status
        });
    }
    let statuses = waiting.join_all().await;
    assert!(statuses.iter().all(|status| [401, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&503), "no hash took longer than a millisecond: {statuses:?}");
    // A thread of its own writes the lines, at its leisure.
    let until = Instant::now() + PATIENT;
    while !stack.decisions().iter().any(|line| line["reason"] == "deadline_exceeded") {
        assert!(Instant::now() < until, "{:?}", stack.decisions());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A client that leaves while its password is hashed costs nothing more, and the next one is
/// served.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_while_they_are_paused_do_no_harm() {
    let people = Example::named("people").unwrap();
    let stack = start(&people.file, &with(&["hash-threads: 1", "hash-timeout: 15s"])).await;
    for round in 0..20 {
        let mut connection = stack.connect(Version::Http2).await.unwrap();
        let wrong = authorization(&basic(&format!("alice:gone-{round}")));
        let left = tokio::time::timeout(
            Duration::from_millis(round % 5),
            connection.send("GET", "/people", "localhost", &wrong, b""),
        );
        drop(left.await);
    }
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    let answer = connection.send("GET", "/people", "localhost", &authorization(ALICE), b"").await;
    assert_eq!(answer.unwrap().status, 200);
}
