//! The status of the policy and its keys. Background threads write it, and reports read it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use authorizer::Revision;
use document::Problem;
use policy::KeyUrl;

use crate::compiled_policy::Issuers;
use crate::settings::KeysNeeded;

/// The status that threads share. A background thread of low priority may be preempted while it
/// holds the lock, and a worker thread would wait for it. So a worker thread takes the lock only
/// until everything that is needed has been loaded once. `was_complete` says that without the lock.
#[derive(Debug, Default)]
pub struct Status {
    facts: Mutex<Facts>,
    /// Whether the process has begun to answer requests.
    answering: AtomicBool,
    draining: AtomicBool,
    keys_needed: KeysNeeded,
    /// Whether the process is ready only once the inventory has been fetched: the list of the
    /// indices, aliases and data streams of the search cluster that the policy protects.
    inventory_needed: bool,
    /// Whether all required keys and the inventory have been loaded at least once.
    was_complete: AtomicBool,
}

/// A copy of the status.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The policy.
    pub policy: PolicyFacts,
    /// The status of the keys from each URL.
    pub keys: BTreeMap<KeyUrl, KeyFacts>,
    /// The status of the inventory of the search cluster, if the policy has its URL.
    pub inventory: Option<KeyFacts>,
    /// The bundle, if the policy is fetched as a bundle.
    pub bundle: Option<BundleFacts>,
}

/// The status of the policy bundle.
#[derive(Clone, Debug, Default)]
pub struct BundleFacts {
    /// Whether each bundle must be signed.
    pub must_be_signed: bool,
    /// The revision number of the active bundle.
    pub revision: Option<u64>,
    /// When the bundle's URL last served the active bundle, since the Unix epoch; zero if never.
    pub fetched: Duration,
    /// Whether the active bundle is in the cache; `None` without a cache.
    pub cached: Option<bool>,
    /// Number of fetches by result, in the order of the variants of [`BundleResult`].
    pub results: [u64; BundleResult::NAMES.len()],
    /// The result of the last fetch.
    pub last: Option<BundleResult>,
}

/// The result of a fetch of a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "their names in metrics say it")]
pub enum BundleResult {
    Activated,
    Unchanged,
    Failed,
    Unsigned,
    UnknownKey,
    WrongSignature,
    /// Older than the active or the cached bundle, or another bundle with the same revision.
    OldRevision,
    TooLarge,
    Malformed,
    DoesNotCompile,
}

impl BundleResult {
    /// The names in metrics, in the order of the variants.
    const NAMES: [&'static str; 10] = [
        "activated",
        "unchanged",
        "failed",
        "unsigned",
        "unknown_key",
        "wrong_signature",
        "old_revision",
        "too_large",
        "malformed",
        "does_not_compile",
    ];

    /// Whether the bundle that the URL serves is the active one after this result.
    pub(crate) fn is_active(self) -> bool {
        matches!(self, Self::Activated | Self::Unchanged)
    }

    /// Its name in metrics.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

impl BundleFacts {
    /// Each result with its count.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        BundleResult::NAMES.into_iter().zip(self.results)
    }

    pub(crate) fn count(&mut self, result: BundleResult) {
        self.last = Some(result);
        if let Some(count) = self.results.get_mut(result as usize) {
            *count += 1;
        }
    }
}

/// The status of the policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyFacts {
    /// Identifies the active policy and the keys it uses; `None` if no policy is active.
    pub revision: Option<Revision>,
    /// The public keys that verify the identity header (it tells backends who the caller is), as a
    /// JWK Set; `None` unless the active policy has such a header and makes it a JWT.
    pub identity_keys: Option<Arc<str>>,
    /// When the policy became active, since the Unix epoch.
    pub loaded: Duration,
    /// Start of the current failure to load; `None` if the files load.
    pub failing_since: Option<Instant>,
    /// Whether reading the files takes so long that their file system may hang.
    pub hangs: bool,
    /// The first errors of files that do not load.
    pub problems: Arc<[Problem]>,
    /// Whether the policy has failed to load for longer than the settings allow.
    pub stale: bool,
    /// Number of successful reloads.
    pub reloads: u64,
    /// Number of failed reloads.
    pub failures: u64,
    /// Number of requested reloads that found the files unchanged.
    pub unchanged: u64,
    /// Number of warnings about the active policy.
    pub warnings: usize,
}

impl PolicyFacts {
    /// Counts a failed load. The failure starts at `since`, unless it has started before.
    pub(crate) fn count_failure(&mut self, since: Instant) {
        self.failures += 1;
        self.failing_since.get_or_insert(since);
    }
}

