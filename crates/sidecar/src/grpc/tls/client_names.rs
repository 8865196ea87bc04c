//! Which clients with a valid certificate may connect.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// Accepts the certificates that another verifier accepts, if one of their subject alternative names is listed.
#[derive(Debug)]
pub(super) struct AllowedNames {
    verifier: Arc<dyn ClientCertVerifier>,
    names: Vec<String>,
}

impl AllowedNames {
    pub(super) fn new(verifier: Arc<dyn ClientCertVerifier>, names: Vec<String>) -> Self {
        Self { verifier, names }
    }

    fn lists(&self, certificate: &CertificateDer<'_>) -> Result<bool, Error> {
        let bad = |_| Error::InvalidCertificate(CertificateError::BadEncoding);
        let certificate = webpki::EndEntityCert::try_from(certificate).map_err(bad)?;
        // DNS names do not differ by case (RFC 4343), URIs are compared byte for byte, as SPIFFE asks for.
        let dns = |name: &str| self.names.iter().any(|listed| listed.eq_ignore_ascii_case(name));
        let uri = |name: &str| self.names.iter().any(|listed| listed == name);
        Ok(certificate.valid_dns_names().any(dns) || certificate.valid_uri_names().any(uri))
    }
}

impl ClientCertVerifier for AllowedNames {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.verifier.verify_client_cert(end_entity, intermediates, now)?;
        if self.lists(end_entity)? {
            Ok(verified)
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
