//! Whether the files of the policy have changed, and what they are then.

use std::mem;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Instant;

use document::{Place, Problem};
use identity::FetchedKeys;

use super::Reloader;
use super::background::{Background, Unfinished};
use super::folders::Folders;
use crate::compiled_policy::{self, Attempt, CompiledPolicy};

/// The result of a load, once it comes.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) attempt: Receiver<Attempt>,
    /// The keys that it compiles with.
    pub(super) fetched: FetchedKeys,
}

/// What is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// Whether a folder is watched that was not before.
    pub(super) more: bool,
    /// Whether one that should be is not.
    pub(super) misses_one: bool,
    /// Whether somebody writes a file in one of them.
    pub(super) is_written: bool,
}

impl Reloader {
    /// Watches the folders of the files read last; a bundle has none.
    pub(super) fn watch(&self, folders: &Arc<Mutex<Folders>>, background: &Background) -> Watched {
        if self.bundle.is_some() {
            return Watched { more: false, misses_one: false, is_written: false };
        }
        let (folders, seen) = (folders.clone(), self.seen.clone());
        // Without a watch the files are compared every second.
        let unwatched = Watched { more: false, misses_one: true, is_written: false };
        let watched = background.run_short(move || {
            let wanted = seen.folders();
            let mut folders = match folders.try_lock() {
                Ok(folders) => folders,
                Err(TryLockError::Poisoned(folders)) => folders.into_inner(),
                // By a thread that has not come back from the file system.
                Err(TryLockError::WouldBlock) => return unwatched,
            };
            let more = folders.watch(wanted);
            Watched { more, misses_one: folders.misses_one(), is_written: folders.is_written() }
        });
        watched.unwrap_or(unwatched)
    }

    /// Compares the files with those read last, and reloads if they differ, or if that was not possible the last time. Returns
    /// whether it did.
    pub(super) fn reload_if_changed(&mut self, background: &Background) -> bool {
        if self.bundle.is_some() {
            return false;
        }
        if let Some(attempt) = self.take_late() {
            self.look_again = true;
            self.take_attempt(attempt, background);
            return true;
        }
        let (seen, began) = (self.seen.clone(), Instant::now());
        match background.run(move || seen.still()) {
            Ok(true) if !self.unfinished => false,
            Ok(true) if Arc::ptr_eq(&self.seen, &self.good_seen) => {
                self.unfinished = false;
                // It has read what was there before.
                self.late = None;
                self.confirm("the files can be read again, and are those of the active policy");
                false
            }
            Ok(_) => {
                self.reload(background);
                true
            }
            Err(unfinished) => {
                self.note_unfinished(&unfinished.to_string(), began);
                false
            }
        }
    }

    /// The result of a load that took too long to wait for, with the keys that are active now.
    fn take_late(&mut self) -> Option<Attempt> {
        let Late { attempt, fetched } = self.late.take()?;
        match attempt.try_recv() {
            Ok(mut attempt) => {
                if fetched != self.fetched {
                    attempt.result = attempt.result.and_then(|compiled| {
                        compiled_policy::survive(&self.file, || {
                            CompiledPolicy::compile(compiled.loaded, &self.fetched, None)
                        })
                    });
                }
                Some(attempt)
            }
            Err(TryRecvError::Empty) => {
                self.late = Some(Late { attempt, fetched });
                None
            }
            Err(TryRecvError::Disconnected) => None,
        }
    }

    pub(super) fn reload(&mut self, background: &Background) {
        let (file, fetched, began) = (self.file.clone(), self.fetched.clone(), Instant::now());
        match background.run(move || compiled_policy::load(&file, &fetched)) {
            Ok(attempt) => self.take_attempt(attempt, background),
            Err(unfinished) => {
                self.note_unfinished(&unfinished.to_string(), began);
                if let Unfinished::TimedOut(attempt) = unfinished {
                    self.late = Some(Late { attempt, fetched: self.fetched.clone() });
                }
            }
        }
    }

    /// Activates what a load gave, or keeps the last good policy.
    fn take_attempt(&mut self, attempt: Attempt, background: &Background) {
        self.unfinished = false;
        // An older one must not be activated after this one.
        self.late = None;
        let tried = mem::replace(&mut self.seen, Arc::new(attempt.seen));
        let mended = self.seen.changed_since(&tried.over(&self.good_seen));
        let changed = self.seen.changed_since(&self.good_seen);
        if self.activate(attempt.result, &mended, &changed, background) {
            self.good_seen = self.seen.clone();
        }
    }

    /// Keeps the last good policy, and says why once.
    fn note_unfinished(&mut self, why: &str, began: Instant) {
        if !mem::replace(&mut self.unfinished, true) {
            self.status.note(|facts| _ = facts.policy.failing_since.get_or_insert(began));
            self.keep(&[Problem::error(Place::start_of(&self.file), why)]);
        }
    }
}
