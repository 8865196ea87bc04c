//! The HTTP client that fetches keys and bundles and asks about opaque tokens, and the gRPC client
//! that sends to a collector.

use std::error::Error;
use std::fmt::Display;
use std::io;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Response, Uri};
use hyper_rustls::builderstates::WantsSchemes;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use policy::KeyUrl;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::{CertificateError, InvalidMessage, RootCertStore};
use tokio::sync::OnceCell;

type Https = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

const AGENT: &str = concat!("rolegate/", env!("CARGO_PKG_VERSION"));

/// Sends requests. It trusts the root certificates of the system (or of `SSL_CERT_FILE` or
/// `SSL_CERT_DIR`), read on first use. If there are none, as in a `scratch` image, it trusts
/// Mozilla's root certificates as of the build.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpsClient {
    https: Arc<OnceCell<Https>>,
    /// Certificate authorities in PEM. If set, only these are trusted.
    trusted_ca: Option<Arc<[u8]>>,
}

/// Why there is no answer, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HttpsError {
    #[error("neither `https:` nor `http:` on a loopback address")]
    Address,
    #[error("cannot load root certificates: {0}")]
    Roots(String),
    #[error("{0}")]
    Unreachable(String),
    #[error("the answer is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
}

impl HttpsClient {
    pub(crate) fn trusting(trusted_ca: Arc<[u8]>) -> Self {
        Self { https: Arc::default(), trusted_ca: Some(trusted_ca) }
    }

    /// Sends a GET request. Redirects are not followed: they could lead anywhere.
    ///
    /// # Errors
    /// When there is no answer. No error shows more of the URL than [`KeyUrl`] does.
    pub(crate) async fn get(
        &self,
        url: &KeyUrl,
        headers: HeaderMap,
    ) -> Result<Response<Incoming>, HttpsError> {
        self.request(Method::GET, url, headers, Full::default()).await
    }

    /// Sends a POST request, as [`Self::get`].
    ///
    /// # Errors
    /// As [`Self::get`].
    pub(crate) async fn post(
        &self,
        url: &KeyUrl,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, HttpsError> {
        self.request(Method::POST, url, headers, Full::new(body.into())).await
    }

    async fn request(
        &self,
        method: Method,
        url: &KeyUrl,
        headers: HeaderMap,
        body: Full<Bytes>,
    ) -> Result<Response<Incoming>, HttpsError> {
        let uri: Uri = url.with_secrets().parse().map_err(|_| HttpsError::Address)?;
        if !is_allowed(&uri) {
            return Err(HttpsError::Address);
        }
        let mut request = Request::new(body);
        (*request.method_mut(), *request.uri_mut(), *request.headers_mut()) =
            (method, uri, headers);
        self.send(request).await.map_err(|error| hide(url, error))
    }

    /// Sends a request. The caller has checked whether plain `http:` is [allowed](is_allowed).
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, HttpsError> {
        request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(AGENT));
        let is_plain = request.uri().scheme_str() == Some("http");
        self.https().await?.request(request).await.map_err(|error| {
            HttpsError::Unreachable(match is_plain && is_closed(&error) {
                true => CLOSED.to_owned(),
                false => reason(&error, self.trusted_ca.is_some()),
            })
        })
    }

    /// The client, created on first use. A failed creation is tried again: missing files may exist
    /// later. The hundreds of root certificates are read on a blocking thread, because this thread
    /// also answers probes.
    async fn https(&self) -> Result<&Https, HttpsError> {
        let create = || async {
            let trusted_ca = self.trusted_ca.clone();
            let client = tokio::task::spawn_blocking(move || client(trusted_ca.as_deref())).await;
            client.unwrap_or_else(|error| Err(roots_error(&error)))
        };
        self.https.get_or_try_init(create).await
    }
}

/// The body of an answer from this URL, of at most `max` bytes.
///
/// # Errors
/// When the body is larger, or not complete. No error shows more of the URL than [`KeyUrl`] does.
pub(crate) async fn body(
    url: &KeyUrl,
    answer: Response<Incoming>,
    max: usize,
) -> Result<Arc<[u8]>, HttpsError> {
    match Limited::new(answer.into_body(), max).collect().await {
        Ok(body) => Ok(body.to_bytes().as_ref().into()),
        Err(error) => Err(hide(url, body_error(&*error, max))),
    }
}

/// Why a body that is limited to `max` bytes was not received.
pub(crate) fn body_error(error: &(dyn Error + Send + Sync + 'static), max: usize) -> HttpsError {
    if error.is::<LengthLimitError>() {
        HttpsError::TooLarge(max)
    } else {
        HttpsError::Unreachable(reason(error, false))
    }
}

/// The header value for a `user:password`.
pub(crate) fn basic(credentials: &str) -> Result<HeaderValue, HttpsError> {
    sensitive(format!("Basic {}", BASE64_STANDARD.encode(credentials)))
}

/// A header value that no log shows.
pub(crate) fn sensitive(value: String) -> Result<HeaderValue, HttpsError> {
    let mut value = HeaderValue::try_from(value).map_err(|_| HttpsError::Address)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Hides an error that contains a secret of the URL. Today no error of the HTTP and TLS stacks
/// contains a URL, but errors of a future version might.
fn hide(url: &KeyUrl, error: HttpsError) -> HttpsError {
    match error {
        HttpsError::Unreachable(reason) if url.has_secret_in(&reason) => HttpsError::Unreachable(
            "no answer, for a reason that names a secret of the URL".to_owned(),
        ),
        error @ (HttpsError::Address
        | HttpsError::Roots(_)
        | HttpsError::Unreachable(_)
        | HttpsError::TooLarge(_)) => error,
    }
}

fn client(trusted_ca: Option<&[u8]>) -> Result<Https, HttpsError> {
    let connector = builder(trusted_ca)?.https_or_http().enable_http1().build();
    // Keys are fetched every few minutes: a pooled connection would be closed by then.
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(0)
        .build(connector))
}

/// Begins a connector. The authorities in `trusted`, a PEM text, replace the public authorities. So
/// a certificate that a public authority issues for the same server name is not trusted.
fn builder(trusted: Option<&[u8]>) -> Result<HttpsConnectorBuilder<WantsSchemes>, HttpsError> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let Some(pem) = trusted else { return with_roots(provider) };
    let authorities = trusted_ca(pem).map_err(|error| roots_error(&error))?;
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| roots_error(&error))?
        .with_root_certificates(authorities)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new().with_tls_config(config))
}

