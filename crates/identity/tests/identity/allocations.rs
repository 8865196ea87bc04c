//! `crates/README.md`, invariant 6: the request of a caller whose credentials are cached allocates
//! nothing.

use std::time::Duration;

use allocation_counter::measure;
use identity::{Credentials, CredentialsError, LocalCache};

use crate::settings::*;
use crate::signer;

/// The allocations of a hundred requests whose caller is in the thread's own cache, and of a
/// hundred whose caller is only in the shared cache.
fn allocations(auth: &Auth, header: &str) -> [u64; 2] {
    let cache = &mut LocalCache::default();
    let mut authenticates = |now| {
        auth.authenticate(
            Some(Credentials::Authorization(header.as_bytes())),
            None,
            now,
            cache,
            attach,
        )
        .is_ok()
    };
    assert!(authenticates(now()));
    let own = measure(|| assert!((0..100).all(|_| authenticates(now()))));
    let shared = measure(|| {
        assert!((0..100).all(|second| authenticates(now() + Duration::from_secs(second))))
    });
    [own.count_total, shared.count_total]
}

#[test]
fn cached_credentials_allocate_nothing() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&auth, &alice).is_ok());
    assert_eq!(allocations(&auth, &alice), [0, 0]);
}

#[test]
fn a_known_token_allocates_nothing() {
    let auth = compile(&tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")])))));
    let token = signer::bearer(&signer::token("ES256"));
    assert!(authenticate(&auth, &token).is_ok());
    assert_eq!(allocations(&auth, &token), [0, 0]);
}

#[test]
fn a_known_user_allocates_nothing_without_password_verification() {
    let mut settings = basic(&[]);
    settings.basic.as_mut().unwrap().verify = false;
    let auth = compile(&settings);
    let name = header("whoever:x");
    assert!(authenticate(&auth, &name).is_ok());
    assert_eq!(allocations(&auth, &name), [0, 0]);
}

#[test]
fn an_anonymous_caller_allocates_nothing() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let mut cache = LocalCache::default();
    let counted = measure(|| {
        assert!(matches!(auth.authenticate(None, None, now(), &mut cache, attach), Ok(None)))
    });
    assert_eq!(counted.count_total, 0);
}

/// Whoever floods a server with invalid tokens makes it write this for each, on the threads that
/// serve requests.
#[test]
fn what_an_invalid_token_says_takes_one_decoding() {
    let auth = compile(&tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")])))));
    let many: Vec<String> = (0..300).map(|number| format!("claim-{number}")).collect();
    let mut claims = signer::claims_with("exp", Some((NOW - 372).into()));
    claims["many"] = many.into();
    let token = signer::bearer(&signer::signed("ES256", &signer::header("ES256"), &claims));
    let text = claims.to_string();
    let decoding = measure(|| assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok()));
    let said = measure(|| {
        let said = auth.attempted(
            Credentials::Authorization(token.as_bytes()),
            CredentialsError::Expired,
            now(),
        );
        assert!(said.user.is_some() && said.issuer.is_some() && said.detail.is_some());
    });
    let (said, decoding) = (said.count_total, decoding.count_total);
    assert!(said < decoding * 3 / 2, "{said} allocations, {decoding} to decode the claims once");
}
