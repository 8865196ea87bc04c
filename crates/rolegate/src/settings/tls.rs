//! The settings of TLS between Envoy and rolegate.

use std::path::PathBuf;

use clap::Args;

use server::checks::{ClientName, TlsFiles};

/// TLS on the listeners for gRPC and HTTP forward-auth.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "TLS")]
pub struct TlsSettings {
    /// File with the certificate chain (PEM) of the listeners on TCP.
    ///
    /// These listeners then speak only TLS. Unix sockets and the admin listener never do.
    #[arg(long, value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,

    /// File with the private key (PEM) of the certificate.
    #[arg(long, value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// File with the certificate authorities (PEM) of clients: mutual TLS.
    ///
    /// Each client then needs a certificate of one of them.
    #[arg(long, value_name = "FILE")]
    pub tls_client_ca: Option<PathBuf>,

    /// DNS names or URIs of the clients that may connect.
    ///
    /// An entry with a scheme, such as `spiffe://example.com/envoy`, is a URI. By default all
    /// clients with a certificate may connect.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub tls_client_names: Vec<ClientName>,
}

impl TlsSettings {
    /// The files of TLS; `None` if TLS is off.
    ///
    /// # Errors
    /// The missing setting, if other settings need it.
    pub(crate) fn files(&self) -> Result<Option<TlsFiles>, &'static str> {
        if self.tls_client_ca.is_none() && !self.tls_client_names.is_empty() {
            return Err(
                "`tls-client-names` needs `tls-client-ca`: without it clients have no certificates",
            );
        }
        match (&self.tls_certificate, &self.tls_key) {
            (Some(certificate), Some(key)) => Ok(Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: self.tls_client_ca.clone(),
                client_names: self.tls_client_names.clone(),
            })),
            (None, None) if self.tls_client_ca.is_some() => Err("`tls-client-ca` needs \
                 `tls-certificate` and `tls-key`: it does nothing without TLS"),
            (None, None) => Ok(None),
            (Some(_), None) => {
                Err("`tls-certificate` needs `tls-key`, the file with its private key")
            }
            (None, Some(_)) => {
                Err("`tls-key` needs `tls-certificate`, the file with its certificate")
            }
        }
    }
}
