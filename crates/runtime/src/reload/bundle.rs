//! The policy as a bundle: verified, compared with the active one, compiled, activated and kept for a restart.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bundle::{Bundle, BundleError, PublicKey};
use document::Problem;
use identity::FetchedKeys;

use super::background::Background;
use super::{Reloader, log_problems};
use crate::bundle_source::BundleSource;
use crate::clock;
use crate::compiled_policy::{self, CompiledPolicy};
use crate::status::{BundleFacts, BundleResult};

/// What a fetch gave.
#[derive(Debug)]
pub(crate) enum Fetched {
    /// The bytes of a bundle.
    Bundle(Arc<[u8]>),
    /// The server still has the bundle that was passed on last.
    Unchanged,
    /// Nothing.
    Failed,
}

/// What the policy thread did with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is the active bundle.
    Active,
    /// It is not accepted.
    NotAccepted,
    /// The public keys have changed, so the same bundle may now have another result: it must be fetched whole.
    FetchAgain,
}

/// What is known about the bundle of a policy.
#[derive(Debug)]
pub(super) struct BundleState {
    source: Arc<BundleSource>,
    /// The newest bundle that was verified: the active one, or one that was in the cache, where another rolegate may store
    /// newer ones. No older one is accepted.
    newest: Option<Version>,
    /// The active one.
    active: Option<Version>,
    /// What was fetched last, and its result.
    last: Option<Last>,
    /// The bytes of the active bundle, while they are not in the cache.
    uncached: Option<Arc<[u8]>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    revision: u64,
    /// The hash of its manifest.
    digest: String,
}

impl Version {
    fn of(bundle: &Bundle) -> Self {
        Self { revision: bundle.manifest.revision, digest: bundle.digest() }
    }
}

#[derive(Debug)]
struct Last {
    /// The hash of its bytes.
    sha256: String,
    keys: Vec<PublicKey>,
    result: BundleResult,
}

/// A bundle that was opened, with its policy. `None` if it is the active one.
struct Opened {
    version: Version,
    key: Option<String>,
    policy: Option<Result<CompiledPolicy, Vec<Problem>>>,
}

/// Why a bundle is not accepted.
#[derive(Debug, thiserror::Error)]
enum NotAccepted {
    #[error(transparent)]
    Bundle(#[from] BundleError),
    #[error("revision {revision} is older than {newest}")]
    Old { revision: u64, newest: u64 },
    #[error("revision {0} is that of another bundle")]
    SameRevision(u64),
    #[error("{0}")]
    Unfinished(String),
}

impl BundleState {
    /// Opens the cached bundle, if there is one that is still accepted.
    pub(super) fn from_cache(source: Arc<BundleSource>) -> (Self, Option<CompiledPolicy>) {
        let mut this = Self { source, newest: None, active: None, last: None, uncached: None };
        let compiled = this.open_cached();
        (this, compiled)
    }

    fn open_cached(&mut self) -> Option<CompiledPolicy> {
        let source = self.source.clone();
        let cache = source.cache.as_ref()?;
        let file = cache.file().display();
        let bytes = match cache.read(source.max_compressed()) {
            Ok(bytes) => bytes?,
            Err(error) => {
                tracing::warn!(%file, error, "the cached policy bundle cannot be read");
                return None;
            }
        };
        // The keys were read when the source was made.
        let keys = source.public_keys().ok()?;
        match open(&source, &bytes, &keys, None, None, &FetchedKeys::new()) {
            Ok(Opened { version, policy, .. }) => {
                self.newest = Some(version.clone());
                match policy? {
                    Ok(compiled) => {
                        tracing::info!(%file, revision = version.revision, "the cached policy bundle is used until one is fetched");
                        self.active = Some(version);
                        Some(compiled)
                    }
                    Err(problems) => {
                        log_problems(&problems);
                        tracing::warn!(%file, "the policy of the cached bundle does not compile");
                        None
                    }
                }
            }
            Err(error) => {
                tracing::warn!(%file, %error, "the cached policy bundle is not accepted");
                None
            }
        }
    }

    /// What is fetched.
    pub(super) fn source(&self) -> Arc<BundleSource> {
        self.source.clone()
    }

