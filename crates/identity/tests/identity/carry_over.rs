//! Reloads: verified credentials are carried over if the user's stored hash is the same.

use std::time::Duration;

use identity::{
    Credentials, CredentialsError, FetchedKeys, Limits, LocalCache, NotAuthenticated,
    VerificationResult,
};
use policy::model::Identity;

use crate::settings::*;
use crate::signer;

const OTHER_HASH: &str = "$2y$05$abcdefghijklmnopqrstuuA0vov2GDneHB3.8.cv9UF9g.RdvScIW";

/// An authenticator that replaces `previous`.
fn after(previous: &Auth, settings: &Identity) -> Auth {
    let mut auth = compile(settings);
    auth.carry_over(previous);
    auth
}

#[test]
fn verified_credentials_are_not_hashed_again_after_a_reload() {
    let before = compile(&basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&before, &alice).is_ok());
    let again = after(&before, &basic(&[("bob", BCRYPT), ("alice", BCRYPT)]));
    assert!(!is_pending(&again, &alice));
    assert!(
        is_pending(&again, &header("bob:wonderland")),
        "the credentials of bob were not verified before"
    );
    let twice = after(&again, &basic(&[("alice", BCRYPT)]));
    assert!(!is_pending(&twice, &alice));
    let thrice = after(&after(&twice, &basic(&[("alice", BCRYPT)])), &basic(&[("alice", BCRYPT)]));
    assert!(!is_pending(&thrice, &alice), "also without requests in between");
}

#[test]
fn a_password_is_hashed_again_if_its_stored_hash_changes() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&before, &alice).is_ok());
    let changed = after(&before, &basic(&[("alice", OTHER_HASH)]));
    assert!(is_pending(&changed, &alice));
    let back = after(&changed, &basic(&[("alice", BCRYPT)]));
    assert!(is_pending(&back, &alice), "dropped entries do not come back");
}

#[test]
fn a_removed_user_is_unauthenticated() {
    let before = compile(&basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&before, &alice).is_ok());
    assert!(authenticate(&after(&before, &basic(&[("bob", BCRYPT)])), &alice).is_err());
    assert!(authenticate(&after(&before, &Identity::default()), &alice).is_err());
}

#[test]
fn groups_and_prefixes_are_those_of_the_new_policy() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&before, &alice).is_ok());
    let mut settings = basic(&[("alice", BCRYPT)]);
    let changed = settings.basic.as_mut().unwrap();
    changed.user_prefix = "basic:".into();
    changed.users[0].groups = vec!["guests".into()];
    let known = authenticate_at(&after(&before, &settings), alice.as_bytes(), now()).unwrap();
    assert_eq!((&*known.subject.user, &*known.subject.groups[0]), ("basic:alice", "guests"));
    assert_eq!(known.attached, "basic:alice", "attach is called again");
}

#[test]
fn a_reload_does_not_extend_the_validity_of_credentials() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&before, &alice).is_ok());
    let again = after(&before, &basic(&[("alice", BCRYPT)]));
    assert!(!is_pending(&again, &alice), "it is moved to the cache");
    let later = now() + Limits::default().basic_ttl;
    assert!(is_pending_at(&again, &alice, later));
    assert!(is_pending_at(&after(&again, &basic(&[("alice", BCRYPT)])), &alice, later));
}

/// Callers whose credentials were verified before are renewed on use, even across reloads.
#[test]
fn credentials_in_use_are_not_hashed_again_across_reloads() {
    let users = [("alice", BCRYPT)];
    let mut auth = compile(&basic(&users));
    let alice = header("alice:wonderland");
    assert!(authenticate(&auth, &alice).is_ok());
    for round in 1..20 {
        let now = now() + Limits::default().basic_ttl * round / 2;
        auth = after(&auth, &basic(&users));
        assert!(try_authenticate(&auth, alice.as_bytes(), None, now).is_ok(), "in round {round}");
    }
}

#[test]
fn verified_before_is_carried_over_if_the_hash_is_the_same() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&before, &alice).is_ok());
    let later = now() + Limits::default().basic_ttl;
    let verified_before = |auth: &Auth| match try_authenticate(auth, alice.as_bytes(), None, later)
    {
        Err(NotAuthenticated::Pending(check)) => check.verified_before(),
        other => panic!("{other:?}"),
    };
    let again = after(&before, &basic(&[("alice", BCRYPT)]));
    assert!(verified_before(&again));
    assert!(
        verified_before(&after(&again, &basic(&[("alice", BCRYPT)]))),
        "also without requests in between"
    );
    assert!(!verified_before(&after(&before, &basic(&[("alice", OTHER_HASH)]))));
}

