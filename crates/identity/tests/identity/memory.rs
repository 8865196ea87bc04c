//! The memory of cached credentials is bounded, whatever callers send.

use allocation_counter::measure;
use identity::{Credentials, FetchedKeys, Limits, LocalCache};
use policy::model::Identity;

use crate::settings::*;
use crate::signer;

const BOUND: usize = 4 << 20;

/// The bytes that are still allocated after these callers have been authenticated, and how many of
/// them are cached.
fn cached(settings: &Identity, headers: &[String]) -> (usize, usize) {
    let limits = Limits { basic_bytes: BOUND, token_bytes: BOUND, ..Limits::default() };
    let auth = Auth::compile(settings, &FetchedKeys::new(), limits).unwrap().0;
    let allocated = measure(|| {
        headers.iter().for_each(|header| drop(authenticate_at(&auth, header.as_bytes(), now())))
    });
    let is_evicted = |header: &&String| {
        let calls = std::cell::Cell::new(0);
        let attach = |_: &identity::Subject| {
            calls.set(calls.get() + 1);
            String::new()
        };
        let mut cache = LocalCache::default();
        let known = auth
            .authenticate(
                Some(Credentials::Authorization(header.as_bytes())),
                None,
                now(),
                &mut cache,
                attach,
            )
            .is_ok();
        calls.get() > 0 || !known
    };
    // The newest first. The first evicted one ends the count, before its look-up evicts another.
    let count = headers.iter().rev().take_while(|header| !is_evicted(header)).count();
    (usize::try_from(allocated.bytes_current).unwrap(), count)
}

/// The limit is not exceeded, and the counted memory is close to the allocated memory.
fn assert_bounded(settings: &Identity, headers: &[String]) {
    let (bytes, count) = cached(settings, headers);
    assert!(count < headers.len(), "all {count} are cached");
    assert!((BOUND / 3..=BOUND).contains(&bytes), "{count} callers take {bytes} bytes");
}

fn without_verification() -> Identity {
    let mut settings = basic(&[]);
    settings.basic.as_mut().unwrap().verify = false;
    settings
}

/// 70,000 names of 1.5 KB once took 225 MiB (November 2026).
#[test]
fn long_unverified_names_are_bounded() {
    let headers: Vec<String> =
        (0..5_000).map(|number| header(format!("{number:01400}:x"))).collect();
    assert_bounded(&without_verification(), &headers);
}

#[test]
fn short_unverified_names_are_bounded() {
    let headers: Vec<String> = (0..20_000).map(|number| header(format!("{number}:x"))).collect();
    assert_bounded(&without_verification(), &headers);
}

#[test]
fn verified_credentials_are_bounded() {
    let users: Vec<String> = (0..15_000).map(|number| format!("user{number}")).collect();
    let sha1 = "{SHA}tiY7sUhYKUwI5L3866kDY+ENcrQ=";
    let users: Vec<(&str, &str)> = users.iter().map(|name| (name.as_str(), sha1)).collect();
    let headers: Vec<String> =
        users.iter().map(|(name, _)| header(format!("{name}:wonderland"))).collect();
    assert_bounded(&basic(&users), &headers);
}

fn tokens(count: usize, claims: impl Fn(usize) -> serde_json::Value) -> Vec<String> {
    let token = |number| {
        signer::bearer(&signer::signed("HS256", &signer::header("HS256"), &claims(number)))
    };
    (0..count).map(token).collect()
}

fn issuer_of_tokens() -> Identity {
    tokens_of(issuer(file(&signer::set(&[signer::jwk("HS256")]))))
}

#[test]
fn tokens_are_bounded() {
    let claims = |number: usize| signer::claims_with("jti", Some(number.into()));
    assert_bounded(&issuer_of_tokens(), &tokens(12_000, claims));
}

/// A map of one member takes 640 bytes and eight of text: the claims of such tokens take 80 times
/// as much as their text.
#[test]
fn tokens_with_claims_that_take_much_memory_are_bounded() {
    let claims = |number: usize| {
        let mut claims = signer::claims_with("jti", Some(number.into()));
        claims["x"] = vec![serde_json::json!({ "a": 0 }); 100].into();
        claims
    };
    assert_bounded(&issuer_of_tokens(), &tokens(12_000, claims));
}

#[test]
fn tokens_with_many_groups_are_bounded() {
    let groups = |number: usize| {
        signer::claims_with(
            "groups",
            Some((0..200).map(|group| format!("{number} {group}")).collect()),
        )
    };
    assert_bounded(&issuer_of_tokens(), &tokens(500, groups));
}
