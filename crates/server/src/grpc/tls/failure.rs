//! Handshakes that fail: counted by why, and logged with what to change.

use std::io;

use rustls::{CertificateError, Error, InvalidMessage};

use crate::grpc::notices::Notices;
use crate::grpc::wrong_protocol::Peer;

/// Why a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsFailure {
    /// The peer does not speak TLS.
    NotTls,
    /// The client has no certificate, or one that is not valid.
    ClientCertificate,
    /// The client's certificate has none of the names that may connect.
    ClientName,
    /// The connection was open, and the certificate of its client is not accepted any more.
    NoLongerAccepted,
    /// The peer has ended the handshake, for example because it does not trust the certificate of the server.
    RefusedByClient,
    /// The handshake was not complete in time.
    Timeout,
    /// Anything else: no common version or cipher, a connection that ended.
    Other,
}

/// The failures of all workers.
#[derive(Debug)]
pub(super) struct Failures(Notices<TlsFailure>);

impl TlsFailure {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::NotTls,
        Self::ClientCertificate,
        Self::ClientName,
        Self::NoLongerAccepted,
        Self::RefusedByClient,
        Self::Timeout,
        Self::Other,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotTls => "not_tls",
            Self::ClientCertificate => "client_certificate",
            Self::ClientName => "client_name",
            Self::NoLongerAccepted => "no_longer_accepted",
            Self::RefusedByClient => "refused_by_client",
            Self::Timeout => "timeout",
            Self::Other => "other",
        }
    }

    /// What to change.
    const fn advice(self) -> &'static str {
        match self {
            Self::NotTls => {
                "the peer does not speak TLS, and this port does: in Envoy, give the cluster a `transport_socket`"
            }
            Self::ClientCertificate => {
                "the client has no certificate of an authority in `--tls-client-ca`: in Envoy, set `tls_certificates` \
                 in the cluster's `transport_socket`"
            }
            Self::ClientName => "no name in the client's certificate is listed in `--tls-client-names`",
            Self::NoLongerAccepted => {
                "closed an open connection: the client's certificate has expired, or is of no authority in the changed \
                 `--tls-client-ca`"
            }
            Self::RefusedByClient => {
                "the client has ended the handshake: does it trust the certificate of `--tls-certificate`, and its name?"
            }
            Self::Timeout | Self::Other => "a TLS handshake failed",
        }
    }

    /// Why a handshake ended with this error.
    pub(super) fn of(error: &io::Error) -> Self {
        let Some(error) = error.get_ref().and_then(|error| error.downcast_ref::<Error>()) else {
            return Self::Other;
        };
        if matches!(error, Error::InvalidMessage(InvalidMessage::InvalidContentType)) {
            Self::NotTls
        } else if matches!(error, Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        {
            Self::ClientName
        } else if matches!(error, Error::InvalidCertificate(_) | Error::NoCertificatesPresented) {
            Self::ClientCertificate
        } else if matches!(error, Error::AlertReceived(_)) {
            Self::RefusedByClient
        } else {
            Self::Other
        }
    }
}

impl Failures {
    pub(super) fn new() -> Self {
        Self(Notices::new(&TlsFailure::ALL))
    }

    /// Counts it, and logs it unless that was done a short time ago.
    pub(super) fn notice(&self, failure: TlsFailure, peer: Peer, why: &str) {
        if self.0.notice(failure) {
            tracing::warn!(failure = failure.name(), %peer, error = why, "{}", failure.advice());
        }
    }

    /// How often each was seen.
    pub(super) fn counts(&self) -> Vec<(TlsFailure, u64)> {
        self.0.counts()
    }
}
