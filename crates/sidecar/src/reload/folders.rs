//! The watch on the folders of a policy.
//!
//! Folders are watched, not files: editors replace files, and Kubernetes swaps a link named `..data` beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::Event;

/// The folders that are watched.
#[derive(Debug)]
pub(super) struct Folders {
    /// `None`: the system gives no watch, and polling must do.
    watcher: Option<RecommendedWatcher>,
    /// With what stood at that path when the watch began.
    watched: BTreeMap<PathBuf, Identity>,
    /// Whether one of the folders is not watched: it is not there, or the system gives no watch.
    missing: bool,
    changes: Arc<Mutex<Changes>>,
}

/// What the system has told and the policy's thread has not noticed yet. That thread may compile for a second, and
/// where much else is written in a folder, an event for each change would be a queue without a bound.
#[derive(Debug, Default)]
struct Changes {
    /// Whether the thread was told that there are changes.
    told: bool,
    /// These are no longer there, or no longer what was there: a folder of the policy may be among them.
    moved: BTreeSet<PathBuf>,
    /// There were more of them: any folder may have moved.
    all_moved: bool,
}

/// Paths that are kept until the thread notices; each is 4 KiB at most.
const MAX_MOVED: usize = 64;

/// Device and inode.
type Identity = (u64, u64);

impl Folders {
    /// Tells `events` of changes.
    pub(super) fn new(events: Sender<Event>) -> Self {
        let changes = Arc::new(Mutex::new(Changes::default()));
        let noted = changes.clone();
        let tell = move |event| {
            if lock(&noted).note(event) {
                // Nobody listens any more only when the process ends.
                let _ = events.send(Event::Changed);
            }
        };
        let watcher = notify::recommended_watcher(tell)
            .inspect_err(|error| tracing::warn!(%error, "files cannot be watched: they are polled"))
            .ok();
        Self::with(watcher, changes)
    }

    /// Without a watcher no folder is ever watched.
    fn with(watcher: Option<RecommendedWatcher>, changes: Arc<Mutex<Changes>>) -> Self {
        Self { missing: watcher.is_none(), watcher, watched: BTreeMap::new(), changes }
    }

    /// Watches these folders and no others, and says whether one of them was not watched before. One that cannot be
    /// watched now is tried again the next time.
    pub(super) fn watch(&mut self, folders: Vec<PathBuf>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        // As events name them.
        let absolute = |folder| std::path::absolute(&folder).unwrap_or(folder);
        let wanted: BTreeSet<PathBuf> = folders.into_iter().map(absolute).collect();
        self.watched.retain(|folder, known| {
            // A watch is on what stood there when it began, not on the path.
            let keep = wanted.contains(folder) && identity(folder) == Some(*known);
            if !keep {
                let _ = watcher.unwatch(folder);
            }
            keep
        });
        let mut more = false;
        self.missing = false;
        for folder in wanted {
            if self.watched.contains_key(&folder) {
                continue;
            }
            if let Some(identity) = identity(&folder)
                && watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok()
            {
                self.watched.insert(folder, identity);
                more = true;
            } else {
                self.missing = true;
            }
        }
        more
    }

    /// Whether a folder is not watched though it should be, so that nobody will tell of it.
    pub(super) fn misses_one(&self) -> bool {
        self.missing
    }

    /// Takes notice of all changes so far, and says whether something has moved. The watches on folders that have end:
    /// the system tells of one that was removed or moved away once, and what stands at its path afterwards, even with the
    /// same inode, is another.
    pub(super) fn take_notice(&mut self) -> bool {
        let Changes { moved, all_moved, .. } = std::mem::take(&mut *lock(&self.changes));
        let Some(watcher) = &mut self.watcher else { return false };
        self.watched.retain(|folder, _| {
            let keep = !all_moved && !moved.contains(folder);
            if !keep {
                let _ = watcher.unwatch(folder);
            }
            keep
        });
        all_moved || !moved.is_empty()
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    let about = folder.metadata().ok()?;
    Some((about.dev(), about.ino()))
}

impl Changes {
    /// Notes an event, and says whether the policy's thread is to be told.
    fn note(&mut self, event: notify::Result<notify::Event>) -> bool {
        // What went by unseen may have been a change.
        let is_change = event.as_ref().map_or(true, |event| is_change(event.kind));
        if let Ok(event) = event
            && matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)))
        {
            self.moved.extend(event.paths);
            if self.moved.len() > MAX_MOVED {
                self.moved.clear();
                self.all_moved = true;
            }
        }
        is_change && !std::mem::replace(&mut self.told, true)
    }
}

/// A thread that panicked has left whole values behind.
fn lock(changes: &Mutex<Changes>) -> MutexGuard<'_, Changes> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reading a file is none: this process does that itself.
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
mod tests {
    use std::path::PathBuf;
    use std::sync::{Arc, Mutex};

    use notify::event::{EventKind, RemoveKind};

    use super::{Changes, Folders, MAX_MOVED};

    #[test]
    fn a_folder_that_the_system_does_not_watch_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut folders = Folders::with(None, Arc::default());
        assert!(!folders.watch(vec![folder.path().to_owned()]));
        assert!(folders.misses_one(), "nobody would look at it where polling is off");
    }

    #[test]
    fn an_error_of_the_watch_is_a_reason_to_look() {
        assert!(Changes::default().note(Err(notify::Error::generic("lost"))));
    }

    #[test]
    fn a_flood_of_events_is_told_once_and_kept_in_a_few_paths() {
        let watcher = notify::recommended_watcher(|_| {}).unwrap();
        let changes = Arc::new(Mutex::new(Changes::default()));
        let mut folders = Folders::with(Some(watcher), changes.clone());
        let folder = tempfile::tempdir().unwrap();
        folders.watch(vec![folder.path().to_owned()]);
        for round in 0..3 {
            let mut told = 0;
            for number in 0..10_000 {
                let gone = notify::Event::new(EventKind::Remove(RemoveKind::File))
                    .add_path(PathBuf::from(format!("/gone/{number}")));
                let mut changes = changes.lock().unwrap();
                told += u32::from(changes.note(Ok(gone)));
                assert!(changes.moved.len() <= MAX_MOVED);
            }
            assert_eq!(told, 1, "{round}");
            assert!(folders.take_notice(), "any folder may be among them");
            assert!(folders.watch(vec![folder.path().to_owned()]), "watched again");
        }
        assert!(!folders.take_notice(), "nothing came since");
    }
}
