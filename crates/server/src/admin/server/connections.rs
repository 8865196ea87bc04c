//! The open connections of one HTTP listener and the pages that they send, bounded in number and in bytes.
//!
//! There is always room for a new connection: it evicts the oldest connection that waits for a request, or if none
//! waits, the oldest of all. An earlier version closed the new connection instead: 64 silent connections then kept
//! the limit reached, and every probe was reset for as long as they liked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Bytes;
use tokio::sync::oneshot;

/// Maximum number of open connections. Probes and scrapers are few.
pub(super) const MAX_CONNECTIONS: usize = 64;
/// Maximum bytes of all pages that are being sent. A single page may be larger: the policy determines its size, and
/// no client can make it larger.
pub(super) const MAX_PAGE_BYTES: usize = 4 << 20;

/// The open connections of one listener.
#[derive(Clone, Debug, Default)]
pub(super) struct Connections {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By number, and so by age.
    open: BTreeMap<u64, Entry>,
}

#[derive(Debug)]
struct Entry {
    progress: Progress,
    /// Nothing is ever sent: dropping it ends the connection.
    _open: oneshot::Sender<()>,
}

/// The progress of a connection with its one request.
#[derive(Debug)]
enum Progress {
    /// The request is not complete.
    Waiting,
    /// The page is being sent. It is kept here, not in the connection's task, so that eviction frees it at once and
    /// not when the task next runs.
    Sending { page: Vec<u8>, sent: usize },
    /// The end of the page has been handed over.
    Sent,
}

/// An open connection. Dropping it removes it from the list.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    connections: Connections,
}

/// The connection was evicted while its page was being sent.
#[derive(Debug, thiserror::Error)]
#[error("evicted for another connection")]
pub(super) struct Evicted;

impl Connections {
    /// Registers a connection, after evicting another if necessary. The receiver resolves when the connection is
    /// evicted.
    pub(super) fn open(&self) -> (Place, oneshot::Receiver<()>) {
        let (open, evicted) = oneshot::channel();
        let mut state = self.lock();
        while state.open.len() >= MAX_CONNECTIONS {
            state.evict();
        }
        let number = state.next;
        state.next += 1;
        state.open.insert(number, Entry { progress: Progress::Waiting, _open: open });
        drop(state);
        (Place { number, connections: self.clone() }, evicted)
    }

    /// Evicts one connection, if there is one, to free its file descriptor.
    pub(super) fn evict_one(&self) {
        self.lock().evict();
    }

    /// A poisoned lock can be used: no code under it leaves a value half changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn evict(&mut self) {
        let waits = |entry: &Entry| matches!(entry.progress, Progress::Waiting);
        let oldest = self.open.iter().find(|(_, entry)| waits(entry)).or_else(|| self.open.iter().next());
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.open.remove(&number);
        }
    }

    /// Bytes of the pages that are being sent.
    fn page_bytes(&self) -> usize {
        self.open.values().map(|entry| entry.progress.page_bytes()).sum()
    }
}

impl Progress {
    /// Bytes that the page takes: all of it until the last byte is handed over.
    fn page_bytes(&self) -> usize {
        match self {
            Self::Sending { page, .. } => page.capacity(),
            Self::Waiting | Self::Sent => 0,
        }
    }
}

impl Place {
    /// Stores the page that this connection sends. If all pages together would take too many bytes, the oldest
    /// connections that are sending are evicted: those are the slow readers.
    pub(super) fn send(&self, page: Vec<u8>) {
        let mut state = self.connections.lock();
        while state.page_bytes() + page.capacity() > MAX_PAGE_BYTES {
            let mut sending = state.open.iter().filter(|(_, entry)| entry.progress.page_bytes() > 0);
            let Some(oldest) = sending.next().map(|(number, _)| *number) else { break };
            state.open.remove(&oldest);
        }
        if let Some(entry) = state.open.get_mut(&self.number) {
            entry.progress = Progress::Sending { page, sent: 0 };
        }
    }

    /// The next part of the page, at most `max` bytes; `None` after the last.
    ///
    /// # Errors
    /// When the connection was evicted.
    pub(super) fn next_part(&self, max: usize) -> Result<Option<Bytes>, Evicted> {
        let mut state = self.connections.lock();
        let entry = state.open.get_mut(&self.number).ok_or(Evicted)?;
        let Progress::Sending { page, sent } = &mut entry.progress else { return Ok(None) };
        let rest = page.get(*sent..).unwrap_or_default();
        // Copied: a part that shared the page's memory would keep all of it alive, even after an eviction.
        let part = Bytes::copy_from_slice(rest.get(..max).unwrap_or(rest));
        *sent += part.len();
        if *sent >= page.len() {
            entry.progress = Progress::Sent;
        }
        Ok((!part.is_empty()).then_some(part))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.lock().open.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::{Connections, MAX_CONNECTIONS, MAX_PAGE_BYTES};

    fn is_open(evicted: &mut tokio::sync::oneshot::Receiver<()>) -> bool {
        evicted.try_recv() == Err(TryRecvError::Empty)
    }

    #[test]
    fn the_oldest_waiting_connection_is_evicted() {
        let connections = Connections::default();
        let mut open: Vec<_> = (0..MAX_CONNECTIONS).map(|_| connections.open()).collect();
        open[0].0.send(b"page".to_vec());
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
        open.iter().for_each(|(place, _)| place.send(b"page".to_vec()));
        let _newest = connections.open();
        assert!(!is_open(&mut open[0].1));
        assert!(open[0].0.next_part(1).is_err());
        assert!(open[1..].iter_mut().all(|(_, evicted)| is_open(evicted)));
    }

    #[test]
    fn pages_are_bounded_in_bytes_and_the_last_one_is_always_sent() {
        let connections = Connections::default();
        let open: Vec<_> = (0..10).map(|_| connections.open()).collect();
        for (place, _) in &open {
            place.send(vec![b'x'; MAX_PAGE_BYTES / 3]);
            assert!(connections.lock().page_bytes() <= MAX_PAGE_BYTES);
            assert!(place.next_part(1).is_ok_and(|part| part.is_some()));
        }
        assert!(open[6].0.next_part(1).is_err(), "evicted for a later one");
        let (larger, _open) = connections.open();
        larger.send(vec![b'x'; 2 * MAX_PAGE_BYTES]);
        assert!(open.iter().all(|(place, _)| place.next_part(1).is_err()));
        assert_eq!(larger.next_part(7).unwrap().unwrap().len(), 7);
    }

    #[test]
    fn a_page_is_sent_in_parts_and_freed_with_the_last() {
        let connections = Connections::default();
        let (place, _evicted) = connections.open();
        place.send(b"abcde".to_vec());
        assert_eq!(place.next_part(3).unwrap().unwrap(), "abc");
        assert!(connections.lock().page_bytes() > 0);
        assert_eq!(place.next_part(3).unwrap().unwrap(), "de");
        assert_eq!(connections.lock().page_bytes(), 0);
        assert!(place.next_part(3).unwrap().is_none());
        drop(place);
        assert!(connections.lock().open.is_empty());
    }
}
