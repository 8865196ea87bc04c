//! The admin listener of a policy: the pages of [`server::admin`], on a thread of its own.
//!
//! Envoy creates the new configuration of a listener before it drops the old configuration. So a
//! policy with new settings takes over the address of the same policy with old settings: pages and
//! console show the newest.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use console::{Console, RunsIn};
use runtime::counters::{ThreadCounters, Totals};
use runtime::hashing::{Hashing, HashingTotals};
use runtime::settings::PolicySource;
use runtime::threads::{Priority, spawn};
use runtime::{Reloads, Runtime};
use server::admin::{Admin, AuthorizationStats, Backend, PageSources, Pages};
use server::{Address, BoundSocket};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use crate::settings::FilterSettings;
use crate::start_error::StartError;

/// Permissions of a Unix socket, as `socket-mode` of `rolegate serve`.
const SOCKET_MODE: u32 = 0o660;

/// A shared policy on the pages of its listener. Dropping this view removes the policy from the
/// pages. The listener closes with its last view.
#[derive(Debug)]
pub(crate) struct AdminView {
    listener: Arc<AdminListener>,
    number: u64,
}

/// A listener. Dropping it ends its thread, which then closes the socket.
#[derive(Debug)]
struct AdminListener {
    policy: PolicySource,
    views: Arc<Views>,
    /// Runs on its thread.
    executor: Handle,
    _end: oneshot::Sender<()>,
}

/// The shared policies at an address, the newest last.
#[derive(Debug, Default)]
struct Views(Mutex<Vec<View>>);

struct View {
    number: u64,
    sources: Arc<PageSources>,
    reloads: Reloads,
    console: Option<SampledConsole>,
}

/// A console, and the task that takes its samples. Dropping it ends both.
struct SampledConsole {
    console: Arc<Console>,
    samples: AbortHandle,
}

/// The counters of the threads that authorize requests with a shared policy.
pub(crate) type ThreadCounterList = Arc<Mutex<Vec<Arc<ThreadCounters>>>>;

/// The counters of a shared policy.
pub(crate) struct Counters {
    pub(crate) thread_counters: ThreadCounterList,
    pub(crate) hashing: Arc<Hashing>,
}

/// A listener and its thread, which may have to be waited for.
struct OpenListener {
    address: Address,
    listener: Weak<AdminListener>,
    thread: JoinHandle<()>,
}

static LISTENERS: Mutex<Vec<OpenListener>> = Mutex::new(Vec::new());

/// Shows a shared policy at an address. Opens the listener, unless the same policy with other
/// settings has opened it already.
///
/// # Errors
/// If the address cannot be bound, or another policy has it.
pub(crate) fn show(
    address: &Address,
    settings: &FilterSettings,
    runtime: &Runtime,
    counters: Counters,
) -> Result<AdminView, StartError> {
    let sources = Arc::new(PageSources {
        status: Arc::clone(&runtime.status),
        shadow: runtime.shadow().cloned(),
        caches: runtime.caches(),
        decisions: Arc::clone(&runtime.decision_lines),
        otlp: runtime.otlp.clone(),
        logs: None,
        checks: Arc::new(counters),
    });
    let console =
        settings.admin.console.then(|| start_console(settings, runtime, &sources)).transpose()?;
    let policy = &settings.policy.policy;
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    // A listener that was just dropped may still have its socket.
    for ended in listeners.extract_if(.., |open| open.listener.strong_count() == 0) {
        let _ = ended.thread.join();
    }
    let open = listeners.iter().find(|open| open.address == *address);
    let listener = match open.and_then(|open| open.listener.upgrade()) {
        Some(listener) if listener.policy == *policy => listener,
        Some(listener) => {
            let policy = listener.policy.clone();
            return Err(StartError::AddressInUse { address: address.clone(), policy });
        }
        None => {
            let (listener, thread) = AdminListener::open(address, policy)?;
            let listener = Arc::new(listener);
            let (address, weak) = (address.clone(), Arc::downgrade(&listener));
            listeners.push(OpenListener { address, listener: weak, thread });
            listener
        }
    };
    let console = console.map(|console| SampledConsole {
        samples: listener.executor.spawn(console.samples()).abort_handle(),
        console: Arc::new(console),
    });
    let mut views = listener.views.lock();
    let number = views.iter().map(|view| view.number + 1).max().unwrap_or_default();
    views.push(View { number, sources, reloads: runtime.reloads(), console });
    drop(views);
    Ok(AdminView { listener, number })
}

fn start_console(
    settings: &FilterSettings,
    runtime: &Runtime,
    sources: &Arc<PageSources>,
) -> io::Result<Console> {
    Console::start(console::Sources {
        pages: Arc::clone(sources),
        policy: runtime.policy_without_records(),
        shadow: runtime.shadow_policy(),
        denials: runtime.denials.clone(),
        hosts: settings.admin.console_host.clone(),
        runs_in: RunsIn::Envoy,
    })
}

impl Drop for SampledConsole {
    fn drop(&mut self) {
        self.samples.abort();
    }
}

impl AdminView {
    /// Makes this view the newest again. That is needed if Envoy's listener is updated back to
    /// earlier settings while requests still use them.
    pub(crate) fn make_newest(&self) {
        let mut views = self.listener.views.lock();
        if let Some(place) = views.iter().position(|view| view.number == self.number) {
            let view = views.remove(place);
            views.push(view);
        }
    }
}

impl Drop for AdminView {
    fn drop(&mut self) {
        self.listener.views.lock().retain(|view| view.number != self.number);
    }
}

impl AdminListener {
    fn open(
        address: &Address,
        policy: &PolicySource,
    ) -> Result<(Self, JoinHandle<()>), StartError> {
        let BoundSocket { address, listener, file } = BoundSocket::new(address, SOCKET_MODE)?;
        let executor = Builder::new_current_thread().enable_all().build()?;
        let views = Arc::<Views>::default();
        let admin = {
            let _entered = executor.enter();
            Admin::new(listener, Pages::All, Arc::clone(&views) as Arc<dyn Backend>)?
        };
        let (end, ended) = oneshot::channel::<()>();
        let listener =
            Self { policy: policy.clone(), views, executor: executor.handle().clone(), _end: end };
        let thread = spawn("rolegate-admin", Priority::Normal, move || {
            executor.block_on(async {
                tokio::select! {
                    () = admin.run() => {}
                    // The sender is dropped, which gives an error: the thread ends.
                    _ = ended => {}
                }
            });
            drop((executor, file));
        })?;
        Pages::All.log(&address);
        Ok((listener, thread))
    }
}

impl Views {
    fn lock(&self) -> MutexGuard<'_, Vec<View>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Backend for Views {
    fn sources(&self) -> Option<Arc<PageSources>> {
        self.lock().last().map(|view| Arc::clone(&view.sources))
    }

    /// Reloads all shared policies: an old policy may still answer requests that have begun.
    fn reload(&self) {
        self.lock().iter().for_each(|view| view.reloads.request());
    }

    fn console(&self) -> Option<Arc<dyn server::admin::Console>> {
        let views = self.lock();
        let newest = views.last()?.console.as_ref()?;
        Some(Arc::clone(&newest.console) as Arc<dyn server::admin::Console>)
    }
}

impl AuthorizationStats for Counters {
    fn decisions(&self) -> Totals {
        // Copied, to hold the lock for a moment only: a worker of Envoy takes it before its first
        // request.
        let threads = self.thread_counters.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Totals::sum(threads.iter().map(|counters| &**counters))
    }

    fn hashing(&self) -> HashingTotals {
        self.hashing.totals()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("number", &self.number).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
