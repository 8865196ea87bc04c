//! The watch on the folders of a policy.
//!
//! Folders are watched, not files: editors replace files, and Kubernetes swaps a link named `..data` beside them.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::mpsc::Sender;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};

use super::Event;

/// The folders that are watched.
#[derive(Debug)]
pub(super) struct Folders {
    /// `None`: the system gives no watch, and polling must do.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Folders {
    /// Tells `events` of changes.
    pub(super) fn new(events: Sender<Event>) -> Self {
        let tell = move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| is_change(event.kind)) {
                // Nobody listens any more only when the process ends.
                let _ = events.send(Event::Changed);
            }
        };
        let watcher = notify::recommended_watcher(tell)
            .inspect_err(|error| tracing::warn!(%error, "files cannot be watched: they are polled"))
            .ok();
        Self { watcher, watched: BTreeSet::new() }
    }

    /// Watches these folders and no others, and says whether one of them was not watched before. One that cannot be
    /// watched now is tried again the next time.
    pub(super) fn watch(&mut self, folders: Vec<PathBuf>) -> bool {
        let Some(watcher) = &mut self.watcher else { return false };
        let wanted: BTreeSet<PathBuf> = folders.into_iter().collect();
        self.watched.retain(|folder| {
            let keep = wanted.contains(folder) && folder.exists();
            if !keep {
                let _ = watcher.unwatch(folder);
            }
            keep
        });
        let mut more = false;
        for folder in wanted {
            if !self.watched.contains(&folder) && watcher.watch(&folder, RecursiveMode::NonRecursive).is_ok()
            {
                more |= self.watched.insert(folder);
            }
        }
        more
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
