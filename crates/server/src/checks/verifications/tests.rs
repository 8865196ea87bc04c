//! Tests of `verifications`.

use super::*;

fn network(text: &str) -> ClientNetwork {
    ClientNetwork::from_address(text.as_bytes())
}

#[test]
fn a_network_gets_a_share_and_others_theirs() {
    let all = Verifications::new(8192, 32 << 20);
    let (one, other) = (network("192.0.2.1"), network("198.51.100.1"));
    let hold = |network, number, bytes| -> Result<Vec<_>, Overload> {
        (0..number).map(|_| all.take(network, bytes)).collect()
    };
    let held = hold(one, 64, 64 << 10).unwrap();
    assert_eq!(all.reserve(false, one, 1).err(), Some(Overload::ClientNetwork), "4 MiB");
    assert!(all.reserve(true, one, 1).is_ok(), "verified before");
    assert!(hold(other, 64, 64 << 10).is_ok());
    drop(held);
    let held = hold(one, 2048, 10).unwrap();
    assert_eq!(all.take(one, 10).err(), Some(Overload::ClientNetwork), "a quarter of the places");
    assert!(all.take(other, 10).is_ok());
    drop(held);
    assert!(all.lock().networks.is_empty());
}

#[test]
fn verifications_leave_half_of_the_memory_to_messages() {
    let all = Verifications::new(8192, 32 << 20);
    let of_many = (0..5).flat_map(|number| {
        let network = network(&format!("192.0.{number}.1"));
        (0..64).map(|_| all.take(network, 64 << 10)).collect::<Vec<_>>()
    });
    let (held, denied): (Vec<_>, Vec<_>) = of_many.partition(Result::is_ok);
    // Three get their share of 4 MiB, then one 2 MiB, and one 1 MiB. As much is left.
    assert_eq!((held.len(), denied.len()), (3 * 64 + 32 + 16, 32 + 48));
    assert!(denied.iter().all(|denied| matches!(denied, Err(Overload::ClientNetwork))));
    let held: Vec<_> = (0..8)
        .map(|number| all.take(network(&format!("10.0.{number}.1")), MIN_NETWORK_BYTES))
        .collect();
    assert!(held.iter().all(Result::is_ok), "each may have a small one");
    assert_eq!(all.take(network("10.1.0.1"), 1).err(), Some(Overload::Memory));
}

/// Lets the networks with these numbers take what they can, in turns.
fn fill(all: &Arc<Verifications>, networks: u8, bytes: usize) -> Vec<NetworkReservation> {
    let mut held = Vec::new();
    loop {
        let before = held.len();
        let more = (0..networks).map(|number| network(&format!("192.0.{number}.1")));
        held.extend(more.filter_map(|network| all.take(network, bytes).ok()));
        if held.len() == before {
            return held;
        }
    }
}

#[test]
fn greedy_networks_leave_memory_to_a_newcomer() {
    for greedy in 1..=16 {
        let all = Verifications::new(8192, 32 << 20);
        let held = fill(&all, greedy, 64 << 10);
        let left = (16 << 20) - held.len() * (64 << 10);
        assert!(left >= (16 << 20) / (usize::from(greedy) + 1), "{greedy}: {left}");
        // As much as a browser sends, for some users.
        let newcomers: Vec<_> =
            (0..7).map(|_| all.take(network("198.51.100.1"), 64 << 10)).collect();
        assert!(newcomers.iter().all(Result::is_ok), "{greedy}");
    }
}

#[test]
fn greedy_networks_leave_places_to_a_newcomer() {
    for greedy in 1..=16 {
        let all = Verifications::new(8192, 32 << 20);
        let held = fill(&all, greedy, 1);
        let left = 8192 - held.len();
        assert!(left >= 8192 / (usize::from(greedy) + 1), "{greedy}: {left}");
        let newcomers: Vec<_> =
            (0..(left / 2).min(2048)).map(|_| all.take(network("198.51.100.1"), 1)).collect();
        assert!(newcomers.iter().all(Result::is_ok), "{greedy}");
    }
}

/// The first check of a network may be longer than a network's share, but not take the rest.
#[test]
fn long_first_checks_leave_memory_to_a_newcomer() {
    let all = Verifications::new(8192, 48 << 20);
    let (one, other) = (network("192.0.2.1"), network("192.0.3.1"));
    let held = all.take(one, 10 << 20);
    assert!(held.is_ok());
    assert_eq!(all.take(one, 1).err(), Some(Overload::ClientNetwork));
    assert_eq!(all.take(other, 10 << 20).err(), Some(Overload::Memory), "4 MiB would be left");
    assert!(all.take(other, 7 << 20).is_ok());
}

#[test]
fn of_few_places_a_network_may_have_all() {
    let all = Verifications::new(8, 32 << 20);
    let held: Vec<_> = (0..8).map(|_| all.take(network("192.0.2.1"), 10).unwrap()).collect();
    assert_eq!(held.len(), 8);
}
