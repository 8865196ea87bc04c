//! Loads and activates the policy, at the start and on every change.
//!
//! One thread does all of this, away from the worker threads. It receives events (from the file system, from SIGHUP, fetched keys
//! and bundles), has the files compared with what was read last, loaded and compiled on the threads of `background`, and publishes
//! the new snapshot in one atomic step. If the files do not load, or their file system does not answer, the last good policy is
//! kept; a log line, a metric and its age report that.

use std::collections::HashMap;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use authorizer::{Authorizer, Revision};
use document::{Problem, Severity};
use identity::FetchedKeys;
use policy::KeyUrl;
use tokio::sync::{oneshot, watch};
use tracing::Span;

use crate::backoff::after_panics;
use crate::bundle_source::BundleSource;
use crate::clock;
use crate::compiled_policy::{self, CompiledPolicy, KeyUrls};
use crate::files::Seen;
use crate::load_error::LoadError;
use crate::memory;
use crate::priority;
use crate::settings::{OnStale, PolicySettings, PolicySource};
use crate::status::Status;

mod active;
mod age;
mod background;
mod bundle;
mod change;
mod fetched;
mod folders;
mod from_files;

use active::ActiveSnapshot;
use background::Background;
use bundle::BundleState;
pub(crate) use bundle::{Fetched, Taken};
use change::Change;
pub(crate) use fetched::TakenKeys;
use folders::{Folders, WRITE_TIME};
use from_files::Late;

/// Delay between the first change and the reload, so that a change of several files is one reload.
const SETTLE_TIME: Duration = Duration::from_millis(50);
/// After a check that found no change, the thread pauses for this many times its duration. So large files in a folder
/// where much else is written cost at most one part in `SHARE` of the thread's time.
const SHARE: u32 = 20;
/// Upper bound of that pause, so that no change waits for longer. Also the interval at which the thread checks a
/// folder that cannot be watched, and retries to free replaced snapshots.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Maximum sleep of the thread when nothing is scheduled.
const MAX_SLEEP: Duration = Duration::from_secs(3600);
/// The maximum number of errors of files that do not load that the status has. The log has all.
const SHOWN_PROBLEMS: usize = 5;

/// An event for the policy thread.
#[derive(Debug)]
pub(crate) enum Event {
    /// Something has changed in a folder of the policy, or a folder has been moved or removed. However many changes
    /// there are, it is sent once until the thread has taken them.
    Changed,
    /// A reload is requested (SIGHUP).
    Reload,
    /// Keys have been fetched from a URL, changed or not. Once they are processed, the sender takes what became of them.
    Keys(KeyUrl, Arc<[u8]>, oneshot::Sender<TakenKeys>),
    /// What a fetch of the policy as a bundle gave. The sender takes what became of it.
    Bundle(Fetched, oneshot::Sender<Taken>),
    /// The policy is no longer used.
    Stop,
}

/// The handle to the policy thread, which keeps the active policy current until this is dropped.
#[derive(Debug)]
pub(crate) struct Policies {
    events: Sender<Event>,
}

/// Loads and activates policies. Owned by the policy thread once it runs.
#[derive(Debug)]
pub(crate) struct Reloader {
    file: PathBuf,
    settings: ReloadSettings,
    active: ActiveSnapshot,
    status: Arc<Status>,
    key_urls: watch::Sender<KeyUrls>,
    /// The last good policy; `None` until a first bundle is fetched. It is active, unless it is past its maximum staleness and
    /// [`OnStale::Unavailable`] is set.
    good: Option<CompiledPolicy>,
    /// The bundle that the policy is fetched as, if it is.
    bundle: Option<BundleState>,
    /// What the last attempt has read, whether or not it succeeded.
    seen: Arc<Seen>,
    /// What the last successful attempt has read.
    good_seen: Arc<Seen>,
    /// Whether the files could not even be compared or read the last time: their file system did not answer.
    unfinished: bool,
    /// What a load will give that takes too long to wait for.
    late: Option<Late>,
    /// Whether the files must be compared again soon: a late load was taken instead.
    look_again: bool,
    fetched: FetchedKeys,
    fetched_at: HashMap<KeyUrl, Instant>,
}

