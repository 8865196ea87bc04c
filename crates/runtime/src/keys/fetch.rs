//! Fetches a key set, or the inventory of a search cluster, over HTTP.

use std::error::Error;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::header::{ACCEPT, AUTHORIZATION, HeaderValue, USER_AGENT};
use hyper::{Request, Response, StatusCode, Uri};
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use identity::discovery::{self, DiscoveryError};
use policy::KeyUrl;
use rustls::{CertificateError, InvalidMessage};
use tokio::sync::OnceCell;

use crate::trusted_ca::trusted_ca;

/// Maximum size of a key set, in bytes.
const MAX_SIZE: usize = 1 << 20;
/// Maximum size of an inventory, in bytes. An index takes some 150 bytes, so it has room for 400,000.
const MAX_INVENTORY: usize = 64 << 20;
/// Maximum time of a fetch, from the DNS lookup to the last byte.
const TIMEOUT: Duration = Duration::from_secs(10);

type Https = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

/// Fetches key sets. It trusts the root certificates of the system (or those that `SSL_CERT_FILE` or `SSL_CERT_DIR`
/// names), which are read on first use. If there are none, as in an image that holds nothing but this program, it
/// trusts Mozilla's, as of the build.
#[derive(Clone, Debug, Default)]
pub struct Client {
    https: Arc<OnceCell<Result<Https, String>>>,
    /// If set, only these certificate authorities are trusted, in PEM.
    trusted_ca: Option<Arc<[u8]>>,
}

/// Why a key set was not fetched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// The URL is neither `https:` nor `http:` on a loopback address.
    #[error("neither `https:` nor `http:` on a loopback address")]
    Address,
    /// The root certificates cannot be read.
    #[error("cannot load root certificates: {0}")]
    Roots(String),
    /// There was no complete answer.
    #[error("{0}")]
    Unreachable(String),
    /// The status is not 200. Redirects are not followed: they could lead anywhere.
    #[error("status {status}{}", if matches!(.0, 300..=399) { ": redirects are not followed" } else { "" }, status = .0)]
    Status(u16),
    /// The answer is larger than so many bytes.
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// It took longer than 10 s.
    #[error("no complete answer within 10 s")]
    Timeout,
    /// What was fetched is no key set, or has no key that can be used. The policy thread reports why.
    #[error("what was fetched cannot be used")]
    Unusable,
    /// The discovery document does not name the URL of a key set.
    #[error("discovery: {0}")]
    Discovery(#[from] DiscoveryError),
    /// The key set that the discovery document names was not fetched.
    #[error("discovery: `{0}`: {1}")]
    Discovered(KeyUrl, Box<FetchError>),
}

impl Client {
    /// A client that trusts what is trusted at this URL.
    pub fn for_url(&self, url: &KeyUrl) -> Self {
        match url.trusted_ca() {
            None => self.clone(),
            Some(trusted_ca) => Self { https: Arc::default(), trusted_ca: Some(trusted_ca.clone()) },
        }
    }

    /// Fetches the key set at this URL, or the one that the discovery document at this URL names. Use a client
    /// [`for_url`](Self::for_url).
    ///
    /// # Errors
    /// When the URL is not allowed, or does not give a valid answer within the limits of time and size. No error
    /// shows more of the URL than [`KeyUrl`] does.
    pub async fn fetch(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        tokio::time::timeout(TIMEOUT, self.discover(url)).await.unwrap_or(Err(FetchError::Timeout))
    }

    async fn discover(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        let document = self.fetch_one(url).await?;
        let Some(issuer) = url.discovery_of() else { return Ok(document) };
        let keys = discovery::key_set_url(&document, url, issuer)?;
        let fetched = self.fetch_one(&keys).await;
        fetched.map_err(|error| FetchError::Discovered(keys, Box::new(error)))
    }

    async fn fetch_one(&self, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        let uri: Uri = url.with_secrets().parse().map_err(|_| FetchError::Address)?;
        if !is_allowed(&uri) {
            return Err(FetchError::Address);
        }
        match self.fetch_from(uri, url).await {
            // Today no error of the HTTP and TLS stacks contains a URL, but a future version's might.
            Err(FetchError::Unreachable(reason)) if url.has_secret_in(&reason) => Err(
                FetchError::Unreachable("no answer, for a reason that names a secret of the URL".to_owned()),
            ),
            result => result,
        }
    }