/// The status of one URL, from which either keys or the inventory are fetched. The fields speak of
/// keys, and mean the inventory where that is fetched.
#[derive(Clone, Debug, Default)]
pub struct KeyFacts {
    /// The issuers of the keys; none for an inventory.
    pub issuers: Issuers,
    /// Whether keys from this URL are active.
    pub loaded: bool,
    /// When the keys were last fetched, since the Unix epoch.
    pub fetched: Duration,
    /// Number of fetches whose keys were accepted, changed or not.
    pub fetches: u64,
    /// Number of failed fetches.
    pub failures: u64,
    /// Number of fetches that succeeded, but whose keys were not accepted.
    pub rejected: u64,
    /// Whether the keys are older than the settings allow.
    pub stale: bool,
    /// Start and reason of the current failure; `None` if the keys of the last fetch were accepted.
    pub failing: Option<(Instant, Arc<str>)>,
}

impl KeyFacts {
    pub(crate) fn set_failing(&mut self, reason: &str) {
        let since = self.failing.as_ref().map_or_else(Instant::now, |(since, _)| *since);
        self.failing = Some((since, reason.into()));
    }
}

/// Why requests should not be sent to this process.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts say it")]
pub enum NotReady {
    #[error("draining")]
    Draining,
    #[error("starting: waiting for keys")]
    Starting,
    #[error("the policy is stale")]
    StalePolicy,
    #[error("no policy bundle yet")]
    NoBundle,
    #[error("no policy")]
    NoPolicy,
    #[error("no keys yet of {0}")]
    NoKeys(Issuers),
    #[error("no inventory of the search cluster yet")]
    NoInventory,
}

impl Status {
    /// The status of a process that has not loaded anything. `keys_needed` and `inventory_needed`
    /// say what must be loaded besides a policy before the process is ready.
    pub fn new(keys_needed: KeysNeeded, inventory_needed: bool) -> Self {
        Self { keys_needed, inventory_needed, ..Self::default() }
    }

