//! Fetches the keys of issuers and the inventory of a search cluster, off the request path.
//!
//! Each URL has a task: it fetches, sends the result to the policy thread, and sleeps. A token with
//! an unknown `kid` causes an early fetch, so that a key rotation is noticed at once;
//! [`EarlyFetches`] limits them. A requested reload (SIGHUP) fetches all keys, so that a withdrawn
//! key is not trusted until the next fetch. After a failure the last good keys stay active, and it
//! is retried soon. A panic, which is a bug, counts as a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use identity::UnknownKids;
use policy::KeyUrl;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument;

use crate::backoff::{jittered, retry};
use crate::compiled_policy::{Issuers, KeySource, KeyUrls};
use crate::reload::{KeyEvent, KeysOutcome};
use crate::status::{KeyFacts, Status};
use crate::threads::{Panicked, catch_future, pause_after};

mod early;
mod fetch;

use early::EarlyFetches;
pub use fetch::Client;
use fetch::FetchError;

/// How often to check whether a token with an unknown `kid` came.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Minimum time between two requested fetches from one URL. Requests that come sooner are one
/// fetch, after this time.
const REQUEST_INTERVAL: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct Fetcher {
    /// The active snapshot: it knows from which URLs a key was missing.
    pub current: Arc<ArcSwapOption<Authorizer>>,
    /// Where fetched keys are sent.
    pub events: Sender<KeyEvent>,
    /// Where the results of fetches are recorded.
    pub status: Arc<Status>,
    /// Changes whenever all keys are to be fetched now.
    pub requests: watch::Receiver<()>,
}

impl Fetcher {
    /// Fetches from these URLs, following their changes. Never returns.
    pub(crate) async fn run(self, mut urls: watch::Receiver<KeyUrls>) {
        let mut panics = 0;
        while let Err(panicked) = catch_future("fetching", self.follow_changes(&mut urls)).await {
            panics += 1;
            let pause = pause_after(panics);
            tracing::error!("{panicked}: it starts again in {pause:.1?}");
            sleep(pause).await;
        }
    }

    async fn follow_changes(&self, urls: &mut watch::Receiver<KeyUrls>) {
        let client = Client::default();
        let mut tasks: BTreeMap<KeyUrl, Task> = BTreeMap::new();
        let mut polls = tokio::time::interval(POLL_INTERVAL);
        urls.mark_changed();
        loop {
            tokio::select! {
                changed = urls.changed() => match changed {
                    Ok(()) => self.follow(&urls.borrow_and_update().clone(), &mut tasks, &client),
                    Err(_) => std::future::pending().await,
                },
                _ = polls.tick() => self.pass_on_unknown_kids(&tasks),
            }
        }
    }

    /// Starts and aborts tasks, so that there is one for each URL.
    fn follow(&self, wanted: &KeyUrls, tasks: &mut BTreeMap<KeyUrl, Task>, client: &Client) {
        tasks.retain(|url, task| wanted.get(url) == Some(&task.source));
        for (url, source) in wanted {
            if !tasks.contains_key(url) {
                tasks.insert(url.clone(), self.start(url.clone(), source.clone(), client));
            }
        }
    }

    fn start(&self, url: KeyUrl, source: KeySource, client: &Client) -> Task {
        let (unknown, unknown_kids) = mpsc::channel(1);
        let (refresh, issuers) = (source.interval(), source.issuers.clone());
        let (events, status) = (self.events.clone(), self.status.clone());
        let client = client.for_url(&url);
        let mut requests = self.requests.clone();
        // The task begins with a fetch.
        requests.mark_unchanged();
        let fetches = Fetches { url, issuers, refresh, client, events, status, requests };
        Task { source, unknown, task: tokio::spawn(fetches.run(unknown_kids).in_current_span()) }
    }

    fn pass_on_unknown_kids(&self, tasks: &BTreeMap<KeyUrl, Task>) {
        let Some(current) = self.current.load_full() else { return };
        for (url, task) in tasks {
            // While a fetch is under way the channel may be full: then they are passed on later.
            let Ok(place) = task.unknown.try_reserve() else { continue };
            let unknown = current.take_unknown_kids(url);
            if !unknown.is_empty() {
                place.send(unknown);
            }
        }
    }
}

/// The fetch task of one URL. Dropping this aborts the task.
#[derive(Debug)]
struct Task {
    source: KeySource,
    /// Takes the `kid`s that tokens name and the keys of this URL do not have.
    unknown: mpsc::Sender<UnknownKids>,
    task: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Regular,
    /// A token names a key that is not known.
    Early,
    Request,
}

struct Fetches {
    url: KeyUrl,
    issuers: Issuers,
    refresh: Duration,
    client: Client,
    events: Sender<KeyEvent>,
    status: Arc<Status>,
    requests: watch::Receiver<()>,
}

impl Fetches {
    async fn run(mut self, mut unknown: mpsc::Receiver<UnknownKids>) {
        let mut panics = 0;
        while let Err(panicked) =
            catch_future("fetching", self.fetch_repeatedly(&mut unknown)).await
        {
            panics += 1;
            let pause = pause_after(panics);
            self.note_panic(&panicked, pause);
            sleep(pause).await;
        }
    }

    fn note_panic(&self, panicked: &Panicked, pause: Duration) {
        let Self { url, issuers, .. } = self;
        self.status.note_keys(url, |facts| {
            facts.failures += 1;
            facts.fail(&panicked.to_string());
        });
        tracing::error!(%url, %issuers, "{panicked}: what was fetched last stays in use until it is too old; next try in {pause:.1?}");
    }

