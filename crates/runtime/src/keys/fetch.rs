//! Fetches a key set, or the inventory of a search cluster, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use identity::discovery::{self, DiscoveryError};
use identity::jwks;
use policy::KeyUrl;

use crate::https::{HttpsClient, HttpsError, basic, body};

/// Maximum size of a key set, in bytes.
const MAX_KEY_SET: usize = 1 << 20;
/// Maximum size of an inventory, in bytes: enough for 400,000 indices.
const MAX_INVENTORY: usize = 64 << 20;
/// Maximum time of a fetch, from the DNS lookup to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);
const ACCEPTED: HeaderValue =
    HeaderValue::from_static("application/jwk-set+json, application/json");

/// Fetches key sets and inventories.
#[derive(Clone, Debug, Default)]
pub struct Client(HttpsClient);

/// Why a key set or an inventory was not fetched, or cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpsError),
    #[error("status {0}")]
    Status(u16),
    #[error("status {0}: redirects are not followed")]
    Redirect(u16),
    #[error("no complete answer within 10 s")]
    Timeout,
    #[error("the fetched data cannot be used")]
    Unusable,
    #[error("{0}")]
    KeySet(String),
    #[error("discovery: {0}")]
    Discovery(#[from] DiscoveryError),
    #[error("discovery: `{0}`: {1}")]
    Discovered(KeyUrl, Box<FetchError>),
}

impl FetchError {
    /// Whether a key set or an inventory was fetched, but cannot be used.
    pub(super) fn is_invalid_key_set(&self) -> bool {
        match self {
            Self::KeySet(_) | Self::Unusable => true,
            Self::Discovered(_, error) => error.is_invalid_key_set(),
            Self::Http(_)
            | Self::Status(_)
            | Self::Redirect(_)
            | Self::Timeout
            | Self::Discovery(_) => false,
        }
    }
}

impl Client {
    /// A client that trusts the certificate authorities that the policy sets for this URL. If it
    /// sets none, a clone of this client.
    pub fn for_url(&self, url: &KeyUrl) -> Self {
        url.trusted_ca().map_or_else(|| self.clone(), |ca| Self(HttpsClient::trusting(ca.clone())))
    }

    /// Fetches the key set or inventory at this URL, or the key set that the discovery document
    /// there names. Call this on the client that [`for_url`](Self::for_url) returns for this URL.
    ///
    /// # Errors
    /// When the URL is not allowed, or does not give a valid answer within the limits of time and
    /// size. No error shows more of the URL than [`KeyUrl`] does.
    pub async fn fetch(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        tokio::time::timeout(TIMEOUT, self.get_or_discover(url))
            .await
            .unwrap_or(Err(FetchError::Timeout))
    }

    async fn get_or_discover(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        let document = self.get(url).await?;
        let Some(issuer) = url.discovery_of() else { return Ok(document) };
        let keys_url = discovery::key_set_url(&document, url, issuer)?;
        // The error must say which of the two documents is at fault: the policy names only the
        // first.
        let fetched = self.get(&keys_url).await.and_then(|set| match jwks::why_unusable(&set) {
            Some(fault) => Err(FetchError::KeySet(fault)),
            None => Ok(set),
        });
        fetched.map_err(|error| FetchError::Discovered(keys_url, Box::new(error)))
    }

    async fn get(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        let mut headers = HeaderMap::from_iter([(ACCEPT, ACCEPTED)]);
        headers
            .extend(url.credentials().map(basic).transpose()?.map(|value| (AUTHORIZATION, value)));
        let answer = self.0.get(url, headers).await?;
        match answer.status() {
            StatusCode::OK => {}
            status if status.is_redirection() => return Err(FetchError::Redirect(status.as_u16())),
            status => return Err(FetchError::Status(status.as_u16())),
        }
        let max_size = if url.is_inventory() { MAX_INVENTORY } else { MAX_KEY_SET };
        Ok(body(url, answer, max_size).await?)
    }
}
