//! Verifies, compiles and activates a fetched bundle of the policy, and stores it for a restart.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use bundle::{Bundle, BundleError, PublicKey};

use super::LoadEvent;
use super::current::SharedPolicy;
use crate::bundle_source::BundleSource;
use crate::clock;
use crate::compiled_policy;
use crate::status::{BundleFacts, BundleResult};
use crate::threads::run_within;

/// How long an access to the cache may take; after that, bundles are used without the cache. The
/// cache may be on a network file system, whose outage must not stop new bundles.
const MAX_CACHE_TIME: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) enum FetchedBundle {
    Bundle(Arc<[u8]>),
    /// The server still serves the bundle of the last fetch.
    Unchanged,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BundleOutcome {
    /// The fetched bundle is active.
    Active,
    NotAccepted,
    /// The server says that the bundle is unchanged, but the result of its last fetch does not
    /// count: the public keys have changed or cannot be read, or processing the bundle panicked.
    /// The whole bundle must be fetched again.
    FetchAgain,
}

#[derive(Debug)]
pub(super) struct BundleLoader {
    current: SharedPolicy,
    pub(super) source: Arc<BundleSource>,
    /// The newest verified bundle: the active bundle, or a newer one in the cache, which another
    /// rolegate may have stored. No older bundle is accepted.
    newest: Option<Version>,
    active: Option<Version>,
    last: Option<LastFetch>,
    /// The bytes of the active bundle, while they are not in the cache.
    uncached: Option<Arc<[u8]>>,
    max_cache_time: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    revision: u64,
    /// The hash of the bundle's manifest.
    digest: String,
}

/// The bundle that was fetched last, the keys that it was verified with, and the result.
#[derive(Debug)]
struct LastFetch {
    sha256: String,
    keys: Vec<PublicKey>,
    result: BundleResult,
}

#[derive(Debug, thiserror::Error)]
enum NotAccepted {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("revision {revision} is older than {newest}")]
    Old { revision: u64, newest: u64 },
    #[error("revision {0} belongs to another bundle")]
    SameRevision(u64),
}

impl BundleLoader {
    /// Activates the cached bundle, if it is still accepted.
    pub(super) fn new(current: SharedPolicy, source: Arc<BundleSource>) -> Self {
        let mut loader = Self {
            current,
            source,
            newest: None,
            active: None,
            last: None,
            uncached: None,
            max_cache_time: MAX_CACHE_TIME,
        };
        loader.check_cache();
        let settings = &loader.source.settings;
        let facts = BundleFacts {
            must_be_signed: !settings.public_keys.is_empty(),
            revision: loader.active.as_ref().map(|active| active.revision),
            cached: settings.cache.is_some().then_some(loader.active.is_some()),
            ..BundleFacts::default()
        };
        loader.current.lock().status.update(|status| status.bundle = Some(facts));
        loader
    }

    /// Takes bundles until the policy is no longer used.
    pub(super) fn run(&mut self, events: &Receiver<LoadEvent>) {
        while let Ok(event) = events.recv() {
            match event {
                LoadEvent::Bundle(fetched, outcome) => {
                    let current = self.current.clone();
                    // Fails only when the process stops.
                    let _ = outcome.send(current.read(|| self.take(&fetched)));
                }
                // `BundleFetcher` is told of a reload separately. No folder is watched for changes.
                LoadEvent::Reload | LoadEvent::Changed => {}
                LoadEvent::Stop => return,
            }
        }
    }

    fn take(&mut self, fetched: &FetchedBundle) -> BundleOutcome {
        let Some(result) = self.process(fetched) else { return BundleOutcome::FetchAgain };
        if result.is_active() {
            self.current.lock().end_failure("the server serves the active policy bundle again");
        }
        let is_cached = self.store();
        self.current.lock().status.update(|facts| {
            if !result.is_active() {
                facts.policy.failing_since.get_or_insert_with(Instant::now);
            }
            if let Some(bundle) = &mut facts.bundle {
                bundle.count(result);
                bundle.cached = is_cached;
                bundle.revision = self.active.as_ref().map(|active| active.revision);
                if result.is_active() {
                    bundle.fetched = clock::now();
                }
            }
        });
        if result.is_active() { BundleOutcome::Active } else { BundleOutcome::NotAccepted }
    }

