//! More checks than may wait: those beyond the limit are denied at once, the others are decided,
//! and callers that need not wait do not notice.

use std::time::Duration;

use bytes::Bytes;
use h2::client::ResponseFuture;
use runtime::ActivePolicy;
use server::checks::{Options, Overload, RunningServer};

use crate::hashing::{send, wait_until};
use crate::support::*;

const MAX: usize = 8;
const MORE: usize = 40;

fn small(hash_queue: usize) -> RunningServer {
    let options = Options { max_waiting_checks: MAX, hash_queue, ..options() };
    serve_with(ActivePolicy::new(people()), options)
}

/// `GET /people` by alice with a wrong password, a different one for each number.
fn guess(number: usize) -> Vec<u8> {
    let wrong = base64_of(&format!("alice:guess-{number}"));
    message(Shape::Raw, "GET", "/people", &[("authorization", &wrong)])
}

/// Begins a check of alice, and returns what is to be sent to end it.
async fn begin(client: &Client) -> (ResponseFuture, h2::SendStream<Bytes>, Bytes) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    let mut first = framed(&by_alice());
    let rest = first.split_off(first.len() / 2);
    stream.send_data(first, false).unwrap();
    (response, stream, rest)
}

/// Sends a check in two parts until it is allowed. One whose second part is later than 100 ms may
/// be denied. Returns how many were.
async fn check_in_two_parts(client: &Client) -> u64 {
    let mut denied = 0;
    loop {
        let (response, mut stream, rest) = begin(client).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        stream.send_data(rest, true).unwrap();
        if reply(response).await.unwrap().is_ok() {
            return denied;
        }
        denied += 1;
        assert!(denied < 100, "no check in two parts is allowed");
    }
}

fn overloads(server: &RunningServer, wanted: Overload) -> u64 {
    let totals = server.totals();
    totals.overloads.iter().find(|(each, _)| *each == wanted).unwrap().1
}

#[tokio::test]
async fn a_check_that_cannot_wait_is_denied_at_once() {
    let server = small(256);
    let client = connect(&server).await;
    assert!(check(&client, &by_alice()).await.is_ok());
    for _ in 0..2 {
        let mut begun = Vec::new();
        for _ in 0..MAX {
            begun.push(begin(&client).await);
        }
        wait_until(&server, |server| server.totals().in_flight == MAX as u64).await;
        // They count after 100 ms.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (hashed, before) =
            (server.totals().hashing.done, overloads(&server, Overload::WaitingChecks));
        for number in 0..MORE {
            assert_eq!(check(&client, &guess(number)).await.denied(), 503);
            assert!(
                check(&client, &by_alice()).await.is_ok(),
                "a caller whose credentials are cached"
            );
        }
        // The same, where the message arrives in two parts.
        let late = check_in_two_parts(&client).await;
        let (response, _stream, _) = begin(&client).await;
        assert_eq!(reply(response).await.unwrap().denied(), 503, "one more slow message");
        assert_eq!(server.totals().hashing.done, hashed, "none of them was hashed");
        for (response, mut stream, rest) in begun {
            stream.send_data(rest, true).unwrap();
            assert!(reply(response).await.unwrap().is_ok());
        }
        wait_until(&server, |server| server.totals().in_flight == 0).await;
        assert_eq!(overloads(&server, Overload::WaitingChecks) - before, MORE as u64 + 1 + late);
    }
    assert_eq!(check(&client, &guess(MORE)).await.denied(), 401);
}

/// Passwords that wait to be hashed take the same places.
#[tokio::test]
async fn passwords_that_cannot_wait_are_denied_at_once_and_the_others_decided() {
    let server = small(256);
    let client = connect(&server).await;
    let mut sent = Vec::new();
    for number in 0..MAX + MORE {
        sent.push(send(&client, &guess(number)).await);
    }
    let mut decided = 0;
    for (response, _stream) in sent {
        let denied = reply(response).await.unwrap().denied();
        assert!([401, 503].contains(&denied), "{denied}");
        decided += u64::from(denied == 401);
    }
    let denied = overloads(&server, Overload::WaitingChecks);
    assert_eq!(decided + denied, (MAX + MORE) as u64);
    assert!(decided >= MAX as u64 && denied > 0, "{decided} decided, {denied} denied");
    assert_eq!(server.totals().hashing.done, decided);
    assert!(check(&client, &by_alice()).await.is_ok());
}

/// Who guesses passwords with requests of 57 KB takes neither the memory that messages of known
/// callers need, nor more than a share of that for verifications.
#[tokio::test]
async fn large_requests_with_wrong_passwords_do_not_lock_out_known_callers() {
    let server = serve_with(ActivePolicy::new(people()), options());
    let (client, attacker) = (connect(&server).await, connect(&server).await);
    assert!(check(&client, &by_alice()).await.is_ok());
    let cookie = "c".repeat(57 << 10);
    let guess = |number: usize| {
        let wrong = base64_of(&format!(
            "alice:guess-{}",
            if number.is_multiple_of(2) { number } else { 1 }
        ));
        message(Shape::Raw, "GET", "/people", &[("authorization", &wrong), ("cookie", &cookie)])
    };
    let mut sent = Vec::new();
    // All answers together fit the window of the connection, because they are read at the end.
    for number in 0..120 {
        sent.push(send(&attacker, &guess(number)).await);
        if number % 10 == 9 {
            check_in_two_parts(&client).await;
        }
    }
    for (response, _stream) in sent {
        let denied = reply(response).await.unwrap().denied();
        assert!([401, 503].contains(&denied), "{denied}");
    }
    let totals = server.totals();
    assert!(
        overloads(&server, Overload::ClientNetwork) > 0,
        "{:?} {:?}",
        totals.overloads,
        totals.hashing
    );
    assert_eq!(overloads(&server, Overload::Memory), 0);
}

/// Where the queue for hashes is shorter, it is what is counted.
#[tokio::test]
async fn an_overload_is_counted_by_the_limit_that_was_reached() {
    let server = small(1);
    let client = connect(&server).await;
    let mut sent = Vec::new();
    for number in 0..MAX {
        sent.push(send(&client, &guess(number)).await);
    }
    let mut denied = 0;
    for (response, _stream) in sent {
        denied += u64::from(reply(response).await.unwrap().denied() == 503);
    }
    assert!(denied > 0);
    assert_eq!(overloads(&server, Overload::HashQueue), denied);
    assert_eq!(overloads(&server, Overload::WaitingChecks), 0);
}
