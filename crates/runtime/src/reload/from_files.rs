//! Keeps the policy current with its files.

use std::mem;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::LoadEvent;
use super::current::SharedPolicy;
use super::folders::{Folders, MAX_WRITE_TIME};
use crate::compiled_policy;
use crate::files::Fingerprints;

/// Delay between the first change and the reload, so that a change of several files is one reload.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// After a check that found no change, events are ignored for this many times its duration. So
/// large files in a folder where much else is written cost one part in `SHARE` of the thread's
/// time.
const SHARE: u32 = 20;
/// Upper bound of that pause. Also the interval at which a folder is checked that cannot be
/// watched, or in which a file is being written, and the time that the watch has to report a change
/// which polling has found: on a busy machine it took more than [`SETTLE_TIME`].
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum sleep of the thread without polling.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct FileLoader {
    current: SharedPolicy,
    file: PathBuf,
    folders: Folders,
    poll: Duration,
    /// The files of the last attempt.
    fingerprints: Fingerprints,
    /// The files of the last successful attempt.
    good_fingerprints: Fingerprints,
    /// Whether to load the files even if they are unchanged: after a panic, and after a hang, whose
    /// report took the place of what is wrong with them.
    must_load: bool,
    /// Since when the files are not read because one is being written.
    awaits_writer: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Poll,
    /// They changed at least [`SETTLE_TIME`] ago.
    Change,
    Request,
}

impl FileLoader {
    pub(super) fn new(
        current: SharedPolicy,
        file: PathBuf,
        fingerprints: Fingerprints,
        folders: Folders,
        poll: Duration,
    ) -> Self {
        let poll = if poll.is_zero() { MAX_SLEEP } else { poll };
        let good_fingerprints = fingerprints.clone();
        Self {
            current,
            file,
            folders,
            poll,
            fingerprints,
            good_fingerprints,
            must_load: false,
            awaits_writer: None,
        }
    }

    /// Loads the policy whenever its files change, until it is no longer used.
    pub(super) fn run(&mut self, events: &Receiver<LoadEvent>) {
        // The files may have changed between the first load and the start of the watch.
        let mut next = Instant::now();
        let mut earliest = next;
        let mut cause = Cause::Poll;
        loop {
            match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // It is not sent again until the folders are watched.
                Ok(LoadEvent::Changed) => {
                    next = next.min(earliest).max(Instant::now() + SETTLE_TIME);
                    cause = Cause::Change;
                    continue;
                }
                Ok(LoadEvent::Reload) => cause = Cause::Request,
                Ok(LoadEvent::Bundle(..)) => continue,
                Ok(LoadEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let began = Instant::now();
            // Stays set after a panic.
            let must_load = mem::replace(&mut self.must_load, true);
            let (is_unchanged, has_hung) = self.is_unchanged(cause);
            self.must_load = must_load || has_hung;
            let now = Instant::now();
            let pause = match is_unchanged {
                // Closing the file is a change, too. This is for a file that is not closed.
                None => MAX_DELAY,
                Some(true) if !self.must_load && !self.must_repeat(cause) => {
                    earliest = now + ((now - began) * SHARE).min(MAX_DELAY);
                    self.pause()
                }
                // The watch may be late, and report by then that the file is still being written.
                Some(false) if cause == Cause::Poll => {
                    next = now + MAX_DELAY;
                    cause = Cause::Change;
                    continue;
                }
                Some(_) => self.load(),
            };
            next = Instant::now() + pause;
            cause = Cause::Poll;
        }
    }

    /// Whether the files are those of the last attempt; `None` while one is being written. And
    /// whether it took so long that the status reported a hang.
    fn is_unchanged(&mut self, cause: Cause) -> (Option<bool>, bool) {
        let Self { current, folders, fingerprints, awaits_writer, .. } = self;
        current.read(|| {
            // Watched first: a change from now on is reported. A missing folder may exist now.
            folders.watch(&fingerprints.folders());
            // Where files are written all the time, one after the other, no moment is better.
            if cause != Cause::Request
                && folders.is_written()
                && awaits_writer.get_or_insert_with(Instant::now).elapsed() < MAX_WRITE_TIME
            {
                return None;
            }
            *awaits_writer = None;
            Some(fingerprints.are_current())
        })
    }

    /// Whether to load unchanged files because a reload is requested: if they do not load, the log
    /// says again what is wrong with them.
    fn must_repeat(&self, cause: Cause) -> bool {
        if cause != Cause::Request {
            return false;
        }
        let current = self.current.lock();
        let facts = current.status.facts().policy;
        let is_active = facts.failing_since.is_none() && facts.revision.is_some();
        if is_active {
            current.status.note(|facts| facts.policy.unchanged += 1);
            tracing::info!(file = %self.file.display(), "reload requested: the files are unchanged");
        }
        !is_active
    }

    /// Loads the files, and returns the time until the next check.
    fn load(&mut self) -> Duration {
        self.must_load = true;
        let Self { current, file, folders, fingerprints, good_fingerprints, .. } = self;
        let fetched = current.lock().fetched.clone();
        let (attempt, _) = current.read(|| compiled_policy::load(file, &fetched));
        let tried = mem::replace(fingerprints, attempt.fingerprints);
        let mended = fingerprints.changed_since(&tried.over_older(good_fingerprints));
        let changed = fingerprints.changed_since(good_fingerprints);
        if current.lock().activate(attempt.result, &fetched, &mended, &changed) {
            good_fingerprints.clone_from(fingerprints);
        }
        let (is_new, has_hung) = current.read(|| folders.watch(&fingerprints.folders()));
        self.must_load = has_hung;
        // As after the first load: the files may have changed before the watch began.
        if is_new || has_hung { SETTLE_TIME } else { self.pause() }
    }

    fn pause(&self) -> Duration {
        if self.folders.misses_one { MAX_DELAY.min(self.poll) } else { self.poll }
    }
}
