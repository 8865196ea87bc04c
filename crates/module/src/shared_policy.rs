//! A policy that is kept current for all filters and routes that name it with the same settings.

use std::io;
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, Once, PoisonError, TryLockError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use identity::VerificationResult;
use runtime::hashing::{self, Hashing};
use runtime::lines::Counts;
use runtime::settings::warn_of_settings;
use runtime::status::Status;
use runtime::threads::{Priority, Unfinished, run_within, spawn};
use runtime::{ActivePolicy, Caches, LoadedPolicy, Runtime, ShadowStats};
use server::AdminAddress;
use server::admin::AdminSettings;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::abi::{self, Scheduler};
use crate::admin::{self, AdminView, Counters, ThreadCounterList};
use crate::settings::FilterSettings;
use crate::start_error::StartError;

/// A policy with the threads that keep it current. They end when it is dropped.
#[derive(Debug)]
pub(crate) struct SharedPolicy {
    pub(crate) settings: FilterSettings,
    pub(crate) hashing: Arc<Hashing>,
    pub(crate) status: Arc<Status>,
    /// The comparison with its shadow policy, if it has a shadow policy.
    pub(crate) shadow: Option<Arc<ShadowStats>>,
    pub(crate) caches: Caches,
    /// Counters of its decision log.
    pub(crate) lines: Arc<Counts>,
    /// The snapshot that worker threads decide with.
    pub(crate) active: ActivePolicy,
    /// The counters of the threads that use it.
    pub(crate) thread_counters: ThreadCounterList,
    /// Its admin pages, if it has any.
    admin: Option<AdminView>,
    /// The threads that keep it current. `None` only while this is dropped.
    runtime: Mutex<Option<Runtime>>,
    /// The thread that fetches keys, which also runs the timers of [`Self::after`].
    timers: Handle,
    /// Dropping it ends that thread.
    _fetching: oneshot::Sender<()>,
}

/// The policies that filters and routes use now. Envoy creates the new configuration of a listener
/// before it drops the old configuration: so an update with the same settings keeps the policy, its
/// caches and its keys.
static SHARED_POLICIES: Mutex<Vec<Weak<SharedPolicy>>> = Mutex::new(Vec::new());

impl SharedPolicy {
    /// The policy with these settings, which is started unless it is in use already.
    ///
    /// # Errors
    /// If it cannot be loaded or started.
    pub(crate) fn get_or_start(settings: FilterSettings) -> Result<Arc<Self>, StartError> {
        let mut policies = SHARED_POLICIES.lock().unwrap_or_else(PoisonError::into_inner);
        policies.retain(|policy| policy.strong_count() > 0);
        let mut running = policies.iter().filter_map(Weak::upgrade);
        if let Some(policy) = running.find(|policy| policy.settings == settings) {
            if let Some(view) = &policy.admin {
                view.make_newest();
            }
            return Ok(policy);
        }
        let policy = Arc::new(Self::start(settings)?);
        policies.push(Arc::downgrade(&policy));
        Ok(policy)
    }

    /// Checks the policy without starting anything.
    ///
    /// # Errors
    /// If it cannot be loaded.
    pub(crate) fn validate(settings: &FilterSettings) -> Result<(), StartError> {
        load(settings).map(drop)
    }