    /// `None` if an unchanged bundle must be fetched again: [`BundleOutcome::FetchAgain`] says why.
    fn process(&mut self, fetched: &FetchedBundle) -> Option<BundleResult> {
        if self.active.is_none() {
            self.check_cache();
        }
        match fetched {
            FetchedBundle::Failed => Some(BundleResult::Failed),
            FetchedBundle::Unchanged => self.last_result(&self.source.public_keys().ok()?),
            FetchedBundle::Bundle(bytes) => Some(self.take_new(bytes)),
        }
    }

    /// The result of the bundle that was fetched last, if it was verified with these keys.
    fn last_result(&self, keys: &[PublicKey]) -> Option<BundleResult> {
        let last = self.last.as_ref().filter(|last| last.keys == keys)?;
        let was_activated = last.result == BundleResult::Activated;
        Some(if was_activated { BundleResult::Unchanged } else { last.result })
    }

    fn take_new(&mut self, bytes: &Arc<[u8]>) -> BundleResult {
        let keys = match self.source.public_keys() {
            Ok(keys) => keys,
            Err(error) => {
                self.log_not_accepted(&error);
                return BundleResult::UnknownKey;
            }
        };
        let sha256 = bundle::sha256(bytes);
        if self.last.as_ref().is_some_and(|last| last.sha256 == sha256)
            && let Some(result) = self.last_result(&keys)
        {
            return result;
        }
        // Without an active bundle, `process` has just checked the cache.
        if self.active.is_some() {
            self.check_cache();
        }
        // Stays empty after a panic: the bundle may or may not be active, so it is fetched again.
        self.last = None;
        let result = self.verify_and_activate(bytes, &keys).unwrap_or_else(|error| {
            self.log_not_accepted(&error);
            error.result()
        });
        self.last = Some(LastFetch { sha256, keys, result });
        result
    }

    fn log_not_accepted(&self, error: &dyn Display) {
        let (url, active) = (&self.source.url, self.current.lock().status.active_policy_text());
        tracing::error!(%url, %error, "policy bundle not accepted: {active}");
    }

    fn verify_and_activate(
        &mut self,
        bytes: &Arc<[u8]>,
        keys: &[PublicKey],
    ) -> Result<BundleResult, NotAccepted> {
        let bundle = self.source.open(bytes, keys)?;
        let version = Version::new(&bundle);
        if let Some(newest) = &self.newest {
            version.check_not_older_than(newest)?;
        }
        let (url, revision) = (&self.source.url, version.revision);
        let result = if self.active.as_ref() == Some(&version) {
            // The same files, perhaps signed by another key.
            BundleResult::Unchanged
        } else if self.activate(&bundle) {
            let key = bundle.signed_by.filter(|_| !keys.is_empty()).map(|key| key.to_string());
            tracing::info!(%url, revision, key, "policy bundle active");
            BundleResult::Activated
        } else {
            let text = "policy bundle not accepted: its policy does not compile";
            tracing::error!(%url, revision, "{text}");
            return Ok(BundleResult::DoesNotCompile);
        };
        self.newest = Some(version.clone());
        self.active = Some(version);
        self.uncached = Some(bytes.clone());
        Ok(result)
    }

    fn activate(&self, bundle: &Bundle) -> bool {
        let fetched_keys = self.current.lock().fetched.clone();
        let file = Path::new(&bundle.manifest.policy);
        let result = compiled_policy::load_from(&bundle.files, file, &fetched_keys);
        self.current.lock().activate(result, &fetched_keys, &[])
    }

