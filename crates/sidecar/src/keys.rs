//! Fetches the keys of issuers, off the request path.
//!
//! Each URL has a task: it fetches, sends the result to the policy thread, and sleeps until the next fetch. A token
//! with an unknown `kid` may trigger an early fetch, at most once per interval, so that a key rotation is noticed at
//! once, but a flood of made-up `kid`s is not passed on to the issuer. If a fetch fails, the last good keys stay
//! active.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use policy::KeyUrl;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::reload::Event;
use crate::snapshot::{Issuers, KeySource, KeyUrls};
use crate::status::Status;

mod fetch;

pub(crate) use fetch::Client;

/// How often to check whether a token with an unknown `kid` came.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Pause after the first failed fetch. It doubles with each further failure.
const RETRY: Duration = Duration::from_secs(1);
/// Upper bound of that pause.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Fetches keys for as long as it is polled.
#[derive(Debug)]
pub(crate) struct Fetcher {
    /// The active snapshot: it knows from which URLs a key was missing.
    pub current: Arc<ArcSwapOption<Authorizer>>,
    /// Where fetched keys are sent.
    pub events: Sender<Event>,
    /// Where the results of fetches are recorded.
    pub status: Arc<Status>,
}

impl Fetcher {
    /// Fetches from these URLs, following their changes. Never returns.
    pub(crate) async fn run(self, mut urls: watch::Receiver<KeyUrls>) {
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
                _ = polls.tick() => self.pass_on_requests(&tasks),
            }
        }
    }

    /// Starts and aborts tasks, so that there is one for each URL.
    fn follow(&self, wanted: &KeyUrls, tasks: &mut BTreeMap<KeyUrl, Task>, client: &Client) {
        tasks.retain(|url, task| wanted.get(url) == Some(&task.source));
        for (url, source) in wanted {
            if !tasks.contains_key(url) {
                tasks.insert(url.clone(), self.start(url.clone(), source.clone(), client.clone()));
            }
        }
    }

    fn start(&self, url: KeyUrl, source: KeySource, client: Client) -> Task {
        let (early, early_requests) = mpsc::channel(1);
        let KeySource { refresh, issuers } = source.clone();
        let (events, status) = (self.events.clone(), self.status.clone());
        let fetches = Fetches { url, issuers, refresh, client, events, status };
        Task { source, early, task: tokio::spawn(fetches.run(early_requests)) }
    }

    fn pass_on_requests(&self, tasks: &BTreeMap<KeyUrl, Task>) {
        let Some(current) = self.current.load_full() else { return };
        for url in current.take_refetches() {
            if let Some(task) = tasks.get(&url) {
                // If the channel is full, an early fetch is already requested.
                let _ = task.early.try_send(());
            }
        }
    }
}

/// The fetch task of one URL. Dropping this aborts the task.
#[derive(Debug)]
struct Task {
    source: KeySource,
    early: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The state of the fetch task of one URL.
struct Fetches {
    url: KeyUrl,
    issuers: Issuers,
    refresh: Duration,
    client: Client,
    events: Sender<Event>,
    status: Arc<Status>,
}

impl Fetches {
    async fn run(self, mut early: mpsc::Receiver<()>) {
        let mut failures = 0;
        loop {
            failures = if self.fetch().await { 0 } else { failures + 1 };
            let pause = if failures == 0 { self.refresh } else { retry(failures).min(self.refresh) };
            self.sleep(jittered(pause), failures == 0, &mut early).await;
        }
    }

    /// Sleeps until the next regular fetch. Serves at most one request for an early fetch in that time.
    async fn sleep(&self, pause: Duration, may_be_early: bool, early: &mut mpsc::Receiver<()>) {
        let next = Instant::now() + pause;
        // The last fetch has served the requests that came before it.
        while early.try_recv().is_ok() {}
        if may_be_early {
            tokio::select! {
                () = sleep_until(next) => return,
                Some(()) = early.recv() => {}
            }
            let Self { url, issuers, .. } = self;
            tracing::info!(%url, %issuers, "a token has an unknown key id: fetching keys early");
            self.fetch().await;
        }
        sleep_until(next).await;
    }

    async fn fetch(&self) -> bool {
        let Self { url, issuers, .. } = self;
        match self.client.fetch(url).await {
            Ok(keys) => {
                self.status.note_keys(url, |facts| facts.fetches += 1);
                tracing::debug!(%url, %issuers, bytes = keys.len(), "keys fetched");
                let (taken, until_taken) = oneshot::channel();
                // Sending fails only when the process stops.
                let _ = self.events.send(Event::Keys(url.clone(), keys, taken));
                // Resolves when the sender is dropped, which is when the keys are processed: while the policy thread
                // compiles, a short interval must not fill its queue with key sets of up to 1 MiB each.
                let _ = until_taken.await;
                true
            }
            Err(error) => {
                self.status.note_keys(url, |facts| facts.failures += 1);
                tracing::warn!(%url, %issuers, %error, "keys not fetched: the last good ones stay active");
                false
            }
        }
    }
}

fn retry(failures: u32) -> Duration {
    RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_RETRY)
}

/// Up to a tenth shorter, so that many processes do not fetch at the same moment.
fn jittered(pause: Duration) -> Duration {
    let random = RandomState::new().build_hasher().finish() % 1000;
    let less = pause / 10_000 * u32::try_from(random).unwrap_or(0);
    pause.saturating_sub(less)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{LONGEST_RETRY, jittered, retry};

    #[test]
    fn retries_slow_down() {
        let pauses: Vec<u64> = (1..9).map(|failures| retry(failures).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(retry(u32::MAX), LONGEST_RETRY);
    }

    #[test]
    fn jitter_is_a_tenth_at_most() {
        for _ in 0..100 {
            let pause = jittered(Duration::from_secs(300));
            assert!((Duration::from_secs(270)..=Duration::from_secs(300)).contains(&pause), "{pause:?}");
        }
    }
}
