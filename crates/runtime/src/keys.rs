//! Fetches the keys of issuers and the inventory of a search cluster, off the request path.
//!
//! Each URL has a task: it fetches, sends the result to the policy thread (which compiles the
//! policy), and sleeps. A token with an unknown `kid` causes an early fetch, so that a key rotation
//! is noticed at once; [`EarlyFetches`] limits how often. A requested reload
//! (SIGHUP) fetches all keys, so that a withdrawn key stops being trusted at once, not at the next
//! regular fetch. After a failure the last good keys stay active, and the fetch is retried soon. A
//! panic, which is a bug, counts as a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use policy::KeyUrl;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument;

use crate::backoff::{REQUEST_INTERVAL, next_fetch, seconds_until};
use crate::compiled_policy::{Issuers, KeySource, KeyUrls};
use crate::reload::{KeyEvent, KeysOutcome};
use crate::status::{KeyFacts, Status};
use crate::threads::{Panicked, keep_running_task};

mod early;
mod fetch;

use early::EarlyFetches;
pub use fetch::Client;
use fetch::FetchError;

/// How often to check for tokens with an unknown `kid`.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Clone, Debug)]
pub(crate) struct Fetcher {
    /// The active authorizer. For each URL of keys, it records the `kid`s of tokens for which it
    /// has no key.
    pub current: Arc<ArcSwapOption<Authorizer>>,
    pub events: Sender<KeyEvent>,
    pub status: Arc<Status>,
    /// Changes when a reload is requested: all keys are then fetched at once.
    pub requests: watch::Receiver<()>,
}

impl Fetcher {
    /// Fetches from these URLs, and from others when `urls` changes. Never returns.
    pub(crate) async fn run(self, urls: watch::Receiver<KeyUrls>) {
        keep_running_task(
            "fetching",
            || self.follow_changes(urls.clone()),
            |panicked, pause| tracing::error!("{panicked}: it starts again in {pause:.1?}"),
        )
        .await;
    }

