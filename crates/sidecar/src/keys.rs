//! The keys of issuers, fetched off the request path.
//!
//! One task an address: it fetches, hands what came to the policy thread, and sleeps until the next time. A token with
//! an unknown `kid` may bring that forward, once an interval, so that a rotation is seen at once and a flood of made-up
//! `kid`s is not passed on. Whatever fails leaves the last good keys in force.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use arc_swap::ArcSwapOption;
use authorizer::Authorizer;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::metrics::without_secrets;
use crate::reload::Event;
use crate::snapshot::KeyAddresses;
use crate::status::Status;

mod fetch;

pub(crate) use fetch::Client;

/// How often it is looked whether a token with an unknown `kid` came.
const LOOK: Duration = Duration::from_millis(250);
/// After the first failed fetch; doubled with each that follows.
const RETRY: Duration = Duration::from_secs(1);
/// A failed fetch is tried again at least this often.
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// Fetches keys for as long as it is polled.
#[derive(Debug)]
pub(crate) struct Fetcher {
    /// What judges requests now: it knows which keys are asked for in vain.
    pub current: Arc<ArcSwapOption<Authorizer>>,
    /// Where keys go.
    pub events: Sender<Event>,
    /// Where it is noted what came of a fetch.
    pub status: Arc<Status>,
}

impl Fetcher {
    /// Fetches from these addresses, whichever they are at the time. Never ends by itself.
    pub(crate) async fn run(self, mut addresses: watch::Receiver<KeyAddresses>) {
        let client = Client::default();
        let mut tasks: BTreeMap<Arc<str>, Task> = BTreeMap::new();
        let mut look = tokio::time::interval(LOOK);
        addresses.mark_changed();
        loop {
            tokio::select! {
                changed = addresses.changed() => match changed {
                    Ok(()) => self.follow(&addresses.borrow_and_update().clone(), &mut tasks, &client),
                    Err(_) => std::future::pending().await,
                },
                _ = look.tick() => self.pass_on_requests(&tasks),
            }
        }
    }

    /// Starts and stops tasks, so that there is one for each address.
    fn follow(&self, wanted: &KeyAddresses, tasks: &mut BTreeMap<Arc<str>, Task>, client: &Client) {
        tasks.retain(|address, task| wanted.get(address) == Some(&task.refresh));
        for (address, refresh) in wanted {
            if !tasks.contains_key(address) {
                tasks.insert(address.clone(), self.start(address.clone(), *refresh, client.clone()));
            }
        }
    }

    fn start(&self, address: Arc<str>, refresh: Duration, client: Client) -> Task {
        let (early, asked) = mpsc::channel(1);
        let source =
            KeySource { address, refresh, client, events: self.events.clone(), status: self.status.clone() };
        Task { refresh, early, task: tokio::spawn(source.run(asked)) }
    }

    fn pass_on_requests(&self, tasks: &BTreeMap<Arc<str>, Task>) {
        let Some(current) = self.current.load_full() else { return };
        for address in current.take_refetches() {
            if let Some(task) = tasks.get(&address) {
                // A full channel says that it has been asked already.
                let _ = task.early.try_send(());
            }
        }
    }
}

/// The task of one address; dropping it ends the task.
#[derive(Debug)]
struct Task {
    refresh: Duration,
    early: mpsc::Sender<()>,
    task: JoinHandle<()>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An address that keys come from.
struct KeySource {
    address: Arc<str>,
    refresh: Duration,
    client: Client,
    events: Sender<Event>,
    status: Arc<Status>,
}

impl KeySource {
    async fn run(self, mut early: mpsc::Receiver<()>) {
        let mut failures = 0;
        loop {
            failures = if self.fetch().await { 0 } else { failures + 1 };
            let pause = if failures == 0 { self.refresh } else { retry(failures).min(self.refresh) };
            self.sleep(jittered(pause), failures == 0, &mut early).await;
        }
    }

    /// Sleeps until the next regular fetch. Once in that time a request for an early one is met.
    async fn sleep(&self, pause: Duration, may_be_early: bool, early: &mut mpsc::Receiver<()>) {
        let next = Instant::now() + pause;
        // What was asked for before the last fetch is answered by it.
        while early.try_recv().is_ok() {}
        if may_be_early {
            tokio::select! {
                () = sleep_until(next) => return,
                Some(()) = early.recv() => {}
            }
            tracing::info!(
                address = without_secrets(&self.address),
                "a token has an unknown key id: fetching keys early"
            );
            self.fetch().await;
        }
        sleep_until(next).await;
    }

    async fn fetch(&self) -> bool {
        let address = without_secrets(&self.address);
        match self.client.fetch(&self.address).await {
            Ok(keys) => {
                self.status.note_keys(&self.address, |facts| facts.fetches += 1);
                tracing::debug!(address, bytes = keys.len(), "keys fetched");
                // The policy thread is gone only when the process ends.
                let _ = self.events.send(Event::Keys(self.address.clone(), keys));
                true
            }
            Err(error) => {
                self.status.note_keys(&self.address, |facts| facts.failures += 1);
                tracing::warn!(address, %error, "keys not fetched: the last good ones stay in force");
                false
            }
        }
    }
}

fn retry(failures: u32) -> Duration {
    RETRY.saturating_mul(1 << failures.saturating_sub(1).min(10)).min(LONGEST_RETRY)
}

/// Up to a tenth less, so that many processes do not fetch at the same moment.
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
