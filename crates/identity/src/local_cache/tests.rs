//! Which entries the cache of a thread keeps, for how long, and what it counts.

use super::*;
use crate::Subject;

type Hit = TimedValue<Arc<CachedSubject<()>>>;

const ALWAYS: Window = Window { from: UnixTime::ZERO, until: UnixTime::MAX };

fn subject(name: &str) -> Arc<CachedSubject<()>> {
    let user = name.into();
    let subject = Subject {
        user,
        issuer: None,
        source: None,
        groups: Vec::new(),
        roles: Vec::new(),
        claims: serde_json::Value::Null,
        actor: None,
    };
    Arc::new(CachedSubject { subject, attached: () })
}

fn found(name: &str, window: Window) -> Hit {
    TimedValue { value: subject(name), window, bytes: 100, max_local_age: Duration::MAX }
}

fn insert(cache: &mut LocalCache<()>, authenticator: u64, key: u128, now: UnixTime, found: Hit) {
    assert!(cache.get_or_look_up(authenticator, key, now, false, || Ok::<_, ()>(found)).is_ok());
}

fn at(milliseconds: u64) -> UnixTime {
    Duration::from_millis(milliseconds)
}

/// The user of the entry, if the cache has one.
fn user(cache: &mut LocalCache<()>, authenticator: u64, key: u128, now: UnixTime) -> Option<&str> {
    let cached = cache.get_or_look_up(authenticator, key, now, false, || Err(()));
    cached.ok().map(|cached| &*cached.subject.user)
}

#[test]
fn an_entry_is_used_for_one_second() {
    let mut cache = LocalCache::default();
    insert(&mut cache, 1, 7, at(5_000), found("alice", ALWAYS));
    for (now, expected) in
        [(4_999, None), (5_000, Some("alice")), (5_999, Some("alice")), (6_000, None)]
    {
        assert_eq!(user(&mut cache, 1, 7, at(now)), expected, "{now}");
    }
}

#[test]
fn an_entry_is_used_no_longer_than_its_window_and_max_local_age() {
    let mut cache = LocalCache::default();
    insert(&mut cache, 1, 7, at(5_000), found("alice", Window { from: at(0), until: at(5_100) }));
    assert_eq!(user(&mut cache, 1, 7, at(5_099)), Some("alice"));
    assert_eq!(user(&mut cache, 1, 7, at(5_100)), None);
    insert(
        &mut cache,
        1,
        7,
        at(6_000),
        TimedValue { max_local_age: at(10), ..found("alice", ALWAYS) },
    );
    assert_eq!(user(&mut cache, 1, 7, at(6_009)), Some("alice"));
    assert_eq!(user(&mut cache, 1, 7, at(6_010)), None);
}

#[test]
fn an_entry_is_not_used_by_another_authenticator() {
    let mut cache = LocalCache::default();
    insert(&mut cache, 1, 7, at(0), found("alice", ALWAYS));
    assert_eq!(user(&mut cache, 2, 7, at(0)), None);
    insert(&mut cache, 2, 8, at(0), found("bob", ALWAYS));
    assert_eq!(user(&mut cache, 1, 7, at(0)), None, "not even the one that verified it");
}

#[test]
fn two_keys_of_one_set_are_both_cached() {
    let mut cache = LocalCache::default();
    let [alice, bob, carol] = [1, 2, 3].map(|key: u128| key << 100);
    insert(&mut cache, 1, alice, at(0), found("alice", ALWAYS));
    insert(&mut cache, 1, bob, at(0), found("bob", ALWAYS));
    assert_eq!(user(&mut cache, 1, alice, at(500)), Some("alice"));
    assert_eq!(user(&mut cache, 1, bob, at(500)), Some("bob"));
    insert(&mut cache, 1, carol, at(500), found("carol", ALWAYS));
    assert_eq!(user(&mut cache, 1, alice, at(600)), Some("alice"));
    assert_eq!(user(&mut cache, 1, bob, at(600)), None);
    assert_eq!(user(&mut cache, 1, carol, at(600)), Some("carol"));
    insert(&mut cache, 1, carol, at(2_000), found("carol again", ALWAYS));
    assert_eq!(user(&mut cache, 1, carol, at(2_000)), Some("carol again"), "one entry per key");
}

#[test]
fn a_large_subject_is_returned_but_not_cached() {
    let mut cache = LocalCache::default();
    insert(&mut cache, 1, 7, at(0), TimedValue { bytes: MAX_BYTES + 1, ..found("alice", ALWAYS) });
    assert_eq!(user(&mut cache, 1, 7, at(0)), None);
}

#[test]
fn lookups_are_counted_by_where_they_were_found() {
    let mut cache = LocalCache::default();
    let look_up = |cache: &mut LocalCache<()>, key, verified, found: Result<Hit, ()>| {
        _ = cache.get_or_look_up(1, key, at(0), verified, || found).is_ok();
    };
    look_up(&mut cache, 7, false, Err(()));
    look_up(&mut cache, 7, true, Ok(found("alice", ALWAYS)));
    look_up(&mut cache, 7, false, Err(()));
    look_up(&mut cache, 8, false, Ok(found("bob", ALWAYS)));
    look_up(&mut cache, 9, true, Err(()));
    assert_eq!(cache.take_lookups(), CacheLookups { local: 1, shared: 1, missed: 2 });
    assert_eq!(cache.take_lookups(), CacheLookups::default());
    // They are not lost with the entries, when another authenticator is used.
    look_up(&mut cache, 8, false, Err(()));
    insert(&mut cache, 2, 8, at(0), found("bob", ALWAYS));
    assert_eq!(cache.take_lookups(), CacheLookups { local: 1, shared: 1, missed: 0 });
}
