//! Loads and activates the policy, at the start and on every change.
//!
//! Two threads of low priority do this. `policy-load` waits for changed files or fetched bundles.
//! It reads and compiles them. A file system that does not answer stops only this thread. `policy`
//! takes fetched keys, and notices when keys or the policy become too old, or when a load hangs.
//! The threads share the `CurrentPolicy` behind a lock, which is never held while a file is read.
//! If the files do not load, the last good policy stays active.

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use document::{Problem, Severity};
use identity::FetchedKeys;
use policy::KeyUrl;
use tokio::sync::{oneshot, watch};

use crate::bundle_source::BundleSource;
use crate::compiled_policy::{self, KeyUrls};
use crate::errors::LoadError;
use crate::settings::{PolicySettings, PolicySource};
use crate::status::Status;
use crate::threads::{Priority, keep_running, spawn};

mod active;
mod bundle;
mod change;
mod current;
mod fetched;
mod folders;
mod from_files;

use bundle::BundleLoader;
pub(crate) use bundle::{BundleOutcome, FetchedBundle};
use current::SharedPolicy;
pub(crate) use fetched::KeysOutcome;
use folders::Folders;
use from_files::FileLoader;

/// How often the `policy` thread checks ages.
const AGE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Work for the `policy-load` thread.
#[derive(Debug)]
pub(crate) enum LoadEvent {
    /// Something has changed in a folder of the policy. Further changes are not sent until the
    /// thread has taken this event.
    Changed,
    Reload,
    /// The result of fetching the policy bundle. The thread sends the outcome back through the
    /// channel.
    Bundle(FetchedBundle, oneshot::Sender<BundleOutcome>),
    Stop,
}

/// Work for the `policy` thread.
#[derive(Debug)]
pub(crate) enum KeyEvent {
    /// Keys that were fetched from a URL, changed or not. The thread sends the outcome back through
    /// the channel.
    Keys(KeyUrl, Arc<[u8]>, oneshot::Sender<KeysOutcome>),
    Stop,
}

/// The handle to the threads that keep the active policy current. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct ReloadThreads {
    /// Sends to the `policy-load` thread.
    pub(crate) loads: Sender<LoadEvent>,
    /// Sends to the `policy` thread.
    pub(crate) keys: Sender<KeyEvent>,
    pub(crate) key_urls: watch::Receiver<KeyUrls>,
    /// The source of the policy bundle, if the policy is fetched as a bundle.
    pub(crate) bundle: Option<Arc<BundleSource>>,
}

/// Finds the parts of a policy that have no effect in this process, and returns a text for each.
/// Which parts these are depends on the program, so the program passes this function.
pub type PolicyNotices = fn(&Authorizer) -> Vec<String>;

/// A policy that was loaded once, before the threads start.
#[derive(Debug)]
pub(crate) struct Reloader {
    current: SharedPolicy,
    loader: Loader,
    loads: (Sender<LoadEvent>, Receiver<LoadEvent>),
}

#[derive(Debug)]
enum Loader {
    Files(FileLoader),
    Bundle(BundleLoader),
}

impl Drop for ReloadThreads {
    fn drop(&mut self) {
        // Sending fails only if a thread has ended.
        let _ = self.keys.send(KeyEvent::Stop);
        let _ = self.loads.send(LoadEvent::Stop);
    }
}

impl Reloader {
    /// Loads and activates the policy: from its files, or from the cached bundle.
    ///
    /// # Errors
    /// When the files do not load, or the settings of the bundle are wrong. A bundle that is not
    /// cached is no error: it is fetched later.
    pub(crate) fn load_first(
        settings: &PolicySettings,
        active: Arc<ArcSwapOption<Authorizer>>,
        status: Arc<Status>,
    ) -> Result<Self, LoadError> {
        let loads = channel();
        let (current, loader) = match &settings.policy {
            PolicySource::Path(path) => {
                let file = compiled_policy::policy_file(path);
                let attempt = compiled_policy::load(&file, &FetchedKeys::new());
                let current = SharedPolicy::new(file.clone(), settings, active, status);
                current.lock().replace_good(attempt.result?);
                let folders = Folders::new(loads.0.clone());
                let poll = settings.poll_interval;
                let loader =
                    FileLoader::new(current.clone(), file, attempt.fingerprints, folders, poll);
                (current, Loader::Files(loader))
            }
            PolicySource::Bundle(url) => {
                let source = BundleSource::new(url, &settings.bundle)?;
                let current = SharedPolicy::new(url.to_string().into(), settings, active, status);
                (current.clone(), Loader::Bundle(BundleLoader::new(current, source)))
            }
        };
        Ok(Self { current, loader, loads })
    }

