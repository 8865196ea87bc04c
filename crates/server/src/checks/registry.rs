//! The connections of a worker: the mode of each, and which is closed when there are too many.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::metrics::ConnectionCounters;

/// A connection without a request for this long is idle. Under load, Envoy's connections carry far
/// more requests. Closing a busy connection fails all its requests.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The connections of a worker.
#[derive(Debug)]
pub(crate) struct Registry {
    open: RefCell<HashMap<u64, Rc<Entry>>>,
    limit: usize,
    /// The connections with an unfinished request head, in the order in which the heads began.
    half_heads: RefCell<VecDeque<u64>>,
    max_half_heads: usize,
    /// The number of the newest connection. A lower number is older.
    last: Cell<u64>,
    draining: Cell<bool>,
    counters: Arc<ConnectionCounters>,
}

/// How a connection is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Serve,
    /// Shut down gracefully.
    Drain,
    /// Close at once.
    Close,
}

/// A registered connection. Dropping it removes it from the registry.
#[derive(Debug)]
pub(crate) struct RegisteredConnection {
    number: u64,
    entry: Rc<Entry>,
    registry: Rc<Registry>,
}

#[derive(Debug)]
struct Entry {
    mode: Cell<Mode>,
    waker: RefCell<Option<Waker>>,
    /// When it last had a request; `None` before the first.
    last_request: Cell<Option<Instant>>,
    /// Number of checks that wait for the rest of their message or until their credentials are
    /// verified.
    pending: Rc<Cell<usize>>,
    has_half_head: Cell<bool>,
}

/// Closes a connection from another task.
#[derive(Debug)]
pub(crate) struct CloseHandle(Rc<Entry>);

/// A check that waits. While it exists, its connection is not idle.
#[derive(Debug)]
pub(crate) struct PendingGuard {
    count: Rc<Cell<usize>>,
    counters: Arc<ConnectionCounters>,
}

impl Registry {
    /// The registry of a worker with at most `limit` connections. At most `max_half_heads` of them
    /// may have an unfinished request head.
    pub(crate) fn new(
        limit: usize,
        max_half_heads: usize,
        counters: Arc<ConnectionCounters>,
    ) -> Rc<Self> {
        Rc::new(Self {
            open: RefCell::default(),
            limit: limit.max(1),
            half_heads: RefCell::default(),
            max_half_heads: max_half_heads.max(1),
            last: Cell::new(0),
            draining: Cell::new(false),
            counters,
        })
    }

    /// Registers a new connection. If the limit is reached, an idle connection is closed first, see
    /// [`Registry::evict`]. `None` if all connections are busy.
    pub(crate) fn enter(self: &Rc<Self>, now: Instant) -> Option<RegisteredConnection> {
        if self.open.borrow().len() >= self.limit && !self.evict(now) {
            self.counters.rejected.increment();
            return None;
        }
        let number = self.last.get() + 1;
        self.last.set(number);
        let mode = if self.draining.get() { Mode::Drain } else { Mode::Serve };
        let entry = Rc::new(Entry {
            mode: Cell::new(mode),
            waker: RefCell::default(),
            last_request: Cell::new(None),
            pending: Rc::default(),
            has_half_head: Cell::new(false),
        });
        self.open.borrow_mut().insert(number, Rc::clone(&entry));
        self.counters.connections.increment();
        self.counters.accepted.increment();
        Some(RegisteredConnection { number, entry, registry: Rc::clone(self) })
    }

    /// Closes an idle connection: the oldest that never had a request, or else the connection that
    /// has been idle for longest. So if a peer opens thousands of connections without requests, its
    /// own connections are closed. Returns `false` if none was idle.
    pub(crate) fn evict(&self, now: Instant) -> bool {
        let open = self.open.borrow();
        let idle = open.iter().filter(|(_, entry)| entry.is_idle(now));
        let longest = idle.min_by_key(|(number, entry)| (entry.last_request.get(), **number));
        let Some(number) = longest.map(|(number, _)| *number) else { return false };
        drop(open);
        self.close(number);
        true
    }

