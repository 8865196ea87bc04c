//! Private certificate authorities that a policy names for the keys of an issuer.

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

/// The certificate authorities in a PEM text; at least one.
///
/// # Errors
/// If one of them is no certificate of an authority.
pub(crate) fn trusted_ca(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for (number, certificate) in (1..).zip(CertificateDer::pem_slice_iter(pem)) {
        let added = certificate
            .map_err(|error| error.to_string())
            .and_then(|certificate| store.add(certificate).map_err(|error| error.to_string()));
        added.map_err(|error| format!("certificate {number} cannot be used: {error}"))?;
    }
    if store.is_empty() { Err("no certificate in PEM".to_owned()) } else { Ok(store) }
}
