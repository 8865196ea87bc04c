//! A reload: who had signed in stays so where nothing about him changed, and only there.

use std::sync::Arc;
use std::time::Duration;

use identity::{CredentialsError, FetchedKeys, Identified, Limits, PasswordChecked};
use policy::model::Identity;

use crate::settings::*;
use crate::signer;

const OTHER_HASH: &str = "$2y$05$abcdefghijklmnopqrstuuA0vov2GDneHB3.8.cv9UF9g.RdvScIW";

fn after(previous: &Auth, settings: &Identity) -> Auth {
    Auth::compile(settings, &FetchedKeys::new(), Some(previous)).unwrap().0
}

#[test]
fn a_reload_hashes_nothing_again() {
    let before = compile(&basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&before, &alice).is_ok());
    let again = after(&before, &basic(&[("bob", BCRYPT), ("alice", BCRYPT)]));
    assert!(!is_pending(&again, &alice));
    assert!(is_pending(&again, &header("bob:wonderland")), "bob had not signed in");
    let twice = after(&again, &basic(&[("alice", BCRYPT)]));
    assert!(!is_pending(&twice, &alice));
    let thrice = after(&after(&twice, &basic(&[("alice", BCRYPT)])), &basic(&[("alice", BCRYPT)]));
    assert!(!is_pending(&thrice, &alice), "also where nobody asked in between");
}

#[test]
fn a_changed_hash_is_hashed_again() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&before, &alice).is_ok());
    let changed = after(&before, &basic(&[("alice", OTHER_HASH)]));
    assert!(is_pending(&changed, &alice));
    let back = after(&changed, &basic(&[("alice", BCRYPT)]));
    assert!(is_pending(&back, &alice), "what was dropped does not come back");
}

#[test]
fn a_user_that_is_gone_stays_out() {
    let before = compile(&basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&before, &alice).is_ok());
    assert!(ask(&after(&before, &basic(&[("bob", BCRYPT)])), &alice).is_err());
    assert!(ask(&after(&before, &Identity::default()), &alice).is_err());
}

#[test]
fn groups_and_prefixes_are_those_of_the_new_policy() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&before, &alice).is_ok());
    let mut settings = basic(&[("alice", BCRYPT)]);
    let changed = settings.basic.as_mut().unwrap();
    changed.user_prefix = "basic:".into();
    changed.users[0].groups = vec!["guests".into()];
    let known = ask_at(&after(&before, &settings), alice.as_bytes(), now()).unwrap();
    assert_eq!((&*known.subject.user, &*known.subject.groups[0]), ("basic:alice", "guests"));
    assert_eq!(known.attached, "basic:alice", "attached anew");
}

#[test]
fn a_reload_does_not_lengthen_the_time() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&before, &alice).is_ok());
    let again = after(&before, &basic(&[("alice", BCRYPT)]));
    assert!(!is_pending(&again, &alice), "it moves to the cache");
    let later = now() + Limits::default().credentials_for;
    let ask_then = |auth: &Auth| auth.identify(Some(alice.as_bytes()), later, attach);
    assert!(matches!(ask_then(&again), Identified::Pending(_)));
    assert!(matches!(ask_then(&after(&again, &basic(&[("alice", BCRYPT)]))), Identified::Pending(_)));
}

/// Callers whose credentials were verified before are renewed on use, also across reloads.
#[test]
fn a_caller_who_keeps_calling_is_never_hashed_again_whatever_is_reloaded() {
    let users = [("alice", BCRYPT)];
    let mut auth = compile(&basic(&users));
    let alice = header("alice:wonderland");
    assert!(ask(&auth, &alice).is_ok());
    for round in 1..20 {
        let now = now() + Limits::default().credentials_for * round / 2;
        auth = after(&auth, &basic(&users));
        let identified = auth.identify(Some(alice.as_bytes()), now, attach);
        assert!(matches!(identified, Identified::Known(_)), "in round {round}");
    }
}

#[test]
fn that_credentials_were_verified_before_is_carried_over_where_the_hash_is_the_same() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&before, &alice).is_ok());
    let later = now() + Limits::default().credentials_for;
    let verified_before = |auth: &Auth| match auth.identify(Some(alice.as_bytes()), later, attach) {
        Identified::Pending(check) => check.verified_before(),
        other => panic!("{other:?}"),
    };
    let again = after(&before, &basic(&[("alice", BCRYPT)]));
    assert!(verified_before(&again));
    assert!(verified_before(&after(&again, &basic(&[("alice", BCRYPT)]))), "also where nobody asked");
    assert!(!verified_before(&after(&before, &basic(&[("alice", OTHER_HASH)]))));
}

/// Names that were taken on trust are not credentials that were verified.
#[test]
fn what_was_not_checked_is_not_carried_into_a_policy_that_checks() {
    let mut trusting = basic(&[("alice", BCRYPT)]);
    trusting.basic.as_mut().unwrap().verify = false;
    let before = compile(&trusting);
    let wrong = header("alice:x");
    assert!(ask(&before, &wrong).is_ok());
    assert!(ask(&after(&before, &basic(&[("alice", BCRYPT)])), &wrong).is_err());
}

