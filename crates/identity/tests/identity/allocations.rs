//! `crates/README.md`, invariant 6: the path of a known caller allocates nothing.

use allocation_counter::measure;
use identity::Identified;

use crate::settings::*;
use crate::signer;

fn allocations(auth: &Auth, header: &str) -> u64 {
    measure(|| {
        for _ in 0..100 {
            assert!(matches!(auth.identify(Some(header.as_bytes()), now(), attach), Identified::Known(_)));
        }
    })
    .count_total
}

#[test]
fn known_credentials_allocate_nothing() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&auth, &alice).is_ok());
    assert_eq!(allocations(&auth, &alice), 0);
}

#[test]
fn a_known_token_allocates_nothing() {
    let auth = compile(&tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")])))));
    let token = signer::bearer(&signer::token("ES256"));
    assert!(ask(&auth, &token).is_ok());
    assert_eq!(allocations(&auth, &token), 0);
}

#[test]
fn a_known_name_that_is_taken_on_trust_allocates_nothing() {
    let mut settings = basic(&[]);
    settings.basic.as_mut().unwrap().verify = false;
    let auth = compile(&settings);
    let name = header("whoever:x");
    assert!(ask(&auth, &name).is_ok());
    assert_eq!(allocations(&auth, &name), 0);
}

#[test]
fn an_anonymous_caller_allocates_nothing() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let asked = measure(|| assert!(matches!(auth.identify(None, now(), attach), Identified::Anonymous)));
    assert_eq!(asked.count_total, 0);
}