    /// Closes a connection to make room for others.
    fn close(&self, number: u64) {
        if let Some(entry) = self.open.borrow_mut().remove(&number) {
            entry.set(Mode::Close);
            self.counters.evicted.increment();
        }
    }

    /// Shuts down all connections gracefully, including those that are registered later.
    pub(crate) fn drain(&self) {
        self.draining.set(true);
        self.open.borrow().values().for_each(|entry| entry.set(Mode::Drain));
    }

    /// Whether all connections have ended. It does not ask `open`, from which a connection is
    /// removed as soon as it is told to close, before it ends.
    pub(crate) fn all_ended(&self) -> bool {
        self.counters.connections.read() == 0
    }
}

impl Entry {
    fn is_idle(&self, now: Instant) -> bool {
        let idle_since = self.last_request.get();
        self.pending.get() == 0
            && idle_since.is_none_or(|last| now.saturating_duration_since(last) >= IDLE_AFTER)
    }

    /// Sets the mode, except that [`Mode::Close`] is final.
    fn set(&self, mode: Mode) {
        if self.mode.get() != Mode::Close {
            self.mode.set(mode);
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl RegisteredConnection {
    /// The current mode. The task of `cx` is woken when the mode changes.
    pub(crate) fn mode(&self, cx: &Context<'_>) -> Mode {
        let mut waker = self.entry.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        self.entry.mode.get()
    }

    /// A handle for another task.
    pub(crate) fn close_handle(&self) -> CloseHandle {
        CloseHandle(Rc::clone(&self.entry))
    }

    /// Resolves when the connection is to be closed.
    pub(crate) async fn closed(&self) {
        poll_fn(|cx| if self.mode(cx) == Mode::Close { Poll::Ready(()) } else { Poll::Pending })
            .await;
    }

    /// Number of other connections of this worker.
    pub(crate) fn other_connections(&self) -> usize {
        self.registry.open.borrow().len().saturating_sub(1)
    }

    /// Records that it had a request.
    pub(crate) fn record_request(&self, now: Instant) {
        self.entry.last_request.set(Some(now));
    }

    /// Whether it had a request.
    pub(crate) fn had_request(&self) -> bool {
        self.entry.last_request.get().is_some()
    }

    /// Records whether the connection has an unfinished request head. If too many connections do,
    /// the one whose head began first is closed. A usual peer sends a whole head at once, so its
    /// connection is among them for a moment only.
    pub(crate) fn set_half_head(&self, has_half_head: bool) {
        if self.entry.has_half_head.replace(has_half_head) == has_half_head {
            return;
        }
        let mut half_heads = self.registry.half_heads.borrow_mut();
        if !has_half_head {
            half_heads.retain(|number| *number != self.number);
            return;
        }
        half_heads.push_back(self.number);
        if half_heads.len() > self.registry.max_half_heads
            && let Some(first) = half_heads.pop_front()
        {
            self.registry.close(first);
        }
    }

    /// Counts a connection that is closed because its peer does not end the head of a request.
    pub(crate) fn count_eviction(&self) {
        self.registry.counters.evicted.increment();
    }

    /// Counts a check of this connection that waits, until the guard is dropped.
    pub(crate) fn count_pending(&self) -> PendingGuard {
        let count = Rc::clone(&self.entry.pending);
        count.set(count.get() + 1);
        let counters = Arc::clone(&self.registry.counters);
        counters.in_flight.increment();
        PendingGuard { count, counters }
    }
}

impl CloseHandle {
    /// Closes the connection at once.
    pub(crate) fn close(self) {
        self.0.set(Mode::Close);
    }
}

impl Drop for PendingGuard {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.counters.in_flight.decrement();
    }
}

impl Drop for RegisteredConnection {
    fn drop(&mut self) {
        self.set_half_head(false);
        self.registry.open.borrow_mut().remove(&self.number);
        self.registry.counters.connections.decrement();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(limit: usize) -> Rc<Registry> {
        Registry::new(limit, 2, Arc::default())
    }

    fn modes(connections: &[&RegisteredConnection]) -> Vec<Mode> {
        connections.iter().map(|connected| connected.entry.mode.get()).collect()
    }

    #[test]
    fn the_connection_that_is_idle_for_longest_is_closed() {
        let (registry, start) = (registry(3), Instant::now());
        let enter = |now| registry.enter(now).unwrap();
        let (a, b, c) = (enter(start), enter(start), enter(start));
        b.record_request(start);
        a.record_request(start + IDLE_AFTER / 2);
        c.record_request(start + IDLE_AFTER);
        let later = start + IDLE_AFTER * 3 / 2;
        let busy = b.count_pending();
        let d = enter(later);
        assert_eq!(modes(&[&a, &b, &c, &d]), [Mode::Close, Mode::Serve, Mode::Serve, Mode::Serve]);
        drop(busy);
        d.record_request(later);
        let _e = enter(later);
        assert_eq!(modes(&[&b, &c, &d]), [Mode::Close, Mode::Serve, Mode::Serve]);
    }

    #[test]
    fn connections_without_a_request_are_closed_first() {
        let (registry, start) = (registry(3), Instant::now());
        let enter = |now| registry.enter(now).unwrap();
        let (used, unused) = (enter(start), enter(start));
        used.record_request(start);
        let later = start + IDLE_AFTER * 60;
        let flood: Vec<_> = (0..100).map(|_| enter(later)).collect();
        assert_eq!(modes(&[&used, &unused]), [Mode::Serve, Mode::Close]);
        let closed = flood.iter().filter(|connected| modes(&[connected]) == [Mode::Close]).count();
        assert_eq!(closed, 98);
    }

    #[test]
    fn a_busy_connection_is_never_closed() {
        let (registry, start) = (registry(1), Instant::now());
        let connected = registry.enter(start).unwrap();
        connected.record_request(start);
        let soon = start + IDLE_AFTER - Duration::from_millis(1);
        assert!(registry.enter(soon).is_none() && !registry.evict(soon));
        let counts = |registry: &Registry| {
            (registry.counters.rejected.read(), registry.counters.evicted.read())
        };
        assert_eq!(counts(&registry), (1, 0));
        let waits = connected.count_pending();
        let later = start + IDLE_AFTER * 60;
        assert!(registry.enter(later).is_none() && !registry.evict(later));
        drop(waits);
        assert!(registry.enter(later).is_some());
    }

    #[test]
    fn of_those_within_a_head_the_first_is_closed() {
        let registry = registry(10);
        let [a, b, c, d] = [(); 4].map(|()| registry.enter(Instant::now()).unwrap());
        let begin = |connected: &RegisteredConnection| connected.set_half_head(true);
        begin(&a);
        begin(&b);
        a.set_half_head(false);
        begin(&c);
        begin(&c);
        let serving = [Mode::Serve; 4];
        assert_eq!(modes(&[&a, &b, &c, &d]), serving);
        begin(&d);
        assert_eq!(modes(&[&a, &b, &c, &d]), [Mode::Serve, Mode::Close, Mode::Serve, Mode::Serve]);
        drop(c);
        begin(&a);
        assert_eq!(modes(&[&a, &d]), [Mode::Serve, Mode::Serve]);
        assert_eq!(registry.counters.evicted.read(), 1);
    }

    #[test]
    fn a_drain_applies_to_open_and_new_connections() {
        let registry = registry(2);
        let a = registry.enter(Instant::now()).unwrap();
        registry.drain();
        let b = registry.enter(Instant::now()).unwrap();
        assert_eq!(modes(&[&a, &b]), [Mode::Drain, Mode::Drain]);
        assert!(!registry.all_ended());
        drop((a, b));
        assert!(registry.all_ended());
    }
}