    /// The current status.
    pub fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// The current status, for a thread that must not wait: `None` while another thread uses it.
    pub fn try_facts(&self) -> Option<Facts> {
        match self.facts.try_lock() {
            Ok(facts) => Some(facts.clone()),
            Err(TryLockError::Poisoned(facts)) => Some(facts.into_inner().clone()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Changes the status.
    pub fn update(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock());
    }

    /// The status of the keys or the inventory of this URL.
    pub fn url_facts(&self, url: &KeyUrl) -> Option<KeyFacts> {
        let facts = self.lock();
        if url.is_inventory() { facts.inventory.clone() } else { facts.keys.get(url).cloned() }
    }

    /// Changes the status of a URL, unless the policy no longer uses it.
    pub fn update_keys(&self, url: &KeyUrl, change: impl FnOnce(&mut KeyFacts)) {
        self.update(|facts| {
            let keys =
                if url.is_inventory() { facts.inventory.as_mut() } else { facts.keys.get_mut(url) };
            keys.map(change);
        });
    }

    /// For log lines about a failure: which policy stays active.
    pub(crate) fn active_policy_text(&self) -> &'static str {
        match self.lock().policy.revision {
            Some(_) => "the last good policy stays active",
            None => "no policy is active",
        }
    }

    /// Marks the process as answering requests.
    pub fn set_answering(&self) {
        self.answering.store(true, Ordering::Relaxed);
    }

    /// Marks the process as draining.
    pub fn set_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether requests should be sent to this process.
    pub fn ready(&self) -> Result<(), NotReady> {
        if self.draining.load(Ordering::Relaxed) {
            return Err(NotReady::Draining);
        }
        // At the start, the process waits a while for its first keys before it answers.
        if !self.answering.load(Ordering::Relaxed) {
            return Err(NotReady::Starting);
        }
        let facts = self.lock();
        match facts.policy {
            PolicyFacts { revision: Some(_), .. } => self.check_complete(&facts),
            PolicyFacts { stale: true, .. } => Err(NotReady::StalePolicy),
            PolicyFacts { .. } if facts.bundle.is_some() => Err(NotReady::NoBundle),
            PolicyFacts { .. } => Err(NotReady::NoPolicy),
        }
    }

    /// Whether everything that must be fetched is loaded, or has been loaded before.
    fn check_complete(&self, facts: &Facts) -> Result<(), NotReady> {
        if self.was_complete.load(Ordering::Relaxed) {
            return Ok(());
        }
        let has_keys = match self.keys_needed {
            KeysNeeded::None => true,
            KeysNeeded::Any => facts.keys.is_empty() || facts.keys.values().any(|keys| keys.loaded),
            KeysNeeded::All => facts.all_keys_loaded(),
        };
        if !has_keys {
            return Err(NotReady::NoKeys(facts.issuers_without_keys()));
        }
        if self.inventory_needed && facts.inventory.as_ref().is_some_and(|facts| !facts.loaded) {
            return Err(NotReady::NoInventory);
        }
        self.was_complete.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether all required keys and the inventory have been loaded at least once. Worker threads
    /// call this for health checks, so it takes the lock only until then.
    pub fn was_complete(&self) -> bool {
        self.was_complete.load(Ordering::Relaxed) || self.check_complete(&self.lock()).is_ok()
    }

    /// A poisoned lock can be used: no code under it leaves a value half changed.
    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// Whether keys from every URL are active.
    pub fn all_keys_loaded(&self) -> bool {
        self.keys.values().all(|keys| keys.loaded)
    }

    /// Whether every URL has been fetched at least once, with success or not: those of keys, of the
    /// inventory and of the bundle.
    pub fn all_tried(&self) -> bool {
        let mut per_url = self.keys.values().chain(&self.inventory);
        self.bundle.as_ref().is_none_or(|bundle| bundle.last.is_some())
            && per_url.all(|facts| facts.loaded || facts.failures + facts.rejected > 0)
    }

    /// The issuers whose keys are not active.
    pub fn issuers_without_keys(&self) -> Issuers {
        let without = self.keys.values().filter(|keys| !keys.loaded);
        Issuers(without.flat_map(|keys| keys.issuers.0.iter().cloned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A status with a policy and the keys of these URLs, loaded or not.
    fn status(needed: KeysNeeded, keys: &[(&str, bool)]) -> Status {
        let status = Status::new(needed, true);
        status.set_answering();
        status.update(|facts| {
            facts.policy.revision = Some(Revision { policy: "r".into(), keys: None });
            for (name, loaded) in keys {
                let issuers = Issuers(vec![(*name).into()]);
                facts.keys.insert(
                    (*name).into(),
                    KeyFacts { issuers, loaded: *loaded, ..KeyFacts::default() },
                );
            }
        });
        status
    }

    fn issuers(names: &[&str]) -> Issuers {
        Issuers(names.iter().map(|name| (*name).into()).collect())
    }

    #[test]
    fn keys_are_needed_as_configured() {
        use KeysNeeded::{All, Any, None};
        let (nothing, one) = ([("a", false), ("b", false)], [("a", true), ("b", false)]);
        for (needed, keys, ready) in [
            (None, &nothing[..], Ok(())),
            (Any, &nothing, Err(NotReady::NoKeys(issuers(&["a", "b"])))),
            (Any, &one, Ok(())),
            (Any, &[], Ok(())),
            (All, &one, Err(NotReady::NoKeys(issuers(&["b"])))),
            (All, &[("a", true)], Ok(())),
            (All, &[], Ok(())),
        ] {
            assert_eq!(status(needed, keys).ready(), ready, "{needed:?} {keys:?}");
        }
    }

    #[test]
    fn facts_are_not_waited_for_while_they_change() {
        let status = status(KeysNeeded::None, &[]);
        status.update(|_| assert!(status.try_facts().is_none()));
        assert!(status.try_facts().is_some());
    }

    #[test]
    fn an_inventory_that_was_never_fetched_is_missing_unless_it_is_not_needed() {
        let new = |inventory_needed, loaded: Option<bool>| {
            let status = Status::new(KeysNeeded::None, inventory_needed);
            status.set_answering();
            status.update(|facts| {
                facts.policy.revision = Some(Revision { policy: "r".into(), keys: None });
                facts.inventory = loaded.map(|loaded| KeyFacts { loaded, ..KeyFacts::default() });
            });
            status
        };
        for (needed, loaded, is_ready) in [
            (true, None, true),
            (true, Some(false), false),
            (true, Some(true), true),
            (false, Some(false), true),
            (false, Some(true), true),
        ] {
            let expected = if is_ready { Ok(()) } else { Err(NotReady::NoInventory) };
            assert_eq!(new(needed, loaded).ready(), expected, "{needed} {loaded:?}");
            assert_eq!(new(needed, loaded).was_complete(), is_ready, "{needed} {loaded:?}");
        }
        // One that is missing later does not take the process out of service.
        let status = new(true, Some(true));
        assert_eq!(status.ready(), Ok(()));
        status.update(|facts| facts.inventory = Some(KeyFacts::default()));
        assert_eq!((status.ready(), status.was_complete()), (Ok(()), true));
    }

    /// Otherwise an issuer that a reload adds, or whose keys have become stale, would take all
    /// instances out of service.
    #[test]
    fn keys_that_are_missing_later_do_not_matter() {
        let status = status(KeysNeeded::All, &[("a", true)]);
        assert_eq!(status.ready(), Ok(()));
        status.update(|facts| {
            facts.keys.insert("b".into(), KeyFacts::default());
            facts.keys.values_mut().for_each(|keys| keys.loaded = false);
        });
        assert_eq!(status.ready(), Ok(()));
        status.set_draining();
        assert_eq!(status.ready(), Err(NotReady::Draining));
    }
}
