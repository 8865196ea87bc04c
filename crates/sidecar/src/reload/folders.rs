//! The watch on the folders of a policy.
//!
//! Folders are watched, not files: editors replace files, and Kubernetes swaps a link named `..data` beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

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
}

/// Device and inode.
type Identity = (u64, u64);

impl Folders {
    /// Tells `events` of changes.
    pub(super) fn new(events: Sender<Event>) -> Self {
        let tell = move |event| {
            let Some(told) = told(event) else { return };
            // Nobody listens any more only when the process ends.
            let _ = events.send(told);
        };
        let watcher = notify::recommended_watcher(tell)
            .inspect_err(|error| tracing::warn!(%error, "files cannot be watched: they are polled"))
            .ok();
        Self::with(watcher)
    }

    /// Without a watcher no folder is ever watched.
    fn with(watcher: Option<RecommendedWatcher>) -> Self {
        Self { missing: watcher.is_none(), watcher, watched: BTreeMap::new() }
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

    /// Ends the watches on those of these that are watched folders: one that was removed or moved away is told of once,
    /// and what stands at its path afterwards, even with the same inode, is another.
    pub(super) fn lose(&mut self, paths: &[PathBuf]) {
        let Some(watcher) = &mut self.watcher else { return };
        for path in paths {
            if self.watched.remove(path).is_some() {
                let _ = watcher.unwatch(path);
            }
        }
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    let about = folder.metadata().ok()?;
    Some((about.dev(), about.ino()))
}

/// What the policy's thread is told of an event.
fn told(event: notify::Result<notify::Event>) -> Option<Event> {
    // What went by unseen may have been a change.
    let Ok(event) = event else { return Some(Event::Changed) };
    match event.kind {
        EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)) => Some(Event::Moved(event.paths)),
        kind => is_change(kind).then_some(Event::Changed),
    }
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
    use super::{Event, Folders, told};

    #[test]
    fn a_folder_that_the_system_does_not_watch_is_missed() {
        let folder = tempfile::tempdir().unwrap();
        let mut folders = Folders::with(None);
        assert!(!folders.watch(vec![folder.path().to_owned()]));
        assert!(folders.misses_one(), "nobody would look at it where polling is off");
    }

    #[test]
    fn an_error_of_the_watch_is_a_reason_to_look() {
        assert!(matches!(told(Err(notify::Error::generic("lost"))), Some(Event::Changed)));
    }
}
