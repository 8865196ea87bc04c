//! The status of the policy and of the active keys: written by the threads that load them, read by the admin pages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use authorizer::Revision;
use policy::KeyUrl;

use crate::snapshot::Issuers;

/// The status that threads share. Requests never touch it.
#[derive(Debug, Default)]
pub(crate) struct Status {
    facts: Mutex<Facts>,
    draining: AtomicBool,
}

/// The status at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The policy.
    pub policy: PolicyFacts,
    /// The fetched keys, by URL.
    pub keys: BTreeMap<KeyUrl, KeyFacts>,
}

/// The status of the policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyFacts {
    /// The revision of the active policy and its keys; `None` if no policy is active.
    pub revision: Option<Revision>,
    /// When it became active, since the Unix epoch.
    pub loaded: Duration,
    /// Since when the files have not loaded; `None` if they load.
    pub failing_since: Option<Instant>,
    /// Whether they have not loaded for longer than the maximum staleness.
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

/// The status of the keys of one URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyFacts {
    /// The issuers of the keys.
    pub issuers: Issuers,
    /// Whether keys from this URL are active.
    pub loaded: bool,
    /// When they were last fetched, since the Unix epoch.
    pub fetched: Duration,
    /// Number of successful fetches.
    pub fetches: u64,
    /// Number of failed fetches.
    pub failures: u64,
    /// Number of fetched key sets that could not be used.
    pub rejected: u64,
    /// Whether they are older than the maximum staleness.
    pub stale: bool,
}

impl Status {
    /// The current status.
    pub(crate) fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// Changes the status.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock());
    }

    /// Changes the status of the keys of a URL, unless the policy does not use that URL any more.
    pub(crate) fn note_keys(&self, url: &KeyUrl, change: impl FnOnce(&mut KeyFacts)) {
        self.note(|facts| _ = facts.keys.get_mut(url).map(change));
    }

    /// Marks the process as draining.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether requests should be sent to this process.
    ///
    /// # Errors
    /// The reason why not, as text for people.
    pub(crate) fn ready(&self) -> Result<(), &'static str> {
        if self.draining.load(Ordering::Relaxed) {
            return Err("draining");
        }
        match self.lock().policy {
            PolicyFacts { revision: Some(_), .. } => Ok(()),
            PolicyFacts { stale: true, .. } => Err("the policy is stale"),
            PolicyFacts { .. } => Err("no policy"),
        }
    }

    /// A poisoned lock can be used: no code under it leaves a value half changed.
    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// Whether keys from every URL are active.
    pub(crate) fn all_keys_loaded(&self) -> bool {
        self.keys.values().all(|keys| keys.loaded)
    }

    /// The issuers whose keys are not active.
    pub(crate) fn issuers_without_keys(&self) -> Issuers {
        let without = self.keys.values().filter(|keys| !keys.loaded);
        Issuers(without.flat_map(|keys| keys.issuers.0.iter().cloned()).collect())
    }
}