    /// The status at the start.
    pub(super) fn facts(&self) -> BundleFacts {
        let settings = &self.source.settings;
        BundleFacts {
            must_be_signed: !settings.public_keys.is_empty(),
            revision: self.revision(),
            cached: settings.cache.is_some().then_some(self.active.is_some()),
            ..BundleFacts::default()
        }
    }

    /// The revision number of the active bundle.
    fn revision(&self) -> Option<u64> {
        self.active.as_ref().map(|active| active.revision)
    }

    /// Looks at the cache again, where another rolegate may have stored a newer bundle than this one was given. A cached bundle
    /// that cannot be read or is not accepted stops no new one: otherwise damage to the cache could stop all of them.
    fn note_cached(&mut self, keys: &[PublicKey], background: &Background) {
        let Some(cache) = &self.source.cache else { return };
        let (source, keys) = (self.source.clone(), keys.to_vec());
        let cached = background.run_short(move || cached_version(&source, &keys));
        match cached.unwrap_or_else(|unfinished| Err(unfinished.to_string())) {
            Ok(Some(cached)) => {
                if self.newest.as_ref().is_none_or(|newest| newest.revision < cached.revision) {
                    self.newest = Some(cached);
                }
            }
            Ok(None) => {}
            Err(error) => {
                let file = cache.file().display();
                tracing::warn!(%file, error, "the cached policy bundle cannot be looked at again");
            }
        }
    }

    /// Stores the active bundle if it is not in the cache. Returns whether it is there; `None` without a cache.
    fn store(&mut self, background: &Background) -> Option<bool> {
        let cache = self.source.cache.as_ref()?;
        let (Some(bytes), Some(active)) = (&self.uncached, &self.active) else {
            return Some(self.active.is_some());
        };
        let (source, bytes, active) = (self.source.clone(), bytes.clone(), active.clone());
        let stored = background.run_short(move || {
            let Some(cache) = &source.cache else { return Ok(true) };
            let keys = source.public_keys().map_err(io::Error::other)?;
            let may_replace = |cached: &[u8]| match version(&source, cached, &keys) {
                Ok(cached) => not_older(&active, &cached).is_ok(),
                // It would not be used at a start. But another rolegate, with other keys or sizes, may have stored it.
                Err(error) => {
                    tracing::warn!(%error, "the cached policy bundle is replaced: it is not accepted");
                    true
                }
            };
            cache.store(&bytes, source.max_compressed(), may_replace)
        });
        let file = cache.file().display();
        match stored.unwrap_or_else(|unfinished| Err(io::Error::other(unfinished.to_string()))) {
            Ok(true) => {
                self.uncached = None;
                Some(true)
            }
            Ok(false) => {
                tracing::warn!(%file, "the active policy bundle is not cached: the one there is newer, or another one of its revision");
                Some(false)
            }
            Err(error) => {
                tracing::warn!(%file, %error, "the active policy bundle is not cached: a restart needs the server");
                Some(false)
            }
        }
    }
}

impl Reloader {
    /// Takes what a fetch gave.
    pub(super) fn take_bundle(&mut self, fetched: &Fetched, background: &Background) -> Taken {
        let Some(mut state) = self.bundle.take() else { return Taken::NotAccepted };
        let taken = catch_unwind(AssertUnwindSafe(|| {
            if state.active.is_none() {
                self.take_cached(&mut state, background);
            }
            match fetched {
                Fetched::Failed => {
                    self.note_bundle(&state, BundleResult::Failed);
                    Taken::NotAccepted
                }
                Fetched::Unchanged => self.take_unchanged(&mut state, background),
                Fetched::Bundle(bytes) => self.take_new(&mut state, bytes, background),
            }
        }));
        let taken = taken.unwrap_or_else(|_| {
            let url = &state.source.url;
            tracing::error!(%url, "taking the policy bundle panicked, which is a bug in rolegate");
            // Whether it is active is not known: the next time it is fetched whole.
            state.last = None;
            self.note_bundle(&state, BundleResult::Failed);
            Taken::NotAccepted
        });
        self.bundle = Some(state);
        taken
    }

