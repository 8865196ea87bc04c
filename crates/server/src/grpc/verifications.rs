//! How much the checks may take whose credentials are being verified: together, and those of one
//! client network.
//!
//! Whoever sends wrong credentials can let many checks wait, each with a message of up to the size
//! that Envoy permits for headers. Together they get at most half of the memory of all checks that
//! wait, so that messages can still arrive, also those of known callers. Those of one network get a
//! share, and at most as much as they leave to all others, so that callers from other networks can
//! still sign in.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runtime::ClientNetwork;

use super::notices::Overload;

/// The checks of one network may take a quarter of all places, and always so many, even if fewer
/// are left.
const NETWORK_PLACES_DIVISOR: usize = 4;
const MIN_NETWORK_PLACES: usize = 16;
/// All verifications may take half of the memory of all checks that wait, those of one network an
/// eighth.
const BYTES_DIVISOR: usize = 2;
const NETWORK_BYTES_DIVISOR: usize = 8;
/// The first check of a network may take so many bytes, even if little is left: more than Envoy
/// permits for headers, so only a request with a body takes more.
const SMALL: usize = 128 << 10;

/// The checks whose credentials are being verified. Shared by all workers; those of callers whose
/// credentials are cached are not among them.
#[derive(Debug)]
pub(super) struct Verifications {
    max: Usage,
    max_of_network: Usage,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    total: Usage,
    networks: HashMap<ClientNetwork, Usage>,
}

/// Places and bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    places: usize,
    bytes: usize,
}

/// The share of one check. Dropping this returns it.
#[derive(Debug)]
pub(super) struct Share {
    verifications: Arc<Verifications>,
    network: ClientNetwork,
    bytes: usize,
}

impl Usage {
    /// With one more check of so many bytes.
    fn with(self, bytes: usize) -> Self {
        Self { places: self.places.saturating_add(1), bytes: self.bytes.saturating_add(bytes) }
    }

    fn without(self, bytes: usize) -> Self {
        Self { places: self.places.saturating_sub(1), bytes: self.bytes.saturating_sub(bytes) }
    }
}

