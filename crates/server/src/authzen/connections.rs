//! The open connections, bounded in number. A new connection evicts the one that has waited for
//! longest, so that silent clients cannot keep those out who have a token.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::oneshot;

/// Each may have a body of a mebibyte in memory.
const MAX_CONNECTIONS: usize = 256;

/// The open connections of a listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections(Rc<RefCell<Table>>);

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Connections that wait, by the order in which they began to.
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
    /// How many have a request of somebody who may ask.
    busy: usize,
}

/// An open connection. Dropping it removes it from the list.
#[derive(Debug)]
pub(super) struct OpenConnection {
    connections: Connections,
    /// Its number if it waits.
    waiting: RefCell<Option<u64>>,
    /// Ends the connection while it is busy: kept only so that it is not evicted.
    kept: RefCell<Option<oneshot::Sender<()>>>,
}

impl Connections {
    /// Registers a connection, and evicts another if there are too many; `None` if all of those are
    /// busy. The receiver resolves when the connection is evicted.
    pub(super) fn open(&self) -> Option<(OpenConnection, oneshot::Receiver<()>)> {
        let mut table = self.0.borrow_mut();
        if table.waiting.len() + table.busy >= MAX_CONNECTIONS {
            table.waiting.pop_first()?;
        }
        let (sender, evicted) = oneshot::channel();
        let number = table.wait(sender);
        let open = OpenConnection {
            connections: self.clone(),
            waiting: RefCell::new(Some(number)),
            kept: RefCell::default(),
        };
        Some((open, evicted))
    }

    /// Evicts a connection, to free its file descriptor.
    pub(super) fn evict(&self) {
        self.0.borrow_mut().waiting.pop_first();
    }
}

impl Table {
    fn wait(&mut self, sender: oneshot::Sender<()>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, sender);
        number
    }
}

impl OpenConnection {
    /// Keeps it from being evicted, until [`Self::set_waiting`].
    pub(super) fn set_busy(&self) {
        let mut table = self.connections.0.borrow_mut();
        let Some(number) = self.waiting.take() else { return };
        if let Some(sender) = table.waiting.remove(&number) {
            self.kept.replace(Some(sender));
            table.busy += 1;
        }
    }

    /// Lets it be evicted again.
    pub(super) fn set_waiting(&self) {
        let mut table = self.connections.0.borrow_mut();
        if let Some(sender) = self.kept.take() {
            table.busy -= 1;
            self.waiting.replace(Some(table.wait(sender)));
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut table = self.connections.0.borrow_mut();
        if let Some(number) = self.waiting.take() {
            table.waiting.remove(&number);
        }
        if self.kept.take().is_some() {
            table.busy -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::Receiver;
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn is_open(evicted: &mut Receiver<()>) -> bool {
        evicted.try_recv() == Err(TryRecvError::Empty)
    }

    #[test]
    fn the_connection_that_has_waited_for_longest_is_evicted() {
        let connections = Connections::default();
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open().unwrap()).collect();
        open[0].0.set_busy();
        open[1].0.set_busy();
        open[1].0.set_waiting();
        let mut newest = connections.open().unwrap();
        assert!(is_open(&mut open[0].1) && is_open(&mut open[1].1) && is_open(&mut newest.1));
        assert!(!is_open(&mut open[2].1));
    }

    #[test]
    fn a_busy_connection_is_never_evicted() {
        let connections = Connections::default();
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open().unwrap()).collect();
        open.iter().for_each(|(connection, _)| connection.set_busy());
        assert!(connections.open().is_none());
        connections.evict();
        assert!(open.iter_mut().all(|(_, evicted)| is_open(evicted)));
        open.pop();
        assert!(connections.open().is_some());
        drop(open);
        assert_eq!(connections.0.borrow().busy, 0);
    }
}
