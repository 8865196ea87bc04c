//! The last good policy, and the keys that were fetched for it, with their ages.

use std::collections::HashMap;
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
use super::{PolicyNotices, log_problems};
use crate::clock;
use crate::compiled_policy::{self, CompiledPolicy, KeyUrls};
use crate::conditions::{ConditionLog, policy_conditions};
use crate::settings::{OnStale, PolicySettings};
use crate::status::Status;
use crate::threads::Panicked;

/// How long a load may take before the status reports a hanging file system. The load goes on. A
/// policy of 100,000 rules takes a second or two of processor time.
const MAX_READ_TIME: Duration = Duration::from_secs(60);
/// Maximum number of file errors in the status. The log has all of them.
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
    /// When the `policy-load` thread started the current load; `None` while it is idle.
    reading_since: Option<Instant>,
    /// Whether the next look at the files loads them even if they are unchanged. It is set after a
    /// hang or a panic, which may have replaced the errors of the files in the status.
    pub(super) must_load: bool,
    conditions: ConditionLog,
    /// Logged about the active policy; see [`Self::set_notices`].
    notices: Option<PolicyNotices>,
    pub(super) max_read_time: Duration,
    /// Whether the threads are stopping. A load that is still running must not activate its policy.
    is_stopped: bool,
}

/// A load that is running. Dropping it ends the load, also after a panic.
struct Reading<'p>(&'p SharedPolicy);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut current = self.0.lock();
        current.reading_since = None;
        current.status.update(|facts| facts.policy.hangs = false);
    }
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
            must_load: false,
            conditions: ConditionLog::default(),
            notices: None,
            max_read_time: MAX_READ_TIME,
            is_stopped: false,
        })))
    }

    /// A poisoned lock can be used: after a panic the policy is loaded again.
    pub(super) fn lock(&self) -> MutexGuard<'_, CurrentPolicy> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a load, and records its start: reading files may hang.
    pub(super) fn read<T>(&self, read: impl FnOnce() -> T) -> T {
        self.lock().reading_since = Some(Instant::now());
        let _reading = Reading(self);
        read()
    }

    /// Reports a panic of the thread `policy-load`, which loads the policy, or of the thread
    /// `policy`, which takes fetched keys. The thread goes on after `pause`.
    pub(super) fn report_panic(&self, panicked: &Panicked, pause: Duration) {
        let mut current = self.lock();
        current.must_load = true;
        current.status.update(|facts| facts.policy.count_failure(Instant::now()));
        let (file, active) = (current.file.display(), current.status.active_policy_text());
        tracing::error!(%file, "{panicked}: {active}; next try in {pause:.1?}");
    }
}

impl CurrentPolicy {
    /// Checks ages and the time of a load, logs conditions, and frees replaced snapshots. The
    /// `policy` thread calls it every second.
    pub(super) fn tick(&mut self, now: Instant) {
        self.check_reading(now);
        let facts = self.status.facts().policy;
        // A policy ages only while its files do not load.
        let is_too_old = facts.failing_since.is_some_and(|since| {
            is_over(now.saturating_duration_since(since), self.max_policy_age)
        });
        if self.good.is_some() && !facts.stale && is_too_old {
            self.update_active(true);
            let is_active = self.status.facts().policy.revision.is_some();
            let action = if is_active { "it stays active" } else { "every check gets an error" };
            let file = self.file.display();
            tracing::error!(%file, "the policy exceeds its maximum staleness: {action}");
        }
        self.check_fetched(now);
        self.conditions.log_changes(&policy_conditions(&self.status.facts()));
        self.active.free_replaced();
    }

    /// Activates the last good policy, or no policy if it is stale and [`OnStale::Unavailable`] is
    /// set. The status and the log report it only afterwards, so their readers can rely on it.
    pub(super) fn update_active(&mut self, is_stale: bool) {
        let is_usable = !is_stale || self.on_stale == OnStale::Keep;
        let usable = self.good.as_ref().filter(|_| is_usable).map(|good| good.authorizer.clone());
        let revision = usable.as_ref().map(|authorizer| authorizer.revision().clone());
        self.active.replace(usable);
        self.status.update(|facts| {
            facts.policy.stale = is_stale;
            facts.policy.revision = revision;
        });
    }

    /// Reports a load that takes too long, once.
    fn check_reading(&mut self, now: Instant) {
        let Some(since) = self.reading_since else { return };
        if now.saturating_duration_since(since) < self.max_read_time
            || self.status.facts().policy.hangs
        {
            return;
        }
        self.must_load = true;
        self.status.update(|facts| facts.policy.hangs = true);
        let text = "reading the files has not finished: does their file system answer?";
        self.report_failure(&[Problem::error(Place::start_of(&self.file), text)], since);
    }