    async fn fetch_repeatedly(&mut self, unknown: &mut mpsc::Receiver<UnknownKids>) {
        let mut early = EarlyFetches::new(Instant::now());
        let mut failures = 0;
        let mut next = Instant::now();
        let mut requested = false;
        let mut next_requested = next;
        // Whether no fetch has succeeded since a requested one began.
        let mut unfulfilled = false;
        loop {
            let cause = tokio::select! {
                () = sleep_until(next) => Cause::Regular,
                () = sleep_until(early.due().unwrap_or(next)), if early.due().is_some() => Cause::Early,
                () = sleep_until(next_requested), if requested => Cause::Request,
                // An error means that the process is stopping.
                Ok(()) = self.requests.changed() => {
                    requested = true;
                    continue;
                }
                Some(kids) = unknown.recv() => {
                    early.request(kids, Instant::now());
                    continue;
                }
            };
            let Self { url, issuers, .. } = &*self;
            match cause {
                Cause::Regular => {}
                Cause::Early => {
                    early.begin(Instant::now());
                    self.log_early(&early);
                }
                Cause::Request => {
                    requested = false;
                    next_requested = Instant::now() + REQUEST_INTERVAL;
                    unfulfilled = true;
                    tracing::info!(%url, %issuers, "reload requested: fetching keys");
                }
            }
            let result = self.fetch().await;
            failures = match (&result, cause) {
                (Ok(_), _) => 0,
                (Err(_), Cause::Regular) => failures + 1,
                // An operator waits for it: it is retried as at the start.
                (Err(_), Cause::Request) => 1,
                // The regular ones go on as planned: no token makes them more frequent.
                (Err(_), Cause::Early) => failures,
            };
            if result.is_ok() || cause != Cause::Early {
                next = self.next(failures);
            }
            match result {
                Ok(outcome) => {
                    if cause == Cause::Early && outcome == KeysOutcome::Unchanged {
                        self.log_not_found(&early);
                    }
                    early.fetched(Instant::now());
                    if std::mem::take(&mut unfulfilled) {
                        tracing::info!(%url, %issuers, "reload requested: keys fetched");
                    }
                }
                Err(error) => self.log_failure(&error, early.due().unwrap_or(next).min(next)),
            }
        }
    }

    /// The time of the next regular fetch, after so many failed ones in a row.
    fn next(&self, failures: u32) -> Instant {
        Instant::now() + jittered(retry(failures).unwrap_or(self.refresh).min(self.refresh))
    }

    fn log_early(&self, early: &EarlyFetches) {
        let Self { url, issuers, .. } = self;
        let kid = early.wanted.kids().next().map(identity::excerpt);
        tracing::info!(%url, %issuers, kid, "a token has an unknown key id: fetching keys early");
    }

    fn log_not_found(&self, early: &EarlyFetches) {
        let Self { url, issuers, .. } = self;
        let kid = early.wanted.kids().next().map(identity::excerpt);
        let wait = early::BACKOFF.as_secs();
        tracing::info!(%url, %issuers, kid, "no such key id in the fetched keys, which have not changed: tokens with it get 401; it is looked for again after {wait} s or more");
    }

    fn log_failure(&self, error: &FetchError, next: Instant) {
        let Self { url, issuers, .. } = self;
        let KeyFacts { loaded, stale, .. } = self.status.url_facts(url).unwrap_or_default();
        let wait = next.saturating_duration_since(Instant::now()).as_secs_f64().ceil().max(1.0);
        if *error == FetchError::Unusable {
            let kind = if url.is_inventory() { "inventory" } else { "keys" };
            tracing::warn!(%url, %issuers, "the fetched {kind} cannot be used; next try in {wait} s");
        } else if url.is_inventory() {
            let until = if loaded {
                "the last one is used until it is too old"
            } else {
                "there is none yet"
            };
            let is_refused = matches!(error, FetchError::Status(401 | 403));
            let needed =
                "; the account of `credentials_file` needs `indices:admin/resolve/index` on `*`";
            let account = if is_refused { needed } else { "" };
            tracing::warn!(%url, %error, "inventory not fetched: {until}; next try in {wait} s{account}");
        } else if stale && !loaded {
            tracing::warn!(%url, %issuers, %error, "keys not fetched: the last good ones are older than `max-keys-age`, and tokens of {issuers} get 401; next try in {wait} s");
        } else if loaded {
            tracing::warn!(%url, %issuers, %error, "keys not fetched: the last good ones stay active; next try in {wait} s");
        } else {
            tracing::warn!(%url, %issuers, %error, "no keys yet: tokens of {issuers} get 401; next try in {wait} s");
        }
    }

    async fn fetch(&self) -> Result<KeysOutcome, FetchError> {
        let Self { url, issuers, .. } = self;
        let keys = self.client.fetch(url).await.inspect_err(|error| {
            self.status.note_keys(url, |facts| {
                let of_key_set = error.is_of_key_set();
                *(if of_key_set { &mut facts.rejected } else { &mut facts.failures }) += 1;
                facts.fail(&error.to_string());
            });
        })?;
        let bytes = keys.len();
        let (taken, until_taken) = oneshot::channel();
        // Sending fails only when the process stops.
        let _ = self.events.send(KeyEvent::Keys(url.clone(), keys, taken));
        // Resolves when the keys are processed: while the policy thread compiles, a short interval
        // must not fill its queue. An error means that the process is stopping.
        let outcome = until_taken.await.unwrap_or(KeysOutcome::Unchanged);
        if outcome == KeysOutcome::Unusable {
            return Err(FetchError::Unusable);
        }
        tracing::debug!(%url, %issuers, bytes, "keys fetched");
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests;
