//! TLS of the listeners on TCP: the certificate of the server, and which clients may connect.
//!
//! The files are read again while the server runs. If they do not load, the last good files stay in
//! use. Open connections keep the certificate with which they began; `max-connection-age` limits
//! for how long. The certificate of their client is verified again with the new files, and
//! when it expires (see `client`).

mod client;
mod client_names;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{InconsistentKeys, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use self::client::PeerCertificate;
pub use self::client_names::{ClientName, ClientNameError};
use super::notices::{Notices, Peer, TlsFailure};

/// The protocol of gRPC connections (RFC 9113, 3.2). Clients that offer none, such as Envoy by
/// default, are served, too.
const ALPN: &[u8] = b"h2";
/// The protocol of connections for HTTP forward-auth and AuthZEN (RFC 7301, 6).
const HTTP_ALPN: &[u8] = b"http/1.1";

/// The settings that name the files.
const CERTIFICATE: &str = "tls-certificate";
const KEY: &str = "tls-key";
const CLIENT_CA: &str = "tls-client-ca";

/// The files of a server's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, in PEM, the server's own first.
    pub certificate: PathBuf,
    /// Its private key, in PEM.
    pub key: PathBuf,
    /// The certificate authorities of clients, in PEM. With this file, each client needs a
    /// certificate from them.
    pub client_ca: Option<PathBuf>,
    /// The DNS names or URIs (such as a SPIFFE id) of the clients that may connect, as in the
    /// subject alternative names of their certificates; empty for all with a certificate.
    pub client_names: Vec<ClientName>,
}

/// The TLS of a server.
pub struct Tls {
    files: TlsFiles,
    active: watch::Sender<Arc<Active>>,
    /// The content of the files that were read last, whether they could be used or not.
    last_read: Mutex<Content>,
    failures: Notices<TlsFailure>,
    reloads: AtomicU64,
    failed_reloads: AtomicU64,
    reload: Notify,
}

/// The configuration of new connections.
struct Active {
    config: Arc<ServerConfig>,
    /// The same for HTTP forward-auth and AuthZEN.
    http_config: Arc<ServerConfig>,
    /// `None` if clients need no certificate.
    client_verifier: Option<Arc<dyn ClientCertVerifier>>,
    /// As in [`TlsTotals`].
    expiry: Option<Duration>,
}

/// Why the files cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("`--{setting}`: cannot use `{}`: {why}", file.display())]
pub struct TlsError {
    /// The setting that names the file, without its dashes.
    setting: &'static str,
    file: PathBuf,
    why: String,
}

/// The counters of a server's TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsTotals {
    /// Failed handshakes, by reason, also if zero.
    pub failures: Vec<(TlsFailure, u64)>,
    /// The earliest time at which a certificate of the active chain expires, since the Unix epoch.
    pub expiry: Option<Duration>,
    /// How often changed files came into use.
    pub reloads: u64,
    /// How often changed files could not be used.
    pub failed_reloads: u64,
}