/// If the environment names root certificates, only they are trusted.
fn with_roots(provider: CryptoProvider) -> Result<HttpsConnectorBuilder<WantsSchemes>, HttpsError> {
    let names = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
    let is_named = names.iter().any(|name| std::env::var_os(name).is_some());
    match HttpsConnectorBuilder::new().with_provider_and_native_roots(provider.clone()) {
        Ok(builder) => Ok(builder),
        Err(error) if is_named => Err(roots_error(&error)),
        Err(_) => HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)
            .map_err(|error| roots_error(&error)),
    }
}

/// The certificate authorities in a PEM text, which must not be empty.
pub(crate) fn trusted_ca(pem: &[u8]) -> Result<RootCertStore, TrustedCaError> {
    let mut store = RootCertStore::empty();
    for (number, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let certificate = certificate.map_err(|error| TrustedCaError::Pem(number, error))?;
        store.add(certificate).map_err(|error| TrustedCaError::Certificate(number, error))?;
    }
    if store.is_empty() { Err(TrustedCaError::Empty) } else { Ok(store) }
}

/// Why a PEM text has no certificate authorities.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrustedCaError {
    #[error("certificate {0} cannot be used: {1}")]
    Pem(u32, pem::Error),
    #[error("certificate {0} cannot be used: {1}")]
    Certificate(u32, rustls::Error),
    #[error("no certificate in PEM")]
    Empty,
}

fn roots_error(error: &impl Display) -> HttpsError {
    HttpsError::Roots(error.to_string())
}

/// Plain `http:` is allowed only on this machine, as in the policy.
pub(crate) fn is_allowed(uri: &Uri) -> bool {
    KeyUrl::from(&*uri.to_string()).fault().is_none()
}

/// A client for gRPC. Over plain `http:` it begins with HTTP/2 at once.
pub(crate) fn grpc_client(
    trusted_ca: Option<&[u8]>,
) -> Result<
    hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, tonic::body::Body>,
    String,
> {
    let connector = builder(trusted_ca).map_err(|error| error.to_string())?;
    let connector = connector.https_or_http().enable_http2().build();
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .http2_only(true)
        .build(connector))
}

/// A usual cause in plain words, or the innermost error: the outer errors only say that a request
/// failed. `trusts_file` means that a setting names a file with the server's authorities.
pub(crate) fn reason(error: &(dyn Error + 'static), trusts_file: bool) -> String {
    match chain(error).find_map(|error| usual_cause(error, trusts_file)) {
        Some(cause) => cause.to_owned(),
        None => chain(error).last().unwrap_or(error).to_string(),
    }
}

fn usual_cause(error: &(dyn Error + 'static), trusts_file: bool) -> Option<&'static str> {
    if error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse) {
        return Some("the answer is not HTTP");
    }
    let error = error.downcast_ref::<rustls::Error>()?;
    if *error == rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) {
        return Some("the server does not speak TLS");
    }
    let rustls::Error::InvalidCertificate(error) = error else { return None };
    // `BadSignature`: a trusted authority has the name of the issuer, but another key.
    if [CertificateError::UnknownIssuer, CertificateError::BadSignature].contains(error) {
        return Some(if trusts_file { UNTRUSTED_BY_FILE } else { UNTRUSTED });
    }
    // This is a common mistake: a certificate that `openssl req -x509` makes is by default that of
    // an authority.
    let CertificateError::Other(error) = error else { return None };
    error.to_string().contains("CaUsedAsEndEntity").then_some(
        "its certificate is an authority's, which no server may use as its own: make a certificate \
         with `basicConstraints=CA:FALSE`",
    )
}

/// Whether the server closed the connection without an answer.
fn is_closed(error: &(dyn Error + 'static)) -> bool {
    chain(error).any(|error| {
        error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_incomplete_message)
            || error
                .downcast_ref::<io::Error>()
                .is_some_and(|io| io.kind() == io::ErrorKind::ConnectionReset)
    })
}

/// An error and its causes.
pub(crate) fn chain<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| cause(*error))
}

/// The next error in the chain. `source` of an I/O error skips the error that it wraps, so that one
/// is returned here.
fn cause<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

const UNTRUSTED: &str = "its certificate was not issued by a trusted authority: name a private one \
                         in `ca_file` of the issuer, in `bundle-ca` or in `otlp-ca`";
const UNTRUSTED_BY_FILE: &str = "its certificate was not issued by an authority in the file that \
                                 is configured for it: name the authority itself there, and let \
                                 the server send all certificates between that and its own";
const CLOSED: &str =
    "the server closed the connection without an answer: if it speaks TLS, write `https:`";

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn only_https_or_loopback() {
        for uri in [
            "https://id.example/k",
            "http://127.0.0.1:8080/k",
            "http://[::1]/k",
            "http://localhost/k",
        ] {
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
