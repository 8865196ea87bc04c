//! The client of an open connection, whose certificate must stay acceptable.

use std::sync::Arc;
use std::time::Duration;

use rustls::Error;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{Active, Tls, TlsFailure, expiry};
use crate::grpc::wrong_protocol::Peer;

/// A certificate is verified again at least this often, since the system's clock may be set.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// A connection is drained this long before the certificate of its client expires, so that a client with a
/// newer one can open another connection and no request fails.
const DRAIN_BEFORE_EXPIRY: Duration = Duration::from_secs(10);

/// A client that has shown a certificate.
pub(in crate::grpc) struct Client {
    tls: Arc<Tls>,
    peer: Peer,
    /// Its own certificate and those that it has sent with it.
    chain: Vec<CertificateDer<'static>>,
    /// The first moment after each of them has expired, since the Unix epoch.
    ends: Vec<Duration>,
    active: watch::Receiver<Arc<Active>>,
}

impl Client {
    pub(super) fn new(
        tls: Arc<Tls>,
        peer: Peer,
        chain: &[CertificateDer<'static>],
        active: watch::Receiver<Arc<Active>>,
    ) -> Self {
        // `notAfter` is the last second of the validity (RFC 5280, 4.1.2.5).
        let ends = chain.iter().filter_map(expiry::of).map(|last| last + Duration::from_secs(1)).collect();
        Self { tls, peer, chain: chain.to_vec(), ends, active }
    }

    /// The age at which its connection is to be drained; `None` if nothing expires, or so soon that the client
    /// has no newer certificate.
    pub(in crate::grpc) fn drain_age(&self) -> Option<Duration> {
        self.until_next_end()?.checked_sub(DRAIN_BEFORE_EXPIRY).filter(|age| !age.is_zero())
    }

    /// Resolves when the certificate is not accepted any more: it has expired, or the TLS files have changed.
    pub(in crate::grpc) async fn rejected(mut self) {
        loop {
            let wait = self.until_next_end().map_or(MAX_WAIT, |time| time.min(MAX_WAIT));
            let _ = timeout(wait, self.active.changed()).await;
            let active = Arc::clone(&self.active.borrow_and_update());
            if let Err(error) = self.verify(&active) {
                self.tls.failures.notice(TlsFailure::NoLongerAccepted, self.peer, &error.to_string());
                return;
            }
        }
    }

    fn verify(&self, active: &Active) -> Result<(), Error> {
        let Some(verifier) = &active.client_verifier else { return Ok(()) };
        let (own, intermediates) = self.chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        verifier
            .verify_client_cert(own, intermediates, UnixTime::since_unix_epoch(runtime::clock::now()))
            .map(drop)
    }

    fn until_next_end(&self) -> Option<Duration> {
        let now = runtime::clock::now();
        self.ends.iter().filter_map(|end| end.checked_sub(now)).filter(|time| !time.is_zero()).min()
    }
}
