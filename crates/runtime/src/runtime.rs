//! Starts and stops the threads that keep a policy active and current.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use identity::CacheSize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span};

use crate::active_policy::ActivePolicy;
use crate::bundles::BundleFetcher;
use crate::decisions::{Decisions, Masks};
use crate::denials::RecentDenials;
use crate::errors::LoadError;
use crate::keys::Fetcher;
use crate::lines::{Counts, Writer};
use crate::otlp::{self, Otlp, OtlpCounts};
use crate::reload::{LoadEvent, PolicyNotices, ReloadThreads, Reloader};
use crate::settings::PolicySettings;
use crate::shadow::{Shadow, ShadowStats};
use crate::status::Status;
use crate::trace_context::Tracing;

/// Maximum time that a stopping process waits until the last lines of the decision log are written
/// and the last records are sent.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How many lines and records were not written or sent before the process stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwritten {
    /// Lines of the decision log.
    pub lines: u64,
    /// Spans and log records for a collector.
    pub records: u64,
}

impl Unwritten {
    /// Logs warnings. `limit` is the time that the process waited.
    pub fn log(self, limit: Duration) {
        let Self { lines, records } = self;
        if lines > 0 {
            tracing::warn!(
                lines,
                "the last lines of the decision log are lost: nobody read them within {limit:?}"
            );
        }
        if records > 0 {
            tracing::warn!(
                records,
                "the last records for the collector are lost: it did not take them within {limit:?}"
            );
        }
    }
}

/// A loaded policy, before any thread is started.
#[derive(Debug)]
pub struct LoadedPolicy {
    settings: PolicySettings,
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    status: Arc<Status>,
    reloader: Reloader,
    shadow: Option<Box<Self>>,
    keeps_denials: bool,
}

/// Keeps a policy active and current, on its own threads. Run [`Runtime::fetch`] as well.
#[derive(Debug)]
pub struct Runtime {
    /// The policy, for worker threads.
    pub policy: ActivePolicy,
    /// The status of the policy and its keys.
    pub status: Arc<Status>,
    /// Counters of the lines of the decision log.
    pub decision_lines: Arc<Counts>,
    /// Counters of the export over OTLP.
    pub otlp: OtlpCounts,
    /// The last denials, if they are kept.
    pub denials: Option<Arc<RecentDenials>>,
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    reload_threads: ReloadThreads,
    /// Tells the fetchers to fetch all keys and the bundle now.
    fetch_requests: watch::Sender<()>,
    /// The writers of the decision log and of the OTLP export.
    writers: Vec<Writer>,
    shadow: Option<RunningShadow>,
}

#[derive(Debug)]
struct RunningShadow {
    runtime: Box<Runtime>,
    stats: Arc<ShadowStats>,
}

/// The span that marks log lines about a shadow policy. It has the level of errors, so that no log
/// level leaves it out.
#[must_use]
pub fn shadow_span() -> Span {
    tracing::error_span!("shadow")
}

impl LoadedPolicy {
    /// Loads and compiles the policy, and the shadow policy, if any. Warns of settings that have no
    /// effect: because of other settings, then because of the loaded policies.
    pub fn load(settings: PolicySettings) -> Result<Self, LoadError> {
        settings.warn();
        let policy = Self::load_without_warnings(settings)?;
        policy.warn();
        Ok(policy)
    }

    /// Like [`Self::load`], but logs no warnings. For a load on a thread of its own, which another
    /// thread awaits for a limited time: warnings after that time would be about a rejected policy.
    /// So the thread that waits calls [`PolicySettings::warn`] and [`Self::warn`].
    pub fn load_without_warnings(settings: PolicySettings) -> Result<Self, LoadError> {
        otlp::check(&settings.otlp, settings.decision_log.exports())?;
        let mut policy = Self::load_policy(settings)?;
        if let Some(shadow) = policy.settings.shadow_settings() {
            let shadow = shadow_span().in_scope(|| Self::load_policy(shadow));
            let shadow = shadow.map_err(|error| match error {
                LoadError::Policy(problems) => LoadError::Shadow(problems),
                LoadError::Shadow(_) | LoadError::Setting(_) => error,
            });
            policy.shadow = Some(Box::new(shadow?));
        }
        Ok(policy)
    }

    fn load_policy(settings: PolicySettings) -> Result<Self, LoadError> {
        let status = Arc::new(Status::new(settings.keys_needed, settings.inventory_needed));
        let snapshot = Arc::new(ArcSwapOption::empty());
        let reloader = Reloader::load_first(&settings, snapshot.clone(), status.clone())?;
        Ok(Self { settings, snapshot, status, reloader, shadow: None, keeps_denials: false })
    }

