//! What it costs to know who is calling: known credentials and tokens, and tokens that are seen for the first time.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a benchmark that cannot be set up, or whose answer is wrong, stops"
)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::encoding::{AsBigEndian as _, EcPublicKeyUncompressedBin};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use criterion::{Criterion, criterion_group, criterion_main};
use identity::{Authenticator, FetchedKeys, Identified, Limits, Recipe, hash_password};
use policy::model::{Basic, BasicUser, ClaimPath, Claims, Identity, Issuer, Keys, Secret};
use policy::problem::Place;
use serde_json::json;

const NOW: Duration = Duration::from_secs(1_800_000_000);

fn identify(criterion: &mut Criterion) {
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let settings = Identity { basic: Some(basic()), jwt: vec![issuer(&key)] };
    let forgetful = Limits { tokens: 0, ..Limits::default() };
    let authenticator = compile(&settings, Limits::default());
    let credentials = format!("Basic {}", STANDARD.encode("alice:wonderland")).into_bytes();
    let token = token(&key).into_bytes();
    sign_in(&authenticator, &credentials);
    let forgetful = compile(&settings, forgetful);
    let mut group = criterion.benchmark_group("identify");
    group.bench_function("anonymous", |bencher| {
        bencher.iter(|| assert!(matches!(authenticator.identify(None, NOW, |_| ()), Identified::Anonymous)));
    });
    group.bench_function("known credentials", |bencher| {
        bencher.iter(|| is_known(&authenticator, &credentials))
    });
    group.bench_function("known token", |bencher| bencher.iter(|| is_known(&authenticator, &token)));
    group.bench_function("new ES256 token", |bencher| bencher.iter(|| is_known(&forgetful, &token)));
    group.finish();
}

fn is_known(authenticator: &Authenticator<()>, header: &[u8]) {
    match authenticator.identify(Some(black_box(header)), NOW, |_| ()) {
        Identified::Known(known) => assert_eq!(&*known.subject.user, "alice"),
        other => panic!("{other:?}"),
    }
}

fn sign_in(authenticator: &Authenticator<()>, credentials: &[u8]) {
    let Identified::Pending(check) = authenticator.identify(Some(credentials), NOW, |_| ()) else {
        panic!("the first time costs the hash")
    };
    assert!(matches!(authenticator.finish(check.run(), NOW, |_| ()), Identified::Known(_)));
}

fn compile(settings: &Identity, limits: Limits) -> Authenticator<()> {
    Authenticator::compile_with(settings, &FetchedKeys::new(), None, limits).unwrap().0
}

fn basic() -> Basic {
    let alice = BasicUser {
        name: "alice".into(),
        password: Some(Secret(hash_password("wonderland", Recipe::Bcrypt { cost: 4 }).unwrap().into())),
        groups: Vec::new(),
        at: place(),
    };
    Basic {
        realm: "people".into(),
        users: vec![alice],
        verify: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    }
}

fn issuer(key: &EcdsaKeyPair) -> Issuer {
    let point: EcPublicKeyUncompressedBin<'_> = key.public_key().as_be_bytes().unwrap();
    let (x, y) = point.as_ref()[1..].split_at(32);
    let encode = |bytes| URL_SAFE_NO_PAD.encode(bytes);
    let jwks =
        json!({ "keys": [{ "kty": "EC", "crv": "P-256", "kid": "1", "x": encode(x), "y": encode(y) }] });
    Issuer {
        issuer: "https://id.example.com".into(),
        audiences: vec!["people".into()],
        keys: Keys::File {
            path: "jwks.json".into(),
            bytes: jwks.to_string().into_bytes().into(),
            at: place(),
        },
        claims: Claims {
            user: ClaimPath(vec!["preferred_username".into()]),
            roles: Some(ClaimPath(vec!["realm_access".into(), "roles".into()])),
            groups: None,
        },
        clock_skew: Duration::from_secs(60),
        required_type: None,
        max_age: None,
        roles_from_token: true,
        user_prefix: "".into(),
        group_prefix: "".into(),
        at: place(),
    }
}

/// A token with about as many claims as a real one has: 900 bytes.
fn token(key: &EcdsaKeyPair) -> String {
    let header = json!({ "alg": "ES256", "kid": "1", "typ": "JWT" });
    let claims = json!({
        "iss": "https://id.example.com", "aud": ["people", "account"], "sub": "8d1a1c3e-51b4-4b2e-9d5f-3d2f1f6f1d11",
        "exp": NOW.as_secs() + 300, "iat": NOW.as_secs(), "jti": "b1946ac9-2492-d234-7c62-35b4d2611184",
        "typ": "Bearer", "azp": "frontend", "acr": "1", "scope": "openid email profile", "email_verified": true,
        "session_state": "0e1f8a5e-93d2-4c77-a6a5-0f4d3c2b1a09", "allowed-origins": ["https://www.example.com"],
        "realm_access": { "roles": ["guest", "offline_access", "uma_authorization"] },
        "name": "Alice Liddell", "preferred_username": "alice", "email": "alice@example.com",
    });
    let encode = |text: String| URL_SAFE_NO_PAD.encode(text);
    let message = [encode(header.to_string()), encode(claims.to_string())].join(".");
    let signature = key.sign(&SystemRandom::new(), message.as_bytes()).unwrap();
    format!("Bearer {message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn place() -> Place {
    Place { file: Arc::from(Path::new("policy.yaml")), line: 1, column: 1 }
}

criterion_group!(benches, identify);
criterion_main!(benches);