    async fn fetch_from(&self, uri: Uri, url: &KeyUrl) -> Result<Arc<[u8]>, FetchError> {
        let mut request = Request::get(uri)
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, concat!("rolegate/", env!("CARGO_PKG_VERSION")));
        if let Some(credentials) = url.credentials() {
            let value = format!("Basic {}", BASE64_STANDARD.encode(credentials));
            let mut value = HeaderValue::try_from(value).map_err(|_| FetchError::Address)?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let request = request.body(Empty::new()).map_err(|_| FetchError::Address)?;
        let answer = self
            .https()
            .await?
            .request(request)
            .await
            .map_err(|error| FetchError::Unreachable(reason(&error)))?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        body(answer, if url.is_inventory() { MAX_INVENTORY } else { MAX_SIZE }).await
    }
}

impl Client {
    /// The client, created on first use. The root certificates of a system are hundreds of files: they are read on a
    /// blocking thread, because the runtime that fetches also answers probes.
    async fn https(&self) -> Result<&Https, FetchError> {
        let made = self.https.get_or_init(|| async {
            let trusted_ca = self.trusted_ca.clone();
            let made = tokio::task::spawn_blocking(move || client(trusted_ca.as_deref())).await;
            made.unwrap_or_else(|error| Err(error.to_string()))
        });
        made.await.as_ref().map_err(|reason| FetchError::Roots(reason.clone()))
    }
}

async fn body(answer: Response<hyper::body::Incoming>, max: usize) -> Result<Arc<[u8]>, FetchError> {
    let limited = Limited::new(answer.into_body(), max);
    match limited.collect().await {
        Ok(body) => Ok(body.to_bytes().as_ref().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(FetchError::TooLarge(max)),
        Err(error) => Err(FetchError::Unreachable(reason(&*error))),
    }
}

fn client(trusted_ca: Option<&[u8]>) -> Result<Https, String> {
    let named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().any(|name| std::env::var_os(name).is_some());
    let builder = match trusted_ca {
        Some(pem) => trusting_only(pem)?,
        None => with_roots(named)?,
    };
    let connector = builder.https_or_http().enable_http1().build();
    // Keys are fetched every few minutes: a pooled connection would be closed by then.
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

/// A private authority is trusted instead of the public ones and not besides them, so that none of these can vouch for
/// another server of that name.
fn trusting_only(pem: &[u8]) -> Result<HttpsConnectorBuilder<WantsSchemes>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| error.to_string())?;
    let config = config.with_root_certificates(trusted_ca(pem)?).with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(config))
}

/// If the environment names roots (`named`), only those are trusted: their purpose may be to exclude all others.
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

/// Plain `http:` is allowed only on this machine, where no one else can intercept it. The policy parser has the same
/// rule.
fn is_allowed(uri: &Uri) -> bool {
    let loopback = |host: &str| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    match uri.scheme_str() {
        Some("https") => uri.host().is_some(),
        Some("http") => uri.host().is_some_and(loopback),
        _ => false,
    }
}

/// The innermost error, because the outer ones only say that a request failed; in plain words, where it has a usual
/// cause that is not in its text.
fn reason(error: &(dyn Error + 'static)) -> String {
    let chain = || std::iter::successors(Some(error), |error| cause(*error));
    if let Some(usual) = chain().find_map(usual_reason) {
        return usual.to_owned();
    }
    chain().last().unwrap_or(error).to_string()
}

/// The error that caused this one. The source of an I/O error is not the error in it, but the source of that.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

fn usual_reason(error: &(dyn Error + 'static)) -> Option<&'static str> {
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
        return Some("the answer is not HTTP");
    }
    let tls = error.downcast_ref::<rustls::Error>()?;
    if *tls == rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) {
        return Some("the server does not speak TLS");
    }
    // The signature is wrong where a trusted authority has the same name.
    let untrusted = [CertificateError::UnknownIssuer, CertificateError::BadSignature];
    untrusted
        .map(rustls::Error::InvalidCertificate)
        .contains(tls)
        .then_some("its certificate was not issued by a trusted authority: name a private one in `ca_file`")
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
