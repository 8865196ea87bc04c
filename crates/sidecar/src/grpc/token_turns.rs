//! Lets requests with unverified tokens take turns, so that verifying them never delays the others for long.
//!
//! Verifying a token takes microseconds (HS512) to hundreds of microseconds (ES512), and the whole check of a known
//! caller about one microsecond (November 2026; `make bench BENCH=identity`, `BENCH=check`). Anybody can send
//! well-formed tokens with wrong signatures. If each were verified as it arrives, a flood of them would delay all
//! requests. So a worker verifies at most one token per iteration of its event loop, in which other connections are
//! served too. An idle worker begins the next iteration at once, so it still verifies as many as its core can.
//!
//! The sources of the tokens (`source`: the client's IP address or network) take turns too. So the next token of a source
//! waits for at most one token of each other source, however many these have sent.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use authorizer::Limit;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

use super::source::Source;

/// Maximum number of requests of one worker that wait for their turn. An idle worker verifies as many RS256 tokens in
/// about 30 ms, and Envoy waits for 200 ms by default: a longer queue would hold requests that nobody waits for.
const MAX_WAITING: usize = 1024;

/// The requests of one worker that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct TokenTurns {
    queue: RefCell<Queue<oneshot::Sender<()>>>,
    wake: Notify,
}

/// A first-in, first-out queue for each source, served in rotation.
#[derive(Debug)]
struct Queue<T> {
    of_source: HashMap<Source, VecDeque<T>>,
    /// Each source that has an entry, once.
    rotation: VecDeque<Source>,
    len: usize,
}

impl TokenTurns {
    /// Queues a request. When the receiver resolves, the request may verify one token; when it fails, a request of
    /// another source has taken the place.
    ///
    /// # Errors
    /// If the queue is full, and no source has at least two more requests in it than this one.
    pub(super) fn wait(&self, source: Source) -> Result<oneshot::Receiver<()>, Limit> {
        let (turn, granted) = oneshot::channel();
        let mut queue = self.queue.borrow_mut();
        if queue.len >= MAX_WAITING {
            // Cancelled requests take no room.
            queue.retain(|turn| !turn.is_closed());
        }
        if queue.len >= MAX_WAITING && !queue.displace(source) {
            return Err(Limit::Capacity);
        }
        queue.push(source, turn);
        self.wake.notify_one();
        Ok(granted)
    }

    /// Grants the turns. Never returns.
    pub(super) async fn run(self: Rc<Self>) {
        loop {
            let next = self.queue.borrow_mut().pop();
            match next {
                // A cancelled request takes no turn.
                Some(turn) => {
                    if turn.send(()).is_ok() {
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
        Self { of_source: HashMap::new(), rotation: VecDeque::new(), len: 0 }
    }
}

impl<T> Queue<T> {
    fn push(&mut self, source: Source, entry: T) {
        let entries = self.of_source.entry(source).or_default();
        if entries.is_empty() {
            self.rotation.push_back(source);
        }
        entries.push_back(entry);
        self.len += 1;
    }

    /// The oldest entry of the source whose turn it is.
    fn pop(&mut self) -> Option<T> {
        let source = self.rotation.pop_front()?;
        let entries = self.of_source.get_mut(&source)?;
        let entry = entries.pop_front();
        if entries.is_empty() {
            self.of_source.remove(&source);
        } else {
            self.rotation.push_back(source);
        }
        self.len -= usize::from(entry.is_some());
        entry
    }

    /// Removes the newest entry of the source with most entries, to make room for one of `source`. Returns false if that
    /// source has at most one entry more than `source`: the two would only change places.
    fn displace(&mut self, source: Source) -> bool {
        let own = self.of_source.get(&source).map_or(0, VecDeque::len);
        let longest = self.of_source.values_mut().max_by_key(|entries| entries.len());
        let Some(longest) = longest.filter(|entries| entries.len() > own + 1) else { return false };
        longest.pop_back();
        self.len -= 1;
        true
    }

    fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        self.of_source.retain(|_, entries| {
            entries.retain(&keep);
            !entries.is_empty()
        });
        let Self { of_source, rotation, len } = self;
        rotation.retain(|source| of_source.contains_key(source));
        *len = of_source.values().map(VecDeque::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(queue: &mut Queue<u32>) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn sources_take_turns() {
        let mut queue = Queue::default();
        (0..5).for_each(|number| queue.push(Source::numbered(1), number));
        queue.push(Source::numbered(2), 10);
        queue.push(Source::numbered(2), 11);
        assert_eq!(popped(&mut queue), [0, 10, 1, 11, 2, 3, 4]);
        assert_eq!((queue.len, queue.of_source.len(), queue.rotation.len()), (0, 0, 0));
    }

    #[test]
    fn a_full_queue_makes_room_for_a_source_with_fewer_entries() {
        let mut queue = Queue::default();
        (0..3).for_each(|number| queue.push(Source::numbered(1), number));
        assert!(!queue.displace(Source::numbered(1)));
        assert!(queue.displace(Source::numbered(2)));
        queue.push(Source::numbered(2), 10);
        assert!(!queue.displace(Source::numbered(2)), "both would then have as many");
        assert_eq!(popped(&mut queue), [0, 10, 1]);
    }

    #[tokio::test]
    async fn cancelled_requests_take_no_room() {
        let turns = TokenTurns::default();
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| turns.wait(Source::numbered(1)).unwrap()).collect();
        assert_eq!(turns.wait(Source::numbered(1)).err(), Some(Limit::Capacity));
        assert!(turns.wait(Source::numbered(2)).is_ok());
        drop(waiting);
        assert!(turns.wait(Source::numbered(1)).is_ok());
        assert_eq!(turns.queue.borrow().len, 1);
    }
}
