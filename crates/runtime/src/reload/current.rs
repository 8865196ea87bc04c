//! The current policy: the last good one, and what was fetched for it, with their ages.

use std::collections::HashMap;
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use authorizer::{Authorizer, Revision};
use document::{Place, Problem};
use identity::FetchedKeys;
use policy::KeyUrl;
use tokio::sync::watch;

use super::active::ActiveSnapshot;
use super::change::{self, Change};
use super::log_problems;
use crate::clock;
use crate::compiled_policy::{self, CompiledPolicy, KeyUrls};
use crate::conditions::{ConditionLog, policy_conditions};
use crate::settings::{OnStale, PolicySettings};
use crate::status::Status;
use crate::threads::Panicked;

/// How long reading and compiling may take until the status says that the file system hangs. The
/// load goes on. A policy of 100,000 rules takes a second or two of processor time.
const MAX_READ_TIME: Duration = Duration::from_secs(60);
/// The maximum number of errors of files that do not load that the status has. The log has all.
const MAX_SHOWN_PROBLEMS: usize = 5;

/// The current policy. Its lock is never held while a file is read.
#[derive(Clone, Debug)]
pub(super) struct SharedPolicy(Arc<Mutex<CurrentPolicy>>);

#[derive(Debug)]
pub(super) struct CurrentPolicy {
    /// The policy file, or the URL of the bundle.
    pub(super) file: PathBuf,
    max_policy_age: Duration,
    pub(super) max_keys_age: Duration,
    pub(super) on_stale: OnStale,
    pub(super) active: ActiveSnapshot,
    pub(super) status: Arc<Status>,
    pub(super) key_urls: watch::Sender<KeyUrls>,
    /// The last good policy; `None` until a first bundle is fetched. It is active, unless it is
    /// past its maximum staleness and [`OnStale::Unavailable`] is set.
    pub(super) good: Option<CompiledPolicy>,
    pub(super) fetched: FetchedKeys,
    pub(super) fetched_at: HashMap<KeyUrl, Instant>,
    /// Since when the thread that loads reads and compiles.
    reading_since: Option<Instant>,
    conditions: ConditionLog,
    max_read_time: Duration,
    /// Whether the policy is no longer used. A load that ends now must not activate one.
    is_stopped: bool,
}

impl SharedPolicy {
    pub(super) fn new(
        file: PathBuf,
        settings: &PolicySettings,
        active: Arc<ArcSwapOption<Authorizer>>,
        status: Arc<Status>,
    ) -> Self {
        Self(Arc::new(Mutex::new(CurrentPolicy {
            file,
            max_policy_age: settings.max_policy_age,
            max_keys_age: settings.max_keys_age,
            on_stale: settings.on_stale,
            active: ActiveSnapshot::new(active),
            status,
            key_urls: watch::Sender::default(),
            good: None,
            fetched: FetchedKeys::new(),
            fetched_at: HashMap::new(),
            reading_since: None,
            conditions: ConditionLog::default(),
            max_read_time: MAX_READ_TIME,
            is_stopped: false,
        })))
    }

    /// A poisoned lock can be used: after a panic the policy is loaded again.
    pub(super) fn lock(&self) -> MutexGuard<'_, CurrentPolicy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads files, which may hang. Returns the result, and whether it took so long that the status
    /// says so.
    pub(super) fn read<T>(&self, read: impl FnOnce() -> T) -> (T, bool) {
        self.lock().reading_since = Some(Instant::now());
        let result = read();
        (result, self.lock().end_reading())
    }

    /// Reports a panic of one of the two threads.
    pub(super) fn note_panic(&self, panicked: &Panicked, pause: Duration) {
        let mut current = self.lock();
        current.end_reading();
        current.status.note(|facts| {
            facts.policy.failures += 1;
            facts.policy.failing_since.get_or_insert_with(Instant::now);
        });
        let (file, now) = (current.file.display(), current.status.still_active());
        tracing::error!(%file, "{panicked}: {now}; next try in {pause:.1?}");
    }
}

impl CurrentPolicy {
    /// Notices what became too old or takes too long, logs what is wrong, and frees replaced
    /// snapshots.
    pub(super) fn tick(&mut self, now: Instant) {
        self.check_reading(now);
        let facts = self.status.facts().policy;
        let age = facts.failing_since.map(|since| now.saturating_duration_since(since));
        if self.good.is_some()
            && !facts.stale
            && age.is_some_and(|age| is_over(age, self.max_policy_age))
        {
            self.mark_policy_stale();
        }
        self.check_fetched(now);
        self.conditions.note(&policy_conditions(&self.status.facts()));
        self.active.free_replaced();
    }

    fn mark_policy_stale(&mut self) {
        self.show(true);
        let is_active = self.status.facts().policy.revision.is_some();
        let action = if is_active { "it stays active" } else { "every check gets an error" };
        let file = self.file.display();
        tracing::error!(%file, "the policy exceeds its maximum staleness: {action}");
    }