    /// Activates a policy that was compiled with the keys `compiled_with`, or keeps the last good
    /// policy. Returns whether the new policy is active. `changed` lists the files that differ from
    /// the last good policy.
    pub(super) fn activate(
        &mut self,
        result: Result<CompiledPolicy, Vec<Problem>>,
        compiled_with: &FetchedKeys,
        changed: &[PathBuf],
    ) -> bool {
        if self.is_stopped {
            return false;
        }
        self.must_load = false;
        let result = result.and_then(|mut compiled| {
            compiled_policy::catch_panic(&self.file, || {
                if *compiled_with != self.fetched {
                    // Keys were fetched, or became too old, while it was compiled.
                    compiled = CompiledPolicy::compile(compiled.loaded, &self.fetched, None)?;
                }
                if let Some(good) = &self.good {
                    compiled.carry_over(&good.authorizer);
                }
                Ok(compiled)
            })
        });
        let compiled = match result {
            Ok(compiled) => compiled,
            Err(problems) => {
                self.report_failure(&problems, Instant::now());
                return false;
            }
        };
        let was_failing = self.status.facts().policy.failing_since.is_some();
        let before = self.replace_good(compiled);
        if let (Some(before), Some(good)) = (before, &self.good) {
            if was_failing {
                tracing::info!("the policy loads again");
            }
            if before.authorizer.revision().policy != good.authorizer.revision().policy {
                Change::between(&before.loaded.policy, &good.loaded.policy).log(changed);
            } else if !changed.is_empty() {
                // A pattern such as `*.yaml` may include a new file without effect.
                tracing::info!(files = change::joined(changed), "policy unchanged");
            }
        }
        self.forget_unused_keys();
        self.active.free_replaced();
        true
    }

    /// Makes `compiled` the last good policy, activates and reports it. Returns the policy before;
    /// `None` if this is the first.
    pub(super) fn replace_good(&mut self, compiled: CompiledPolicy) -> Option<CompiledPolicy> {
        let before = self.good.replace(compiled);
        // First, so that `/readyz` waits for the keys as soon as a first policy is active.
        self.publish_key_urls();
        self.update_active(false);
        let Some(CompiledPolicy { authorizer, warnings, .. }) = &self.good else { return before };
        let is_reload = before.is_some();
        self.status.update(|facts| {
            facts.policy.reloads += u64::from(is_reload);
            facts.policy.identity_keys = authorizer.identity_keys().map(Into::into);
            facts.policy.loaded = clock::now();
            facts.policy.failing_since = None;
            facts.policy.problems = Arc::default();
            facts.policy.warnings = warnings.len();
        });
        let loaded = if is_reload { "reloaded" } else { "loaded" };
        let Revision { policy, keys } = authorizer.revision();
        let (file, keys) = (self.file.display(), keys.as_deref());
        tracing::info!(%file, %policy, keys, "policy {loaded}");
        // The first load logs each warning. `rolegate check` shows them at any time.
        match warnings.len() {
            0 => {}
            count if is_reload => {
                tracing::warn!(count, "the policy has warnings: see `rolegate check`");
            }
            _ => log_problems(warnings),
        }
        let is_changed = before.as_ref().is_none_or(|before| {
            before.authorizer.revision().policy != authorizer.revision().policy
        });
        if is_changed {
            self.log_notices();
        }
        before
    }

    /// Logs these notices about the active policy, and about each changed policy when it is
    /// activated: a reload may bring a part that has no effect here, or that silently denies.
    pub(super) fn set_notices(&mut self, notices: PolicyNotices) {
        self.notices = Some(notices);
        self.log_notices();
    }

    fn log_notices(&self) {
        if let (Some(notices), Some(good)) = (self.notices, &self.good) {
            for notice in notices(&good.authorizer) {
                tracing::warn!("{notice}");
            }
        }
    }

    /// Reports why the files do not load, and since when.
    fn report_failure(&self, problems: &[Problem], since: Instant) {
        let errors: Vec<Problem> =
            problems.iter().filter(|problem| !problem.is_warning()).cloned().collect();
        self.status.update(|facts| {
            facts.policy.count_failure(since);
            facts.policy.problems = errors.iter().take(MAX_SHOWN_PROBLEMS).cloned().collect();
        });
        log_problems(&errors);
        let file = self.file.display();
        match self.status.facts().policy.revision {
            Some(Revision { policy, keys }) => {
                let keys = keys.as_deref();
                let text = "policy not reloaded: the last good one stays active";
                tracing::error!(%file, %policy, keys, "{text}");
            }
            None => tracing::error!(%file, "policy not reloaded: no policy is active"),
        }
    }

    /// Ends a failure: the files or the bundle match the last good policy again, which becomes
    /// active if it was not. `reason` is logged.
    pub(super) fn end_failure(&mut self, reason: &str) {
        if self.status.facts().policy.failing_since.is_none() || self.is_stopped {
            return;
        }
        self.update_active(false);
        self.status.update(|facts| {
            facts.policy.failing_since = None;
            facts.policy.problems = Arc::default();
        });
        tracing::info!(file = %self.file.display(), "{reason}");
    }

    /// Makes no policy active, so that worker threads get none. The policy is freed on the calling
    /// thread, not on a worker thread: see [`ActiveSnapshot`].
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
        self.active.replace(None);
        self.good = None;
        self.fetched.clear();
    }
}

/// A maximum of zero means no limit.
pub(super) fn is_over(age: Duration, max: Duration) -> bool {
    !max.is_zero() && age > max
}
