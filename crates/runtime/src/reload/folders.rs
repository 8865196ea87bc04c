//! Watches the folders of a policy for changes.
//!
//! Folders are watched rather than files: editors replace files, and Kubernetes replaces a symbolic link named
//! `..data` beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::Event;

/// The folders that are watched.
#[derive(Debug)]
pub(super) struct Folders {
    /// `None` if the system provides no watch; changes are then found by polling only.
    watcher: Option<RecommendedWatcher>,
    /// Each with the identity of the folder when the watch began. No two have the same one: the system has one watch for all names
    /// of a folder, and it would end with that of any of them.
    watched: BTreeMap<PathBuf, Identity>,
    /// Whether one of the folders is not watched: it does not exist, or the system provides no watch.
    missing: bool,
    changes: Arc<Mutex<Changes>>,
}

/// Changes that the system has reported and the policy thread has not processed yet. That thread may compile for a
/// second, and where much else is written in a folder, a queue with an event per change would be unbounded.
#[derive(Debug, Default)]
struct Changes {
    /// Whether the thread has been sent an event.
    is_sent: bool,
    /// Paths that were removed, moved or replaced. A folder of the policy may be among them.
    moved: BTreeSet<PathBuf>,
    /// There were more than [`MAX_MOVED`] of them, or events were lost: any folder may have moved.
    all_moved: bool,
    /// The files that somebody has changed and not closed yet, with the first change.
    written: BTreeMap<PathBuf, Instant>,
}

/// Maximum number of paths kept for the thread; each has at most 4 KiB.
const MAX_MOVED: usize = 64;
/// How long a file may be written until it is read nevertheless. Half of a policy may be a valid one that allows more, without the
/// grants that deny; but a revoked permission must not wait for somebody who keeps a file open.
pub(super) const WRITE_TIME: Duration = Duration::from_secs(10);

/// Device and inode.
type Identity = (u64, u64);

impl Folders {
    /// Sends changes to `events`.
    pub(super) fn new(events: Sender<Event>) -> Self {
        let changes = Arc::new(Mutex::new(Changes::default()));
        let noted = changes.clone();
        let on_event = move |event| {
            if lock(&noted).note(event) {
                // Sending fails only when the process stops.
                let _ = events.send(Event::Changed);
            }
        };
        let watcher = notify::recommended_watcher(on_event)
            .inspect_err(|error| tracing::warn!(%error, "files cannot be watched, only polled"))
            .ok();
        Self::with(watcher, changes)
    }

    /// Without a watcher no folder is ever watched.
    fn with(watcher: Option<RecommendedWatcher>, changes: Arc<Mutex<Changes>>) -> Self {
        Self { missing: watcher.is_none(), watcher, watched: BTreeMap::new(), changes }
    }

