//! Admits requests with unverified tokens in turn: a worker thread verifies a single token per
//! iteration of Envoy's event loop, so that a flood of tokens with wrong signatures does not delay
//! the requests of other callers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use runtime::ClientNetwork;
use runtime::fair_queue::{FairQueue, Full};

use crate::abi::Scheduler;

/// The requests of a worker thread that wait for admission.
#[derive(Debug, Default)]
pub(crate) struct TokenQueue {
    queue: RefCell<FairQueue<Entry>>,
    /// Whether an admitted request has not verified its token yet.
    is_busy: Cell<bool>,
}

/// A request's place in the queue until its token is verified. Dropping it leaves the queue or, if
/// the request is admitted, admits the next request.
#[derive(Debug)]
pub(crate) struct Admission {
    queue: Rc<TokenQueue>,
    admitted: Rc<Cell<bool>>,
}

#[derive(Debug)]
struct Entry {
    scheduler: Scheduler,
    /// Whether it is admitted, shared with its [`Admission`].
    admitted: Rc<Cell<bool>>,
}

impl Entry {
    /// Whether the request still waits: then it has its [`Admission`], which shares `admitted`.
    fn waits(&self) -> bool {
        Rc::strong_count(&self.admitted) > 1
    }
}

/// The event that tells a request that it may verify its token.
pub(crate) const ADMITTED: u64 = 3;
/// The event that tells a request that it lost its place in the full queue, to a request from
/// another network.
pub(crate) const DISPLACED: u64 = 4;

impl TokenQueue {
    /// Queues a request: `scheduler` gets [`ADMITTED`] or [`DISPLACED`].
    ///
    /// # Errors
    /// If the queue is full.
    pub(crate) fn enqueue(
        self: &Rc<Self>,
        network: ClientNetwork,
        scheduler: Scheduler,
    ) -> Result<Admission, Full> {
        let admitted = Rc::new(Cell::new(false));
        let entry = Entry { scheduler, admitted: Rc::clone(&admitted) };
        let displaced = self.queue.borrow_mut().enqueue(network, entry, Entry::waits)?;
        if let Some(displaced) = displaced {
            displaced.scheduler.commit(DISPLACED);
        }
        let admission = Admission { queue: Rc::clone(self), admitted };
        if !self.is_busy.get() {
            self.admit_next();
        }
        Ok(admission)
    }

    /// Admits the next request that still waits.
    fn admit_next(&self) {
        self.is_busy.set(false);
        loop {
            let Some(entry) = self.queue.borrow_mut().pop() else { return };
            if entry.waits() && entry.scheduler.commit(ADMITTED) {
                entry.admitted.set(true);
                self.is_busy.set(true);
                return;
            }
        }
    }
}

impl Drop for Admission {
    fn drop(&mut self) {
        if self.admitted.get() {
            self.queue.admit_next();
        }
    }
}