    /// Without a policy, one that another rolegate has cached since the start is used, as one that was there at the start.
    fn take_cached(&mut self, state: &mut BundleState, background: &Background) {
        let source = state.source.clone();
        let Some(cache) = &source.cache else { return };
        let Ok(keys) = public_keys(&source, background) else { return };
        let before = state.newest.clone();
        state.note_cached(&keys, background);
        // One that does not compile is tried once.
        if state.newest == before {
            return;
        }
        let opened = {
            let (source, newest, fetched) = (source.clone(), state.newest.clone(), self.fetched.clone());
            let open = move || {
                let cache = source.cache.as_ref()?;
                let bytes = cache.read(source.max_compressed()).ok()??;
                open(&source, &bytes, &keys, newest.as_ref(), None, &fetched).ok()
            };
            background.run(open).ok().flatten()
        };
        let Some(Opened { version, policy: Some(policy), .. }) = opened else { return };
        if self.activate(policy, &[], &[], background) {
            let (file, revision) = (cache.file().display(), version.revision);
            tracing::info!(%file, revision, "the cached policy bundle is used until one is fetched");
            state.active = Some(version);
        }
    }

    /// The server still has what was fetched last, whose result may have been that it is not accepted.
    fn take_unchanged(&mut self, state: &mut BundleState, background: &Background) -> Taken {
        let Some(last) = &state.last else { return Taken::FetchAgain };
        if public_keys(&state.source, background).as_ref() != Ok(&last.keys) {
            state.last = None;
            return Taken::FetchAgain;
        }
        let was_activated = last.result == BundleResult::Activated;
        let result = if was_activated { BundleResult::Unchanged } else { last.result };
        self.finish(state, result, background)
    }

    fn take_new(&mut self, state: &mut BundleState, bytes: &Arc<[u8]>, background: &Background) -> Taken {
        let source = state.source.clone();
        let url = &source.url;
        let keys = match public_keys(&source, background) {
            Ok(keys) => keys,
            Err(error) => {
                tracing::error!(%url, error, "policy bundle not accepted: {}", self.status.still_active());
                return self.finish(state, BundleResult::UnknownKey, background);
            }
        };
        let sha256 = bundle::sha256(bytes);
        if state.last.as_ref().is_some_and(|last| last.sha256 == sha256 && last.keys == keys) {
            return self.take_unchanged(state, background);
        }
        // Without a policy, this was done just before.
        if state.active.is_some() {
            state.note_cached(&keys, background);
        }
        let opened = {
            let (source, bytes, keys) = (source.clone(), bytes.clone(), keys.clone());
            let (newest, active, fetched) =
                (state.newest.clone(), state.active.clone(), self.fetched.clone());
            let open = move || open(&source, &bytes, &keys, newest.as_ref(), active.as_ref(), &fetched);
            background
                .run(open)
                .unwrap_or_else(|unfinished| Err(NotAccepted::Unfinished(unfinished.to_string())))
        };
        // What was not opened may have another result the next time.
        let is_finished = !matches!(opened, Err(NotAccepted::Unfinished(_)));
        let result = match opened {
            Err(error) => {
                tracing::error!(%url, %error, "policy bundle not accepted: {}", self.status.still_active());
                error.result()
            }
            Ok(Opened { version, policy: None, .. }) => {
                // The same files, perhaps signed by another key.
                state.active = Some(version);
                state.uncached = Some(bytes.clone());
                BundleResult::Unchanged
            }
            Ok(Opened { version, key, policy: Some(policy) }) => {
                let revision = version.revision;
                if self.activate(policy, &[], &[], background) {
                    tracing::info!(%url, revision, key, "policy bundle active");
                    state.newest = Some(version.clone());
                    state.active = Some(version);
                    state.uncached = Some(bytes.clone());
                    BundleResult::Activated
                } else {
                    tracing::error!(%url, revision, "policy bundle not accepted: its policy does not compile");
                    BundleResult::DoesNotCompile
                }
            }
        };
        state.last = is_finished.then_some(Last { sha256, keys, result });
        self.finish(state, result, background)
    }