    /// The policies in use. `None` while another thread starts a policy: that may take seconds.
    pub(crate) fn try_all() -> Option<Vec<Arc<Self>>> {
        let policies = match SHARED_POLICIES.try_lock() {
            Ok(policies) => policies,
            Err(TryLockError::Poisoned(policies)) => policies.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        Some(policies.iter().filter_map(Weak::upgrade).collect())
    }

    fn start(settings: FilterSettings) -> Result<Self, StartError> {
        static FINISH: Once = Once::new();
        FINISH.call_once(|| abi::at_exit(finish));
        let mut loaded = load(&settings)?;
        let AdminSettings { address, console, console_host } = &settings.admin;
        let is_off = *address == AdminAddress::Off;
        warn_of_settings([
            ("console", *console && is_off, "`admin` is `off`"),
            ("console-host", !console && !console_host.is_empty(), "`console` is `false`"),
        ]);
        if *console && !is_off {
            loaded = loaded.keeping_last_denials();
        }
        let runtime = run_bounded(move || loaded.start())??;
        let caching = runtime.policy.clone();
        let cache_result =
            Box::new(move |verified: &VerificationResult| caching.cache_result(verified));
        let hash_threads = hashing::threads(settings.hashing.hash_threads.into());
        let hash_queue = settings.hashing.hash_queue.into();
        let hashing = Arc::new(Hashing::start(hash_threads, hash_queue, cache_result)?);
        let thread_counters = ThreadCounterList::default();
        let admin = match address {
            AdminAddress::On(address) => {
                let counters = Counters {
                    thread_counters: Arc::clone(&thread_counters),
                    hashing: Arc::clone(&hashing),
                };
                Some(admin::show(address, &settings, &runtime, counters)?)
            }
            AdminAddress::Off => None,
        };
        let (timers, fetching) = fetch_keys(&runtime, settings.policy.keys_wait)?;
        runtime.status.set_answering();
        Ok(Self {
            settings,
            hashing,
            status: Arc::clone(&runtime.status),
            shadow: runtime.shadow().cloned(),
            caches: runtime.caches(),
            lines: Arc::clone(&runtime.decision_lines),
            active: runtime.policy.clone(),
            thread_counters,
            admin,
            runtime: Mutex::new(Some(runtime)),
            timers,
            _fetching: fetching,
        })
    }

    /// Commits `event` after a time, unless the returned handle aborts this before.
    pub(crate) fn after(&self, time: Duration, scheduler: Scheduler, event: u64) -> AbortHandle {
        let wait = async move {
            tokio::time::sleep(time).await;
            scheduler.commit(event);
        };
        self.timers.spawn(wait).abort_handle()
    }
}

impl Drop for SharedPolicy {
    /// On a thread of its own: the end waits until the decision log is written, and Envoy's threads
    /// must not wait.
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(runtime) = runtime {
            // If no thread can be created, the runtime is dropped here. Its threads end all the
            // same.
            let end = spawn("rolegate-end", Priority::Normal, move || runtime.stop());
            let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
            ending.retain(|thread| !thread.is_finished());
            ending.extend(end);
        }
    }
}

/// The threads that end policies.
static ENDING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// Waits for the threads in [`ENDING`], so that the last lines of the decision log are written
/// before Envoy exits. Each of these threads ends within a limited time.
extern "C" fn finish() {
    let ending = mem::take(&mut *ENDING.lock().unwrap_or_else(PoisonError::into_inner));
    for thread in ending {
        // An error is a panic, which is logged.
        let _ = thread.join();
    }
}

/// Loads the policy. This thread, Envoy's main thread, waits, but only for some time.
fn load(settings: &FilterSettings) -> Result<LoadedPolicy, StartError> {
    let settings = settings.policy.clone();
    // This thread warns: a load that does not end in time must not warn after its rejection.
    settings.warn();
    let loaded = run_bounded(move || LoadedPolicy::load_without_warnings(settings))??;
    loaded.warn();
    Ok(loaded)
}

/// Runs work on files on another thread. Envoy's main thread waits for the result, but only for a
/// limited time: until it goes on, Envoy neither starts nor updates anything. The largest policy
/// takes much less time than the limit.
fn run_bounded<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unfinished> {
    const MAX_TIME: Duration = Duration::from_secs(60);
    static RUNNING: AtomicUsize = AtomicUsize::new(0);
    run_within(MAX_TIME, &RUNNING, "rolegate-load", work)
}

/// Starts the thread that fetches keys, and waits for the first attempt, but no longer than `wait`.
fn fetch_keys(runtime: &Runtime, wait: Duration) -> io::Result<(Handle, oneshot::Sender<()>)> {
    let executor = Builder::new_current_thread().enable_all().build()?;
    let handle = executor.handle().clone();
    let (end, ended) = oneshot::channel::<()>();
    let (tried, until_tried) = mpsc::channel();
    let (fetching, first_fetch) = (runtime.fetch(), runtime.wait_for_first_fetch(wait));
    spawn("rolegate-keys", Priority::Normal, move || {
        executor.block_on(async move {
            tokio::spawn(fetching);
            first_fetch.await;
            drop(tried);
            // This waits until the sender is dropped, which gives an error. Then the thread ends.
            let _ = ended.await;
        });
        // A DNS lookup may still run on a blocking thread: do not wait for it.
        executor.shutdown_background();
    })?;
    // Nothing is sent: this waits until the sender is dropped.
    let _: Result<(), _> = until_tried.recv();
    Ok((handle, end))
}