#[test]
fn no_more_is_carried_than_is_remembered() {
    let users = [("alice", BCRYPT), ("bob", BCRYPT), ("carol", BCRYPT)];
    let before = compile(&basic(&users));
    let headers = users.map(|(name, _)| header(format!("{name}:wonderland")));
    assert!(headers.iter().all(|value| ask(&before, value).is_ok()));
    let limits = Limits { credentials: 2, ..Limits::default() };
    let again = Auth::compile_with(&basic(&users), &FetchedKeys::new(), Some(&before), limits).unwrap().0;
    assert_eq!(headers.iter().filter(|value| !is_pending(&again, value)).count(), 2);
}

/// A check of these credentials that was begun under this policy, and has been run.
fn checked(auth: &Auth, credentials: &str) -> PasswordChecked {
    match auth.identify(Some(header(credentials).as_bytes()), now(), attach) {
        Identified::Pending(check) => check.run(),
        other => panic!("{other:?}"),
    }
}

/// What a check says under a policy: `None`, the caller must be identified again; otherwise whether it is right.
fn finished(auth: &Auth, checked: &PasswordChecked) -> Option<bool> {
    auth.finish(checked, now(), attach).map(|identified| match identified {
        Identified::Known(_) => true,
        Identified::Invalid(CredentialsError::BadPassword) => false,
        other => panic!("{other:?}"),
    })
}

/// What a reload removes is refused from then on, also where a hash was under way. A check that was begun under
/// the old policy and comes back under the new one counts only if the hash is the same.
#[test]
fn a_check_that_crosses_a_reload_is_held_against_the_new_hash() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let same = after(&before, &basic(&[("bob", OTHER_HASH), ("alice", BCRYPT)]));
    let changed = after(&before, &basic(&[("alice", OTHER_HASH)]));
    let gone = after(&before, &basic(&[("bob", BCRYPT)]));
    let other_scheme = after(&before, &Identity::default());
    let mut trusting = basic(&[("alice", BCRYPT)]);
    trusting.basic.as_mut().unwrap().verify = false;
    let trusting = after(&before, &trusting);
    for (credentials, right) in [("alice:wonderland", true), ("alice:x", false)] {
        let checked = checked(&before, credentials);
        let all = [&before, &same, &changed, &gone, &other_scheme, &trusting];
        let expected = [Some(right), Some(right), None, None, None, None];
        assert_eq!(all.map(|auth| finished(auth, &checked)), expected, "{credentials}");
    }
    assert!(is_pending(&changed, &header("alice:wonderland")), "nothing was remembered there");
}

/// A user that is added while the hash for an unknown one is under way has not been checked yet.
#[test]
fn a_check_of_an_unknown_user_counts_while_there_is_no_such_user() {
    let before = compile(&basic(&[("alice", BCRYPT)]));
    let checked = checked(&before, "bob:wonderland");
    let still_unknown = after(&before, &basic(&[("alice", BCRYPT), ("carol", BCRYPT)]));
    let other_decoy = after(&before, &basic(&[("alice", OTHER_HASH)]));
    let nobody = after(&before, &basic(&[]));
    let added = after(&before, &basic(&[("alice", BCRYPT), ("bob", BCRYPT)]));
    let all = [&before, &still_unknown, &other_decoy, &nobody, &added];
    let expected = [Some(false), Some(false), Some(false), Some(false), None];
    assert_eq!(all.map(|auth| finished(auth, &checked)), expected);
    assert!(ask(&added, &header("bob:wonderland")).is_ok(), "identified again, bob is known");
}

/// A hash is kept although its caller has left, and may be reported to a new caller as well.
#[test]
fn finishing_a_check_twice_is_as_finishing_it_once() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let (right, wrong) = (checked(&auth, "alice:wonderland"), checked(&auth, "alice:x"));
    let known = |checked| match auth.finish(checked, now(), attach) {
        Some(Identified::Known(known)) => known,
        other => panic!("{other:?}"),
    };
    assert!(Arc::ptr_eq(&known(&right), &known(&right)), "what was attached is attached still");
    assert!(!is_pending(&auth, &header("alice:wonderland")), "remembered without anybody who asks");
    for _ in 0..2 {
        assert_eq!(finished(&auth, &wrong), Some(false));
        assert!(is_pending(&auth, &header("alice:x")), "a wrong password is never remembered");
    }
}

/// The cache of tokens dies with its key set.
#[test]
fn tokens_are_verified_anew_under_a_new_key_set() {
    let jwks = signer::set(&[signer::jwk("ES256")]);
    let before = compile(&tokens_of(issuer(file(&jwks))));
    let token = signer::bearer(&signer::token("ES256"));
    assert!(ask(&before, &token).is_ok());
    let rotated = signer::set(&[signer::jwk("ES384")]);
    let again = after(&before, &tokens_of(issuer(file(&rotated))));
    assert_eq!(ask(&again, &token).unwrap_err(), CredentialsError::UnknownKey);
}

#[test]
fn a_clock_that_is_set_back_does_not_keep_anybody_signed_in_for_longer() {
    let auth = compile(&basic(&[("alice", BCRYPT)]));
    let alice = header("alice:wonderland");
    assert!(ask(&auth, &alice).is_ok());
    let back = |seconds| now() - Duration::from_secs(seconds);
    let pending = |now| matches!(auth.identify(Some(alice.as_bytes()), now, attach), Identified::Pending(_));
    assert_eq!([pending(back(1)), pending(back(3_600))], [false, true]);
}
