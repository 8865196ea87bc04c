//! What clients see through a real Envoy while rolegate hangs, dies, comes back and stops.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use load::Protocol;
use testbed::client::Version;
use testbed::envoy::Settings;
use testbed::grpc::basic;
use testbed::policies::Example;
use testbed::{Options, Stack};
use tokio::task::JoinSet;

use super::under_load::{get, nothing_slipped_through, only_right_answers, statuses, traffic};
use super::{ALICE, PATIENT, authorization, people, start};

fn patient() -> Settings {
    Settings { timeout: PATIENT, ..Settings::default() }
}

/// To Envoy a timeout is an error, and an error is denied.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolegate_that_hangs_allows_nothing() {
    let hasty = Settings {
        timeout: Duration::from_millis(200),
        health_checks: false,
        ..Settings::default()
    };
    let stack = people(hasty, 1).await;
    stack.rolegates.first().unwrap().pause();
    for _ in 0..5 {
        assert_eq!(get(&stack).await, 503);
    }
    assert_eq!(stack.app.requests(), 0);
    stack.rolegates.first().unwrap().resume();
    eventually_allowed(&stack).await;
}

/// A client cannot make an Envoy that lets requests pass on errors let one pass because of a large
/// body. For overload and missed deadlines see `under_load`.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_denied_also_by_an_envoy_that_fails_open() {
    let with_request_body = Some(6 << 20);
    let open =
        Settings { failure_mode_allow: true, with_request_body, health_checks: false, ..patient() };
    let stack = people(open, 1).await;
    assert_eq!(get(&stack).await, 200);
    let mut connection = stack.connect(Version::Http1).await.unwrap();
    let body = vec![b'x'; 5 << 20];
    let answer = connection
        .send("POST", "/people", "localhost", &authorization(ALICE), &body)
        .await
        .unwrap();
    assert_eq!(answer.status, 413);
    assert_eq!(stack.app.requests(), 1, "the first one");
    assert_eq!(get(&stack).await, 200);
}

/// `SECURITY.md`, S8: more checks than may wait are denied at once, also by an Envoy that lets
/// requests pass on errors. (A gRPC error such as RESOURCE_EXHAUSTED would let them pass.) A caller
/// whose password is verified does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn more_checks_than_may_wait_allow_nothing() {
    let envoy = Settings { failure_mode_allow: true, health_checks: false, ..patient() };
    let arguments = vec!["--max-waiting-checks", "4", "--hash-threads", "1"];
    let people = Example::named("people").unwrap();
    let stack = start(&people.file, &Options { envoy, arguments, ..Options::default() }).await;
    assert_eq!(get(&stack).await, 200);
    let mut clients = JoinSet::new();
    for number in 0..100 {
        let mut connection = stack.connect(Version::Http1).await.unwrap();
        clients.spawn(async move {
            let wrong = authorization(&basic(&format!("alice:guess-{number}")));
            connection.send("GET", "/people", "localhost", &wrong, b"").await.unwrap().status
        });
    }
    for _ in 0..10 {
        assert_eq!(get(&stack).await, 200, "{}", stack.envoy.log());
    }
    let mut statuses = BTreeMap::<u16, usize>::new();
    while let Some(status) = clients.join_next().await {
        *statuses.entry(status.unwrap()).or_default() += 1;
    }
    assert_eq!(statuses.keys().collect::<Vec<_>>(), [&401, &503], "{statuses:?}");
    assert_eq!(stack.app.requests(), 11, "the allowed ones");
    let log = stack.rolegates.first().unwrap().log();
    assert_eq!(log.matches("`--max-waiting-checks` others wait").count(), 1, "{log}");
    assert_eq!(get(&stack).await, 200);
}

