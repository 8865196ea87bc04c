//! Passwords that must be hashed: their order, callers that disconnect, and reloads in the
//! meantime.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::ActivePolicy;
use server::checks::{Options, RunningServer};
use tokio::task::JoinHandle;

use crate::support::*;

const HONEST: &str = "192.0.2.1";
const FLOOD: &str = "198.51.100.7";

/// Sends this many checks at once with different wrong passwords from one address.
fn flood(client: &Client, count: usize) -> Vec<JoinHandle<Reply>> {
    let guess = |number: usize| {
        let wrong = base64_of(&format!("alice:guess-{number}"));
        let check_message = from(FLOOD, "GET", "/people", &[("authorization", &wrong)]);
        let client = client.clone();
        tokio::spawn(async move { check(&client, &check_message).await })
    };
    (0..count).map(guess).collect()
}

fn honest() -> Vec<u8> {
    from(HONEST, "GET", "/people", &[("authorization", ALICE)])
}

pub(crate) async fn wait_until(server: &RunningServer, condition: impl Fn(&RunningServer) -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition(server) {
        assert!(Instant::now() < end, "timeout: {:?}", server.totals());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// When an honest user is answered, hashes of the flood still wait.
#[tokio::test]
async fn a_flood_of_passwords_does_not_delay_another_address() {
    let server = serve();
    let client = connect(&server).await;
    let flood = flood(&client, 500);
    wait_until(&server, |server| server.totals().hashing.done >= 2).await;
    let before = server.totals().hashing;
    assert!(before.queued > 0, "{before:?}");
    assert!(check(&client, &honest()).await.is_ok());
    let after = server.totals().hashing;
    assert!(after.queued > 0, "the flood was hashed first: {before:?} {after:?}");
    flood.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_flood_that_fills_the_queue_displaces_only_its_own_checks() {
    let server = serve_with(ActivePolicy::new(people()), Options { hash_queue: 4, ..options() });
    let client = connect(&server).await;
    // Enough wrong passwords for this source to come last.
    for reply in flood(&client, 4) {
        assert_eq!(reply.await.unwrap().denied(), 401);
    }
    let honest = {
        let client = client.clone();
        let first = flood(&client, 2);
        wait_until(&server, |server| {
            let totals = server.totals();
            totals.hashing.done + totals.in_flight == 6
        })
        .await;
        let honest = tokio::spawn(async move { check(&client, &honest()).await });
        drop(first);
        honest
    };
    let mut displaced = 0;
    for reply in flood(&client, 50) {
        let denied = reply.await.unwrap().denied();
        assert!([401, 503].contains(&denied), "{denied}");
        displaced += u64::from(denied == 503);
    }
    assert!(honest.await.unwrap().is_ok());
    assert!(displaced > 0);
    assert_eq!(server.totals().hashing.denied, displaced);
}

/// Sends a check and does not read the answer.
pub(crate) async fn send(
    client: &Client,
    message: &[u8],
) -> (h2::client::ResponseFuture, h2::SendStream<bytes::Bytes>) {
    let mut client = client.clone().ready().await.unwrap();
    let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
    stream.send_data(framed(message), true).unwrap();
    (response, stream)
}

#[tokio::test]
async fn a_cancelled_check_is_not_hashed() {
    let server = serve();
    let client = connect(&server).await;
    let mut calls = Vec::new();
    for number in 0..100 {
        let wrong = base64_of(&format!("alice:guess-{number}"));
        let message = message(Shape::Raw, "GET", "/people", &[("authorization", &wrong)]);
        calls.push(send(&client, &message).await);
    }
    wait_until(&server, |server| server.totals().in_flight == 100).await;
    for (_, stream) in &mut calls {
        stream.send_reset(h2::Reason::CANCEL);
    }
    wait_until(&server, |server| server.totals().in_flight == 0).await;
    let hashing = server.totals().hashing;
    assert_eq!(hashing.queued, 0);
    assert!(hashing.abandoned >= 80, "{hashing:?}");
    assert!(hashing.done + hashing.abandoned <= 101, "{hashing:?}");
}

/// A policy of alice alone, with a hash of this password that takes long enough to be interrupted;
/// a different one each time.
pub(crate) fn slow_policy(password: &str) -> String {
    let rounds = NonZeroU32::new(1_500_000).unwrap();
    let hash = identity::hash_password(password, identity::HashAlgorithm::Pbkdf2Sha256 { rounds })
        .unwrap();
    format!(
        "version: 1\nidentity: {{ basic: {{ users: {{ alice: {{ password: \"{hash}\" }} }} }} }}\n\
         roles: {{ guest: {{ allow: [GET /people] }} }}\ngrants: {{ guest: {{ users: [alice] }} }}\n"
    )
}

/// Replaces the active policy as a reload does: verified credentials are carried over.
fn replace(published: &Published, policy: &str) {
    let previous = published.load_full();
    published.store(Some(Arc::new(compiled(policy, previous.as_deref()))));
}

/// Sends a check of alice and returns while a thread hashes her password.
async fn while_hashing(
    server: &RunningServer,
    client: &Client,
) -> (h2::client::ResponseFuture, h2::SendStream<bytes::Bytes>) {
    let sent = send(client, &by_alice()).await;
    wait_until(server, |server| {
        let totals = server.totals();
        totals.in_flight == 1 && totals.hashing.queued == 0
    })
    .await;
    assert_eq!(server.totals().hashing.done, 0, "the hash is still running");
    sent
}

#[tokio::test]
async fn a_hash_is_cached_even_if_its_caller_has_left() {
    let server = serve_with(ActivePolicy::new(publish(&slow_policy("wonderland"))), options());
    let client = connect(&server).await;
    let (response, mut stream) = while_hashing(&server, &client).await;
    stream.send_reset(h2::Reason::CANCEL);
    drop(response);
    wait_until(&server, |server| server.totals().hashing.done == 1).await;
    assert_eq!(server.totals().hashing.unawaited, 1);
    assert!(check(&client, &by_alice()).await.is_ok());
    assert_eq!(server.totals().hashing.done, 1);
}

/// The policy that is active when the answer is made decides.
#[tokio::test]
async fn a_check_that_waits_for_a_hash_is_decided_by_the_reloaded_policy() {
    let policy = slow_policy("wonderland");
    let without_user =
        policy.replace("alice: {", "eve: {").replace("users: [alice]", "users: [eve]");
    let without_grant = policy.replace("users: [alice]", "users: []");
    let without_rule = policy.replace("GET /people", "GET /other");
    for (changed, denied) in [(without_user, 401), (without_grant, 403), (without_rule, 403)] {
        let published = publish(&policy);
        let server = serve_with(ActivePolicy::new(published.clone()), options());
        let client = connect(&server).await;
        let (response, stream) = while_hashing(&server, &client).await;
        replace(&published, &changed);
        assert_eq!(reply(response).await.unwrap().denied(), denied, "{changed}");
        drop(stream);
        assert_eq!(check(&client, &by_alice()).await.denied(), denied, "{changed}");
    }
}

/// A reload changes the stored hash of a user while the password is hashed: the result no longer
/// counts.
#[tokio::test]
async fn a_password_is_hashed_again_if_a_reload_replaces_its_hash() {
    for (new, allowed) in [("slower", false), ("wonderland", true)] {
        let (published, changed) = (publish(&slow_policy("wonderland")), slow_policy(new));
        let server = serve_with(ActivePolicy::new(published.clone()), options());
        let client = connect(&server).await;
        let (response, stream) = while_hashing(&server, &client).await;
        replace(&published, &changed);
        let reply = reply(response).await.unwrap();
        assert_eq!(reply.is_ok(), allowed, "{new}");
        drop(stream);
        assert_eq!(server.totals().hashing.done, 2);
    }
}

#[tokio::test]
async fn a_check_that_waits_for_a_hash_is_an_error_without_a_policy() {
    let published = publish(&slow_policy("wonderland"));
    let server = serve_with(ActivePolicy::new(published.clone()), options());
    let client = connect(&server).await;
    let (response, _stream) = while_hashing(&server, &client).await;
    published.store(None);
    assert_eq!(reply(response).await.unwrap().error(), "14");
}
