//! API keys: only the whole key of an entry that has not expired authenticates.

use std::time::Duration;

use allocation_counter::measure;
use identity::{
    Attempted, Credentials, CredentialsError, LocalCache, NewApiKey, NotAuthenticated, UnixTime,
};
use policy::model::{ApiKey, ApiKeys, Identity, KeyHash, SourceId};

use crate::settings::*;

const EXPIRES: UnixTime = Duration::from_secs(NOW + 3600);

fn key() -> NewApiKey {
    NewApiKey::random().unwrap()
}

fn entry(key: &NewApiKey, expires: Option<UnixTime>) -> ApiKey {
    ApiKey {
        id: key.id.as_str().into(),
        hash: key.hash,
        user: "ci".into(),
        groups: vec!["deploy".into()],
        expires,
        at: place(),
    }
}

fn settings(keys: Vec<ApiKey>) -> Identity {
    let keys = ApiKeys {
        header: "x-api-key".into(),
        keys,
        user_prefix: "key:".into(),
        group_prefix: "g:".into(),
        at: place(),
    };
    Identity { api_keys: Some(keys), ..basic(&[("alice", BCRYPT)]) }
}

/// Verifies credentials with this cache.
fn check(
    auth: &Auth,
    credentials: Credentials<'_>,
    now: UnixTime,
    cache: &mut LocalCache<String>,
) -> Result<String, CredentialsError> {
    match auth.authenticate(Some(credentials), None, now, cache, attach) {
        Ok(caller) => Ok(caller.unwrap().attached.clone()),
        Err(NotAuthenticated::Invalid(error)) => Err(error),
        Err(NotAuthenticated::Pending(_)) => panic!("an API key needs no other thread"),
    }
}

fn error(auth: &Auth, key: &[u8]) -> Option<CredentialsError> {
    check(auth, Credentials::ApiKey(key), now(), &mut LocalCache::default()).err()
}

#[test]
fn a_key_authenticates_its_user() {
    let (one, other) = (key(), key());
    let auth = compile(&settings(vec![entry(&one, None), entry(&other, Some(EXPIRES))]));
    for key in [&one, &other] {
        let mut cache = LocalCache::default();
        let sent = Some(Credentials::ApiKey(key.key.as_bytes()));
        let caller = auth.authenticate(sent, None, now(), &mut cache, attach).unwrap().unwrap();
        let subject = &caller.subject;
        assert_eq!((&*subject.user, &*subject.groups[0]), ("key:ci", "g:deploy"));
        assert_eq!((subject.source, subject.issuer.is_none()), (Some(SourceId::API_KEYS), true));
        assert!(subject.roles.is_empty() && subject.groups.len() == 1);
    }
}

#[test]
fn a_key_has_enough_random_bits_and_is_not_shown() {
    let (one, other) = (key(), key());
    let (id, secret) = one.key.split_once('_').unwrap();
    assert_eq!((id, secret.len(), one.key.len()), (one.id.as_str(), 32, 45));
    assert!(one.id != other.id && !other.key.contains(secret));
    assert!(!format!("{one:?} {:?}", Credentials::ApiKey(b"s3cret")).contains("s3cret"));
    assert!(!format!("{one:?}").contains(secret));
}

#[test]
fn only_the_whole_key_authenticates() {
    let key = key();
    let auth = compile(&settings(vec![entry(&key, None)]));
    let right = key.key.as_bytes();
    assert_eq!(error(&auth, right), None);
    for at in 0..right.len() {
        let mut changed = right.to_vec();
        changed[at] ^= 1;
        assert_eq!(error(&auth, &changed), Some(CredentialsError::BadApiKey), "{at}");
        assert_eq!(error(&auth, &right[..at]), Some(CredentialsError::BadApiKey), "{at}");
    }
    for wrong in [
        [right, b" "].concat(),
        [&b" "[..], right].concat(),
        [right, b",", right].concat(),
        [right, b"\0"].concat(),
        right.to_ascii_uppercase(),
        [key.id.as_bytes(), b"_", &[0; 32]].concat(),
        b"_".to_vec(),
        b"\xff_\xff".to_vec(),
        Vec::new(),
    ] {
        assert_eq!(error(&auth, &wrong), Some(CredentialsError::BadApiKey), "{wrong:?}");
    }
}

/// An id that no key has is compared with a hash of zeros.
#[test]
fn an_unknown_id_has_no_valid_key() {
    let auth = compile(&settings(Vec::new()));
    assert_eq!(error(&auth, key().key.as_bytes()), Some(CredentialsError::BadApiKey));
    let proof = [&[0; 32][..], b"rk1"].concat();
    assert!(auth.api_key_verified_elsewhere(&proof, now()).is_err());
    assert!(auth.api_key_verified_elsewhere(b"", now()).is_err());
}

/// A client can send any number of these.
#[test]
fn a_huge_or_malformed_key_is_cheap() {
    let key = key();
    let auth = compile(&settings(vec![entry(&key, None)]));
    let huge = [key.key.as_bytes(), &[b'x'; 1 << 20]].concat();
    let many = vec![b'_'; 1 << 20];
    let mut cache = LocalCache::default();
    check(&auth, Credentials::ApiKey(key.key.as_bytes()), now(), &mut cache).unwrap();
    for sent in [&huge[..], &many[..], b"", b"x", &[0xff; 256][..]] {
        let allocated = measure(|| {
            let error = check(&auth, Credentials::ApiKey(sent), now(), &mut cache).err();
            assert_eq!(error, Some(CredentialsError::BadApiKey));
        });
        assert_eq!(allocated.count_total, 0);
        let said = auth.attempted(Credentials::ApiKey(sent), CredentialsError::BadApiKey, now());
        assert!(said.detail.unwrap().len() < 100);
    }
}