/// The settings about reloading.
#[derive(Clone, Copy, Debug)]
struct ReloadSettings {
    poll: Duration,
    max_policy_age: Duration,
    max_keys_age: Duration,
    on_stale: OnStale,
}

impl Policies {
    /// A sender of events to the thread.
    #[must_use]
    pub(crate) fn events(&self) -> Sender<Event> {
        self.events.clone()
    }
}

impl Drop for Policies {
    /// Ends the thread after its current work.
    fn drop(&mut self) {
        // The thread holds a sender itself, for the watch of its folders: it would not see that all others are gone.
        // Sending fails only if the thread has ended.
        let _ = self.events.send(Event::Stop);
    }
}

impl Reloader {
    /// Loads and activates the policy for the first time.
    ///
    /// # Errors
    /// Every problem of the policy, or what is wrong with a setting.
    pub(crate) fn first(
        settings: &PolicySettings,
        current: Arc<ArcSwapOption<Authorizer>>,
        status: Arc<Status>,
    ) -> Result<Self, LoadError> {
        let (file, good, seen, bundle) = match &settings.policy {
            PolicySource::Path(path) => {
                let file = compiled_policy::policy_file(path);
                let attempt = compiled_policy::load(&file, &FetchedKeys::new());
                (file, Some(attempt.result?), attempt.seen, None)
            }
            PolicySource::Bundle(url) => {
                let source = BundleSource::new(url, &settings.bundle)?;
                let (bundle, cached) = BundleState::from_cache(source);
                status.note(|facts| facts.bundle = Some(bundle.facts()));
                (PathBuf::from(url.to_string()), cached, Seen::default(), Some(bundle))
            }
        };
        let seen = Arc::new(seen);
        let mut reloader = Self {
            file,
            settings: ReloadSettings::of(settings),
            active: ActiveSnapshot::new(current),
            status,
            key_urls: watch::Sender::default(),
            good,
            bundle,
            good_seen: seen.clone(),
            seen,
            unfinished: false,
            late: None,
            look_again: false,
            fetched: FetchedKeys::new(),
            fetched_at: HashMap::new(),
        };
        if reloader.good.is_some() {
            reloader.publish(false);
        }
        Ok(reloader)
    }

    /// The URLs of keys to fetch, now and whenever they change.
    #[must_use]
    pub(crate) fn key_urls(&self) -> watch::Receiver<KeyUrls> {
        self.key_urls.subscribe()
    }

