//! The order of the queue, and which attempts count against a source.

use super::*;

fn entry(network: u32, item: &'static str) -> Entry<&'static str> {
    Entry { network: ClientNetwork::numbered(network), was_verified_before: false, item }
}

fn pop_all(queue: &mut Queue<&'static str>, now: Instant) -> Vec<&'static str> {
    std::iter::from_fn(|| queue.pop(now)).map(|entry| entry.item).collect()
}

/// Adds `times` attempts of a network that are hashed and fail.
fn attempt(queue: &mut Queue<&'static str>, network: u32, times: usize, now: Instant) {
    for _ in 0..times {
        queue.push(entry(network, "wrong"), now);
        queue.remove(|item| *item == "wrong");
    }
}

#[test]
fn of_equal_entries_the_newest_is_first_and_the_oldest_is_displaced() {
    let now = Instant::now();
    let mut queue = Queue::new(3);
    for item in ["a", "b", "c"] {
        assert_eq!(queue.push(entry(1, item), now), None);
    }
    assert_eq!(queue.push(entry(1, "d"), now), Some("a"));
    assert_eq!(pop_all(&mut queue, now), ["d", "c", "b"]);
}

#[test]
fn a_network_with_fewer_attempts_is_first_and_is_not_displaced() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    attempt(&mut queue, 1, 2, now);
    attempt(&mut queue, 2, 1, now);
    assert_eq!(queue.push(entry(3, "honest"), now), None);
    assert_eq!(queue.push(entry(2, "mistyped"), now), None);
    assert_eq!(queue.push(entry(1, "flood"), now), Some("flood"), "the new one itself");
    assert_eq!(queue.push(entry(4, "new"), now), Some("mistyped"));
    assert_eq!(pop_all(&mut queue, now), ["new", "honest"]);
}

/// Each network sends one attempt, one after the other.
#[test]
fn of_networks_with_equal_attempts_the_newest_is_first() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    let at = |number: u32| now + Duration::from_millis(number.into());
    assert_eq!(queue.push(entry(1, "first"), at(1)), None);
    assert_eq!(queue.push(entry(2, "second"), at(2)), None);
    assert_eq!(queue.push(entry(3, "third"), at(3)), Some("first"));
    assert_eq!(pop_all(&mut queue, at(4)), ["third", "second"]);
}

/// A flood from many addresses that has just begun: none of its passwords is hashed yet.
#[test]
fn a_flood_is_ranked_last_from_its_second_attempt_on() {
    let now = Instant::now();
    let mut queue = Queue::new(8);
    for _ in 0..2 {
        for network in 1..100 {
            queue.push(entry(network, "flood"), now);
        }
    }
    queue.push(entry(1000, "honest"), now);
    for network in 1..100 {
        queue.push(entry(network, "flood"), now);
    }
    assert_eq!(queue.pop(now).map(|entry| entry.item), Some("honest"));
}

#[test]
fn a_right_password_does_not_count_as_an_attempt() {
    let now = Instant::now();
    let mut queue = Queue::new(100);
    // A network whose users all send right passwords at the same time.
    for _ in 0..50 {
        queue.push(entry(1, "right"), now);
        queue.remove(|item| *item == "right");
        queue.forgive_attempt(ClientNetwork::numbered(1), now);
    }
    attempt(&mut queue, 2, 1, now);
    queue.push(entry(1, "one more"), now);
    queue.push(entry(2, "flood"), now);
    assert_eq!(pop_all(&mut queue, now), ["one more", "flood"]);
    assert!(queue.attempts.current(ClientNetwork::numbered(1), now) < 1.5);
}

#[test]
fn credentials_verified_before_are_first_from_any_network() {
    let now = Instant::now();
    let mut queue = Queue::new(2);
    attempt(&mut queue, 1, 5, now);
    queue.push(Entry { was_verified_before: true, ..entry(1, "known") }, now);
    queue.push(entry(2, "first"), now);
    assert_eq!(queue.push(entry(2, "second"), now), Some("first"));
    assert_eq!(pop_all(&mut queue, now), ["known", "second"]);
}

#[test]
fn old_attempts_count_less() {
    let now = Instant::now();
    let mut queue = Queue::new(4);
    attempt(&mut queue, 1, 64, now);
    let later = now + HALF_LIFE * 16;
    attempt(&mut queue, 2, 3, later);
    queue.push(entry(1, "long ago"), later);
    queue.push(entry(2, "just now"), later);
    assert_eq!(pop_all(&mut queue, later), ["long ago", "just now"]);
}

#[test]
fn the_number_of_tracked_networks_is_bounded_and_the_worst_are_kept() {
    let now = Instant::now();
    let mut queue = Queue::new(1);
    attempt(&mut queue, 0, 2, now);
    for network in 1..20_000 {
        attempt(&mut queue, network, 1, now);
    }
    assert!((1..=MAX_NETWORKS).contains(&queue.attempts.0.len()));
    assert!(queue.attempts.current(ClientNetwork::numbered(0), now) > 1.5);
}

#[test]
fn an_entry_can_be_removed() {
    let now = Instant::now();
    let mut queue = Queue::new(4);
    for item in ["a", "b", "c"] {
        queue.push(entry(1, item), now);
    }
    queue.remove(|item| *item == "b");
    assert_eq!(queue.find(|item| *item == "b"), None);
    assert_eq!(pop_all(&mut queue, now), ["c", "a"]);
}