    /// Warns of settings that have no effect on the policies, such as `max-keys-age` if no keys
    /// have a URL. Before a bundle arrives, nothing is known.
    pub fn warn(&self) {
        let policies = [Some(self), self.shadow.as_deref()].into_iter().flatten();
        let authorizers = policies.map(|loaded| loaded.snapshot.load_full());
        if let Some(authorizers) = authorizers.collect::<Option<Vec<_>>>() {
            self.settings.warn_on(authorizers.iter().map(|authorizer| &authorizer.loaded().policy));
        }
    }

    /// Keeps the last denials, for the console.
    pub fn keeping_last_denials(self) -> Self {
        Self { keeps_denials: true, ..self }
    }

    /// Logs these notices of the policy now, and of each changed policy when it is activated.
    pub fn with_notices(self, notices: PolicyNotices) -> Self {
        self.reloader.set_notices(notices);
        self
    }

    /// Starts the threads.
    pub fn start(self) -> io::Result<Runtime> {
        let Self { settings, snapshot, status, reloader, shadow, keeps_denials } = self;
        let lines = Arc::new(Counts::default());
        let mut policy = ActivePolicy::new(snapshot.clone());
        policy.status = Some(status.clone());
        // The log, spans and samples share one set of masks. It may hash users with a random key:
        // with another set, the same user would get another hash.
        let masks = Arc::new(Masks::new(&settings.decision_log)?);
        let export = Otlp::start(&settings.otlp, settings.decision_log.exports())?;
        let otlp = export.counts();
        let Otlp { spans, logs, mut writers } = export;
        let denials = keeps_denials.then(Arc::<RecentDenials>::default);
        let mut decisions = Decisions::new(&settings.decision_log, masks.clone(), lines.clone());
        writers.extend(decisions.open_file()?);
        decisions.tracing = match (&spans, &logs) {
            (Some(_), _) => Some(Tracing::Recorded(settings.otlp.trace_ratio)),
            (None, Some(_)) => Some(Tracing::Unrecorded),
            (None, None) => None,
        };
        (decisions.spans, decisions.exported, decisions.denials) = (spans, logs, denials.clone());
        if decisions.is_used() {
            policy = policy.with_decisions(Arc::new(decisions));
        }
        let mut running = None;
        if let Some(shadow) = shadow {
            let stats = Arc::new(ShadowStats::new(shadow.status.clone()));
            let comparison = Shadow::start(shadow.snapshot.clone(), stats.clone(), masks)?;
            policy.shadow = Some(Arc::new(comparison));
            let runtime = shadow_span().in_scope(|| shadow.start()).map(Box::new)?;
            running = Some(RunningShadow { runtime, stats });
        }
        Ok(Runtime {
            policy,
            status,
            decision_lines: lines,
            otlp,
            denials,
            snapshot,
            reload_threads: reloader.start()?,
            fetch_requests: watch::Sender::default(),
            writers,
            shadow: running,
        })
    }
}

/// The caches of the active policy.
#[derive(Clone, Debug, Default)]
pub struct Caches(Arc<ArcSwapOption<Authorizer>>);

impl Caches {
    /// The sizes of the caches of verified credentials: Basic, then tokens. Never waits.
    pub fn credentials(&self) -> [CacheSize; 2] {
        self.0.load().as_ref().map(|active| active.credential_caches()).unwrap_or_default()
    }
}

/// Requests reloads of a policy.
#[derive(Clone, Debug)]
pub struct Reloads {
    fetch_requests: watch::Sender<()>,
    loads: Sender<LoadEvent>,
    shadow: Option<Box<Self>>,
}

impl Reloads {
    /// Loads both policies again if their files have changed, and fetches all keys and bundles.
    pub fn request(&self) {
        if let Some(shadow) = &self.shadow {
            shadow.request();
        }
        self.fetch_requests.send_replace(());
        if self.loads.send(LoadEvent::Reload).is_err() {
            tracing::error!("the thread that loads has ended: the policy cannot be reloaded");
        }
    }
}

impl Runtime {
    /// The caches of the active policy.
    pub fn caches(&self) -> Caches {
        Caches(self.snapshot.clone())
    }

    /// How the shadow policy compares, if any.
    pub fn shadow(&self) -> Option<&Arc<ShadowStats>> {
        self.shadow.as_ref().map(|shadow| &shadow.stats)
    }

    /// The policy for the console, which explains decisions. What it decides there is neither
    /// counted nor logged.
    pub fn policy_without_records(&self) -> ActivePolicy {
        ActivePolicy::new(self.snapshot.clone())
    }

