//! A queue in which networks take turns.

use std::collections::{HashMap, VecDeque};

use crate::client_network::ClientNetwork;

/// Maximum number of entries. A thread verifies this many RS256 tokens in about 30 ms. Envoy waits
/// for 200 ms by default.
pub const MAX_WAITING: usize = 1024;

/// A first-in, first-out queue for each network, served in rotation.
#[derive(Debug)]
pub struct FairQueue<T> {
    by_network: HashMap<ClientNetwork, VecDeque<T>>,
    /// Each network that has an entry, once.
    rotation: VecDeque<ClientNetwork>,
    len: usize,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self { by_network: HashMap::new(), rotation: VecDeque::new(), len: 0 }
    }
}

/// The queue is full, and no network has at least two more entries in it than the network of the
/// new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<T> FairQueue<T> {
    /// Adds an entry. If the queue is full, removes entries whose `waits` is false. If it is still
    /// full, removes and returns the newest entry of the network with most entries.
    ///
    /// # Errors
    /// If the queue is full, and no network has at least two more entries in it than this network.
    pub fn enqueue(
        &mut self,
        network: ClientNetwork,
        entry: T,
        waits: impl Fn(&T) -> bool,
    ) -> Result<Option<T>, Full> {
        if self.len >= MAX_WAITING {
            self.retain(waits);
        }
        let is_full = self.len >= MAX_WAITING;
        let displaced = if is_full { Some(self.displace(network).ok_or(Full)?) } else { None };
        self.push(network, entry);
        Ok(displaced)
    }

    fn push(&mut self, network: ClientNetwork, entry: T) {
        let entries = self.by_network.entry(network).or_default();
        if entries.is_empty() {
            self.rotation.push_back(network);
        }
        entries.push_back(entry);
        self.len += 1;
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Removes and returns the oldest entry of the network whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let network = self.rotation.pop_front()?;
        let entries = self.by_network.get_mut(&network)?;
        let entry = entries.pop_front();
        if entries.is_empty() {
            self.by_network.remove(&network);
        } else {
            self.rotation.push_back(network);
        }
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Removes the newest entry of the network with most entries. Removes none if `network`, with
    /// one more entry, would then have more entries than that network.
    fn displace(&mut self, network: ClientNetwork) -> Option<T> {
        let count = self.by_network.get(&network).map_or(0, VecDeque::len);
        let longest = self.by_network.values_mut().max_by_key(|entries| entries.len());
        let displaced = longest.filter(|entries| entries.len() > count + 1)?.pop_back();
        self.len -= usize::from(displaced.is_some());
        displaced
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.by_network.retain(|_, entries| {
            entries.retain(&keep);
            !entries.is_empty()
        });
        let Self { by_network, rotation, len } = self;
        rotation.retain(|network| by_network.contains_key(network));
        *len = by_network.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A different network for each number.
    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::from_address(format!("192.0.2.{number}").as_bytes())
    }

    fn popped(queue: &mut FairQueue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn networks_take_turns() {
        let mut queue = FairQueue::default();
        (0..5).for_each(|number| queue.push(network(1), number));
        queue.push(network(2), 10);
        queue.push(network(2), 11);
        assert_eq!(popped(&mut queue), [0, 10, 1, 11, 2, 3, 4]);
        assert_eq!((queue.len, queue.by_network.len(), queue.rotation.len()), (0, 0, 0));
    }

    #[test]
    fn a_full_queue_makes_room_for_a_network_with_fewer_entries() {
        let mut queue = FairQueue::default();
        (0..3).for_each(|number| queue.push(network(1), number));
        assert_eq!(queue.displace(network(1)), None);
        assert_eq!(queue.displace(network(2)), Some(2));
        queue.push(network(2), 10);
        assert_eq!(queue.displace(network(2)), None, "both would then have as many");
        assert_eq!(popped(&mut queue), [0, 10, 1]);
    }

    #[test]
    fn so_many_entries_wait_and_no_more() {
        let mut queue = FairQueue::default();
        let full = u32::try_from(MAX_WAITING).unwrap();
        for number in 0..full {
            assert_eq!(queue.enqueue(network(1), number, |_| true), Ok(None));
        }
        assert_eq!(queue.enqueue(network(1), full, |_| true), Err(Full));
        assert_eq!(queue.enqueue(network(2), full, |_| true), Ok(Some(full - 1)));
        assert_eq!(queue.len(), MAX_WAITING);
        // Those that no longer wait make room.
        assert_eq!(queue.enqueue(network(1), full, |number| *number >= 10), Ok(None));
        assert_eq!(queue.len(), MAX_WAITING - 9);
    }
}
