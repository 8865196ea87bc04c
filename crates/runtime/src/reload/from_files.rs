//! Keeps the policy current with its files.

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
/// Interval of checks while a folder is not watched, or while a file is being written. A change
/// that polling has found also waits this long, so that the watch can report it: on a busy machine
/// the report took more than [`SETTLE_TIME`].
const SHORT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of checks if polling is turned off.
const LONG_INTERVAL: Duration = Duration::from_secs(3600);

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
    /// When the current wait for a file being written began; `None` if there is no wait.
    awaits_writer: Option<Instant>,
}

/// Why the files are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Poll,
    /// The system has reported a change.
    Change,
    Request,
}

/// How the files compare with those of the last attempt.
enum Comparison {
    Unchanged,
    Changed,
    /// A file is being written.
    Unfinished,
}

impl FileLoader {
    pub(super) fn new(
        current: SharedPolicy,
        file: PathBuf,
        fingerprints: Fingerprints,
        folders: Folders,
        poll: Duration,
    ) -> Self {
        let poll = if poll.is_zero() { LONG_INTERVAL } else { poll };
        let good_fingerprints = fingerprints.clone();
        Self { current, file, folders, poll, fingerprints, good_fingerprints, awaits_writer: None }
    }

    /// Loads the policy whenever its files change, until [`LoadEvent::Stop`].
    pub(super) fn run(&mut self, events: &Receiver<LoadEvent>) {
        // The files may have changed between the first load and the start of the watch.
        let mut next = Instant::now();
        let mut cause = Cause::Poll;
        loop {
            match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // This event is not sent again until `Folders::watch` is called.
                Ok(LoadEvent::Changed) => {
                    next = Instant::now() + SETTLE_TIME;
                    cause = Cause::Change;
                    continue;
                }
                Ok(LoadEvent::Reload) => cause = Cause::Request,
                Ok(LoadEvent::Bundle(..)) => continue,
                Ok(LoadEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let (pause, next_cause) = match self.compare(cause) {
                // The watch reports when the file is closed. The next check is for a file that
                // stays open.
                Comparison::Unfinished => (SHORT_INTERVAL, Cause::Poll),
                Comparison::Unchanged if !self.must_load_unchanged(cause) => {
                    (self.interval(), Cause::Poll)
                }
                // The watch may be late. During the pause it may report that the file is still
                // being written.
                Comparison::Changed if cause == Cause::Poll => (SHORT_INTERVAL, Cause::Change),
                Comparison::Unchanged | Comparison::Changed => (self.load(), Cause::Poll),
            };
            next = Instant::now() + pause;
            cause = next_cause;
        }
    }

    fn compare(&mut self, cause: Cause) -> Comparison {
        let Self { current, folders, fingerprints, awaits_writer, .. } = self;
        current.read(|| {
            // The watch comes first, so that later changes are reported. A missing folder may exist
            // now.
            folders.watch(&fingerprints.folders());
            // The wait is limited: some folders always have a file being written.
            if cause != Cause::Request
                && folders.is_being_written()
                && awaits_writer.get_or_insert_with(Instant::now).elapsed() < MAX_WRITE_TIME
            {
                return Comparison::Unfinished;
            }
            *awaits_writer = None;
            if fingerprints.are_current() { Comparison::Unchanged } else { Comparison::Changed }
        })
    }

    /// Whether to load unchanged files: after a hang or a panic, or when a reload is requested for
    /// files that do not load. The log then repeats their errors. A requested reload of files that
    /// are active is only counted and logged here.
    fn must_load_unchanged(&self, cause: Cause) -> bool {
        let current = self.current.lock();
        if cause != Cause::Request || current.must_load {
            return current.must_load;
        }
        let facts = current.status.facts().policy;
        let is_active = facts.failing_since.is_none() && facts.revision.is_some();
        if is_active {
            current.status.update(|facts| facts.policy.unchanged += 1);
            let file = self.file.display();
            tracing::info!(%file, "reload requested: the files are unchanged");
        }
        !is_active
    }

    /// Loads the files, and returns the time until the next check.
    fn load(&mut self) -> Duration {
        let Self { current, file, folders, fingerprints, good_fingerprints, .. } = self;
        let fetched = current.lock().fetched.clone();
        let attempt = current.read(|| compiled_policy::load(file, &fetched));
        *fingerprints = attempt.fingerprints;
        let changed = fingerprints.changed_since(good_fingerprints);
        if current.lock().activate(attempt.result, &fetched, &changed) {
            good_fingerprints.clone_from(fingerprints);
        }
        let is_new = current.read(|| folders.watch(&fingerprints.folders()));
        // The files may have changed before a new watch began, so they are soon checked again.
        if is_new || current.lock().must_load { SETTLE_TIME } else { self.interval() }
    }

    fn interval(&self) -> Duration {
        if self.folders.is_incomplete { SHORT_INTERVAL.min(self.poll) } else { self.poll }
    }
}