#[test]
fn unverified_credentials_are_not_carried_over_to_a_policy_that_verifies() {
    let mut unverified = basic(&[("alice", BCRYPT)]);
    unverified.basic.as_mut().unwrap().verify = false;
    let before = compile(&unverified);
    let wrong = header("alice:x");
    assert!(authenticate(&before, &wrong).is_ok());
    assert!(authenticate(&after(&before, &basic(&[("alice", BCRYPT)])), &wrong).is_err());
}

#[test]
fn the_number_of_carried_over_credentials_is_bounded() {
    let users = [("alice", BCRYPT), ("bob", BCRYPT), ("carol", BCRYPT)];
    let before = compile(&basic(&users));
    let headers = users.map(|(name, _)| header(format!("{name}:wonderland")));
    assert!(headers.iter().all(|value| authenticate(&before, value).is_ok()));
    let limits = Limits { basic_credentials: 2, ..Limits::default() };
    let mut again = Auth::compile(&basic(&users), &FetchedKeys::new(), limits).unwrap().0;
    again.carry_over(&before);
    assert_eq!(headers.iter().filter(|value| !is_pending(&again, value)).count(), 2);
}

/// The result of a verification that was begun under this policy.
fn verification_of(auth: &Auth, credentials: &str) -> VerificationResult {
    match try_authenticate(auth, header(credentials).as_bytes(), None, now()) {
        Err(NotAuthenticated::Pending(verification)) => verification.run(),
        other => panic!("{other:?}"),
    }
}

/// Whether the credentials of a verification are valid under a policy; `None` if they must be
/// verified again.
fn result_under(auth: &Auth, credentials: &str, result: &VerificationResult) -> Option<bool> {
    match try_authenticate(auth, header(credentials).as_bytes(), Some(result), now()) {
        Ok(_) => Some(true),
        Err(NotAuthenticated::Invalid(CredentialsError::BadPassword)) => Some(false),
        Err(NotAuthenticated::Pending(_)) => None,
        other => panic!("{other:?}"),
    }
}

/// A reload also applies to requests that wait for a hash: a verification that was begun under the
/// old policy counts under the new one only if the stored hash is the same.
#[test]
fn a_verification_during_a_reload_counts_only_if_the_hash_is_the_same() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let same = after(&before, &basic(&[("bob", OTHER_HASH), ("alice", BCRYPT)]));
    let changed = after(&before, &basic(&[("alice", OTHER_HASH)]));
    let gone = after(&before, &basic(&[("bob", BCRYPT)]));
    for (credentials, right) in [("alice:wonderland", true), ("alice:x", false)] {
        let result = verification_of(&before, credentials);
        let all = [&before, &same, &changed, &gone];
        let expected = [Some(right), Some(right), None, None];
        assert_eq!(
            all.map(|auth| result_under(auth, credentials, &result)),
            expected,
            "{credentials}"
        );
        // Nor is anything cached by a policy with other hashes, without Basic, or without
        // verification.
        let other_scheme = after(&before, &Identity::default());
        let mut unverified = basic(&[("alice", BCRYPT)]);
        unverified.basic.as_mut().unwrap().verify = false;
        let unverified = after(&before, &unverified);
        let cached = [&same, &changed, &gone, &other_scheme, &unverified]
            .map(|auth| auth.cache_result(&result, now(), attach));
        assert_eq!(cached, [right, false, false, false, false], "{credentials}");
    }
    assert!(is_pending(&changed, &header("alice:wonderland")), "nothing was cached there");
}

/// If the user is added during the hash of its decoy, the password must be checked against the new
/// hash.
#[test]
fn a_verification_of_an_unknown_user_counts_until_the_user_is_added() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let result = verification_of(&before, "bob:wonderland");
    let also_unknown = after(&before, &basic(&[("alice", BCRYPT), ("carol", BCRYPT)]));
    let other_decoy = after(&before, &basic(&[("alice", OTHER_HASH)]));
    let nobody = after(&before, &basic(&[]));
    let added = after(&before, &basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let all = [&before, &also_unknown, &other_decoy, &nobody, &added];
    let expected = [Some(false), Some(false), Some(false), Some(false), None];
    assert_eq!(all.map(|auth| result_under(auth, "bob:wonderland", &result)), expected);
    assert!(
        authenticate(&added, &header("bob:wonderland")).is_ok(),
        "verified against the new hash"
    );
}

