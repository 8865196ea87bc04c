//! The connections of one worker: what each is told to do, and which one makes room when there are too many.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::counters;

/// A connection on which nothing was asked for so long is idle. Envoy's connections carry far more than a request per
/// second where it matters; to close a busy one fails all of its requests.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The connections of one worker.
#[derive(Debug)]
pub(super) struct Registry {
    open: RefCell<HashMap<u64, Rc<Entry>>>,
    limit: usize,
    /// The number of the last connection: a lower one is older.
    last: Cell<u64>,
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
    entry: Rc<Entry>,
    registry: Rc<Registry>,
}

#[derive(Debug)]
struct Entry {
    order: Cell<Order>,
    waker: RefCell<Option<Waker>>,
    /// When something was asked on it last; `None` while nothing was.
    last_asked: Cell<Option<Instant>>,
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
            last: Cell::new(0),
            draining: Cell::new(false),
            counters,
        })
    }

    /// A place for a new connection; if need be another one makes room for it, see [`Registry::evict`]. `None` if all are
    /// busy.
    pub(super) fn enter(self: &Rc<Self>, now: Instant) -> Option<Connected> {
        if self.open.borrow().len() >= self.limit && !self.evict(now) {
            self.counters.rejected.one_more();
            return None;
        }
        let number = self.last.get() + 1;
        self.last.set(number);
        let order = if self.draining.get() { Order::Drain } else { Order::Serve };
        let entry = Rc::new(Entry {
            order: Cell::new(order),
            waker: RefCell::default(),
            last_asked: Cell::new(None),
            pending: Rc::default(),
        });
        self.open.borrow_mut().insert(number, Rc::clone(&entry));
        self.counters.connections.one_more();
        self.counters.accepted.one_more();
        Some(Connected { number, entry, registry: Rc::clone(self) })
    }

    /// Closes an idle connection: the oldest on which nothing was ever asked, or else the one that has been idle the
    /// longest. So a client that opens thousands of connections closes its own. Returns whether there was one.
    pub(super) fn evict(&self, now: Instant) -> bool {
        let mut open = self.open.borrow_mut();
        let idle = open.iter().filter(|(_, entry)| entry.is_idle(now));
        let longest = idle.min_by_key(|(number, entry)| (entry.last_asked.get(), **number));
        let Some(number) = longest.map(|(number, _)| *number) else { return false };
        if let Some(entry) = open.remove(&number) {
            entry.tell(Order::Close);
            self.counters.evicted.one_more();
        }
        true
    }

    /// Tells every connection, and every one to come, to end in good order.
    pub(super) fn drain(&self) {
        self.draining.set(true);
        self.open.borrow().values().for_each(|entry| entry.tell(Order::Drain));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.counters.connections.read() == 0
    }
}

impl Entry {
    fn is_idle(&self, now: Instant) -> bool {
        let long_ago = |asked| now.saturating_duration_since(asked) >= IDLE_AFTER;
        self.pending.get() == 0 && self.last_asked.get().is_none_or(long_ago)
    }

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
        let mut waker = self.entry.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.entry.order.get()
    }

    /// Waits for the order to close.
    pub(super) async fn closed(&self) {
        poll_fn(|cx| if self.order(cx) == Order::Close { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    /// How many other connections there are.
    pub(super) fn others(&self) -> usize {
        self.registry.open.borrow().len().saturating_sub(1)
    }

    /// Notes that something is asked on it.
    pub(super) fn active(&self, now: Instant) {
        self.entry.last_asked.set(Some(now));
    }

    /// A check of it waits.
    pub(super) fn pending(&self) -> Pending {
        let count = Rc::clone(&self.entry.pending);
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
        connections.iter().map(|connected| connected.entry.order.get()).collect()
    }

    #[test]
    fn the_one_that_is_idle_the_longest_makes_room() {
        let (registry, start) = (registry(3), Instant::now());
        let enter = |now| registry.enter(now).unwrap();
        let (a, b, c) = (enter(start), enter(start), enter(start));
        b.active(start);
        a.active(start + IDLE_AFTER / 2);
        c.active(start + IDLE_AFTER);
        let later = start + IDLE_AFTER * 3 / 2;
        let busy = b.pending();
        let d = enter(later);
        assert_eq!(orders(&[&a, &b, &c, &d]), [Order::Close, Order::Serve, Order::Serve, Order::Serve]);
        drop(busy);
        d.active(later);
        let _e = enter(later);
        assert_eq!(orders(&[&b, &c, &d]), [Order::Close, Order::Serve, Order::Serve]);
    }

    #[test]
    fn those_that_never_asked_make_room_before_one_that_did() {
        let (registry, start) = (registry(3), Instant::now());
        let enter = |now| registry.enter(now).unwrap();
        let (asked, silent) = (enter(start), enter(start));
        asked.active(start);
        let later = start + IDLE_AFTER * 60;
        let flood: Vec<_> = (0..100).map(|_| enter(later)).collect();
        assert_eq!(orders(&[&asked, &silent]), [Order::Serve, Order::Close]);
        let closed = flood.iter().filter(|connected| orders(&[connected]) == [Order::Close]).count();
        assert_eq!(closed, 98);
    }

    #[test]
    fn a_busy_one_never_makes_room() {
        let (registry, start) = (registry(1), Instant::now());
        let connected = registry.enter(start).unwrap();
        connected.active(start);
        let soon = start + IDLE_AFTER - Duration::from_millis(1);
        assert!(registry.enter(soon).is_none() && !registry.evict(soon));
        let counts =
            |registry: &Registry| (registry.counters.rejected.read(), registry.counters.evicted.read());
        assert_eq!(counts(&registry), (1, 0));
        let waits = connected.pending();
        let later = start + IDLE_AFTER * 60;
        assert!(registry.enter(later).is_none() && !registry.evict(later));
        drop(waits);
        assert!(registry.enter(later).is_some());
    }

    #[test]
    fn draining_reaches_those_that_are_there_and_those_to_come() {
        let registry = registry(2);
        let a = registry.enter(Instant::now()).unwrap();
        registry.drain();
        let b = registry.enter(Instant::now()).unwrap();
        assert_eq!(orders(&[&a, &b]), [Order::Drain, Order::Drain]);
        assert!(!registry.is_empty());
        drop((a, b));
        assert!(registry.is_empty());
    }
}