    pub(crate) fn set_notices(&self, notices: PolicyNotices) {
        self.current.lock().set_notices(notices);
    }

    pub(crate) fn start(self) -> io::Result<ReloadThreads> {
        let (handle, load, take_keys) = self.into_threads();
        spawn("policy-load", Priority::Background, load)?;
        spawn("policy", Priority::Background, take_keys)?;
        Ok(handle)
    }

    /// The handle, the work of the `policy-load` thread, and the work of the `policy` thread.
    fn into_threads(self) -> (ReloadThreads, impl FnOnce() + Send, impl FnOnce() + Send) {
        let Self { current, mut loader, loads: (loads, load_events) } = self;
        let (keys, key_events) = channel();
        let key_urls = current.lock().key_urls.subscribe();
        let bundle = match &loader {
            Loader::Files(_) => None,
            Loader::Bundle(loader) => Some(loader.source.clone()),
        };
        let current_for_load = current.clone();
        let load = move || {
            let run = || match &mut loader {
                Loader::Files(loader) => loader.run(&load_events),
                Loader::Bundle(loader) => loader.run(&load_events),
            };
            keep_running("loading the policy", run, |panic, pause| {
                current_for_load.report_panic(panic, pause)
            });
        };
        let take_keys = move || {
            let run = || keep_current(&current, &key_events);
            let job = "keeping the policy current";
            keep_running(job, run, |panic, pause| current.report_panic(panic, pause));
        };
        (ReloadThreads { loads, keys, key_urls, bundle }, load, take_keys)
    }
}

/// Takes fetched keys and checks ages until the policy is no longer used.
fn keep_current(current: &SharedPolicy, events: &Receiver<KeyEvent>) {
    loop {
        current.lock().tick(Instant::now());
        // Done here because this thread wakes every second.
        give_memory_back();
        match events.recv_timeout(AGE_CHECK_INTERVAL) {
            Ok(KeyEvent::Keys(url, keys, outcome)) => {
                // Fails only if the fetch task has ended.
                let _ = outcome.send(current.lock().take_keys(&url, keys));
            }
            Ok(KeyEvent::Stop) | Err(RecvTimeoutError::Disconnected) => {
                current.lock().stop();
                return;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Makes the allocator return memory to the system, in some microseconds.
///
/// mimalloc 3 keeps freed memory for a second, and returns it when a page-sized allocation is freed
/// later, which never happens in a server that only answers requests. So the memory of an argon2id
/// hash (19 MiB), or of a replaced policy, stayed resident for ever: 43 MiB instead of 23 MiB after
/// one password (2026-11-21).
fn give_memory_back() {
    // This allocation has pages of its own. None of them is touched.
    drop(black_box(Vec::<u8>::with_capacity(1 << 20)));
}

/// Logs each problem, with its place and related places.
pub fn log_problems(problems: &[Problem]) {
    for problem in problems {
        let help = problem.help.as_deref();
        let related = problem.related.iter().map(|(at, note)| format!("{at}: {note}"));
        let related = (!problem.related.is_empty()).then(|| related.collect::<Vec<_>>().join("; "));
        match problem.severity {
            Severity::Error => {
                tracing::error!(at = %problem.at, help, related, "{}", problem.message)
            }
            Severity::Warning(name) => {
                tracing::warn!(at = %problem.at, %name, help, related, "{}", problem.message);
            }
        }
    }
}

#[cfg(test)]
mod tests;
