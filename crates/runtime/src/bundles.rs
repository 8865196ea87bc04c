//! Fetches the policy as a bundle, off the request path.
//!
//! [`BundleFetcher`] asks the server at each interval whether the bundle has changed, and passes a
//! new bundle to the `policy-load` thread. After a failure or a panic, it tries again, after longer
//! and longer pauses.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hyper::header::{ACCEPT, AUTHORIZATION, ETAG, HeaderValue, IF_NONE_MATCH};
use hyper::{HeaderMap, StatusCode};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::backoff::{REQUEST_INTERVAL, next_fetch, seconds_until};
use crate::bundle_source::{Access, BundleSource, Object, StoreError};
use crate::compiled_policy::MIN_INTERVAL;
use crate::errors::LoadError;
use crate::https::{self, HttpsError};
use crate::reload::{BundleOutcome, FetchedBundle, LoadEvent};
use crate::status::Status;
use crate::threads::keep_running_task;

/// The shortest and the longest timeout of a fetch. Between these, the timeout is as long as the
/// interval between fetches: after that time the next fetch is due.
const MIN_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_TIMEOUT: Duration = Duration::from_secs(60);
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/gzip, application/octet-stream, */*;q=0.5");

#[derive(Debug)]
pub(crate) struct BundleFetcher {
    pub source: Arc<BundleSource>,
    pub events: Sender<LoadEvent>,
    pub status: Arc<Status>,
    /// Changes when a reload is requested. The bundle is then fetched at once, but not sooner than
    /// [`REQUEST_INTERVAL`] after the fetch before.
    pub requests: watch::Receiver<()>,
}

#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpsError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("status {0}")]
    Status(StatusCode),
    #[error("no complete answer within {0:?}")]
    Timeout(Duration),
    #[error(transparent)]
    Access(#[from] LoadError),
    #[error("the files with certificates and credentials cannot be read: {0}")]
    Thread(String),
}

impl BundleFetcher {
    /// Fetches at each interval. Never returns.
    pub(crate) async fn run(self) {
        keep_running_task(
            "fetching the policy bundle",
            || self.fetch_repeatedly(),
            |panicked, pause| {
                let (url, active) = (&self.source.url, self.status.active_policy_text());
                tracing::error!(%url, "{panicked}: {active}; next try in {pause:.1?}");
                _ = self.send(FetchedBundle::Failed);
            },
        )
        .await;
    }

    async fn fetch_repeatedly(&self) {
        let url = &self.source.url;
        let mut requests = self.requests.clone();
        // The task begins with a fetch, which serves all earlier requests.
        requests.mark_unchanged();
        let mut etag = None;
        let mut failures = 0;
        let mut next = Instant::now();
        let mut last = next;
        loop {
            tokio::select! {
                () = sleep_until(next) => {}
                Ok(()) = requests.changed() => {
                    tracing::info!(%url, "reload requested: fetching the policy bundle");
                    next = next.min(last + REQUEST_INTERVAL);
                    continue;
                }
            }
            last = Instant::now();
            let result = self.fetch(&mut etag).await;
            failures = if result.is_ok() { 0 } else { failures + 1 };
            next = next_fetch(failures, self.source.settings.interval.max(MIN_INTERVAL));
            if let Err(error) = result {
                let (wait, active) = (seconds_until(next), self.status.active_policy_text());
                tracing::warn!(
                    %url, %error,
                    "policy bundle not fetched: {active}; next try in {wait} s"
                );
            }
        }
    }

    async fn fetch(&self, etag: &mut Option<HeaderValue>) -> Result<(), FetchError> {
        loop {
            let limit = self.source.settings.interval.clamp(MIN_TIMEOUT, MAX_TIMEOUT);
            let answer = timeout(limit, self.get(etag.as_ref())).await;
            let (fetched, result) = match answer.unwrap_or(Err(FetchError::Timeout(limit))) {
                Ok(Some(object)) => {
                    *etag = object.etag;
                    (FetchedBundle::Bundle(object.bytes), Ok(()))
                }
                Ok(None) => (FetchedBundle::Unchanged, Ok(())),
                Err(error) => (FetchedBundle::Failed, Err(error)),
            };
            // There is no outcome if the process stops, or if processing the bundle panicked.
            match self.send(fetched).await.unwrap_or(BundleOutcome::NotAccepted) {
                BundleOutcome::Active | BundleOutcome::NotAccepted => return result,
                BundleOutcome::FetchAgain => *etag = None,
            }
        }
    }

    fn send(&self, fetched: FetchedBundle) -> oneshot::Receiver<BundleOutcome> {
        let (send, outcome) = oneshot::channel();
        // Fails only when the process stops.
        let _ = self.events.send(LoadEvent::Bundle(fetched, send));
        outcome
    }

    /// Fetches the bundle; `None` if it still has this ETag.
    async fn get(&self, etag: Option<&HeaderValue>) -> Result<Option<Object>, FetchError> {
        // Another thread reads the files with certificates and credentials: their file system may
        // hang, and this thread also answers probes.
        let source = self.source.clone();
        let access = tokio::task::spawn_blocking(move || source.access()).await;
        let access = access.map_err(|error| FetchError::Thread(error.to_string()))??;
        match (&self.source.object, &access.store) {
            (Some(object), Some(store)) => Ok(object.get(&**store, etag).await?),
            _ => self.get_file(access, etag).await,
        }
    }

    async fn get_file(
        &self,
        access: Access,
        etag: Option<&HeaderValue>,
    ) -> Result<Option<Object>, FetchError> {
        let url = &self.source.url;
        let mut headers = HeaderMap::from_iter([(ACCEPT, ACCEPTED)]);
        headers.extend(access.credentials.map(|credentials| (AUTHORIZATION, credentials)));
        headers.extend(etag.map(|etag| (IF_NONE_MATCH, etag.clone())));
        let answer = access.client.get(url, headers).await?;
        match answer.status() {
            StatusCode::NOT_MODIFIED if etag.is_some() => Ok(None),
            StatusCode::OK => {
                let etag = answer.headers().get(ETAG).cloned();
                let bytes = https::body(url, answer, self.source.max_compressed()).await?;
                Ok(Some(Object { bytes, etag }))
            }
            status => Err(FetchError::Status(status)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::settings::BundleSettings;
    use crate::threads::panicking_log;

    #[test]
    fn a_panic_is_a_failed_fetch_and_not_the_last_one() {
        let executor = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let interval = Duration::from_secs(1);
        let settings = BundleSettings { interval, ..BundleSettings::default() };
        let source = BundleSource::new(&"http://127.0.0.1:1/bundle".into(), &settings).unwrap();
        let (events, received) = channel();
        let (_requests, requests) = watch::channel(());
        let fetcher = BundleFetcher { source, events, status: Arc::default(), requests };
        // Takes the place of the thread that loads.
        let failures = std::thread::spawn(move || {
            let mut failures = 0;
            while failures < 3
                && let Ok(LoadEvent::Bundle(FetchedBundle::Failed, taken)) =
                    received.recv_timeout(Duration::from_secs(60))
            {
                failures += 1;
                let _ = taken.send(BundleOutcome::NotAccepted);
            }
            failures
        });
        tracing::subscriber::with_default(
            panicking_log::at("policy bundle not fetched", 1),
            || {
                executor.block_on(async {
                    tokio::spawn(fetcher.run());
                    // A fetch, whose failure is logged; the panic; a fetch.
                    assert_eq!(
                        tokio::task::spawn_blocking(|| failures.join().unwrap()).await.unwrap(),
                        3
                    );
                });
            },
        );
    }
}