    /// The bundle to fetch, if the policy is one.
    #[must_use]
    pub(crate) fn bundle(&self) -> Option<Arc<BundleSource>> {
        self.bundle.as_ref().map(BundleState::source)
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub(crate) fn start(self) -> io::Result<Policies> {
        self.start_with(Background::start()?)
    }

    fn start_with(self, background: Background) -> io::Result<Policies> {
        let (events, received) = channel();
        let folders = Arc::new(Mutex::new(Folders::new(events.clone())));
        let span = Span::current();
        thread::Builder::new().name("policy".to_owned()).spawn(move || {
            priority::lower(priority::POLICY);
            let _entered = span.entered();
            self.run(&received, &folders, &background);
        })?;
        Ok(Policies { events })
    }

    /// Takes events until the policy is no longer used. A panic, which is a bug, must not end the thread: no change would
    /// become active any more, and nothing that is too old would stop being used.
    fn run(mut self, events: &Receiver<Event>, folders: &Arc<Mutex<Folders>>, background: &Background) {
        let mut panics = 0;
        while catch_unwind(AssertUnwindSafe(|| self.take_events(events, folders, background))).is_err() {
            panics += 1;
            let pause = after_panics(panics);
            let now = self.status.still_active();
            tracing::error!(file = %self.file.display(), "keeping the policy current panicked, which is a bug in rolegate: {now}; next try in {pause:.1?}");
            self.status.note(|facts| {
                facts.policy.failures += 1;
                facts.policy.failing_since.get_or_insert_with(Instant::now);
            });
            // Whether the files that were read last are active is not known: they are loaded again unless they are.
            self.unfinished = self.bundle.is_none();
            thread::sleep(pause);
        }
    }

    fn take_events(
        &mut self,
        events: &Receiver<Event>,
        folders: &Arc<Mutex<Folders>>,
        background: &Background,
    ) {
        // Also after a panic, whatever the next event does.
        self.check_age(Instant::now());
        // Something may have changed between the first load and the start of the watch.
        let mut look = Some(Instant::now());
        let mut rest = Instant::now();
        let mut poll = self.next_poll();
        // Whether a folder is not watched.
        let mut misses_one = false;
        // Since when the files are not read because somebody writes one.
        let mut awaits_writer: Option<Instant> = None;
        loop {
            if misses_one || self.unfinished {
                look.get_or_insert_with(|| Instant::now() + MAX_DELAY);
            }
            let mut wake = look.unwrap_or(poll).min(poll);
            if self.active.has_replaced() {
                wake = wake.min(Instant::now() + MAX_DELAY);
            }
            let mut reloaded = false;
            match events.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                // It is not sent again until the changes are taken, which is when the folders are watched.
                Ok(Event::Changed) => _ = look.get_or_insert_with(|| rest.max(Instant::now() + SETTLE_TIME)),
                Ok(Event::Reload) => reloaded = self.reload_on_request(background),
                Ok(Event::Keys(url, keys, taken)) => {
                    // Sending fails only if the fetch task has ended.
                    let _ = taken.send(self.take_keys(&url, keys));
                }
                Ok(Event::Bundle(fetched, taken)) => {
                    // Fails only when the process stops.
                    let _ = taken.send(self.take_bundle(&fetched, background));
                }
                Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => {
                    // What is left of it on worker threads must neither keep the snapshot nor free it.
                    self.active.replace(None);
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if now >= look.unwrap_or(poll).min(poll) {
                look = None;
                self.check_age(now);
                // Before the files are read: what changes from now on is reported. A folder that was missing may exist now.
                let watched = self.watch(folders, background);
                misses_one = watched.misses_one;
                // Where files are written all the time, one after the other, there is no better moment.
                if watched.is_written && awaits_writer.get_or_insert(now).elapsed() < WRITE_TIME {
                    // Closing it is a change, too. This is for one that is not closed.
                    look = Some(Instant::now() + MAX_DELAY);
                } else {
                    awaits_writer = None;
                    if self.reload_if_changed(background) {
                        reloaded = true;
                    } else {
                        rest = Instant::now() + (now.elapsed() * SHARE).min(MAX_DELAY);
                    }
                }
                self.check_age(Instant::now());
                // After all of this: events must be taken between two polls, however long one takes.
                poll = self.next_poll();
                // Done here because this thread has time, and wakes every few seconds.
                memory::give_back();
            }
            if reloaded {
                let watched = self.watch(folders, background);
                misses_one = watched.misses_one;
                if mem::take(&mut self.look_again) || watched.more {
                    // As after the first load: something may have changed before the watch began, or since a late load has read
                    // the files. The event of that change may be taken already.
                    look = Some(Instant::now() + SETTLE_TIME);
                }
            }
            self.active.free_replaced(background);
        }
    }

    /// Reloads because of a request for it. Returns whether there was anything to load: files that do not load are
    /// loaded again even if unchanged, so that the log says again what is wrong with them.
    fn reload_on_request(&mut self, background: &Background) -> bool {
        if self.bundle.is_some() {
            // The task that fetches it has got the same request.
            return false;
        }
        // The log says again that their file system does not answer, if it still does not.
        self.unfinished = false;
        if self.reload_if_changed(background) {
            return true;
        }
        let facts = self.status.facts().policy;
        let active = facts.failing_since.is_none() && facts.revision.is_some();
        if active {
            self.status.note(|facts| facts.policy.unchanged += 1);
            tracing::info!(file = %self.file.display(), "reload requested: the files are unchanged");
        } else {
            self.reload(background);
        }
        !active
    }

    /// Activates a policy that compiles, or keeps the last good one. Returns whether it compiles. `changed` are the files that
    /// differ from those of the last good policy, `mended` those that differ from the last attempt.
    fn activate(
        &mut self,
        result: Result<CompiledPolicy, Vec<Problem>>,
        mended: &[PathBuf],
        changed: &[PathBuf],
        background: &Background,
    ) -> bool {
        // Not in the background: this takes locks that requests take too. A background thread that holds one may wait
        // for a processor that requests keep busy, and those requests would wait for the lock.
        let result = result.and_then(|mut compiled| {
            compiled_policy::survive(&self.file, || {
                if let Some(good) = &self.good {
                    compiled.carry_over(&good.authorizer);
                }
                Ok(compiled)
            })
        });
        match result {
            Ok(compiled) => {
                let was_failing = self.status.facts().policy.failing_since.is_some();
                let before = self.good.replace(compiled);
                self.publish(before.is_some());
                if let Some(before) = before {
                    if was_failing {
                        let files = (!mended.is_empty()).then(|| change::joined(mended));
                        tracing::info!(files, "the policy loads again");
                    }
                    self.log_policy_change(&before, changed, background);
                }
                self.forget_unused_keys();
                true
            }
            Err(problems) => {
                self.keep(&problems);
                false
            }
        }
    }

    /// `files` may have changed without effect on the policy: where it includes `*.yaml`, any file may be added.
    fn log_policy_change(&self, before: &CompiledPolicy, files: &[PathBuf], background: &Background) {
        let Some(good) = &self.good else { return };
        if before.authorizer.revision().policy != good.authorizer.revision().policy {
            let (before, after) = (before.loaded.clone(), good.loaded.clone());
            match background.run(move || Change::of(&before.policy, &after.policy)) {
                Ok(change) => change.log(files),
                Err(_) => tracing::info!(files = change::joined(files), "policy changed"),
            }
        } else if !files.is_empty() {
            tracing::info!(files = change::joined(files), "policy unchanged");
        }
    }

    /// Activates the last good policy. `again` is false for the first load.
    fn publish(&mut self, again: bool) {
        let Some(CompiledPolicy { authorizer, warnings, .. }) = &self.good else { return };
        // First which keys it needs: a first policy is ready once it has them.
        self.publish_key_urls();
        self.active.replace(Some(authorizer.clone()));
        self.status.note(|facts| {
            facts.policy.reloads += u64::from(again);
            facts.policy.revision = Some(authorizer.revision().clone());
            facts.policy.identity_keys = authorizer.identity_keys().map(Into::into);
            facts.policy.loaded = clock::now();
            facts.policy.failing_since = None;
            facts.policy.problems = Arc::default();
            facts.policy.stale = false;
            facts.policy.warnings = warnings.len();
        });
        let loaded = if again { "reloaded" } else { "loaded" };
        let Revision { policy, keys } = authorizer.revision();
        tracing::info!(file = %self.file.display(), %policy, keys = keys.as_deref(), "policy {loaded}");
        log_problems(warnings);
    }

    fn keep(&self, problems: &[Problem]) {
        self.status.note(|facts| {
            facts.policy.failures += 1;
            facts.policy.failing_since.get_or_insert_with(Instant::now);
            let errors = problems.iter().filter(|problem| !problem.is_warning());
            facts.policy.problems = errors.take(SHOWN_PROBLEMS).cloned().collect();
        });
        log_problems(problems);
        let file = self.file.display();
        match self.status.facts().policy.revision {
            Some(Revision { policy, keys }) => {
                let keys = keys.as_deref();
                tracing::error!(%file, %policy, keys, "policy not reloaded: the last good one stays active");
            }
            None => tracing::error!(%file, "policy not reloaded: no policy is active"),
        }
    }
}

impl ReloadSettings {
    fn of(settings: &PolicySettings) -> Self {
        Self {
            poll: settings.poll_interval,
            max_policy_age: settings.max_policy_age,
            max_keys_age: settings.max_keys_age,
            on_stale: settings.on_stale,
        }
    }
}

/// Logs each problem, with its place and related ones.
pub fn log_problems(problems: &[Problem]) {
    for problem in problems {
        let help = problem.help.as_deref();
        let related = problem.related.iter().map(|(at, note)| format!("{at}: {note}"));
        let related = (!problem.related.is_empty()).then(|| related.collect::<Vec<_>>().join("; "));
        match problem.severity {
            Severity::Error => tracing::error!(at = %problem.at, help, related, "{}", problem.message),
            Severity::Warning(name) => {
                tracing::warn!(at = %problem.at, %name, help, related, "{}", problem.message);
            }
        }
    }
}

#[cfg(test)]
mod tests;
