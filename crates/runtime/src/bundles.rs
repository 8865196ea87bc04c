//! Fetches the policy as a bundle, off the request path.
//!
//! [`BundleFetcher`] asks the server at each interval whether there is another bundle, and passes
//! it to the thread that loads. After a failure, or a panic, it tries again, slower each time.

use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ACCEPT, AUTHORIZATION, ETAG, HeaderValue, IF_NONE_MATCH};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::backoff::{jittered, retry};
use crate::bundle_source::{Access, AccessError, BundleSource, Object, StoreError};
use crate::https::{self, HttpsClient, HttpsError};
use crate::reload::{BundleOutcome, FetchedBundle, LoadEvent};
use crate::status::Status;
use crate::threads::{catch_future, pause_after};

/// Minimum of the interval, whatever the settings say: no server should be asked more often.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Limits of the time of a fetch. Between them it is the interval: by then there may be a newer
/// bundle.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(5);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum time between a requested fetch and the one before. Requests that come sooner are one
/// fetch, after this time.
const REQUEST_INTERVAL: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(crate) struct BundleFetcher {
    /// What is fetched, and how.
    pub source: Arc<BundleSource>,
    /// Where it is sent.
    pub events: Sender<LoadEvent>,
    /// Whether there is a policy.
    pub status: Arc<Status>,
    /// Changes whenever it is to be fetched now.
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
    Access(#[from] AccessError),
    #[error("the files about the server cannot be read: {0}")]
    Thread(String),
}

impl BundleFetcher {
    /// Fetches at each interval. Never returns.
    pub(crate) async fn run(mut self) {
        let mut panics = 0;
        let job = "fetching the policy bundle";
        while let Err(panicked) = catch_future(job, self.fetch_repeatedly()).await {
            panics += 1;
            let pause = pause_after(panics);
            let (url, now) = (&self.source.url, self.status.still_active());
            tracing::error!(%url, "{panicked}: {now}; next try in {pause:.1?}");
            self.pass_on(FetchedBundle::Failed).await;
            sleep(pause).await;
        }
    }

    async fn fetch_repeatedly(&mut self) {
        let mut etag = None;
        let mut failures = 0;
        let mut next = Instant::now();
        let mut last = next;
        // The task begins with a fetch.
        self.requests.mark_unchanged();
        loop {
            tokio::select! {
                () = sleep_until(next) => {}
                Ok(()) = self.requests.changed() => {
                    tracing::info!(url = %self.source.url, "reload requested: fetching the policy bundle");
                    next = next.min(last + REQUEST_INTERVAL);
                    continue;
                }
            }
            last = Instant::now();
            let result = self.fetch(&mut etag).await;
            failures = if result.is_ok() { 0 } else { failures + 1 };
            let interval = self.source.settings.interval.max(SHORTEST_INTERVAL);
            next = Instant::now() + jittered(retry(failures).unwrap_or(interval).min(interval));
            if let Err(error) = result {
                let wait =
                    next.saturating_duration_since(Instant::now()).as_secs_f64().ceil().max(1.0);
                let (url, now) = (&self.source.url, self.status.still_active());
                tracing::warn!(%url, %error, "policy bundle not fetched: {now}; next try in {wait} s");
            }
        }
    }

    async fn fetch(&self, etag: &mut Option<HeaderValue>) -> Result<(), FetchError> {
        loop {
            let limit = self.source.settings.interval.clamp(SHORTEST_TIMEOUT, LONGEST_TIMEOUT);
            let result = timeout(limit, self.get(etag.as_ref())).await;
            let fetched = match result.unwrap_or(Err(FetchError::Timeout(limit))) {
                Ok(Some(object)) => {
                    *etag = object.etag;
                    FetchedBundle::Bundle(object.bytes)
                }
                Ok(None) => FetchedBundle::Unchanged,
                Err(error) => {
                    self.pass_on(FetchedBundle::Failed).await;
                    return Err(error);
                }
            };
            match self.pass_on(fetched).await {
                BundleOutcome::Active | BundleOutcome::NotAccepted => return Ok(()),
                BundleOutcome::FetchAgain => *etag = None,
            }
        }
    }

    /// The bundle; `None` if it is the one with this ETag.
    async fn get(&self, etag: Option<&HeaderValue>) -> Result<Option<Object>, FetchError> {
        // The thread that fetches also answers probes. Files, which may be on a file system that
        // hangs, are read elsewhere.
        let source = self.source.clone();
        let access = tokio::task::spawn_blocking(move || source.access()).await;
        let access = access.map_err(|error| FetchError::Thread(error.to_string()))??;
        match (&self.source.object, &access.store) {
            (Some(object), Some(store)) => {
                Ok(object.get(&**store, etag, self.source.max_compressed()).await?)
            }
            _ => self.get_file(access, etag).await,
        }
    }

    async fn get_file(
        &self,
        access: Access,
        etag: Option<&HeaderValue>,
    ) -> Result<Option<Object>, FetchError> {
        let client = access.ca.map_or_else(|| self.source.client.clone(), HttpsClient::trusting);
        let url = &self.source.url;
        let headers = [(AUTHORIZATION, access.credentials), (IF_NONE_MATCH, etag.cloned())];
        let answer = client.get(url, |request| {
            let request =
                request.header(ACCEPT, "application/gzip, application/octet-stream, */*;q=0.5");
            let headers = headers.into_iter().filter_map(|(name, value)| Some((name, value?)));
            headers.fold(request, |request, (name, value)| request.header(name, value))
        });
        let answer = answer.await?;
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

    async fn pass_on(&self, fetched: FetchedBundle) -> BundleOutcome {
        let (taken, until_taken) = oneshot::channel();
        // Fails only when the process stops.
        let _ = self.events.send(LoadEvent::Bundle(fetched, taken));
        until_taken.await.unwrap_or(BundleOutcome::NotAccepted)
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