#[test]
fn a_key_ends_when_it_expires_also_in_caches() {
    let key = key();
    let auth = compile(&settings(vec![entry(&key, Some(EXPIRES))]));
    let mut cache = LocalCache::default();
    let sent = Credentials::ApiKey(key.key.as_bytes());
    let before = EXPIRES - Duration::from_millis(1);
    for (now, expected) in [
        (now(), Ok("key:ci".to_owned())),
        (before, Ok("key:ci".to_owned())),
        (EXPIRES, Err(CredentialsError::Expired)),
        (EXPIRES + Duration::from_secs(1), Err(CredentialsError::Expired)),
    ] {
        assert_eq!(check(&auth, sent, now, &mut cache), expected);
        assert_eq!(check(&auth, sent, now, &mut LocalCache::default()), expected);
    }
    // Nobody learns from a wrong secret that a key has expired.
    let wrong = [key.key.as_bytes(), b"x"].concat();
    let wrong = Credentials::ApiKey(&wrong);
    assert_eq!(check(&auth, wrong, EXPIRES, &mut cache), Err(CredentialsError::BadApiKey));
}

/// The cache has the hashes of values: the same value in the other header must not be found.
#[test]
fn a_value_counts_only_in_its_header() {
    let key = key();
    let auth = compile(&settings(vec![entry(&key, None)]));
    let mut cache = LocalCache::default();
    let value = key.key.as_bytes();
    assert!(check(&auth, Credentials::ApiKey(value), now(), &mut cache).is_ok());
    let elsewhere = check(&auth, Credentials::Authorization(value), now(), &mut cache);
    assert_eq!(elsewhere, Err(CredentialsError::UnsupportedScheme));
    let alice = header("alice:wonderland");
    assert!(authenticate(&auth, &alice).is_ok());
    assert!(check(&auth, Credentials::Authorization(alice.as_bytes()), now(), &mut cache).is_ok());
    let elsewhere = check(&auth, Credentials::ApiKey(alice.as_bytes()), now(), &mut cache);
    assert_eq!(elsewhere, Err(CredentialsError::BadApiKey));
}

#[test]
fn a_policy_without_the_key_does_not_accept_it() {
    let (key, hash) = (key(), key().hash);
    let mut cache = LocalCache::default();
    let sent = Credentials::ApiKey(key.key.as_bytes());
    let before = compile(&settings(vec![entry(&key, None)]));
    assert!(check(&before, sent, now(), &mut cache).is_ok());
    for (after, expected) in [
        (settings(Vec::new()), CredentialsError::BadApiKey),
        (settings(vec![ApiKey { hash, ..entry(&key, None) }]), CredentialsError::BadApiKey),
        (settings(vec![entry(&key, Some(now()))]), CredentialsError::Expired),
        (basic(&[("alice", BCRYPT)]), CredentialsError::UnsupportedScheme),
    ] {
        let mut after = compile(&after);
        after.carry_over(&before);
        assert_eq!(check(&after, sent, now(), &mut cache), Err(expected));
        let proof = before.api_key_proof(key.key.as_bytes()).unwrap();
        assert_eq!(after.api_key_verified_elsewhere(&proof, now()).err(), Some(expected));
    }
    let proof = before.api_key_proof(key.key.as_bytes()).unwrap();
    assert_eq!(&*before.api_key_verified_elsewhere(&proof, now()).unwrap().user, "key:ci");
    assert!(!proof.ends_with(key.key.as_bytes()));
}

#[test]
fn a_cached_key_allocates_nothing() {
    let key = key();
    let auth = compile(&settings(vec![entry(&key, None)]));
    let mut cache = LocalCache::default();
    let sent = Credentials::ApiKey(key.key.as_bytes());
    assert!(check(&auth, sent, now(), &mut cache).is_ok());
    let allocated = measure(|| {
        // Each second, the cache of the thread looks it up again.
        for second in 0..100 {
            let now = now() + Duration::from_secs(second);
            let caller = auth.authenticate(Some(sent), None, now, &mut cache, attach);
            assert!(caller.is_ok_and(|caller| caller.is_some()));
        }
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn invalid_keys_name_only_ids_that_the_policy_has() {
    let key = key();
    let auth = compile(&settings(vec![entry(&key, None)]));
    let attempted = |sent: &str, error| {
        let Attempted { user, issuer, detail } =
            auth.attempted(Credentials::ApiKey(sent.as_bytes()), error, now());
        assert_eq!(issuer, None);
        (user, detail.unwrap())
    };
    let (id, user) = (&key.id, Some("key:ci".to_owned()));
    let bad = CredentialsError::BadApiKey;
    let wrong = (user.clone(), format!("the secret after the id `{id}` is wrong"));
    assert_eq!(attempted(&format!("{id}_s3cret"), bad), wrong);
    let expired = (user, format!("the key `{id}` has expired"));
    assert_eq!(attempted(&key.key, CredentialsError::Expired), expired);
    assert_eq!(attempted("s3cret_s3cret", bad), (None, "no key has its id".to_owned()));
    assert_eq!(attempted("s3cret", bad), (None, "it is not `ID_SECRET`".to_owned()));
    let long = format!("{id}_{}", "x".repeat(1_000));
    assert_eq!(attempted(&long, bad).1, "it is longer than 256 bytes");
}

#[test]
fn a_hash_is_not_shown() {
    assert_eq!(format!("{:?}", KeyHash([7; 32])), "…");
}