/// A verification is cached even if its caller has left, and other callers may use it.
#[test]
fn a_verification_may_be_used_twice() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    let (right, wrong) =
        (verification_of(&auth, "alice:wonderland"), verification_of(&auth, "alice:x"));
    assert!(auth.cache_result(&right, now(), attach));
    let first = try_authenticate(&auth, alice.as_bytes(), None, now()).unwrap();
    assert!(auth.cache_result(&right, now(), attach));
    let second = try_authenticate(&auth, alice.as_bytes(), Some(&right), now()).unwrap();
    assert_eq!(first.entry, second.entry, "it is the same cache entry");
    for _ in 0..2 {
        assert!(!auth.cache_result(&wrong, now(), attach));
        assert_eq!(result_under(&auth, "alice:x", &wrong), Some(false));
        assert!(is_pending(&auth, &header("alice:x")), "a wrong password is never cached");
    }
}

#[test]
fn a_verification_does_not_count_for_other_credentials() {
    let auth = compile(&basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let alice = verification_of(&auth, "alice:wonderland");
    assert_eq!(result_under(&auth, "bob:wonderland", &alice), None);
    assert_eq!(result_under(&auth, "alice:x", &alice), None);
}

/// If the keys are replaced during the verification, the token must be verified with the new ones.
#[test]
fn a_token_verification_counts_only_for_its_own_key_set() {
    let settings = tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")]))));
    let before = compile(&settings);
    let token = signer::bearer(&signer::token("ES256"));
    let Err(NotAuthenticated::Pending(verification)) =
        try_authenticate(&before, token.as_bytes(), None, now())
    else {
        panic!("not pending");
    };
    let result = verification.run();
    let same = after(&before, &settings);
    assert!(matches!(
        try_authenticate(&same, token.as_bytes(), Some(&result), now()),
        Err(NotAuthenticated::Pending(_))
    ));
    assert!(!same.cache_result(&result, now(), attach));
    assert!(try_authenticate(&before, token.as_bytes(), Some(&result), now()).is_ok());
    assert!(!is_pending(&before, &token));
}

#[test]
fn a_token_that_expires_while_it_waits_is_invalid() {
    let auth = compile(&tokens_of(issuer(file(&signer::set(&[signer::jwk("ES256")])))));
    let claims = signer::claims_with("exp", Some((NOW + 1).into()));
    let token = signer::bearer(&signer::signed("ES256", &signer::header("ES256"), &claims));
    let Err(NotAuthenticated::Pending(verification)) =
        try_authenticate(&auth, token.as_bytes(), None, now())
    else {
        panic!("not pending");
    };
    let (result, later) = (verification.run(), now() + Duration::from_secs(62));
    assert!(!auth.cache_result(&result, later, attach));
    let Err(NotAuthenticated::Pending(again)) =
        try_authenticate(&auth, token.as_bytes(), Some(&result), later)
    else {
        panic!("not pending");
    };
    let error = try_authenticate(&auth, token.as_bytes(), Some(&again.run()), later).unwrap_err();
    assert!(matches!(error, NotAuthenticated::Invalid(CredentialsError::Expired)), "{error:?}");
}

#[test]
fn a_local_cache_is_not_used_under_another_policy() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    let mut cache = LocalCache::default();
    assert!(authenticate(&before, &alice).is_ok());
    assert!(
        before
            .authenticate(
                Some(Credentials::Authorization(alice.as_bytes())),
                None,
                now(),
                &mut cache,
                attach
            )
            .is_ok()
    );
    let changed = after(&before, &basic(&[("alice", OTHER_HASH)]));
    let authenticated = changed.authenticate(
        Some(Credentials::Authorization(alice.as_bytes())),
        None,
        now(),
        &mut cache,
        attach,
    );
    assert!(matches!(authenticated, Err(NotAuthenticated::Pending(_))));
}

/// The cache of tokens ends with its key set.
#[test]
fn tokens_are_verified_again_under_a_new_key_set() {
    let jwks = signer::set(&[signer::jwk("ES256")]);
    let before = compile(&tokens_of(issuer(file(&jwks))));
    let token = signer::bearer(&signer::token("ES256"));
    assert!(authenticate(&before, &token).is_ok());
    let rotated = signer::set(&[signer::jwk("ES384")]);
    let again = after(&before, &tokens_of(issuer(file(&rotated))));
    assert_eq!(authenticate(&again, &token).unwrap_err(), CredentialsError::UnknownKey);
}

#[test]
fn credentials_are_verified_again_when_the_clock_is_set_back_far() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(authenticate(&auth, &alice).is_ok());
    let back = |seconds| now() - Duration::from_secs(seconds);
    let pending = |now| is_pending_at(&auth, &alice, now);
    assert_eq!([pending(back(1)), pending(back(3_600))], [false, true]);
}