    /// Makes the last good policy active, unless it is stale and must not be used then. The status
    /// says so afterwards: who reads it, or the log, may rely on it.
    pub(super) fn show(&mut self, is_stale: bool) {
        let is_usable = !is_stale || self.on_stale == OnStale::Keep;
        let usable = self.good.as_ref().filter(|_| is_usable).map(|good| good.authorizer.clone());
        let revision = usable.as_ref().map(|authorizer| authorizer.revision().clone());
        self.active.replace(usable);
        self.status.note(|facts| {
            facts.policy.stale = is_stale;
            facts.policy.revision = revision;
        });
    }

    /// Says once that a load takes too long.
    fn check_reading(&mut self, now: Instant) {
        let Some(since) = self.reading_since else { return };
        if now.saturating_duration_since(since) < self.max_read_time
            || self.status.facts().policy.hangs
        {
            return;
        }
        self.status.note(|facts| {
            facts.policy.hangs = true;
            facts.policy.failing_since.get_or_insert(since);
        });
        let why = "reading the files has not finished: does their file system answer?";
        self.keep(&[Problem::error(Place::start_of(&self.file), why)]);
    }

    /// Returns whether the status said that it takes too long.
    fn end_reading(&mut self) -> bool {
        self.reading_since = None;
        let mut has_hung = false;
        self.status.note(|facts| has_hung = mem::take(&mut facts.policy.hangs));
        has_hung
    }

    pub(super) fn activate_first(&mut self, compiled: CompiledPolicy) {
        self.good = Some(compiled);
        self.publish(false);
    }

    /// Activates a policy that compiles, or keeps the last good one. Returns whether it is active.
    /// It was compiled with the keys of `fetched`. `changed` are the files that differ from those
    /// of the last good policy, `mended` those that differ from the last attempt.
    pub(super) fn activate(
        &mut self,
        result: Result<CompiledPolicy, Vec<Problem>>,
        fetched: &FetchedKeys,
        mended: &[PathBuf],
        changed: &[PathBuf],
    ) -> bool {
        if self.is_stopped {
            return false;
        }
        let result = result.and_then(|mut compiled| {
            compiled_policy::survive(&self.file, || {
                if *fetched != self.fetched {
                    // Keys were fetched, or became too old, while it was compiled.
                    compiled = CompiledPolicy::compile(compiled.loaded, &self.fetched, None)?;
                }
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
                    self.log_policy_change(&before, changed);
                }
                self.forget_unused_keys();
                self.active.free_replaced();
                true
            }
            Err(problems) => {
                self.keep(&problems);
                false
            }
        }
    }

    /// `files` may have changed without effect on the policy: where it includes `*.yaml`, any file
    /// may be added.
    fn log_policy_change(&self, before: &CompiledPolicy, files: &[PathBuf]) {
        let Some(good) = &self.good else { return };
        if before.authorizer.revision().policy != good.authorizer.revision().policy {
            Change::between(&before.loaded.policy, &good.loaded.policy).log(files);
        } else if !files.is_empty() {
            tracing::info!(files = change::joined(files), "policy unchanged");
        }
    }

    /// Reports and activates the last good policy. `again` is false for the first load.
    fn publish(&mut self, again: bool) {
        // First which keys it needs: a first policy is ready once it has them.
        self.publish_key_urls();
        self.show(false);
        let Some(CompiledPolicy { authorizer, warnings, .. }) = &self.good else { return };
        self.status.note(|facts| {
            facts.policy.reloads += u64::from(again);
            facts.policy.identity_keys = authorizer.identity_keys().map(Into::into);
            facts.policy.loaded = clock::now();
            facts.policy.failing_since = None;
            facts.policy.problems = Arc::default();
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
            facts.policy.problems = errors.take(MAX_SHOWN_PROBLEMS).cloned().collect();
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

    /// The active policy is fresh, for this reason.
    pub(super) fn confirm(&mut self, why: &str) {
        if self.status.facts().policy.failing_since.is_none() || self.is_stopped {
            return;
        }
        self.show(false);
        self.status.note(|facts| {
            facts.policy.failing_since = None;
            facts.policy.problems = Arc::default();
        });
        tracing::info!(file = %self.file.display(), "{why}");
    }

    /// Gives up the policy. What is left on worker threads must neither keep it nor free it.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        self.active.replace(None);
        self.good = None;
        self.fetched.clear();
    }

    #[cfg(test)]
    pub(super) fn set_max_read_time(&mut self, max: Duration) {
        self.max_read_time = max;
    }
}

/// A maximum of zero means no limit.
pub(super) fn is_over(age: Duration, max: Duration) -> bool {
    !max.is_zero() && age > max
}