    async fn follow_changes(&self, mut urls: watch::Receiver<KeyUrls>) {
        let client = Client::default();
        let mut tasks: BTreeMap<KeyUrl, Task> = BTreeMap::new();
        loop {
            let wanted = urls.borrow_and_update().clone();
            tasks.retain(|url, task| wanted.get(url) == Some(&task.source));
            for (url, source) in wanted {
                tasks.entry(url.clone()).or_insert_with(|| self.start(url, source, &client));
            }
            if urls.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn start(&self, url: KeyUrl, source: KeySource, client: &Client) -> Task {
        let (interval, issuers) = (source.interval(), source.issuers.clone());
        let client = client.for_url(&url);
        let fetcher = UrlFetcher { url, issuers, interval, client, fetcher: self.clone() };
        Task { source, task: tokio::spawn(fetcher.run().in_current_span()) }
    }
}

/// The fetch task of a URL. Dropping this aborts the task.
#[derive(Debug)]
struct Task {
    source: KeySource,
    task: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct UrlFetcher {
    url: KeyUrl,
    issuers: Issuers,
    interval: Duration,
    client: Client,
    fetcher: Fetcher,
}

impl UrlFetcher {
    async fn run(self) {
        keep_running_task(
            "fetching",
            || self.fetch_repeatedly(),
            |panicked, pause| self.report_panic(panicked, pause),
        )
        .await;
    }

    fn report_panic(&self, panicked: &Panicked, pause: Duration) {
        let (url, issuers) = (&self.url, self.issuers.log_value());
        self.fetcher.status.update_keys(url, |facts| {
            facts.failures += 1;
            facts.set_failing(&panicked.to_string());
        });
        tracing::error!(
            %url, issuers,
            "{panicked}: the last keys are used until they are too old; next try in {pause:.1?}"
        );
    }

    async fn fetch_repeatedly(&self) {
        let (url, issuers) = (&self.url, self.issuers.log_value());
        let mut requests = self.fetcher.requests.clone();
        // The task begins with a fetch, which also serves the reloads requested before.
        requests.mark_unchanged();
        let mut early = EarlyFetches::new(Instant::now());
        let mut failures = 0;
        let mut next = Instant::now();
        let mut last = next;
        // Whether a requested reload still waits for a successful fetch.
        let mut reload_pending = false;
        loop {
            let is_early = tokio::select! {
                () = sleep_until(next) => false,
                () = sleep_until(early.due().unwrap_or(next)), if early.due().is_some() => true,
                // An error means that the process is stopping.
                Ok(()) = requests.changed() => {
                    tracing::info!(%url, issuers, "reload requested: fetching keys");
                    reload_pending = true;
                    next = next.min(last + REQUEST_INTERVAL);
                    // An operator is waiting, so retries start again with the shortest pause.
                    failures = 0;
                    continue;
                }
                () = sleep(POLL_INTERVAL) => {
                    if let Some(current) = &*self.fetcher.current.load() {
                        early.request(current.take_unknown_kids(url), Instant::now());
                    }
                    continue;
                }
            };
            last = Instant::now();
            let kid = early.first_kid();
            if is_early {
                early.begin(last);
                let text = "a token has an unknown key id: fetching keys early";
                tracing::info!(%url, issuers, kid, "{text}");
            }
            let result = self.fetch().await;
            // A failed early fetch does not change when the next regular fetch is: tokens must not
            // make regular fetches more frequent.
            match &result {
                Ok(_) => failures = 0,
                Err(_) if !is_early => failures += 1,
                Err(_) => {}
            }
            if result.is_ok() || !is_early {
                next = next_fetch(failures, self.interval);
            }
            match result {
                Ok(outcome) => {
                    if is_early && outcome == KeysOutcome::Unchanged {
                        let wait = early::BACKOFF.as_secs();
                        tracing::info!(
                            %url, issuers, kid,
                            "no such key id in the fetched keys, which have not changed: tokens \
                             with it get 401; it is looked for again after {wait} s or more"
                        );
                    }
                    early.fetched(Instant::now());
                    if std::mem::take(&mut reload_pending) {
                        tracing::info!(%url, issuers, "reload requested: keys fetched");
                    }
                }
                Err(error) => self.log_failure(&error, early.due().unwrap_or(next).min(next)),
            }
        }
    }

    fn log_failure(&self, error: &FetchError, next: Instant) {
        let (url, issuers) = (&self.url, &self.issuers);
        let KeyFacts { loaded, stale, .. } = self.fetcher.status.url_facts(url).unwrap_or_default();
        let mut hint = "";
        let text = if *error == FetchError::Unusable {
            let kind = if url.is_inventory() { "inventory" } else { "keys" };
            format!("the fetched {kind} cannot be used")
        } else if url.is_inventory() {
            if matches!(error, FetchError::Status(401 | 403)) {
                hint = "; the account of `credentials_file` needs \
                        `indices:admin/resolve/index` on `*`";
            }
            let consequence = if loaded {
                "the last one is used until it is too old"
            } else {
                "there is none yet"
            };
            format!("inventory not fetched: {consequence}")
        } else if loaded {
            "keys not fetched: the last good ones stay active".to_owned()
        } else if stale {
            format!(
                "keys not fetched: the last good ones are older than `max-keys-age`, and tokens of \
                 {issuers} get 401"
            )
        } else {
            format!("no keys yet: tokens of {issuers} get 401")
        };
        let (issuers, wait) = (issuers.log_value(), seconds_until(next));
        tracing::warn!(%url, issuers, %error, "{text}; next try in {wait} s{hint}");
    }

    async fn fetch(&self) -> Result<KeysOutcome, FetchError> {
        let url = &self.url;
        let keys = self.client.fetch(url).await.inspect_err(|error| {
            self.fetcher.status.update_keys(url, |facts| {
                let is_rejected = error.is_invalid_key_set();
                *(if is_rejected { &mut facts.rejected } else { &mut facts.failures }) += 1;
                facts.set_failing(&error.to_string());
            });
        })?;
        let bytes = keys.len();
        let (send, outcome) = oneshot::channel();
        // Sending fails only when the process stops.
        let _ = self.fetcher.events.send(KeyEvent::Keys(url.clone(), keys, send));
        // The task waits until the policy thread has processed the keys. Otherwise fetches with a
        // short interval could fill the queue of that thread while it compiles. An error means that
        // the process is stopping.
        match outcome.await.unwrap_or(KeysOutcome::Unchanged) {
            KeysOutcome::Unusable => Err(FetchError::Unusable),
            outcome @ (KeysOutcome::Changed | KeysOutcome::Unchanged) => {
                tracing::debug!(%url, issuers = self.issuers.log_value(), bytes, "keys fetched");
                Ok(outcome)
            }
        }
    }
}

#[cfg(test)]
mod tests;
