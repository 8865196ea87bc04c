//! Which entries the cache keeps, for how long, and what a use of an entry writes.

use super::*;

/// The bytes of a hundred entries whose values hold nothing.
const HUNDRED: usize = 100 * Cache::<u32>::ENTRY_BYTES;
const ALWAYS: Window = Window { from: UnixTime::ZERO, until: UnixTime::MAX };

fn find(cache: &Cache<u32>, key: u128, now: u64) -> Option<u32> {
    cache.find(key, Duration::from_secs(now)).valid().map(|hit| hit.value)
}

fn seconds(from: u64, until: u64) -> Window {
    Window { from: Duration::from_secs(from), until: Duration::from_secs(until) }
}

/// A cache whose entries are valid for 100 seconds from their last use. It has one, inserted at
/// second 1,000.
fn renewing() -> Cache<u32> {
    let cache = Cache::new(4, HUNDRED).renewed_on_use(Duration::from_secs(100));
    cache.insert(1, 10, seconds(990, 1_100), 1);
    cache
}

/// By how many seconds renewals have moved the window of the entry with key 1.
fn renewed_by(cache: &Cache<u32>) -> u64 {
    cache.entries.get(&1).unwrap().renewed_by.load(Ordering::Relaxed)
}

#[test]
fn an_entry_in_use_is_renewed() {
    let cache = renewing();
    for now in (1_000..100_000).step_by(70) {
        assert_eq!(find(&cache, 1, now), Some(10), "at {now}");
    }
}

#[test]
fn an_unused_entry_expires() {
    let cache = renewing();
    assert_eq!(find(&cache, 1, 1_080), Some(10));
    assert_eq!(find(&cache, 1, 1_179), Some(10));
    assert_eq!(find(&cache, 1, 1_279), None, "100 seconds after its last use");
}

/// A use in the first quarter of the lifetime does not renew the entry.
#[test]
fn a_use_in_the_first_quarter_of_the_lifetime_writes_nothing() {
    let cache = renewing();
    for (now, wanted) in [(1_000, 0), (1_024, 0), (1_025, 25), (1_049, 25), (1_050, 50)] {
        assert_eq!(find(&cache, 1, now), Some(10));
        assert_eq!(renewed_by(&cache), wanted, "at {now}");
    }
}

#[test]
fn a_renewal_moves_both_ends_of_the_window() {
    let cache = renewing();
    assert_eq!(find(&cache, 1, 1_090), Some(10), "a clock that is fast by a minute");
    let found = [1_010, 1_079, 1_080, 1_190].map(|now| find(&cache, 1, now).is_some());
    assert_eq!(found, [false, false, true, false]);
}

#[test]
fn an_entry_is_not_renewed_when_the_clock_is_set_back() {
    let cache = renewing();
    assert_eq!(find(&cache, 1, 990), Some(10));
    assert_eq!(renewed_by(&cache), 0);
    assert_eq!(find(&cache, 1, 1_100), None);
}

#[test]
fn without_renewal_an_entry_keeps_its_window() {
    let cache = Cache::new(4, HUNDRED);
    cache.insert(1, 10, seconds(990, 1_100), 1);
    assert_eq!(find(&cache, 1, 1_099), Some(10));
    assert_eq!((renewed_by(&cache), find(&cache, 1, 1_100)), (0, None));
}

#[test]
fn an_expired_entry_is_not_reported_as_missing() {
    let cache = renewing();
    let found = |key| cache.find(key, Duration::from_secs(1_100));
    assert_eq!((found(1), found(2)), (Lookup::Expired, Lookup::Missing));
}

#[test]
fn for_each_reports_renewed_windows() {
    let cache = renewing();
    assert_eq!(find(&cache, 1, 1_050), Some(10));
    let mut windows = Vec::new();
    cache.for_each(|_, _, window| windows.push(window));
    assert_eq!(windows, [seconds(1_040, 1_150)]);
}

#[test]
fn an_entry_is_found_only_within_its_window() {
    let cache = Cache::new(4, HUNDRED);
    cache.insert(1, 10, Window { from: Duration::from_secs(5), until: Duration::from_secs(9) }, 1);
    let found = [4, 5, 8, 9].map(|now| find(&cache, 1, now));
    assert_eq!(found, [None, Some(10), Some(10), None]);
}

#[test]
fn the_number_of_entries_is_bounded() {
    let cache = Cache::new(100, 1_000_000);
    for key in 0..10_000_u32 {
        cache.insert(u128::from(key), key, ALWAYS, 1);
    }
    assert_eq!(cache.entries.len(), 100);
}

#[test]
fn the_weight_of_all_entries_is_bounded() {
    let cache = Cache::new(100, 10 * HUNDRED);
    let held = 3 * HUNDRED - Cache::<u32>::ENTRY_BYTES;
    for key in 0..1_000_u32 {
        cache.insert(u128::from(key), key, ALWAYS, held);
    }
    assert_eq!(cache.entries.len(), 3);
    cache.insert(7, 7, ALWAYS, 10 * HUNDRED);
    assert_eq!(cache.entries.len(), 3, "a value over the limit evicts no other");
}

#[test]
fn an_insertion_with_the_same_key_replaces_the_entry() {
    let cache = Cache::new(4, HUNDRED);
    for value in 0..50 {
        cache.insert(1, value, ALWAYS, HUNDRED / 4);
    }
    cache.insert(2, 2, ALWAYS, HUNDRED / 4);
    assert_eq!((find(&cache, 1, 0), find(&cache, 2, 0)), (Some(49), Some(2)));
}

#[test]
fn a_used_entry_is_not_evicted_before_unused_ones() {
    let cache = Cache::new(64, 1_000_000);
    cache.insert(0, 0, ALWAYS, 1);
    for key in 1..1_000_u32 {
        cache.insert(u128::from(key), key, ALWAYS, 1);
        assert_eq!(find(&cache, 0, 0), Some(0), "after {key} others");
    }
}

#[test]
fn the_number_of_entries_is_bounded_even_if_all_are_used() {
    let cache = Cache::new(64, 1_000_000);
    for key in 0..1_000_u32 {
        cache.insert(u128::from(key), key, ALWAYS, 1);
        assert!((0..=key).filter_map(|key| find(&cache, u128::from(key), 0)).count() <= 64);
    }
    assert_eq!(cache.entries.len(), 64);
}

#[test]
fn its_size_is_known_and_evictions_are_counted_on() {
    let cache = Cache::new(2, HUNDRED);
    assert_eq!(cache.size(), CacheSize::default());
    for key in 0..5 {
        cache.insert(key, 1, ALWAYS, 10);
    }
    cache.insert(4, 2, ALWAYS, 20);
    let entry = Cache::<u32>::ENTRY_BYTES;
    assert_eq!(cache.size(), CacheSize { entries: 2, bytes: 2 * entry + 30, evicted: 3 });
    let next = Cache::<u32>::new(2, HUNDRED);
    next.continue_evictions(&cache);
    assert_eq!(next.size(), CacheSize { entries: 0, bytes: 0, evicted: 3 });
}
