//! When a certificate expires.

use std::time::Duration;

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::{EndEntityCert, Error, KeyUsage};

/// After each time that a certificate can have: the year 9999 is the last.
const NEVER: Duration = Duration::from_secs(1 << 38);

/// When the certificate expires, since the Unix epoch; `None` if it cannot be read.
///
/// `webpki` tells it only in the error about a certificate that has expired. It looks at the time before anything else.
pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Duration> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let never = UnixTime::since_unix_epoch(NEVER);
    let verified = certificate.verify_for_usage(&[], &[], &[], never, KeyUsage::server_auth(), None, None);
    if let Err(Error::CertExpired { not_after, .. }) = verified {
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
    fn the_expiry_of_any_certificate_is_known() {
        for is_ca in [false, true] {
            // 1 January, 00:00 UTC.
            for (year, seconds) in [(2001, 978_307_200), (2033, 1_988_150_400), (9999, 253_370_764_800)] {
                let expiry = of(&certificate(year, is_ca));
                assert_eq!(expiry, Some(Duration::from_secs(seconds)), "{year} {is_ca}");
            }
        }
        assert_eq!(of(&CertificateDer::from_slice(b"nonsense")), None);
    }
}
