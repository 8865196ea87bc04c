//! Lets requests with unverified tokens take turns, so that verifying them never delays the others
//! for long.
//!
//! Verifying a token takes from a few microseconds (HS512) to hundreds of microseconds (ES512). The
//! whole check of a caller whose credentials are cached takes about one microsecond (November 2026;
//! `make bench BENCH=identity`, `BENCH=check`). Anybody can send well-formed tokens with wrong
//! signatures. If each were verified as it arrives, a flood of them would delay all requests. So a
//! worker verifies at most one token per iteration of its event loop. Other connections are served
//! in the same iteration. An idle worker begins the next iteration at once, so it still verifies as
//! many tokens as its core can.
//!
//! The networks of the downstream clients ([`ClientNetwork`]) take turns too. So the next token of
//! a network waits for at most one token of each other network, however many these have sent.

use std::cell::RefCell;
use std::rc::Rc;

use runtime::ClientNetwork;
use runtime::fair_queue::FairQueue;
use tokio::sync::{Notify, oneshot};
use tokio::task::yield_now;

use super::notices::Overload;

/// The requests of a worker that wait for admission.
#[derive(Debug, Default)]
pub(crate) struct TokenQueue {
    queue: RefCell<FairQueue<oneshot::Sender<()>>>,
    wake: Notify,
}

impl TokenQueue {
    /// Queues a request. When the receiver resolves, the request is admitted: it may verify its
    /// token. When the receiver fails, a request of another network has displaced this one.
    ///
    /// # Errors
    /// If the queue is full, and no network has at least two more requests in it than this network.
    pub(crate) fn enqueue(
        &self,
        network: ClientNetwork,
    ) -> Result<oneshot::Receiver<()>, Overload> {
        let (admit, admission) = oneshot::channel();
        // If the queue is full, cancelled requests are removed first.
        let enqueued = self.queue.borrow_mut().enqueue(network, admit, |admit| !admit.is_closed());
        // Dropping the sender of a displaced request resolves its receiver with an error.
        drop(enqueued.map_err(|_| Overload::TokenQueue)?);
        self.wake.notify_one();
        Ok(admission)
    }

    /// Admits one request per iteration of the event loop. Never returns.
    pub(crate) async fn run(self: Rc<Self>) {
        loop {
            let next = self.queue.borrow_mut().pop();
            match next {
                // Sending fails if the request was cancelled. Then the next is admitted at once.
                Some(admit) => {
                    if admit.send(()).is_ok() {
                        // The runtime resumes this task only after it has run other tasks and
                        // polled for I/O events.
                        yield_now().await;
                    }
                }
                None => self.wake.notified().await,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use runtime::fair_queue::MAX_WAITING;

    use super::*;

    /// A different network for each number.
    fn network(number: u8) -> ClientNetwork {
        ClientNetwork::from_address(format!("192.0.2.{number}").as_bytes())
    }

    #[tokio::test]
    async fn cancelled_requests_take_no_room() {
        let tokens = TokenQueue::default();
        let waiting: Vec<_> =
            (0..MAX_WAITING).map(|_| tokens.enqueue(network(1)).unwrap()).collect();
        assert_eq!(tokens.enqueue(network(1)).err(), Some(Overload::TokenQueue));
        assert!(tokens.enqueue(network(2)).is_ok());
        drop(waiting);
        assert!(tokens.enqueue(network(1)).is_ok());
        assert_eq!(tokens.queue.borrow().len(), 1);
    }
}
