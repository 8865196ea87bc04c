//! The connections of one worker: what each is told to do, and which one makes room when there are too many.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::counters;

/// The connections of one worker.
#[derive(Debug)]
pub(super) struct Registry {
    open: RefCell<HashMap<u64, Rc<Seat>>>,
    limit: usize,
    /// Counts whatever happens on any connection: a clock that costs nothing.
    clock: Cell<u64>,
    draining: Cell<bool>,
    counters: Arc<counters::Worker>,
}

/// What a connection is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Serve,
    Drain,
    Close,
}

/// The place of a connection in the registry; left when dropped.
#[derive(Debug)]
pub(super) struct Connected {
    number: u64,
    seat: Rc<Seat>,
    registry: Rc<Registry>,
}

#[derive(Debug)]
struct Seat {
    order: Cell<Order>,
    waker: RefCell<Option<Waker>>,
    last_active: Cell<u64>,
    /// Checks that wait.
    pending: Rc<Cell<usize>>,
}

/// A check that waits: while it is there, its connection is not idle.
#[derive(Debug)]
pub(super) struct Pending {
    count: Rc<Cell<usize>>,
    counters: Arc<counters::Worker>,
}

impl Registry {
    pub(super) fn new(limit: usize, counters: Arc<counters::Worker>) -> Rc<Self> {
        Rc::new(Self {
            open: RefCell::default(),
            limit: limit.max(1),
            clock: Cell::new(0),
            draining: Cell::new(false),
            counters,
        })
    }

    /// A place for a new connection; the one that is idle the longest makes room for it if need be. `None` if all are
    /// busy.
    pub(super) fn enter(self: &Rc<Self>) -> Option<Connected> {
        if self.open.borrow().len() >= self.limit && !self.evict() {
            self.counters.evicted.one_more();
            return None;
        }
        let number = self.tick();
        let order = if self.draining.get() { Order::Drain } else { Order::Serve };
        let seat = Rc::new(Seat {
            order: Cell::new(order),
            waker: RefCell::default(),
            last_active: Cell::new(number),
            pending: Rc::default(),
        });
        self.open.borrow_mut().insert(number, Rc::clone(&seat));
        self.counters.connections.one_more();
        self.counters.accepted.one_more();
        Some(Connected { number, seat, registry: Rc::clone(self) })
    }

    /// Closes the connection that is idle the longest. Returns whether there was one.
    pub(super) fn evict(&self) -> bool {
        let mut open = self.open.borrow_mut();
        let idle = open.iter().filter(|(_, seat)| seat.pending.get() == 0);
        let Some(number) = idle.min_by_key(|(_, seat)| seat.last_active.get()).map(|(number, _)| *number)
        else {
            return false;
        };
        if let Some(seat) = open.remove(&number) {
            seat.tell(Order::Close);
            self.counters.evicted.one_more();
        }
        true
    }

    /// Tells every connection, and every one to come, to end in good order.
    pub(super) fn drain(&self) {
        self.draining.set(true);
        self.open.borrow().values().for_each(|seat| seat.tell(Order::Drain));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counters.connections.read() == 0
    }

    fn tick(&self) -> u64 {
        let now = self.clock.get() + 1;
        self.clock.set(now);
        now
    }
}

impl Seat {
    fn tell(&self, order: Order) {
        self.order.set(order);
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Connected {
    /// What to do now. The task is woken when that changes.
    pub(super) fn order(&self, cx: &Context<'_>) -> Order {
        let mut waker = self.seat.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.seat.order.get()
    }

    /// Waits for the order to close.
    pub(super) async fn closed(&self) {
        poll_fn(|cx| if self.order(cx) == Order::Close { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// How many other connections there are.
    pub(super) fn others(&self) -> usize {
        self.registry.open.borrow().len().saturating_sub(1)
    }

    /// Notes that something was asked on it.
    pub(super) fn active(&self) {
        self.seat.last_active.set(self.registry.tick());
    }

    /// A check of it waits.
    pub(super) fn pending(&self) -> Pending {
        let count = Rc::clone(&self.seat.pending);
        count.set(count.get() + 1);
        let counters = Arc::clone(&self.registry.counters);
        counters.in_flight.one_more();
        Pending { count, counters }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.counters.in_flight.one_less();
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.registry.open.borrow_mut().remove(&self.number);
        self.registry.counters.connections.one_less();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(limit: usize) -> Rc<Registry> {
        Registry::new(limit, Arc::default())
    }

    fn orders(connections: &[&Connected]) -> Vec<Order> {
        connections.iter().map(|connected| connected.seat.order.get()).collect()
    }

    #[test]
    fn the_one_that_is_idle_the_longest_makes_room() {
        let registry = registry(3);
        let (a, b, c) = (registry.enter().unwrap(), registry.enter().unwrap(), registry.enter().unwrap());
        a.active();
        let busy = b.pending();
        let d = registry.enter().unwrap();
        assert_eq!(orders(&[&a, &b, &c, &d]), [Order::Serve, Order::Serve, Order::Close, Order::Serve]);
        drop(busy);
        let _e = registry.enter().unwrap();
        assert_eq!(orders(&[&a, &b, &d]), [Order::Serve, Order::Close, Order::Serve]);
    }

    #[test]
    fn there_is_no_room_where_all_are_busy() {
        let registry = registry(1);
        let connected = registry.enter().unwrap();
        let busy = connected.pending();
        assert!(registry.enter().is_none());
        drop(busy);
        assert!(registry.enter().is_some());
    }

    #[test]
    fn draining_reaches_those_that_are_there_and_those_to_come() {
        let registry = registry(2);
        let a = registry.enter().unwrap();
        registry.drain();
        let b = registry.enter().unwrap();
        assert_eq!(orders(&[&a, &b]), [Order::Drain, Order::Drain]);
        assert!(!registry.is_empty());
        drop((a, b));
        assert!(registry.is_empty());
    }
}
