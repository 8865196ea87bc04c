//! The open connections of an HTTP listener, and the pages that they send, bounded in number and in
//! bytes.
//!
//! There is always room for a new connection: it evicts the oldest connection that waits for a
//! request, or if none waits, the oldest of all. If the new connection were closed instead, 64
//! silent connections could keep the limit reached, and no probe would be answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Maximum number of open connections. Probes and scrapers are few.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Maximum bytes of all pages that are being sent. A single page may be larger: the policy
/// determines its size, and no client can make it larger.
pub(super) const MAX_PAGE_BYTES: usize = 4 << 20;

/// The open connections of a listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// By number, and so by age.
    open: BTreeMap<u64, Connection>,
}

#[derive(Debug)]
struct Connection {
    /// Bytes of the page that is being sent; `None` while the request is not complete.
    page_bytes: Option<usize>,
    /// Nothing is ever sent: dropping it ends the connection.
    _open: oneshot::Sender<()>,
}

/// An open connection. Dropping it removes it from the list.
#[derive(Debug)]
pub(super) struct OpenConnection {
    number: u64,
    connections: Connections,
}

impl Connections {
    /// Registers a connection, after evicting another if necessary. The receiver resolves when the
    /// connection is evicted.
    pub(super) fn open(&self) -> (OpenConnection, oneshot::Receiver<()>) {
        let (open, evicted) = oneshot::channel();
        let mut table = self.lock();
        while table.open.len() >= MAX_CONNECTIONS {
            table.evict();
        }
        let number = table.next;
        table.next += 1;
        table.open.insert(number, Connection { page_bytes: None, _open: open });
        drop(table);
        (OpenConnection { number, connections: self.clone() }, evicted)
    }

    /// Evicts a connection, to free its file descriptor.
    pub(super) fn evict(&self) {
        self.lock().evict();
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn evict(&mut self) {
        let waiting = self.open.iter().find(|(_, connection)| connection.page_bytes.is_none());
        let oldest = waiting.or_else(|| self.open.iter().next());
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.open.remove(&number);
        }
    }

    fn page_bytes(&self) -> usize {
        self.open.values().filter_map(|connection| connection.page_bytes).sum()
    }
}

impl OpenConnection {
    /// Records the size of the page that this connection is about to send. If all pages together
    /// take too many bytes, the oldest connections that are sending are evicted: the slow readers.
    pub(super) fn reserve_page_bytes(&self, page_bytes: usize) {
        let mut table = self.connections.lock();
        while table.page_bytes() + page_bytes > MAX_PAGE_BYTES {
            let mut sending =
                table.open.iter().filter(|(_, connection)| connection.page_bytes.is_some());
            let Some(oldest) = sending.next().map(|(number, _)| *number) else { break };
            table.open.remove(&oldest);
        }
        if let Some(connection) = table.open.get_mut(&self.number) {
            connection.page_bytes = Some(page_bytes);
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::Receiver;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::{Connections, MAX_CONNECTIONS, MAX_PAGE_BYTES};

    fn is_open(evicted: &mut Receiver<()>) -> bool {
        evicted.try_recv() == Err(TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_waiting_connection_is_evicted() {
        let connections = Connections::default();
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        open[0].0.reserve_page_bytes(4);
        let mut newest = connections.open();
        let states: Vec<bool> = open.iter_mut().map(|(_, evicted)| is_open(evicted)).collect();
        assert_eq!(states.iter().filter(|open| !**open).count(), 1);
        assert!(states[0] && !states[1], "the first is busy, the second waits");
        assert!(is_open(&mut newest.1));
    }

    #[test]
    fn the_oldest_connection_is_evicted_if_none_waits() {
        let connections = Connections::default();
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        open.iter().for_each(|(connection, _)| connection.reserve_page_bytes(4));
        let _newest = connections.open();
        assert!(!is_open(&mut open[0].1));
        assert!(open[1..].iter_mut().all(|(_, evicted)| is_open(evicted)));
    }

    #[test]
    fn pages_are_bounded_in_bytes_and_the_last_one_is_always_sent() {
        let connections = Connections::default();
        let mut open: Vec<_> = (0..10).map(|_| connections.open()).collect();
        for (connection, evicted) in &mut open {
            connection.reserve_page_bytes(MAX_PAGE_BYTES / 3);
            assert!(connections.lock().page_bytes() <= MAX_PAGE_BYTES && is_open(evicted));
        }
        assert!(!is_open(&mut open[6].1), "evicted for a later one");
        let (larger, mut evicted) = connections.open();
        larger.reserve_page_bytes(2 * MAX_PAGE_BYTES);
        assert!(open.iter_mut().all(|(_, evicted)| !is_open(evicted)));
        assert!(is_open(&mut evicted));
        drop((open, larger));
        assert!(connections.lock().open.is_empty());
    }
}
