//! Watches the folders of a policy for changes.
//!
//! Folders are watched, not files: editors replace files, and Kubernetes a symbolic link beside
//! them, `..data`.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::LoadEvent;

#[derive(Debug)]
pub(super) struct Folders {
    events: Sender<LoadEvent>,
    /// `None` if the system provides no watch; changes are then found by polling only.
    watcher: Option<RecommendedWatcher>,
    /// Each folder once, by the identity at the start of the watch, which is that of the inode.
    watched: BTreeMap<Identity, PathBuf>,
    /// Whether a folder is not watched: it is missing, or the system provides no watch.
    pub(super) misses_one: bool,
    changes: Arc<Mutex<Changes>>,
}

/// Changes that the system has reported and the thread that loads has not processed yet.
#[derive(Debug, Default)]
struct Changes {
    /// Whether the thread was sent an event. A queue with each change would be unbounded.
    is_sent: bool,
    /// The paths of the watched folders.
    folders: BTreeSet<PathBuf>,
    /// Whether one of them was removed, moved or replaced, or events were lost.
    has_moved: bool,
    /// The files that somebody has changed and not closed yet, with the first change.
    written: BTreeMap<PathBuf, Instant>,
}

/// Maximum number of files that are noted as written.
const MAX_WRITTEN: usize = 64;
/// Maximum time that a file being written is not read. Half of a policy, as during an upload, may
/// be a valid one without the rules that deny; but a revoked permission must not wait for a file
/// that is kept open.
pub(super) const MAX_WRITE_TIME: Duration = Duration::from_secs(10);

type Identity = (u64, u64);

impl Folders {
    pub(super) fn new(events: Sender<LoadEvent>) -> Self {
        Self {
            events,
            watcher: None,
            watched: BTreeMap::new(),
            misses_one: false,
            changes: Arc::default(),
        }
    }

    /// Watches exactly these folders, and returns whether one of them was not watched before, or is
    /// watched anew. A folder that cannot be watched now is tried again on the next call.
    pub(super) fn watch(&mut self, folders: &[PathBuf]) -> bool {
        let has_moved = {
            let mut changes = lock(&self.changes);
            changes.is_sent = false;
            std::mem::take(&mut changes.has_moved)
        };
        let mut wanted = BTreeMap::new();
        let misses_one = self.misses_one;
        self.misses_one = false;
        for folder in folders {
            // Events name absolute paths.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            match identity(&folder) {
                Some(identity) => _ = wanted.entry(identity).or_insert(folder),
                None => self.misses_one = true,
            }
        }
        if !has_moved && wanted.keys().eq(self.watched.keys()) {
            return false;
        }
        self.watcher = new_watcher(self.events.clone(), self.changes.clone(), misses_one);
        self.watched.clear();
        for (identity, folder) in wanted {
            let watcher = self.watcher.as_mut();
            if watcher
                .is_some_and(|watcher| watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok())
            {
                self.watched.insert(identity, folder);
            } else {
                self.misses_one = true;
            }
        }
        lock(&self.changes).folders = self.watched.values().cloned().collect();
        true
    }

    /// Whether somebody writes a file in one of the folders.
    pub(super) fn is_written(&self) -> bool {
        lock(&self.changes).written.values().any(|since| since.elapsed() < MAX_WRITE_TIME)
    }
}

/// A watcher that sends changes. `is_known` if it has been said that there is none.
fn new_watcher(
    events: Sender<LoadEvent>,
    changes: Arc<Mutex<Changes>>,
    is_known: bool,
) -> Option<RecommendedWatcher> {
    let on_event = move |event| {
        if lock(&changes).note(event) {
            // Sending fails only when the process stops.
            let _ = events.send(LoadEvent::Changed);
        }
    };
    let watcher = notify::recommended_watcher(on_event);
    if let (Err(error), false) = (&watcher, is_known) {
        tracing::warn!(%error, "files cannot be watched, only polled");
    }
    watcher.ok()
}

fn identity(folder: &Path) -> Option<Identity> {
    let about = folder.metadata().ok()?;
    Some((about.dev(), about.ino()))
}

impl Changes {
    /// Records an event, and returns whether it must be sent.
    fn note(&mut self, event: notify::Result<notify::Event>) -> bool {
        let is_change = match event {
            Ok(event) if !event.need_rescan() => {
                self.note_writing(&event);
                self.has_moved |= matches!(
                    event.kind,
                    EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
                ) && event.paths.iter().any(|path| self.folders.contains(path));
                is_change(event.kind)
            }
            // Events were lost. The end of writing a file may be among them, and a folder's move.
            Ok(_) | Err(_) => {
                self.written.clear();
                self.has_moved = true;
                true
            }
        };
        is_change && !std::mem::replace(&mut self.is_sent, true)
    }

    fn note_writing(&mut self, event: &notify::Event) {
        if self.written.len() >= MAX_WRITTEN {
            // Files that are kept open, and those of folders that are no longer watched.
            self.written.retain(|_, since| since.elapsed() < MAX_WRITE_TIME);
        }
        for path in &event.paths {
            match event.kind {
                EventKind::Modify(ModifyKind::Data(_)) if self.written.len() < MAX_WRITTEN => {
                    self.written.entry(path.clone()).or_insert_with(Instant::now);
                }
                EventKind::Access(AccessKind::Close(AccessMode::Write))
                | EventKind::Remove(_)
                | EventKind::Modify(ModifyKind::Name(_)) => _ = self.written.remove(path),
                EventKind::Any
                | EventKind::Access(_)
                | EventKind::Create(_)
                | EventKind::Modify(_)
                | EventKind::Other => {}
            }
        }
    }
}

/// A poisoned lock can be used: no code under it leaves a value half changed.
fn lock(changes: &Mutex<Changes>) -> MutexGuard<'_, Changes> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reading a file is no change: this process reads the files itself.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

#[cfg(test)]
mod tests;
