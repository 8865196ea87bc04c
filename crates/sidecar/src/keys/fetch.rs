//! One fetch of a key set.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use policy::KeyUrl;
use tokio::sync::OnceCell;

/// The largest key set taken.
const MAX_SIZE: usize = 1 << 20;
/// The longest a fetch may take, from the look-up of the name to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);

type Https = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Fetches key sets. The roots of trust are the system's (or those that `SSL_CERT_FILE` names), read when first needed;
/// where there are none, as in an image that holds nothing but this program, Mozilla's, as they were when it was built.
#[derive(Clone, Debug, Default)]
pub(crate) struct Client {
    https: Arc<OnceCell<Result<Https, String>>>,
}

/// Why a key set was not fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FetchError {
    /// The address is not `https:`, nor `http:` on a loopback address.
    Address,
    /// The system's roots of trust cannot be read.
    Roots(String),
    /// There was no answer.
    Unreachable(String),
    /// The answer is not 200. A redirect is not followed: it could lead anywhere.
    Status(u16),
    /// The answer is larger than 1 MiB.
    TooLarge,
    /// It took longer than 10 s.
    Timeout,
}

impl std::fmt::Display for FetchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address => f.write_str("neither `https:` nor `http:` on a loopback address"),
            Self::Roots(reason) => write!(f, "no roots of trust: {reason}"),
            Self::Unreachable(reason) => f.write_str(reason),
            Self::Status(status @ 300..=399) => write!(f, "status {status}: redirects are not followed"),
            Self::Status(status) => write!(f, "status {status}"),
            Self::TooLarge => f.write_str("the answer is larger than 1 MiB"),
            Self::Timeout => f.write_str("no complete answer within 10 s"),
        }
    }
}

impl Error for FetchError {}

impl Client {
    /// What is at this URL.
    ///
    /// # Errors
    /// When it is none to fetch from, or does not answer well within time and size. No error shows more of it than
    /// [`KeyUrl`] does.
    pub(crate) async fn fetch(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        let uri: Uri = url.with_secrets().parse().map_err(|_| FetchError::Address)?;
        if !is_allowed(&uri) {
            return Err(FetchError::Address);
        }
        let fetched = tokio::time::timeout(TIMEOUT, self.fetch_from(uri)).await;
        match fetched.unwrap_or(Err(FetchError::Timeout)) {
            // None of what the HTTP and TLS stacks say today has a URL in it; what they will say is theirs to choose.
            Err(FetchError::Unreachable(reason)) if url.has_secret_in(&reason) => Err(
                FetchError::Unreachable("no answer, for a reason that names a secret of the URL".to_owned()),
            ),
            result => result,
        }
    }

    async fn fetch_from(&self, uri: Uri) -> Result<Arc<[u8]>, FetchError> {
        let request = Request::get(uri)
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, concat!("rolegate/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|_| FetchError::Address)?;
        let answer = self
            .https()
            .await?
            .request(request)
            .await
            .map_err(|error| FetchError::Unreachable(innermost(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        body(answer).await
    }
}

impl Client {
    /// The client, made when first needed. The system's roots of trust are hundreds of files: they are read by a thread of its own, as the
    /// runtime that fetches also answers probes.
    async fn https(&self) -> Result<&Https, FetchError> {
        let made = self.https.get_or_init(|| async {
            let made = tokio::task::spawn_blocking(client).await;
            made.unwrap_or_else(|error| Err(error.to_string()))
        });
        made.await.as_ref().map_err(|reason| FetchError::Roots(reason.clone()))
    }
}

async fn body(answer: Response<hyper::body::Incoming>) -> Result<Arc<[u8]>, FetchError> {
    let limited = Limited::new(answer.into_body(), MAX_SIZE);
    match limited.collect().await {
        Ok(body) => Ok(body.to_bytes().as_ref().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge),
        Err(error) => Err(FetchError::Unreachable(innermost(&*error))),
    }
}

fn client() -> Result<Https, String> {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().any(|it| std::env::var_os(it).is_some());
    let connector = with_roots(named)?.https_or_http().enable_http1().build();
    // Keys are fetched every few minutes: a kept connection would only be found closed.
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

/// Where roots are `named`, those and no others: they may be there to keep all others out.
fn with_roots(named: bool) -> Result<HttpsConnectorBuilder<WantsSchemes>, String> {
    let provider = rustls::crypto::aws_lc_rs::default_provider;
    match HttpsConnectorBuilder::new().with_provider_and_native_roots(provider()) {
        Ok(builder) => Ok(builder),
        Err(error) if named => Err(error.to_string()),
        Err(_) => HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider())
            .map_err(|error| error.to_string()),
    }
}

/// Plain `http:` only where nobody is between: the policy's parser says the same of what is written.
fn is_allowed(uri: &Uri) -> bool {
    let loopback = |host: &str| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
    };
    match uri.scheme_str() {
        Some("https") => uri.host().is_some(),
        Some("http") => uri.host().is_some_and(loopback),
        _ => false,
    }
}

/// The outer errors only say that a request failed.
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn only_https_or_loopback() {
        for uri in ["https://id.example/k", "http://127.0.0.1:8080/k", "http://[::1]/k", "http://localhost/k"]
        {
            assert!(is_allowed(&uri.parse().unwrap()), "{uri}");
        }
        for uri in [
            "http://id.example/k",
            "http://10.0.0.1/k",
            "/k",
            "ftp://127.0.0.1/k",
            "http://localhost.example/k",
        ] {
            assert!(!is_allowed(&uri.parse().unwrap()), "{uri}");
        }
    }
}
