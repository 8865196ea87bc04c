//! The open connections of an HTTP listener, and the bytes that they send, bounded.
//!
//! There is always room for a new connection: it evicts the connection that has waited for a
//! request for longest, or if none waits, the connection that has been busy for longest. If the new
//! connection were closed instead, silent connections could use up the limit, and no probe would be
//! answered.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// The open connections of a listener.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    table: Arc<Mutex<Table>>,
    bounds: Bounds,
}

/// The limits of a listener's connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Maximum number of open connections.
    pub(crate) connections: usize,
    /// Maximum bytes of all answers that are being sent. A single answer may be larger.
    pub(crate) bytes: usize,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By number. A connection gets a new number when it begins to wait or becomes busy, so the
    /// lowest number has waited, or been busy, for longest.
    open: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Bytes of the answer that is being sent, or 0 if they are not counted; `None` while the
    /// connection waits for a request.
    bytes: Option<usize>,
    /// Nothing is ever sent: dropping it ends the connection.
    _open: oneshot::Sender<()>,
}

/// An open connection. Dropping it removes it from the list.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    number: AtomicU64,
    connections: Connections,
}

impl Connections {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { table: Arc::default(), bounds }
    }

    /// Registers a connection, after evicting another if necessary. The receiver resolves when the
    /// connection is evicted.
    pub(crate) fn open(&self) -> (OpenConnection, oneshot::Receiver<()>) {
        let (open, evicted) = oneshot::channel();
        let mut table = self.lock();
        while table.open.len() >= self.bounds.connections {
            table.evict();
        }
        let number = table.insert(Connection { bytes: None, _open: open });
        drop(table);
        (OpenConnection { number: number.into(), connections: self.clone() }, evicted)
    }

    /// Evicts a connection, to free its file descriptor.
    pub(crate) fn evict(&self) {
        self.lock().evict();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn insert(&mut self, connection: Connection) -> u64 {
        let number = self.next;
        self.next += 1;
        self.open.insert(number, connection);
        number
    }

    fn evict(&mut self) {
        let waiting = self.open.iter().find(|(_, connection)| connection.bytes.is_none());
        let oldest = waiting.or_else(|| self.open.iter().next());
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.open.remove(&number);
        }
    }

    fn bytes(&self) -> usize {
        self.open.values().filter_map(|connection| connection.bytes).sum()
    }
}

impl OpenConnection {
    /// The connection has a request, and will send this many bytes. If all connections together
    /// send too many, the oldest that are sending are evicted: the slow readers.
    pub(crate) fn set_busy(&self, bytes: usize) {
        self.set(Some(bytes));
    }

    /// The connection waits for another request.
    pub(crate) fn set_waiting(&self) {
        self.set(None);
    }

    fn set(&self, bytes: Option<usize>) {
        let mut table = self.connections.lock();
        // A connection that is not in the table has been evicted.
        let Some(connection) = table.open.remove(&self.number.load(Relaxed)) else { return };
        while bytes.is_some_and(|bytes| table.bytes() + bytes > self.connections.bounds.bytes) {
            let mut sending =
                table.open.iter().filter(|(_, connection)| connection.bytes.is_some());
            let Some(oldest) = sending.next().map(|(number, _)| *number) else { break };
            table.open.remove(&oldest);
        }
        self.number.store(table.insert(Connection { bytes, ..connection }), Relaxed);
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::Receiver;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::{Bounds, Connections};

    const BOUNDS: Bounds = Bounds { connections: 64, bytes: 4 << 20 };

    fn is_open(evicted: &mut Receiver<()>) -> bool {
        evicted.try_recv() == Err(TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_waiting_connection_is_evicted() {
        let connections = Connections::new(BOUNDS);
        let mut open: Vec<_> = (0..BOUNDS.connections).map(|_| connections.open()).collect();
        open[0].0.set_busy(4);
        let mut newest = connections.open();
        let states: Vec<bool> = open.iter_mut().map(|(_, evicted)| is_open(evicted)).collect();
        assert_eq!(states.iter().filter(|open| !**open).count(), 1);
        assert!(states[0] && !states[1], "the first is busy, the second waits");
        assert!(is_open(&mut newest.1));
    }

    #[test]
    fn a_connection_that_waits_again_is_the_newest() {
        let connections = Connections::new(BOUNDS);
        let mut open: Vec<_> = (0..BOUNDS.connections).map(|_| connections.open()).collect();
        open[0].0.set_busy(4);
        open[0].0.set_waiting();
        let _newest = connections.open();
        assert!(is_open(&mut open[0].1) && !is_open(&mut open[1].1));
    }

    #[test]
    fn the_oldest_connection_is_evicted_if_none_waits() {
        let connections = Connections::new(BOUNDS);
        let mut open: Vec<_> = (0..BOUNDS.connections).map(|_| connections.open()).collect();
        open.iter().for_each(|(connection, _)| connection.set_busy(4));
        let _newest = connections.open();
        assert!(!is_open(&mut open[0].1));
        assert!(open[1..].iter_mut().all(|(_, evicted)| is_open(evicted)));
    }

    #[test]
    fn pages_are_bounded_in_bytes_and_the_last_one_is_always_sent() {
        let connections = Connections::new(BOUNDS);
        let mut open: Vec<_> = (0..10).map(|_| connections.open()).collect();
        for (connection, evicted) in &mut open {
            connection.set_busy(BOUNDS.bytes / 3);
            assert!(connections.lock().bytes() <= BOUNDS.bytes && is_open(evicted));
        }
        assert!(!is_open(&mut open[6].1), "evicted for a later one");
        let (larger, mut evicted) = connections.open();
        larger.set_busy(2 * BOUNDS.bytes);
        assert!(open.iter_mut().all(|(_, evicted)| !is_open(evicted)));
        assert!(is_open(&mut evicted));
        drop((open, larger));
        assert!(connections.lock().open.is_empty());
    }

    /// It may be evicted while its page is made.
    #[test]
    fn an_evicted_connection_evicts_no_other() {
        let connections = Connections::new(Bounds { connections: 1, ..BOUNDS });
        let (evicted, _) = connections.open();
        let (sending, mut end) = connections.open();
        sending.set_busy(4);
        evicted.set_busy(BOUNDS.bytes);
        assert!(is_open(&mut end));
    }
}
