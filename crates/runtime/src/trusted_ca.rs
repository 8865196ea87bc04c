//! Private certificate authorities that a policy names for the keys of an issuer.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};

/// The certificate authorities in a PEM text; at least one.
///
/// # Errors
/// If one of them is no certificate of an authority.
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
