//! The names of clients that may connect.

use std::str::FromStr;

use rustls::pki_types::{CertificateDer, DnsName};

/// A subject alternative name of a client that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientName {
    /// A DNS name. `*.` at its beginning is compared literally, not a pattern.
    Dns(String),
    /// A URI, such as a SPIFFE id.
    Uri(String),
}

/// A text that is no name of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "write a DNS name, such as `envoy.example.com`, or a URI, such as `spiffe://example.com/envoy`"
)]
pub struct ClientNameError;

impl FromStr for ClientName {
    type Err = ClientNameError;

    /// A URI has an authority or is a URN. `host:port` is neither, nor is it a name in a
    /// certificate.
    fn from_str(text: &str) -> Result<Self, ClientNameError> {
        let after_scheme = text.split_once("://").or_else(|| text.split_once("urn:"));
        let is_uri = after_scheme.is_some_and(|(_, rest)| !rest.is_empty())
            && text.chars().all(|c| c.is_ascii_graphic());
        if is_uri {
            return Ok(Self::Uri(text.to_owned()));
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        match DnsName::try_from(name) {
            Ok(_) if !name.ends_with('.') => Ok(Self::Dns(text.to_owned())),
            _ => Err(ClientNameError),
        }
    }
}

/// Whether a subject alternative name of a verified certificate is listed.
pub(super) fn is_listed(certificate: &CertificateDer<'_>, names: &[ClientName]) -> bool {
    let Ok(certificate) = webpki::EndEntityCert::try_from(certificate) else { return false };
    // DNS names do not differ by case (RFC 4343), URIs are compared byte for byte, as SPIFFE asks
    // for.
    names.iter().any(|listed| match listed {
        ClientName::Dns(listed) => {
            certificate.valid_dns_names().any(|name| name.eq_ignore_ascii_case(listed))
        }
        ClientName::Uri(listed) => certificate.valid_uri_names().any(|name| name == listed),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_dns_name_or_a_uri() {
        for dns in ["envoy", "Envoy.example.com", "*.example.com"] {
            assert_eq!(dns.parse(), Ok(ClientName::Dns(dns.to_owned())));
        }
        for uri in [
            "spiffe://example.com/ns/web/sa/envoy",
            "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66",
        ] {
            assert_eq!(uri.parse(), Ok(ClientName::Uri(uri.to_owned())));
        }
        for wrong in [
            "",
            "10.0.0.1",
            "::1",
            "example.com/envoy",
            "envoy example",
            "spiffe:",
            "spiffe://",
            "spiffe://a b",
            "envoy.example.com:9191",
            "localhost:*",
            "envoy.example.com.",
            "a.*.b",
            "ümlaut",
        ] {
            assert_eq!(wrong.parse::<ClientName>(), Err(ClientNameError), "{wrong}");
        }
    }
}