impl Verifications {
    /// Of a server in which so many checks may wait, which take at most so many bytes.
    pub(super) fn new(places: usize, bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            // Only to know how many are left: the budget of all waiting checks sees to it that no
            // more are taken.
            max: Usage { places, bytes: bytes / BYTES_DIVISOR },
            max_of_network: Usage {
                places: (places / NETWORK_PLACES_DIVISOR).max(MIN_NETWORK_PLACES),
                bytes: bytes / NETWORK_BYTES_DIVISOR,
            },
            table: Mutex::default(),
        })
    }

    /// Reserves a share for a check. Credentials that were verified before need none: others of
    /// their network, who send wrong credentials, must not keep them from the queue that serves
    /// them first.
    ///
    /// # Errors
    /// When the network, or all together, already take as much as they may, or less would be left
    /// than the network takes.
    pub(super) fn share(
        self: &Arc<Self>,
        verified_before: bool,
        network: ClientNetwork,
        bytes: usize,
    ) -> Result<Option<Share>, Overload> {
        if verified_before { Ok(None) } else { self.hold(network, bytes).map(Some) }
    }

    fn hold(self: &Arc<Self>, network: ClientNetwork, bytes: usize) -> Result<Share, Overload> {
        let mut table = self.lock();
        let total = table.total.with(bytes);
        let of_network = table.networks.get(&network).copied().unwrap_or_default().with(bytes);
        let left_places = self.max.places.saturating_sub(total.places);
        let left_bytes = self.max.bytes.checked_sub(total.bytes).ok_or(Overload::Memory)?;
        if of_network.places == 1 {
            // The first check of a network may be longer than its share.
            if of_network.bytes > left_bytes.max(SMALL) {
                return Err(Overload::Memory);
            }
        } else if of_network.bytes > self.max_of_network.bytes.min(left_bytes)
            || of_network.places
                > self.max_of_network.places.min(left_places).max(MIN_NETWORK_PLACES)
        {
            return Err(Overload::ClientNetwork);
        }
        table.total = total;
        table.networks.insert(network, of_network);
        Ok(Share { verifications: Arc::clone(self), network, bytes })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut table = self.verifications.lock();
        table.total = table.total.without(self.bytes);
        if let Entry::Occupied(mut usage) = table.networks.entry(self.network) {
            *usage.get_mut() = usage.get().without(self.bytes);
            if usage.get().places == 0 {
                usage.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> ClientNetwork {
        ClientNetwork::of(text.as_bytes())
    }

    #[test]
    fn a_network_gets_a_share_and_others_theirs() {
        let all = Verifications::new(8192, 32 << 20);
        let (one, other) = (network("192.0.2.1"), network("198.51.100.1"));
        let hold = |network, number, bytes| -> Result<Vec<_>, Overload> {
            (0..number).map(|_| all.hold(network, bytes)).collect()
        };
        let held = hold(one, 64, 64 << 10).unwrap();
        assert_eq!(all.share(false, one, 1).err(), Some(Overload::ClientNetwork), "4 MiB");
        assert!(all.share(true, one, 1).is_ok(), "verified before");
        assert!(hold(other, 64, 64 << 10).is_ok());
        drop(held);
        let held = hold(one, 2048, 10).unwrap();
        assert_eq!(
            all.hold(one, 10).err(),
            Some(Overload::ClientNetwork),
            "a quarter of the places"
        );
        assert!(all.hold(other, 10).is_ok());
        drop(held);
        assert!(all.lock().networks.is_empty());
    }

    #[test]
    fn verifications_leave_half_of_the_memory_to_messages() {
        let all = Verifications::new(8192, 32 << 20);
        let of_many = (0..5).flat_map(|number| {
            let network = network(&format!("192.0.{number}.1"));
            (0..64).map(|_| all.hold(network, 64 << 10)).collect::<Vec<_>>()
        });
        let (held, denied): (Vec<_>, Vec<_>) = of_many.partition(Result::is_ok);
        // Three get their share of 4 MiB, then one 2 MiB, and one 1 MiB. As much is left.
        assert_eq!((held.len(), denied.len()), (3 * 64 + 32 + 16, 32 + 48));
        assert!(denied.iter().all(|denied| matches!(denied, Err(Overload::ClientNetwork))));
        let held: Vec<_> =
            (0..8).map(|number| all.hold(network(&format!("10.0.{number}.1")), SMALL)).collect();
        assert!(held.iter().all(Result::is_ok), "each may have a small one");
        assert_eq!(all.hold(network("10.1.0.1"), 1).err(), Some(Overload::Memory));
    }

    /// Lets the networks with these numbers take what they can, in turns.
    fn fill(all: &Arc<Verifications>, networks: u8, bytes: usize) -> Vec<Share> {
        let mut held = Vec::new();
        loop {
            let before = held.len();
            let more = (0..networks).map(|number| network(&format!("192.0.{number}.1")));
            held.extend(more.filter_map(|network| all.hold(network, bytes).ok()));
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
                (0..7).map(|_| all.hold(network("198.51.100.1"), 64 << 10)).collect();
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
                (0..(left / 2).min(2048)).map(|_| all.hold(network("198.51.100.1"), 1)).collect();
            assert!(newcomers.iter().all(Result::is_ok), "{greedy}");
        }
    }

    /// The first check of a network may be longer than a network's share, but not take the rest.
    #[test]
    fn long_first_checks_leave_memory_to_a_newcomer() {
        let all = Verifications::new(8192, 48 << 20);
        let (one, other) = (network("192.0.2.1"), network("192.0.3.1"));
        let held = all.hold(one, 10 << 20);
        assert!(held.is_ok());
        assert_eq!(all.hold(one, 1).err(), Some(Overload::ClientNetwork));
        assert_eq!(all.hold(other, 10 << 20).err(), Some(Overload::Memory), "4 MiB would be left");
        assert!(all.hold(other, 7 << 20).is_ok());
    }

    #[test]
    fn of_few_places_a_network_may_have_all() {
        let all = Verifications::new(8, 32 << 20);
        let held: Vec<_> = (0..8).map(|_| all.hold(network("192.0.2.1"), 10).unwrap()).collect();
        assert_eq!(held.len(), 8);
    }
}
