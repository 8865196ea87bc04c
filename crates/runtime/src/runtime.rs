//! Starts and stops what keeps a policy active and current.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use policy::Problem;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::active_policy::ActivePolicy;
use crate::compiled_policy::KeyUrls;
use crate::decisions::Decisions;
use crate::keys::Fetcher;
use crate::lines::{Counts, Writer};
use crate::reload::{Event, Policies, Reloader};
use crate::settings::PolicySettings;
use crate::status::Status;

/// How long the end waits for the last lines of the decision log to be read.
const LAST_LINES: Duration = Duration::from_secs(2);

/// A policy that is loaded, but not yet kept current: nothing runs yet.
#[derive(Debug)]
pub struct LoadedPolicy {
    settings: PolicySettings,
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    status: Arc<Status>,
    reloader: Reloader,
}

/// Keeps a policy active and current, on threads of its own. Keys are fetched by the future of [`Runtime::fetch_keys`].
#[derive(Debug)]
pub struct Runtime {
    policy: ActivePolicy,
    snapshot: Arc<ArcSwapOption<Authorizer>>,
    status: Arc<Status>,
    policies: Policies,
    key_urls: watch::Receiver<KeyUrls>,
    /// Tells the key fetcher to fetch all keys now.
    key_requests: watch::Sender<()>,
    /// Counters of the decision log.
    lines: Arc<Counts>,
    writer: Option<Writer>,
}

impl LoadedPolicy {
    /// Loads and compiles the policy.
    ///
    /// # Errors
    /// Every problem of the policy.
    pub fn load(settings: PolicySettings) -> Result<Self, Vec<Problem>> {
        let status = Arc::new(Status::new(settings.keys_needed));
        let snapshot = Arc::new(ArcSwapOption::empty());
        let reloader = Reloader::first(&settings, snapshot.clone(), status.clone())?;
        Ok(Self { settings, snapshot, status, reloader })
    }

    /// Starts the threads. The decision log, unless it is off, is written to `decisions`.
    ///
    /// # Errors
    /// When the system cannot create a thread.
    pub fn start(self, decisions: impl Write + Send + 'static) -> io::Result<Runtime> {
        let Self { settings, snapshot, status, reloader } = self;
        let lines = Arc::new(Counts::default());
        let mut policy = ActivePolicy::new(snapshot.clone()).with_status(status.clone());
        let mut writer = None;
        if let Some((log, thread)) = Decisions::start(settings.decision_log, decisions, lines.clone())? {
            policy = policy.with_decisions(Arc::new(log));
            writer = Some(thread);
        }
        let key_urls = reloader.key_urls();
        let policies = reloader.start()?;
        let key_requests = watch::Sender::default();
        Ok(Runtime { policy, snapshot, status, policies, key_urls, key_requests, lines, writer })
    }
}

/// Requests reloads of a policy.
#[derive(Clone, Debug)]
pub struct Reloads {
    key_requests: watch::Sender<()>,
    events: Sender<Event>,
}

impl Reloads {
    /// Loads the policy again if its files have changed, and fetches all keys.
    pub fn request(&self) {
        self.key_requests.send_replace(());
        if self.events.send(Event::Reload).is_err() {
            tracing::error!("the policy thread has ended: the policy cannot be reloaded");
        }
    }
}

impl Runtime {
    /// The policy, for worker threads.
    #[must_use]
    pub fn policy(&self) -> &ActivePolicy {
        &self.policy
    }

    /// The status of the policy and its keys.
    #[must_use]
    pub fn status(&self) -> &Arc<Status> {
        &self.status
    }

    /// Counters of the lines of the decision log.
    #[must_use]
    pub fn decision_lines(&self) -> &Arc<Counts> {
        &self.lines
    }

    /// Fetches keys for as long as it is polled, in a tokio runtime with time and I/O. Never resolves.
    pub fn fetch_keys(&self) -> impl Future<Output = ()> + Send + use<> {
        let fetcher = Fetcher {
            current: self.snapshot.clone(),
            events: self.policies.events(),
            status: self.status.clone(),
            requests: self.key_requests.subscribe(),
        };
        fetcher.run(self.key_urls.clone())
    }

    /// Waits for the first attempt to fetch the keys of each issuer and the inventory of the search cluster, so that the
    /// first requests find them. The wait is
    /// bounded, because requests that do not need keys must not wait for an issuer that is down.
    pub fn first_keys(&self, wait: Duration) -> impl Future<Output = ()> + Send + use<> {
        let status = self.status.clone();
        async move {
            let end = Instant::now() + wait;
            while !status.facts().all_tried() && Instant::now() < end {
                sleep(Duration::from_millis(5)).await;
            }
            let facts = status.facts();
            if !facts.all_keys_loaded() {
                let issuers = facts.issuers_without_keys();
                tracing::warn!(%issuers, "no keys yet: tokens of {issuers} get 401 until they arrive");
            }
        }
    }

    /// Requests reloads, from any thread.
    #[must_use]
    pub fn reloads(&self) -> Reloads {
        Reloads { key_requests: self.key_requests.clone(), events: self.policies.events() }
    }

    /// Ends the threads, and waits for a limited time until the last lines of the decision log are written. All request
    /// threads must have ended.
    pub fn stop(self) {
        let Self { policy, policies, writer, .. } = self;
        policies.stop();
        drop(policy);
        if let Some(writer) = writer {
            writer.finish(LAST_LINES);
        }
    }
}