/// The bytes of the files.
#[derive(Clone, Default, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Tls {
    /// Loads the files.
    ///
    /// # Errors
    /// [`TlsError`] if a file cannot be read or used.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let content = Content::read(&files)?;
        let active = watch::Sender::new(Arc::new(content.active(&files)?));
        Ok(Self {
            files,
            active,
            last_read: Mutex::new(content),
            failures: Notices::new(&TlsFailure::ALL),
            reloads: AtomicU64::new(0),
            failed_reloads: AtomicU64::new(0),
            reload: Notify::new(),
        })
    }

    /// Has the files read again soon.
    pub fn request_reload(&self) {
        self.reload.notify_one();
    }

    /// Reads the files again at this interval, and when it is requested. Never ends.
    pub async fn keep_current(self: Arc<Self>, interval: Duration) {
        loop {
            let _ = timeout(interval, self.reload.notified()).await;
            let this = Arc::clone(&self);
            // Reading files can block, and this runtime answers health checks.
            let _ = tokio::task::spawn_blocking(move || this.reload()).await;
        }
    }

    fn reload(&self) {
        let mut last_read = self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        let loaded = match Content::read(&self.files) {
            Ok(content) if content == *last_read => return,
            Ok(content) => {
                let active = content.active(&self.files);
                *last_read = content;
                active
            }
            Err(error) => {
                // An empty `last_read` means that the last read failed, which is reported once. It
                // also lets the same files be used again when they are back.
                if *last_read == Content::default() {
                    return;
                }
                *last_read = Content::default();
                Err(error)
            }
        };
        match loaded {
            Ok(active) => {
                self.active.send_replace(Arc::new(active));
                self.reloads.fetch_add(1, Relaxed);
                tracing::info!("the TLS certificate and its settings were loaded again");
            }
            Err(error) => {
                self.failed_reloads.fetch_add(1, Relaxed);
                tracing::error!(
                    %error,
                    "the changed TLS files are not used: the last good files stay in use"
                );
            }
        }
    }

    /// Begins TLS on a connection, for gRPC or for HTTP. Returns the peer's certificate, too, if
    /// the peer has shown a certificate.
    pub(crate) async fn accept(
        self: &Arc<Self>,
        stream: TcpStream,
        is_http: bool,
        limit: Duration,
        peer: Peer,
    ) -> Result<(TlsStream<TcpStream>, Option<PeerCertificate>), TlsFailure> {
        let mut active = self.active.subscribe();
        let config = {
            let active = active.borrow_and_update();
            Arc::clone(if is_http { &active.http_config } else { &active.config })
        };
        let acceptor = TlsAcceptor::from(config);
        let (failure, why) = match timeout(limit, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let chain = stream.get_ref().1.peer_certificates();
                if self.may_connect(chain) {
                    let certificate = chain
                        .map(|chain| PeerCertificate::new(Arc::clone(self), peer, chain, active));
                    return Ok((stream, certificate));
                }
                (TlsFailure::ClientName, "none of its names is listed".to_owned())
            }
            Ok(Err(error)) => (TlsFailure::from_handshake(&error), error.to_string()),
            Err(_elapsed) => {
                (TlsFailure::Timeout, "no complete handshake arrived in time".to_owned())
            }
        };
        self.failures.report(failure, peer, &why);
        Err(failure)
    }

    /// Whether the client may connect: its certificate has a listed name, or no names are listed.
    fn may_connect(&self, chain: Option<&[CertificateDer<'_>]>) -> bool {
        let names = &self.files.client_names;
        let certificate = chain.and_then(<[_]>::first);
        names.is_empty()
            || certificate.is_some_and(|certificate| client_names::is_listed(certificate, names))
    }

    pub(crate) fn totals(&self) -> TlsTotals {
        TlsTotals {
            failures: self.failures.counts(),
            expiry: self.active.borrow().expiry,
            reloads: self.reloads.load(Relaxed),
            failed_reloads: self.failed_reloads.load(Relaxed),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.files).finish_non_exhaustive()
    }
}

impl TlsError {
    fn new(setting: &'static str, file: &Path, why: impl fmt::Display) -> Self {
        Self { setting, file: file.to_owned(), why: why.to_string() }
    }
}

impl Content {
    /// Reads the files. It may block, so no serving thread may call it.
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let client_ca = files.client_ca.as_ref().map(|path| read(CLIENT_CA, path)).transpose()?;
        Ok(Self {
            certificate: read(CERTIFICATE, &files.certificate)?,
            key: read(KEY, &files.key)?,
            client_ca,
        })
    }

    fn active(&self, files: &TlsFiles) -> Result<Active, TlsError> {
        let chain = certificates(CERTIFICATE, &files.certificate, &self.certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            TlsError::new(KEY, &files.key, format!("no private key in PEM: {error}"))
        })?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::new(CERTIFICATE, &files.certificate, error))?;
        let expiry = chain.iter().filter_map(client::not_after).min();
        let client_verifier = match files.client_ca.as_ref().zip(self.client_ca.as_ref()) {
            None => None,
            Some((file, pem)) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(CLIENT_CA, file, pem)? {
                    roots
                        .add(certificate)
                        .map_err(|error| TlsError::new(CLIENT_CA, file, error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                Some(verifier.build().map_err(|error| TlsError::new(CLIENT_CA, file, error))?)
            }
        };
        let builder = match &client_verifier {
            None => builder.with_no_client_auth(),
            Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|error| {
            if error == rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) {
                let certificate = files.certificate.display();
                let why = format!(
                    "the key is not that of the certificate `{certificate}` of `--{CERTIFICATE}`"
                );
                TlsError::new(KEY, &files.key, why)
            } else {
                let why = format!("{error}, with the key `{}` of `--{KEY}`", files.key.display());
                TlsError::new(CERTIFICATE, &files.certificate, why)
            }
        })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        // A resumed session would readmit a client without a check of its certificate.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        let mut http_config = config.clone();
        http_config.alpn_protocols = vec![HTTP_ALPN.to_vec()];
        Ok(Active {
            config: Arc::new(config),
            http_config: Arc::new(http_config),
            client_verifier,
            expiry,
        })
    }
}

fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, TlsError> {
    runtime::files::contents(path).map_err(|error| TlsError::new(setting, path, error))
}

fn certificates(
    setting: &'static str,
    file: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let certificates = certificates.map_err(|error| TlsError::new(setting, file, error))?;
    if certificates.is_empty() {
        return Err(TlsError::new(setting, file, "no certificate in PEM"));
    }
    Ok(certificates)
}
