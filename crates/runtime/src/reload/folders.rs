//! Watches the folders of a policy for changes.
//!
//! Folders are watched, not files: editors replace files, and Kubernetes replaces the symbolic link
//! `..data` beside them.

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
    /// `None` if the system provides no watch. Only polling finds changes then.
    watcher: Option<RecommendedWatcher>,
    /// Each folder once, by the inode that it had at the start of the watch.
    watched: BTreeMap<Identity, PathBuf>,
    /// Whether a folder is not watched: it is missing, or the system provides no watch.
    pub(super) is_incomplete: bool,
    changes: Arc<Mutex<Changes>>,
}

/// Changes reported by the system that the `policy-load` thread has not processed yet.
#[derive(Debug, Default)]
struct Changes {
    /// Whether [`LoadEvent::Changed`] was sent since the last [`Folders::watch`]. It is sent only
    /// once until then, because a queue of all changes would be unbounded.
    is_sent: bool,
    /// The paths of the folders to watch.
    folders: BTreeSet<PathBuf>,
    /// Whether a watched folder was removed, moved or replaced, or events were lost.
    has_moved: bool,
    /// The files that somebody has changed and not closed yet, with the time of the first change.
    /// Files that stay open are few, so this needs no limit.
    being_written: BTreeMap<PathBuf, Instant>,
}

/// How long to wait for a file that is being written before reading it anyway. A half-uploaded
/// policy may be valid but lack its deny rules. But a revoked permission must not wait for a file
/// that is kept open.
pub(super) const MAX_WRITE_TIME: Duration = Duration::from_secs(10);

/// The device and the inode of a folder.
type Identity = (u64, u64);

impl Folders {
    pub(super) fn new(events: Sender<LoadEvent>) -> Self {
        let (watched, changes) = (BTreeMap::new(), Arc::default());
        Self { events, watcher: None, watched, is_incomplete: false, changes }
    }

    /// Watches exactly these folders. Returns whether a new watch began: the files may have changed
    /// before it. A folder that cannot be watched now is tried again on the next call.
    pub(super) fn watch(&mut self, folders: &[PathBuf]) -> bool {
        let has_moved = {
            let mut changes = lock(&self.changes);
            changes.is_sent = false;
            std::mem::take(&mut changes.has_moved)
        };
        let mut wanted = BTreeMap::new();
        let was_incomplete = std::mem::take(&mut self.is_incomplete);
        for folder in folders {
            // Events name absolute paths.
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            match identity(&folder) {
                Some(identity) => _ = wanted.entry(identity).or_insert(folder),
                None => self.is_incomplete = true,
            }
        }
        if !has_moved && wanted.keys().eq(self.watched.keys()) {
            return false;
        }
        let (events, changes) = (self.events.clone(), self.changes.clone());
        let watcher = notify::recommended_watcher(move |event| {
            if lock(&changes).record(event) {
                // Sending fails only when the process stops.
                let _ = events.send(LoadEvent::Changed);
            }
        });
        if let (Err(error), false) = (&watcher, was_incomplete) {
            tracing::warn!(%error, "files cannot be watched, only polled");
        }
        self.watcher = watcher.ok();
        self.watched.clear();
        // This is set before the watch begins, because a folder may be replaced from then on.
        lock(&self.changes).folders = wanted.values().cloned().collect();
        for (identity, folder) in wanted {
            let watcher = self.watcher.as_mut();
            let is_watched = watcher
                .is_some_and(|watcher| watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok());
            if is_watched {
                self.watched.insert(identity, folder);
            } else {
                self.is_incomplete = true;
            }
        }
        true
    }

    /// Whether a file in the folders is being written.
    pub(super) fn is_being_written(&self) -> bool {
        lock(&self.changes).being_written.values().any(|since| since.elapsed() < MAX_WRITE_TIME)
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    let metadata = folder.metadata().ok()?;
    Some((metadata.dev(), metadata.ino()))
}

impl Changes {
    /// Records an event, and returns whether [`LoadEvent::Changed`] must be sent.
    fn record(&mut self, event: notify::Result<notify::Event>) -> bool {
        let is_change = match event {
            Ok(event) if !event.need_rescan() => self.record_paths(event),
            // Lost events may include the close of a file or the move of a folder.
            Ok(_) | Err(_) => {
                self.being_written.clear();
                self.has_moved = true;
                true
            }
        };
        is_change && !std::mem::replace(&mut self.is_sent, true)
    }

    /// Records the paths of an event, and returns whether it is a change. Reads are not changes:
    /// this process reads the files itself.
    fn record_paths(&mut self, event: notify::Event) -> bool {
        let is_write = matches!(event.kind, EventKind::Modify(ModifyKind::Data(_)));
        let is_move =
            matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        let is_close = event.kind == EventKind::Access(AccessKind::Close(AccessMode::Write));
        for path in event.paths {
            self.has_moved |= is_move && self.folders.contains(&path);
            if is_write {
                self.being_written.entry(path).or_insert_with(Instant::now);
            } else if is_move || is_close {
                self.being_written.remove(&path);
            }
        }
        is_close || !matches!(event.kind, EventKind::Access(_))
    }
}

/// A poisoned lock can be used: no code under it leaves a value half changed.
fn lock(changes: &Mutex<Changes>) -> MutexGuard<'_, Changes> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
