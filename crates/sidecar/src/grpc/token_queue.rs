//! Lets requests with unverified tokens take turns, so that verifying them never delays the others for long.
//!
//! Verifying a token takes microseconds (HS512) to hundreds of microseconds (ES512), and the whole check of a caller
//! whose credentials are cached about one microsecond (November 2026; `make bench BENCH=identity`, `BENCH=check`).
//! Anybody can send well-formed tokens with wrong signatures. If each were verified as it arrives, a flood of them
//! would delay all requests. So a worker verifies at most one token per iteration of its event loop, in which other
//! connections are served too. An idle worker begins the next iteration at once, so it still verifies as many as its
//! core can.
//!
//! The networks of the clients ([`ClientNetwork`]) take turns too. So the next token of a network waits for at most
//! one token of each other network, however many these have sent.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use authorizer::Limit;
use runtime::ClientNetwork;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

/// Maximum number of requests of one worker that wait for admission. An idle worker verifies as many RS256 tokens in
/// about 30 ms, and Envoy waits for 200 ms by default: a longer queue would hold requests that nobody waits for.
const MAX_WAITING: usize = 1024;

/// The requests of one worker that wait for admission.
#[derive(Debug, Default)]
pub(super) struct TokenQueue {
    queue: RefCell<Queue<oneshot::Sender<()>>>,
    wake: Notify,
}

/// A first-in, first-out queue for each network, served in rotation.
#[derive(Debug)]
struct Queue<T> {
    of_network: HashMap<ClientNetwork, VecDeque<T>>,
    /// Each network that has an entry, once.
    rotation: VecDeque<ClientNetwork>,
    len: usize,
}

impl TokenQueue {
    /// Queues a request. When the receiver resolves, the request is admitted: it may verify one token. When it fails, a request of
    /// another network has taken the place.
    ///
    /// # Errors
    /// If the queue is full, and no network has at least two more requests in it than this one.
    pub(super) fn enqueue(&self, network: ClientNetwork) -> Result<oneshot::Receiver<()>, Limit> {
        let (admit, admission) = oneshot::channel();
        let mut queue = self.queue.borrow_mut();
        if queue.len >= MAX_WAITING {
            // Cancelled requests take no room.
            queue.retain(|admit| !admit.is_closed());
        }
        if queue.len >= MAX_WAITING && !queue.displace(network) {
            return Err(Limit::Capacity);
        }
        queue.push(network, admit);
        self.wake.notify_one();
        Ok(admission)
    }

    /// Admits the requests, one per iteration of the event loop. Never returns.
    pub(super) async fn run(self: Rc<Self>) {
        loop {
            let next = self.queue.borrow_mut().pop();
            match next {
                // A cancelled request is not admitted.
                Some(admit) => {
                    if admit.send(()).is_ok() {
                        // The runtime resumes this task only after it has run other tasks and polled for I/O events.
                        yield_now().await;
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { of_network: HashMap::new(), rotation: VecDeque::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    fn push(&mut self, network: ClientNetwork, entry: T) {
        let entries = self.of_network.entry(network).or_default();
        if entries.is_empty() {
            self.rotation.push_back(network);
        }
        entries.push_back(entry);
        self.len += 1;
    }

    /// The oldest entry of the network whose turn it is.
    fn pop(&mut self) -> Option<T> {
        let network = self.rotation.pop_front()?;
        let entries = self.of_network.get_mut(&network)?;
        let entry = entries.pop_front();
        if entries.is_empty() {
            self.of_network.remove(&network);
        } else {
            self.rotation.push_back(network);
        }
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Removes the newest entry of the network with most entries, to make room for one of `network`. Returns false if
    /// that network has at most one entry more than `network`: the two would only change places.
    fn displace(&mut self, network: ClientNetwork) -> bool {
        let own = self.of_network.get(&network).map_or(0, VecDeque::len);
        let longest = self.of_network.values_mut().max_by_key(|entries| entries.len());
        let Some(longest) = longest.filter(|entries| entries.len() > own + 1) else { return false };
        longest.pop_back();
        self.len -= 1;
        true
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.of_network.retain(|_, entries| {
            entries.retain(&keep);
            !entries.is_empty()
        });
        let Self { of_network, rotation, len } = self;
        rotation.retain(|network| of_network.contains_key(network));
        *len = of_network.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A different network for each number.
    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::of(format!("192.0.2.{number}").as_bytes())
    }

    fn popped(queue: &mut Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn networks_take_turns() {
        let mut queue = Queue::default();
        (0..5).for_each(|number| queue.push(network(1), number));
        queue.push(network(2), 10);
        queue.push(network(2), 11);
        assert_eq!(popped(&mut queue), [0, 10, 1, 11, 2, 3, 4]);
        assert_eq!((queue.len, queue.of_network.len(), queue.rotation.len()), (0, 0, 0));
    }

    #[test]
    fn a_full_queue_makes_room_for_a_network_with_fewer_entries() {
        let mut queue = Queue::default();
        (0..3).for_each(|number| queue.push(network(1), number));
        assert!(!queue.displace(network(1)));
        assert!(queue.displace(network(2)));
        queue.push(network(2), 10);
        assert!(!queue.displace(network(2)), "both would then have as many");
        assert_eq!(popped(&mut queue), [0, 10, 1]);
    }

    #[tokio::test]
    async fn cancelled_requests_take_no_room() {
        let tokens = TokenQueue::default();
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| tokens.enqueue(network(1)).unwrap()).collect();
        assert_eq!(tokens.enqueue(network(1)).err(), Some(Limit::Capacity));
        assert!(tokens.enqueue(network(2)).is_ok());
        drop(waiting);
        assert!(tokens.enqueue(network(1)).is_ok());
        assert_eq!(tokens.queue.borrow().len, 1);
    }
}
