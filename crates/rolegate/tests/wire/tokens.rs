//! Tokens that must be verified: each once, in turns, without delaying callers at other addresses.

use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use runtime::ActivePolicy;
use serde_json::{Value, json};
use server::checks::{Options, RunningServer};
use testbed::tokens::Signer;
use tokio::sync::mpsc;

use crate::support::*;

const POLICY: &str = "
version: 1
identity:
  basic: { realm: people, users: { alice: { password: \"{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=\" } } }
  jwt:
    - { issuer: https://id.example.com, audiences: [people], keys: { file: jwks.json }, claims: { user: sub } }
roles:
  authenticated: { allow: [GET /people] }
";

fn serve_tokens(signer: &Signer) -> RunningServer {
    serve_policy(POLICY, signer)
}

fn serve_policy(policy: &str, signer: &Signer) -> RunningServer {
    let files = document::MapFiles::new("policy.yaml", policy).and("jwks.json", signer.key_set());
    let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
    let authorizer = Authorizer::compile(Arc::new(loaded), &Default::default(), None).unwrap().0;
    let published = Arc::new(ArcSwapOption::from_pointee(authorizer));
    serve_with(ActivePolicy::new(published), Options { threads: 1, ..options() })
}

fn token(signer: &Signer, user: &str) -> String {
    bearer(signer, &claims_of(user))
}

fn claims_of(user: &str) -> Value {
    json!({ "iss": "https://id.example.com", "aud": "people", "sub": user, "exp": 4_000_000_000_u64 })
}

fn bearer(signer: &Signer, claims: &Value) -> String {
    format!("Bearer {}", signer.sign(&json!({ "alg": "ES256", "kid": "ES256" }), claims))
}

/// The claims of a token may make the response longer than is kept in memory.
#[tokio::test]
async fn a_request_whose_response_would_be_too_large_is_denied() {
    let signer = Signer::default();
    let headers: String = (0..10).map(|n| format!("x-note-{n}: \"{{claims.note}}\", ")).collect();
    let policy = format!("{POLICY}allow_response: {{ set_headers: {{ {headers} }} }}\n");
    let server = serve_policy(&policy, &signer);
    let client = connect(&server).await;
    let mut claims = claims_of("carol");
    claims["note"] = "n".repeat(6_000).into();
    assert!(check(&client, &from_address("192.0.2.1", &bearer(&signer, &claims))).await.is_ok());
    claims["note"] = "n".repeat(7_000).into();
    let reply = check(&client, &from_address("192.0.2.1", &bearer(&signer, &claims))).await;
    assert_eq!(reply.denied(), 400);
    assert_eq!(server.totals().checks.denied, [("response_too_large", 1)]);
}

fn from_address(address: &str, credentials: &str) -> Vec<u8> {
    from(address, "GET", "/people", &[("authorization", credentials)])
}

#[tokio::test]
async fn a_token_is_verified_once() {
    let signer = Signer::default();
    let server = serve_tokens(&signer);
    let client = connect(&server).await;
    let message = from_address("192.0.2.1", &token(&signer, "carol"));
    let replies: Vec<_> = (0..50)
        .map(|_| {
            let (client, message) = (client.clone(), message.clone());
            tokio::spawn(async move { check(&client, &message).await })
        })
        .collect();
    for reply in replies {
        assert!(reply.await.unwrap().is_ok());
    }
    assert!(check(&client, &message).await.is_ok());
    assert_eq!(server.totals().checks.tokens_verified, 1);
}

#[tokio::test]
async fn a_token_with_a_wrong_signature_is_invalid_each_time() {
    let signer = Signer::default();
    let server = serve_tokens(&signer);
    let client = connect(&server).await;
    let message = from_address("192.0.2.1", &token(&Signer::default(), "carol"));
    for _ in 0..3 {
        assert_eq!(check(&client, &message).await.denied(), 401);
    }
    assert_eq!(server.totals().checks.tokens_verified, 3);
}

/// Sends many tokens with wrong signatures from one address, and then `last`. Returns how many of
/// them were answered before it.
async fn answered_before(last: impl FnOnce(&Signer) -> Vec<u8>) -> usize {
    const FLOOD: usize = 700;
    let signer = Signer::default();
    let server = serve_tokens(&signer);
    let client = connect(&server).await;
    let alice = from_address("192.0.2.1", ALICE);
    assert!(check(&client, &alice).await.is_ok(), "the credentials of alice are cached now");
    let wrong = Signer::default();
    let flood = (0..FLOOD)
        .map(|number| from_address("198.51.100.7", &token(&wrong, &format!("user-{number}"))));
    let all: Vec<Vec<u8>> = flood.chain([last(&signer)]).collect();
    let (done, mut order) = mpsc::unbounded_channel();
    for (number, message) in all.into_iter().enumerate() {
        let mut client = client.clone().ready().await.unwrap();
        let (response, mut stream) = client.send_request(head().body(()).unwrap(), false).unwrap();
        stream.send_data(framed(&message), true).unwrap();
        let done = done.clone();
        tokio::spawn(async move {
            let reply = reply(response).await.unwrap();
            assert_eq!(reply.is_ok(), number == FLOOD, "{reply:?}");
            done.send(number).unwrap();
        });
    }
    let mut before = 0;
    while order.recv().await.unwrap() != FLOOD {
        before += 1;
    }
    before
}

#[tokio::test]
async fn a_flood_of_invalid_tokens_does_not_delay_cached_callers() {
    let before = answered_before(|_| from_address("192.0.2.1", ALICE)).await;
    assert!(before < 350, "{before} wrong tokens came first");
}

#[tokio::test]
async fn a_flood_of_invalid_tokens_does_not_delay_new_tokens_of_another_address() {
    let before = answered_before(|signer| from_address("192.0.2.1", &token(signer, "carol"))).await;
    assert!(before < 350, "{before} wrong tokens came first");
}