    /// Records the result, and caches an active bundle.
    fn finish(&mut self, state: &mut BundleState, result: BundleResult, background: &Background) -> Taken {
        let is_active = matches!(result, BundleResult::Activated | BundleResult::Unchanged);
        if is_active {
            self.confirm("the active policy bundle is fetched again");
        }
        let cached = state.store(background);
        self.status.note(|facts| facts.bundle.iter_mut().for_each(|bundle| bundle.cached = cached));
        self.note_bundle(state, result);
        if is_active { Taken::Active } else { Taken::NotAccepted }
    }

    /// The active policy is fresh, for this reason.
    pub(super) fn confirm(&mut self, why: &str) {
        let facts = self.status.facts().policy;
        if facts.failing_since.is_none() {
            return;
        }
        let mut revision = facts.revision;
        // If there is no policy for another reason than that it was too old, there still is none.
        if let Some(good) = self.good.as_ref().filter(|_| facts.stale && revision.is_none()) {
            self.active.replace(Some(good.authorizer.clone()));
            revision = Some(good.authorizer.revision().clone());
        }
        self.status.note(|facts| {
            facts.policy.failing_since = None;
            facts.policy.problems = Arc::default();
            facts.policy.stale = false;
            facts.policy.revision = revision;
        });
        tracing::info!(file = %self.file.display(), "{why}");
    }

    fn note_bundle(&self, state: &BundleState, result: BundleResult) {
        let is_active = matches!(result, BundleResult::Activated | BundleResult::Unchanged);
        self.status.note(|facts| {
            if !is_active {
                facts.policy.failing_since.get_or_insert_with(std::time::Instant::now);
            }
            if let Some(bundle) = &mut facts.bundle {
                bundle.count(result);
                bundle.revision = state.revision();
                if is_active {
                    bundle.fetched = clock::now();
                }
            }
        });
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
            Self::Unfinished(_) => BundleResult::Failed,
        }
    }
}

/// The public keys as their files have them now.
fn public_keys(source: &Arc<BundleSource>, background: &Background) -> Result<Vec<PublicKey>, String> {
    if source.settings.public_keys.is_empty() {
        return Ok(Vec::new());
    }
    let source = source.clone();
    let keys = background.run(move || source.public_keys());
    keys.unwrap_or_else(|unfinished| Err(unfinished.to_string()))
}

/// Verifies a bundle and compiles its policy, unless it is the active one.
fn open(
    source: &BundleSource,
    bytes: &[u8],
    keys: &[PublicKey],
    newest: Option<&Version>,
    active: Option<&Version>,
    fetched: &FetchedKeys,
) -> Result<Opened, NotAccepted> {
    let bundle = source.open(bytes, keys)?;
    let version = Version::of(&bundle);
    if let Some(newest) = newest {
        not_older(&version, newest)?;
    }
    let key = bundle.signed_by.as_ref().filter(|_| !keys.is_empty()).map(ToString::to_string);
    let policy = (active != Some(&version))
        .then(|| compiled_policy::load_from(&bundle.files, Path::new(&bundle.manifest.policy), fetched));
    Ok(Opened { version, key, policy })
}

/// The version of an acceptable bundle.
fn version(source: &BundleSource, bytes: &[u8], keys: &[PublicKey]) -> Result<Version, BundleError> {
    source.open(bytes, keys).map(|bundle| Version::of(&bundle))
}

/// The version of the bundle that is in the cache now, if there is one.
fn cached_version(source: &BundleSource, keys: &[PublicKey]) -> Result<Option<Version>, String> {
    let Some(cache) = &source.cache else { return Ok(None) };
    let Some(bytes) = cache.read(source.max_compressed())? else { return Ok(None) };
    version(source, &bytes, keys).map(Some).map_err(|error| error.to_string())
}

/// Whether this version may take the place of the newest one: only a newer one, or the same.
fn not_older(version: &Version, newest: &Version) -> Result<(), NotAccepted> {
    if version.revision < newest.revision {
        return Err(NotAccepted::Old { revision: version.revision, newest: newest.revision });
    }
    if version.revision == newest.revision && version != newest {
        return Err(NotAccepted::SameRevision(version.revision));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