    /// Takes the changes reported so far, watches exactly these folders, and returns whether one of them was not watched before,
    /// or must be watched anew. A folder that cannot be watched now is tried again on the next call. If some are names of the same
    /// folder, it is watched by the first, unless it is already watched by another.
    pub(super) fn watch(&mut self, folders: Vec<PathBuf>) -> bool {
        self.take_changes();
        let Some(watcher) = &mut self.watcher else { return false };
        // Events name absolute paths.
        let absolute = |folder| std::path::absolute(&folder).unwrap_or(folder);
        let wanted: Vec<PathBuf> = folders.into_iter().map(absolute).collect();
        let names: BTreeSet<&PathBuf> = wanted.iter().collect();
        self.watched.retain(|folder, known| {
            // A watch applies to the inode that was at the path when the watch began, not to the path.
            let keep = names.contains(folder) && identity(folder) == Some(*known);
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
            let Some(identity) = identity(&folder) else {
                self.missing = true;
                continue;
            };
            if self.watched.values().any(|known| *known == identity) {
                continue;
            }
            if watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok() {
                self.watched.insert(folder, identity);
                more = true;
            } else {
                self.missing = true;
            }
        }
        more
    }

    /// Whether a folder that should be watched is not, so that its changes are not reported.
    pub(super) fn misses_one(&self) -> bool {
        self.missing
    }

    /// Whether somebody writes a file in one of the folders.
    pub(super) fn is_written(&self) -> bool {
        lock(&self.changes).written.values().any(|since| since.elapsed() < WRITE_TIME)
    }

    /// Takes all changes reported so far. Watches on moved folders end: the system reports a folder that was removed or moved
    /// away only once, and what is at its path afterwards is another folder, even with the same inode number.
    fn take_changes(&mut self) {
        let (moved, all_moved) = lock(&self.changes).take();
        let Some(watcher) = &mut self.watcher else { return };
        self.watched.retain(|folder, _| {
            let keep = !all_moved && !moved.contains(folder);
            if !keep {
                let _ = watcher.unwatch(folder);
            }
            keep
        });
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    let about = folder.metadata().ok()?;
    Some((about.dev(), about.ino()))
}

impl Changes {
    /// Records an event, and returns whether it must be sent to the policy thread.
    fn note(&mut self, event: notify::Result<notify::Event>) -> bool {
        let is_change = match event {
            Ok(event) if !event.need_rescan() => {
                self.note_writing(&event);
                if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                    self.moved.extend(event.paths);
                    if self.moved.len() > MAX_MOVED {
                        self.moved.clear();
                        self.all_moved = true;
                    }
                }
                is_change(event.kind)
            }
            // Events were lost. The end of writing a file may be among them, and the move of any folder.
            Ok(_) | Err(_) => {
                self.written.clear();
                self.all_moved = true;
                true
            }
        };
        is_change && !std::mem::replace(&mut self.is_sent, true)
    }

    fn note_writing(&mut self, event: &notify::Event) {
        if self.written.len() >= MAX_MOVED {
            // Files that are kept open, and those of folders that are no longer watched.
            self.written.retain(|_, since| since.elapsed() < WRITE_TIME);
        }
        for path in &event.paths {
            match event.kind {
                EventKind::Modify(ModifyKind::Data(_)) if self.written.len() < MAX_MOVED => {
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

    /// The paths that have moved, and whether any may have. Files that are being written stay so.
    fn take(&mut self) -> (BTreeSet<PathBuf>, bool) {
        self.is_sent = false;
        (std::mem::take(&mut self.moved), std::mem::take(&mut self.all_moved))
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
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc::channel;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use notify::event::{DataChange, EventKind, Flag, ModifyKind, RemoveKind};

    use super::{Changes, Folders, MAX_MOVED};

    #[test]
    fn a_folder_that_the_system_does_not_watch_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut folders = Folders::with(None, Arc::default());
        assert!(!folders.watch(vec![folder.path().to_owned()]));
        assert!(folders.misses_one(), "so that it is checked even if polling is off");
    }

    #[test]
    fn an_error_of_the_watch_causes_a_check() {
        assert!(Changes::default().note(Err(notify::Error::generic("lost"))));
    }

    #[test]
    fn a_folder_with_two_names_is_watched_while_one_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (link, real) = (folder.path().join("link"), folder.path().join("real"));
        let dots = folder.path().join("real/../real");
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        let (events, received) = channel();
        let mut folders = Folders::new(events);
        for wanted in [
            vec![&link, &real],
            vec![&link],
            vec![&real, &link],
            vec![&real],
            vec![&real, &dots],
            vec![&dots],
            vec![&link, &dots],
        ] {
            let wanted: Vec<PathBuf> = wanted.into_iter().cloned().collect();
            let is_reported = (0..30).any(|_| {
                // Again if the last event of the write before came late: a further one is only sent once the changes are taken.
                folders.watch(wanted.clone());
                assert!(!folders.misses_one());
                while received.try_recv().is_ok() {}
                std::fs::write(real.join("file"), "").unwrap();
                received.recv_timeout(Duration::from_secs(1)).is_ok()
            });
            assert!(is_reported, "{wanted:?}");
        }
        assert!(!folders.watch(vec![link, dots]), "each is watched");
    }

    #[test]
    fn lost_events_may_be_about_any_folder_and_any_file() {
        let written = notify::Event::new(EventKind::Modify(ModifyKind::Data(DataChange::Any)));
        let overflow = notify::Event::new(EventKind::Other).set_flag(Flag::Rescan);
        for lost in [Ok(overflow), Err(notify::Error::generic("lost"))] {
            let watcher = notify::recommended_watcher(|_| {}).unwrap();
            let changes = Arc::new(Mutex::new(Changes::default()));
            let mut folders = Folders::with(Some(watcher), changes.clone());
            let folder = tempfile::tempdir().unwrap();
            folders.watch(vec![folder.path().to_owned()]);
            let file = folder.path().join("file");
            changes.lock().unwrap().note(Ok(written.clone().add_path(file)));
            assert!(folders.is_written());
            folders.watch(vec![folder.path().to_owned()]);
            assert!(changes.lock().unwrap().note(lost), "the files are compared");
            assert!(!folders.is_written(), "its end may be among them");
            assert!(folders.watch(vec![folder.path().to_owned()]), "watched again: it may have moved");
        }
    }

    #[test]
    fn a_flood_of_events_is_reported_once_and_bounded() {
        let watcher = notify::recommended_watcher(|_| {}).unwrap();
        let changes = Arc::new(Mutex::new(Changes::default()));
        let mut folders = Folders::with(Some(watcher), changes.clone());
        let folder = tempfile::tempdir().unwrap();
        folders.watch(vec![folder.path().to_owned()]);
        for round in 0..3 {
            let mut sent = 0;
            for number in 0..10_000 {
                let gone = notify::Event::new(EventKind::Remove(RemoveKind::File))
                    .add_path(PathBuf::from(format!("/gone/{number}")));
                let mut changes = changes.lock().unwrap();
                sent += u32::from(changes.note(Ok(gone)));
                assert!(changes.moved.len() <= MAX_MOVED);
            }
            assert_eq!(sent, 1, "{round}");
            assert!(
                folders.watch(vec![folder.path().to_owned()]),
                "watched again: any folder may be among them"
            );
        }
        assert!(!folders.watch(vec![folder.path().to_owned()]), "nothing came since");
    }
}