    /// Reads the cache. Another rolegate may have stored a newer bundle there: from then on, no
    /// bundle older than that one is accepted. If no bundle is active, the cached one is activated.
    /// A cached bundle that cannot be read or is not accepted is ignored: otherwise a damaged cache
    /// would stop all updates.
    fn check_cache(&mut self) {
        let (Some(cache), Ok(keys)) = (self.source.cache.clone(), self.source.public_keys()) else {
            return;
        };
        let (file, max_size) = (cache.file.display().to_string(), self.source.max_compressed());
        let bundle = match self.with_cache(move || cache.read(max_size)) {
            Ok(Some(bytes)) => self.source.open(&bytes, &keys),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(file, %error, "the cached policy bundle cannot be read");
                return;
            }
        };
        let bundle = match bundle {
            Ok(bundle) => bundle,
            Err(error) => {
                tracing::warn!(file, %error, "the cached policy bundle is not accepted");
                return;
            }
        };
        let version = Version::new(&bundle);
        if self.newest.as_ref().is_some_and(|newest| newest.revision >= version.revision) {
            return;
        }
        self.newest = Some(version.clone());
        if self.active.is_none() && self.activate(&bundle) {
            let revision = version.revision;
            tracing::info!(file, revision, "the cached policy bundle is used until one is fetched");
            self.active = Some(version);
        }
    }

    /// Stores the active bundle, unless the cache has it or a newer bundle. Returns whether the
    /// cache has the active bundle; `None` without a cache.
    fn store(&mut self) -> Option<bool> {
        let cache = self.source.cache.clone()?;
        let (Some(bytes), Some(active)) = (self.uncached.clone(), self.active.clone()) else {
            // The cache has the active bundle, if any.
            return Some(self.active.is_some());
        };
        let (source, file) = (self.source.clone(), cache.file.display().to_string());
        let result = self.with_cache(move || {
            let keys = source.public_keys().map_err(io::Error::other)?;
            cache.store(&bytes, source.max_compressed(), |stored| {
                // Whether the stored bundle may be replaced.
                match source.open(stored, &keys) {
                    Ok(stored) => active.check_not_older_than(&Version::new(&stored)).is_ok(),
                    // Another rolegate, with other public keys or size limits, may have stored it.
                    Err(error) => {
                        let text = "the cached policy bundle is replaced: it is not accepted";
                        tracing::warn!(%error, "{text}");
                        true
                    }
                }
            })
        });
        match result {
            Ok(true) => self.uncached = None,
            Ok(false) => tracing::warn!(
                file,
                "the active policy bundle is not cached: the cached bundle is newer, or has the same \
                 revision and other files"
            ),
            Err(error) => tracing::warn!(
                file, %error,
                "the active policy bundle is not cached: a restart needs the server"
            ),
        }
        Some(self.uncached.is_none())
    }

    fn with_cache<T: Send + 'static>(
        &self,
        use_cache: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        /// The number of threads that have not returned from the cache.
        static CACHE_THREADS: AtomicUsize = AtomicUsize::new(0);
        run_within(self.max_cache_time, &CACHE_THREADS, "bundle-cache", use_cache)
            .map_err(io::Error::other)?
    }
}

impl Version {
    fn new(bundle: &Bundle) -> Self {
        Self { revision: bundle.manifest.revision, digest: bundle.digest() }
    }

    /// Only a newer version, or the same, may replace the newest version.
    fn check_not_older_than(&self, newest: &Self) -> Result<(), NotAccepted> {
        if self.revision < newest.revision {
            return Err(NotAccepted::Old { revision: self.revision, newest: newest.revision });
        }
        if self.revision == newest.revision && self != newest {
            return Err(NotAccepted::SameRevision(self.revision));
        }
        Ok(())
    }
}

impl NotAccepted {
    fn result(&self) -> BundleResult {
        match self {
            Self::Bundle(BundleError::Malformed(_)) => BundleResult::Malformed,
            Self::Bundle(BundleError::TooLarge(_)) => BundleResult::TooLarge,
            Self::Bundle(BundleError::Unsigned) => BundleResult::Unsigned,
            Self::Bundle(BundleError::UnknownKey(_)) => BundleResult::UnknownKey,
            Self::Bundle(BundleError::WrongSignature) => BundleResult::WrongSignature,
            Self::Old { .. } | Self::SameRevision(_) => BundleResult::OldRevision,
        }
    }
}

#[cfg(test)]
mod tests;