/// `SECURITY.md`, S22: a burst of 1,000 cancelled checks does not close the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cancelled_requests_close_no_connection() {
    let stack = people(Settings { health_checks: false, ..patient() }, 1).await;
    assert_eq!(get(&stack).await, 200);
    // While rolegate is stopped, all of them wait for it; then their clients disconnect at once.
    stack.rolegates.first().unwrap().pause();
    let mut clients = JoinSet::new();
    for _ in 0..50 {
        let connection = stack.connect(Version::Http2).await.unwrap();
        for _ in 0..20 {
            let mut connection = connection.share().unwrap();
            clients.spawn(async move {
                connection
                    .send("GET", "/people", "localhost", &authorization(ALICE), b"")
                    .await
                    .is_ok()
            });
        }
    }
    waiting(&stack, 1000).await;
    clients.shutdown().await;
    waiting(&stack, 0).await;
    stack.rolegates.first().unwrap().resume();
    for _ in 0..20 {
        assert_eq!(get(&stack).await, 200, "{}", stack.rolegates.first().unwrap().log());
    }
    let cancelled = stack.envoy.stat("cluster.rolegate.upstream_rq_tx_reset").await.unwrap();
    let closed = stack.envoy.stat("cluster.rolegate.upstream_cx_destroy_remote").await.unwrap();
    // By GOAWAY, after which Envoy closes the connection itself.
    let asked = stack.envoy.stat("cluster.rolegate.upstream_cx_close_notify").await.unwrap();
    assert_eq!((cancelled, closed, asked), (Some(1000), Some(0), Some(0)));
    assert_eq!(stack.app.requests(), 21);
}

/// Waits until Envoy has this many checks in flight.
async fn waiting(stack: &Stack, wanted: u64) {
    let until = Instant::now() + PATIENT;
    loop {
        let now = stack.envoy.stat("cluster.rolegate.upstream_rq_active").await.unwrap();
        if now == Some(wanted) {
            return;
        }
        assert!(Instant::now() < until, "{now:?} checks are in flight, not {wanted}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Repeats a request until it is allowed.
async fn eventually_allowed(stack: &Stack) {
    let until = Instant::now() + PATIENT;
    while get(stack).await != 200 {
        assert!(Instant::now() < until, "{}", stack.rolegates.first().unwrap().log());
    }
}

/// While rolegate is killed under load, no request passes; after its restart, requests are answered
/// again at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolegate_that_is_killed_and_started_again_allows_nothing_that_it_should_not() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut stack = people(patient(), 1).await;
        let traffic = traffic(&stack, protocol);
        traffic.more(200).await.unwrap();
        stack.rolegates[0].kill();
        traffic.more(200).await.unwrap();
        let before = stack.app.requests();
        traffic.more(200).await.unwrap();
        assert_eq!(stack.app.requests(), before, "without an answer no request passes");
        stack.rolegates[0].restart().await.unwrap();
        // Envoy needs a second to notice; then every request is answered as before.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let tally = traffic.stop().await.unwrap();
        nothing_slipped_through(&stack, &tally);
        assert_eq!(statuses(&tally.allowed), ["200", "503"], "{tally:?}");

        let after = super::under_load::traffic(&stack, protocol);
        after.more(400).await.unwrap();
        only_right_answers(&stack, &after.stop().await.unwrap());
    }
}

/// Two instances are stopped and started again in turn under load: no request fails.
#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_restart_fails_no_request() {
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let mut stack = people(patient(), 2).await;
        healthy(&stack, 2).await;
        let traffic = traffic(&stack, protocol);
        for instance in [0, 1] {
            traffic.more(200).await.unwrap();
            stack.rolegates[instance].terminate();
            let status = stack.rolegates[instance].wait(Duration::from_secs(30)).await.unwrap();
            assert!(status.success(), "{status}");
            traffic.more(200).await.unwrap();
            stack.rolegates[instance].restart().await.unwrap();
            healthy(&stack, 2).await;
        }
        traffic.more(200).await.unwrap();
        only_right_answers(&stack, &traffic.stop().await.unwrap());
    }
}

/// Waits until this many instances are healthy to Envoy.
async fn healthy(stack: &Stack, wanted: u64) {
    let until = Instant::now() + PATIENT;
    while stack.envoy.stat("cluster.rolegate.membership_healthy").await.unwrap() != Some(wanted) {
        assert!(Instant::now() < until, "not all instances are healthy");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
