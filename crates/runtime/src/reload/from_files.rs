//! Keeps the policy current with its files.

use std::mem;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::LoadEvent;
use super::current::SharedPolicy;
use super::folders::{Folders, MAX_WRITE_TIME};
use crate::compiled_policy;
use crate::files::Seen;

/// Delay between the first change and the reload, so that a change of several files is one reload.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// After a check that found no change, the thread pauses for this many times its duration. So large
/// files in a folder where much else is written cost one part in `SHARE` of the thread's time.
const SHARE: u32 = 20;
/// Upper bound of that pause. Also the interval at which a folder is checked that cannot be
/// watched, or in which somebody writes.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum sleep of the thread without polling.
const MAX_SLEEP: Duration = Duration::from_secs(3600);

/// Waits for changes of the files, and loads them.
#[derive(Debug)]
pub(super) struct FileLoader {
    current: SharedPolicy,
    file: PathBuf,
    folders: Folders,
    poll: Duration,
    /// What the last attempt has read.
    seen: Seen,
    /// What the last successful attempt has read.
    good_seen: Seen,
    /// Whether the last attempt was successful.
    is_loaded: bool,
    /// Whether the status said, and may still say, that reading hangs.
    has_hung: bool,
    /// Whether a check has not come to its end: after a panic, the files are loaded in any case.
    is_checking: bool,
    /// Whether a change was noticed at least [`SETTLE_TIME`] ago. The watch may say by then that a
    /// file is still written, in which polling has found a change first.
    has_settled: bool,
    /// Since when the files are not read because somebody writes one.
    awaits_writer: Option<Instant>,
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Checked {
    /// The files were loaded. `again` if they may have changed since without an event.
    Loaded {
        again: bool,
    },
    Unchanged,
    /// They have changed a moment ago.
    Settles,
    /// Somebody writes one of the files.
    IsWritten,
}

impl FileLoader {
    /// `seen` is what the first load has read.
    pub(super) fn new(
        current: SharedPolicy,
        file: PathBuf,
        seen: Seen,
        folders: Folders,
        poll: Duration,
    ) -> Self {
        let poll = if poll.is_zero() { MAX_SLEEP } else { poll };
        let good_seen = seen.clone();
        Self {
            current,
            file,
            folders,
            poll,
            seen,
            good_seen,
            is_loaded: true,
            has_hung: false,
            is_checking: false,
            has_settled: false,
            awaits_writer: None,
        }
    }

    /// Loads the policy whenever its files change, until it is no longer used.
    pub(super) fn run(&mut self, events: &Receiver<LoadEvent>) {
        // Something may have changed between the first load and the start of the watch.
        let mut next = Instant::now();
        let mut earliest = next;
        loop {
            let mut requested = false;
            match events.recv_timeout(next.saturating_duration_since(Instant::now())) {
                // It is not sent again until the folders are watched.
                Ok(LoadEvent::Changed) => {
                    next = next.min(earliest).max(Instant::now() + SETTLE_TIME);
                    self.has_settled = true;
                    continue;
                }
                Ok(LoadEvent::Reload) => requested = true,
                Ok(LoadEvent::Bundle(..)) => continue,
                Ok(LoadEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            let began = Instant::now();
            let checked = self.check(requested);
            let now = Instant::now();
            if checked == Checked::Unchanged {
                earliest = now + ((now - began) * SHARE).min(MAX_DELAY);
            }
            let pause = match checked {
                Checked::Loaded { again: true } | Checked::Settles => SETTLE_TIME,
                // Closing the file is a change, too. This is for one that is not closed.
                Checked::IsWritten => MAX_DELAY,
                _ if self.folders.misses_one() => MAX_DELAY.min(self.poll),
                Checked::Loaded { again: false } | Checked::Unchanged => self.poll,
            };
            next = now + pause;
        }
    }

    /// Loads the files if they have changed. If they do not load, a requested reload loads them
    /// again even if unchanged, so that the log says again what is wrong with them.
    fn check(&mut self, requested: bool) -> Checked {
        let is_interrupted = mem::replace(&mut self.is_checking, true);
        let checked = self.load_changes(requested, is_interrupted);
        self.is_checking = false;
        checked
    }

    fn load_changes(&mut self, requested: bool, must_load: bool) -> Checked {
        let Self { current, folders, seen, awaits_writer, .. } = self;
        let (is_unchanged, has_hung) = current.read(|| {
            // Watched first: a change from now on is reported. A missing folder may exist now.
            folders.watch(&seen.folders());
            // Where files are written all the time, one after the other, no moment is better.
            if !requested
                && folders.is_written()
                && awaits_writer.get_or_insert_with(Instant::now).elapsed() < MAX_WRITE_TIME
            {
                return None;
            }
            *awaits_writer = None;
            Some(seen.still())
        });
        self.has_hung |= has_hung;
        let Some(is_unchanged) = is_unchanged else { return Checked::IsWritten };
        if is_unchanged && !must_load {
            let mut current = current.lock();
            if self.is_loaded && self.has_hung {
                self.has_hung = false;
                current.confirm("the files can be read again, and are those of the active policy");
            }
            let facts = current.status.facts().policy;
            let is_active = facts.failing_since.is_none() && facts.revision.is_some();
            if requested && is_active {
                current.status.note(|facts| facts.policy.unchanged += 1);
                tracing::info!(file = %self.file.display(), "reload requested: the files are unchanged");
            }
            if is_active || !(requested || self.has_hung) {
                self.has_settled = false;
                return Checked::Unchanged;
            }
        }
        if !requested && !must_load && !mem::replace(&mut self.has_settled, true) {
            return Checked::Settles;
        }
        self.load()
    }

    fn load(&mut self) -> Checked {
        let Self { current, file, folders, seen, .. } = self;
        let fetched = current.lock().fetched.clone();
        let (attempt, _) = current.read(|| compiled_policy::load(file, &fetched));
        let tried = mem::replace(seen, attempt.seen);
        let mended = seen.changed_since(&tried.over(&self.good_seen));
        let changed = seen.changed_since(&self.good_seen);
        self.is_loaded = current.lock().activate(attempt.result, &fetched, &mended, &changed);
        (self.has_hung, self.has_settled) = (false, false);
        if self.is_loaded {
            self.good_seen = seen.clone();
        }
        // As after the first load: something may have changed before the watch began.
        let (again, has_hung) = current.read(|| folders.watch(&seen.folders()));
        self.has_hung |= has_hung;
        Checked::Loaded { again }
    }
}