    /// The shadow policy for the console, if any.
    pub fn shadow_policy(&self) -> Option<ActivePolicy> {
        self.shadow.as_ref().map(|shadow| shadow.runtime.policy_without_records())
    }

    /// Fetches keys and bundles. Needs a tokio runtime with time and I/O. Never resolves.
    pub fn fetch(&self) -> impl Future<Output = ()> + Send + use<> {
        let shadow = self.shadow.as_ref();
        join(
            self.fetch_for_policy(),
            shadow.map(|shadow| shadow.runtime.fetch_for_policy().instrument(shadow_span())),
        )
    }

    fn fetch_for_policy(&self) -> impl Future<Output = ()> + Send + use<> {
        let fetcher = Fetcher {
            current: self.snapshot.clone(),
            events: self.reload_threads.keys.clone(),
            status: self.status.clone(),
            requests: self.fetch_requests.subscribe(),
        };
        let keys = fetcher.run(self.reload_threads.key_urls.clone());
        let bundle = self.reload_threads.bundle.clone().map(|source| {
            let (events, requests) =
                (self.reload_threads.loads.clone(), self.fetch_requests.subscribe());
            BundleFetcher { source, events, status: self.status.clone(), requests }.run()
        });
        join(keys, bundle)
    }

    /// Waits until the bundle, all keys and the inventory were fetched, but no longer than `wait`.
    /// A first fetch that fails also ends the wait for its document: requests that need no keys
    /// must not wait for an issuer that is down.
    pub fn wait_for_first_fetch(&self, wait: Duration) -> impl Future<Output = ()> + Send + use<> {
        let status = self.status.clone();
        async move {
            let end = Instant::now() + wait;
            while !status.facts().all_tried() && Instant::now() < end {
                sleep(Duration::from_millis(5)).await;
            }
            let facts = status.facts();
            if facts.policy.revision.is_none() {
                tracing::warn!("no policy bundle yet: every check gets an error until one arrives");
            }
            if !facts.all_keys_loaded() {
                let issuers = facts.issuers_without_keys();
                let text = format!("no keys yet: tokens of {issuers} get 401 until they arrive");
                tracing::warn!(%issuers, "{text}");
            }
        }
    }

    /// Requests reloads, from any thread.
    pub fn reloads(&self) -> Reloads {
        let shadow = self.shadow.as_ref().map(|shadow| Box::new(shadow.runtime.reloads()));
        Reloads {
            fetch_requests: self.fetch_requests.clone(),
            loads: self.reload_threads.loads.clone(),
            shadow,
        }
    }

    /// Ends the threads. The worker threads must have ended before. Waits up to [`STOP_TIMEOUT`]
    /// for the last lines of the decision log, and logs how many are lost.
    pub fn stop(self) {
        self.stop_within(STOP_TIMEOUT).log(STOP_TIMEOUT);
    }

    /// Like [`Self::stop`] with another time limit. Returns how many lines and records are lost.
    /// Lines of worker threads that still run are lost.
    pub fn stop_within(self, limit: Duration) -> Unwritten {
        let Self { policy, reload_threads, mut writers, shadow, decision_lines, otlp, .. } = self;
        drop(reload_threads);
        if let Some(shadow) = shadow {
            // A shadow policy has no writers, so this does not wait.
            shadow.runtime.stop();
        }
        drop(policy);
        // All writers are stopped first, so that they share the time limit.
        writers.iter_mut().for_each(Writer::stop);
        let end = std::time::Instant::now() + limit;
        for writer in writers {
            writer.finish(end.saturating_duration_since(std::time::Instant::now()));
        }
        let exported = [otlp.traces, otlp.logs];
        let records = exported.iter().flatten().map(|counts| counts.unwritten()).sum();
        Unwritten { lines: decision_lines.unwritten(), records }
    }
}

async fn join(first: impl Future<Output = ()>, second: Option<impl Future<Output = ()>>) {
    match second {
        Some(second) => drop(tokio::join!(first, second)),
        None => first.await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Unwritten;

    #[test]
    fn what_is_lost_at_the_end_is_logged() {
        let logged = |unwritten: Unwritten| {
            crate::test_log::logged(|| unwritten.log(Duration::from_secs(2)))
        };
        assert_eq!(logged(Unwritten::default()), "");
        let both = logged(Unwritten { lines: 3, records: 4 });
        assert!(both.contains("the last lines of the decision log are lost"), "{both}");
        assert!(both.contains("the last records for the collector are lost"), "{both}");
        assert!(logged(Unwritten { lines: 3, records: 0 }).lines().count() == 1);
    }
}
