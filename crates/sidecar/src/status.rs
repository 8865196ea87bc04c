//! What is known of the policy and the active keys: written by the threads that load them, read by the admin pages.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use policy::KeyUrl;

use crate::snapshot::Issuers;

/// What is known, for all who ask. Requests never touch it.
#[derive(Debug, Default)]
pub(crate) struct Status {
    facts: Mutex<Facts>,
    draining: AtomicBool,
}

/// What is known at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The policy.
    pub policy: PolicyFacts,
    /// The keys that are fetched, by where they come from.
    pub keys: BTreeMap<KeyUrl, KeyFacts>,
}

/// What is known of the policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct PolicyFacts {
    /// The revision active; `None` is no policy.
    pub revision: Option<String>,
    /// When it became active, since the Unix epoch.
    pub loaded: Duration,
    /// Since when the files do not load, if they do not.
    pub failing_since: Option<Instant>,
    /// Whether they have not for longer than allowed.
    pub stale: bool,
    /// How often they were loaded.
    pub reloads: u64,
    /// How often they did not load.
    pub failures: u64,
    /// How often loading was asked for and they were the same.
    pub unchanged: u64,
    /// Warnings of the active policy.
    pub warnings: usize,
}

/// What is known of the keys of one URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyFacts {
    /// Whose they are.
    pub issuers: Issuers,
    /// Whether there are any active.
    pub loaded: bool,
    /// When they were fetched last, since the Unix epoch.
    pub fetched: Duration,
    /// How often they were fetched.
    pub fetches: u64,
    /// How often fetching failed.
    pub failures: u64,
    /// How often what was fetched was no usable key set.
    pub rejected: u64,
    /// Whether they are older than allowed.
    pub stale: bool,
}

impl Status {
    /// What is known now.
    pub(crate) fn facts(&self) -> Facts {
        self.lock().clone()
    }

    /// Takes note of something.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Facts)) {
        change(&mut self.lock());
    }

    /// Takes note of something about the keys of a URL, unless the policy has none of that URL any more.
    pub(crate) fn note_keys(&self, url: &KeyUrl, change: impl FnOnce(&mut KeyFacts)) {
        self.note(|facts| _ = facts.keys.get_mut(url).map(change));
    }

    /// Says that the end has begun.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether requests should come here; if not, why.
    ///
    /// # Errors
    /// Why not, for people.
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

    /// A thread that panicked while it took a note has left whole values behind.
    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Facts {
    /// Whether every URL has given keys.
    pub(crate) fn all_keys_loaded(&self) -> bool {
        self.keys.values().all(|keys| keys.loaded)
    }
}
