//! Tokens that name a key which the last key set does not have: rotations, and floods of made-up
//! ones.

use std::time::{Duration, Instant};

use testbed::tokens::Signer;

use crate::client::{Answer, Envoy};
use crate::keys::{Issuer, check, key_set, lines, token};
use crate::process::{Server, wait_until};

#[tokio::test]
async fn the_first_token_finds_the_keys_and_a_rotation_is_seen_at_once() {
    let (old, new) = (Signer::default(), Signer::default());
    let issuer = Issuer::start(&key_set(&old, "old"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token(&old, "old")).await, Answer::Http(200));
    assert_eq!(issuer.fetches(), 1);
    issuer.publish(&key_set(&new, "new"));
    assert_eq!(
        check(&mut envoy, &token(&new, "new")).await,
        Answer::Http(401),
        "the key is not there yet"
    );
    wait_until(|| issuer.fetches() == 2, || "an early fetch".to_owned());
    server.wait_for_logs("keys changed", 2);
    let changes: Vec<_> = lines(&server, "keys changed");
    let named = |name: &str| changes.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
    assert_eq!(named("issuers"), ["https://id.example"; 2]);
    assert_eq!(named("added"), ["`old`", "`new`"]);
    assert_eq!(named("removed"), ["none", "`old`"]);
    assert_eq!(
        lines(&server, "a token has an unknown key id: fetching keys early")[0]["kid"],
        "new"
    );
    assert_eq!(check(&mut envoy, &token(&new, "new")).await, Answer::Http(200));
    assert_eq!(
        check(&mut envoy, &token(&old, "old")).await,
        Answer::Http(401),
        "the old key is gone"
    );
}

/// Otherwise nothing would tell an issuer that is late from a token of another one.
#[tokio::test]
async fn a_key_that_an_early_fetch_does_not_find_is_named() {
    let known = Signer::default();
    let issuer = Issuer::start(&key_set(&known, "known"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    assert_eq!(check(&mut envoy, &token(&known, "known")).await, Answer::Http(200));
    assert_eq!(check(&mut envoy, &token(&Signer::default(), "other")).await, Answer::Http(401));
    let message = "no such key id in the fetched keys, which have not changed: tokens with it get 401; it is looked for again after \
                   20 s or more";
    server.wait_for_logs(message, 1);
    assert_eq!(lines(&server, message)[0]["kid"], "other");
    assert_eq!(issuer.fetches(), 2);
}

/// Sends a token with the next of these `kid`s every 100 ms, one of them rightly signed and
/// published under that `kid` from then on. Returns once the new key works, with the number of
/// early fetches and how long all took.
async fn rotation_in_a_flood(kid_of: impl Fn(usize) -> String) -> (usize, Duration) {
    let started = Instant::now();
    let (old, new) = (Signer::default(), Signer::default());
    let issuer = Issuer::start(&key_set(&old, "old"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    // The flood goes on for a while before the rotation, so that it has used up the first early
    // fetch.
    for round in 0..20 {
        assert_eq!(check(&mut envoy, &token(&old, &kid_of(round))).await, Answer::Http(401));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    wait_until(|| issuer.fetches() == 2, || "the first fetch, and an early one".to_owned());
    issuer.publish(&key_set(&new, "new"));
    let rotated = Instant::now();
    for round in 20.. {
        assert_eq!(check(&mut envoy, &token(&old, &kid_of(round))).await, Answer::Http(401));
        if check(&mut envoy, &token(&new, "new")).await == Answer::Http(200) {
            break;
        }
        assert!(rotated.elapsed() < Duration::from_secs(60), "{}", server.log());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    (issuer.fetches() - 1, started.elapsed())
}

#[tokio::test]
async fn a_flood_of_unknown_key_ids_does_not_delay_a_rotation() {
    let (same, changing) = tokio::join!(
        rotation_in_a_flood(|_| "made-up".to_owned()),
        rotation_in_a_flood(|round| format!("made-up-{round}")),
    );
    for (early, took) in [same, changing] {
        assert!(
            (2..=most_early_fetches(took)).contains(&early),
            "{early} early fetches in {took:?}"
        );
    }
}

/// One at first, and one every ten seconds.
fn most_early_fetches(time: Duration) -> usize {
    1 + usize::try_from(time.as_secs() / 10).unwrap()
}

#[tokio::test]
async fn a_flood_of_unknown_key_ids_causes_one_fetch_in_ten_seconds() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let started = Instant::now();
    let mut round = 0;
    while issuer.fetches() < 3 {
        assert!(started.elapsed() < Duration::from_secs(60), "{}", server.log());
        assert_eq!(
            check(&mut envoy, &token(&signer, &format!("made-up-{round}"))).await,
            Answer::Http(401)
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
        round += 1;
    }
    let early = issuer.fetches() - 1;
    assert!(early <= most_early_fetches(started.elapsed()), "{early} in {:?}", started.elapsed());
    assert_eq!(check(&mut envoy, &token(&signer, "k")).await, Answer::Http(200));
}

/// A client that goes on with tokens of a key that is gone must not cause a fetch every ten seconds
/// for ever.
#[tokio::test]
async fn a_key_id_that_was_not_found_causes_fewer_and_fewer_fetches() {
    let signer = Signer::default();
    let issuer = Issuer::start(&key_set(&signer, "k"));
    let server = Server::start(&issuer.policy("1h").arg(), &[]);
    let mut envoy = Envoy::connect(server.address()).await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(12) {
        assert_eq!(check(&mut envoy, &token(&signer, "gone")).await, Answer::Http(401));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(issuer.fetches(), 2, "the first, and one for this key id");
}
