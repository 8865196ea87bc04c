//! The certificate of the peer of an open connection, which must stay acceptable.

use std::sync::Arc;
use std::time::Duration;

use rustls::Error;
use rustls::pki_types::{CertificateDer, UnixTime};
use tokio::sync::watch;
use tokio::time::timeout;
use webpki::{EndEntityCert, KeyUsage};

use super::{Active, Tls};
use crate::checks::notices::{Peer, TlsFailure};

/// A certificate is verified again at least this often, since the system's clock may be set.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// A connection is drained this long before the certificate of its client expires. So a client with
/// a newer certificate can open another connection, and no request fails.
const DRAIN_BEFORE_EXPIRY: Duration = Duration::from_secs(10);

/// Later than the expiry of any certificate, which is at most in the year 9999.
const NEVER: Duration = Duration::from_secs(1 << 38);

/// The certificate that a peer has shown.
pub(crate) struct PeerCertificate {
    tls: Arc<Tls>,
    peer: Peer,
    /// The peer's own certificate, and those that it has sent with it.
    chain: Vec<CertificateDer<'static>>,
    /// When each of them has expired: the first moment after its validity, since the Unix epoch.
    ends: Vec<Duration>,
    active: watch::Receiver<Arc<Active>>,
}

impl PeerCertificate {
    pub(super) fn new(
        tls: Arc<Tls>,
        peer: Peer,
        chain: &[CertificateDer<'static>],
        active: watch::Receiver<Arc<Active>>,
    ) -> Self {
        // `notAfter` is the last second of the validity (RFC 5280, 4.1.2.5).
        let ends =
            chain.iter().filter_map(not_after).map(|last| last + Duration::from_secs(1)).collect();
        Self { tls, peer, chain: chain.to_vec(), ends, active }
    }

    /// The age at which the connection is to be drained; `None` if nothing expires, or so soon that
    /// the peer has no newer certificate.
    pub(crate) fn drain_age(&self) -> Option<Duration> {
        self.until_next_end()?.checked_sub(DRAIN_BEFORE_EXPIRY).filter(|age| !age.is_zero())
    }

    /// Resolves when the certificate is not accepted any more: it has expired, or the TLS files
    /// have changed.
    pub(crate) async fn rejected(mut self) {
        loop {
            let wait = self.until_next_end().map_or(MAX_WAIT, |time| time.min(MAX_WAIT));
            let _ = timeout(wait, self.active.changed()).await;
            let active = Arc::clone(&self.active.borrow_and_update());
            if let Err(error) = self.verify(&active) {
                self.tls.failures.report(
                    TlsFailure::NoLongerAccepted,
                    self.peer,
                    &error.to_string(),
                );
                return;
            }
        }
    }

    fn verify(&self, active: &Active) -> Result<(), Error> {
        let Some(verifier) = &active.client_verifier else { return Ok(()) };
        let (own, intermediates) =
            self.chain.split_first().ok_or(Error::NoCertificatesPresented)?;
        verifier
            .verify_client_cert(
                own,
                intermediates,
                UnixTime::since_unix_epoch(runtime::clock::now()),
            )
            .map(drop)
    }

    fn until_next_end(&self) -> Option<Duration> {
        let now = runtime::clock::now();
        self.ends.iter().filter_map(|end| end.checked_sub(now)).filter(|time| !time.is_zero()).min()
    }
}

/// When the certificate expires, since the Unix epoch; `None` if it cannot be read.
///
/// `webpki` tells it only in the error about a certificate that has expired. It looks at the time
/// before anything else.
pub(super) fn not_after(certificate: &CertificateDer<'_>) -> Option<Duration> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let never = UnixTime::since_unix_epoch(NEVER);
    let verified =
        certificate.verify_for_usage(&[], &[], &[], never, KeyUsage::server_auth(), None, None);
    if let Err(webpki::Error::CertExpired { not_after, .. }) = verified {
        Some(Duration::from_secs(not_after.as_secs()))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32, is_ca: bool) -> CertificateDer<'static> {
        let mut parameters = CertificateParams::new(["rolegate.example.com".to_owned()]).unwrap();
        parameters.not_after = date_time_ymd(year, 1, 1);
        if is_ca {
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn the_expiry_of_any_certificate_can_be_read() {
        for is_ca in [false, true] {
            // 1 January, 00:00 UTC.
            for (year, seconds) in
                [(2001, 978_307_200), (2033, 1_988_150_400), (9999, 253_370_764_800)]
            {
                let expiry = not_after(&certificate(year, is_ca));
                assert_eq!(expiry, Some(Duration::from_secs(seconds)), "{year} {is_ca}");
            }
        }
        assert_eq!(not_after(&CertificateDer::from_slice(b"nonsense")), None);
    }
}
