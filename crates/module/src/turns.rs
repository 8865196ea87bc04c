//! Lets requests with unverified tokens take turns on a worker thread: it verifies one per iteration of Envoy's event loop,
//! so that a flood of tokens with wrong signatures does not delay the requests of other callers.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use runtime::ClientNetwork;
use runtime::fair_queue::{FairQueue, Full};

use crate::abi::Scheduler;

/// The requests of one worker thread that wait for their turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    queue: RefCell<FairQueue<Entry>>,
    /// Whether a request has its turn now.
    taken: Cell<bool>,
}

/// The place of a request in the queue, or its turn. Dropping it ends the turn.
#[derive(Debug)]
pub(crate) struct Place {
    turns: Rc<Turns>,
    turn: Rc<Cell<bool>>,
}

#[derive(Debug)]
struct Entry {
    scheduler: Scheduler,
    /// Whether it has its turn, shared with its [`Place`].
    turn: Rc<Cell<bool>>,
}

impl Entry {
    fn waits(&self) -> bool {
        Rc::strong_count(&self.turn) > 1
    }
}

/// The event that tells a request that it has its turn.
pub(crate) const TURN: u64 = 3;
/// The event that tells a request that it has lost its place to one from another network.
pub(crate) const DISPLACED: u64 = 4;

impl Turns {
    /// Queues a request: `scheduler` gets [`TURN`] or [`DISPLACED`].
    ///
    /// # Errors
    /// If the queue is full.
    pub(crate) fn enqueue(
        self: &Rc<Self>,
        network: ClientNetwork,
        scheduler: Scheduler,
    ) -> Result<Place, Full> {
        let turn = Rc::new(Cell::new(false));
        let entry = Entry { scheduler, turn: Rc::clone(&turn) };
        let displaced = self.queue.borrow_mut().enqueue(network, entry, Entry::waits)?;
        if let Some(displaced) = displaced {
            displaced.scheduler.commit(DISPLACED);
        }
        let place = Place { turns: Rc::clone(self), turn };
        if !self.taken.get() {
            self.next();
        }
        Ok(place)
    }

    /// Gives the turn to the next request that still waits.
    fn next(&self) {
        self.taken.set(false);
        loop {
            let Some(entry) = self.queue.borrow_mut().pop() else { return };
            if entry.waits() && entry.scheduler.commit(TURN) {
                entry.turn.set(true);
                self.taken.set(true);
                return;
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.turn.get() {
            self.turns.next();
        }
    }
}
