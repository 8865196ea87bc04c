//! The names of a client certificate: the URI and DNS names of its `subjectAltName` (RFC 5280,
//! 4.2.1.6). The subject of the certificate does not count as a name: no rule says who may get
//! which subject.

use std::borrow::Cow;
use std::fmt;

use percent_encoding::percent_decode;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::keyed_hasher::KeyedHasher;
use crate::{is_name, xfcc};

/// Maximum bytes of an encoded certificate.
const MAX_BYTES: usize = 64 << 10;
/// Maximum number of names, each of which is compared with patterns.
const MAX_NAMES: usize = 256;

/// A client certificate that a proxy has verified, as the proxy passes it on.
#[derive(Clone, Copy)]
pub enum Certificate<'a> {
    /// Its first URI name, else its first DNS name, else its subject: `source.principal` of Envoy's
    /// `ext_authz`.
    Principal(&'a [u8]),
    /// All of it, in PEM with percent-encoding: `source.certificate` of Envoy's `ext_authz`.
    Pem(&'a [u8]),
    /// Its first URI name and its first DNS name; empty if it has none. Dynamic modules of Envoy
    /// know no more.
    FirstNames {
        /// The first URI name.
        uri: &'a [u8],
        /// The first DNS name.
        dns: &'a [u8],
    },
    /// The last element of `x-forwarded-client-cert`: see [`LastElement`](crate::LastElement).
    Xfcc(&'a [u8]),
    /// Its names, as a policy writes them: for tools and tests.
    Named(&'a [String]),
}

/// A certificate that cannot be read, or has too many names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedCertificate;

/// The names of a certificate, as a policy writes them: a URI, or `dns:` and a DNS name.
type Names<'a> = Vec<Cow<'a, str>>;

impl<'a> Certificate<'a> {
    /// Its names.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn names(self) -> Result<Names<'a>, MalformedCertificate> {
        let mut names = Vec::new();
        match self {
            Self::Principal(principal) => names.extend(principal_name(principal)),
            Self::Pem(pem) => names = names_of_pem(pem)?,
            Self::FirstNames { uri, dns } => {
                names.extend(uri_name(Cow::Borrowed(uri)));
                names.extend(dns_name(dns));
            }
            Self::Xfcc(element) => return names_of_element(element),
            Self::Named(given) => names.extend(given.iter().map(|name| Cow::Borrowed(&**name))),
        }
        if names.len() > MAX_NAMES { Err(MalformedCertificate) } else { Ok(names) }
    }

    /// The key by which a cache keeps the caller with this certificate; `None` if it is not cached.
    pub(crate) fn cache_key(self, hasher: &KeyedHasher) -> Option<u128> {
        // Hashes of pairs, so that the keys differ from those of other credentials and of other
        // forms.
        Some(match self {
            Self::Principal(principal) => hasher.hash_pair(b"principal", principal),
            Self::Pem(pem) => hasher.hash_pair(b"certificate", pem),
            Self::Xfcc(element) => hasher.hash_pair(b"xfcc", element),
            Self::FirstNames { uri, dns } => {
                hasher.hash_pair(&hasher.hash_pair(b"uri", uri).to_le_bytes(), dns)
            }
            Self::Named(_) => return None,
        })
    }
}

/// Shows no certificate.
impl fmt::Debug for Certificate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Principal(_) => "Principal(…)",
            Self::Pem(_) => "Pem(…)",
            Self::FirstNames { .. } => "FirstNames(…)",
            Self::Xfcc(_) => "Xfcc(…)",
            Self::Named(_) => "Named(…)",
        })
    }
}

/// The name in `source.principal`, which does not say what it is: a subject (RFC 2253) begins with
/// a type and `=`, only a URI has a colon, and another text is a DNS name.
fn principal_name(principal: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(principal).ok()?;
    let is_type =
        |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.');
    if text.split_once('=').is_some_and(|(before, _)| is_type(before)) {
        return None;
    }
    if text.contains(':') { uri_name(Cow::Borrowed(principal)) } else { dns_name(principal) }
}

/// A URI name. A URI with the scheme `dns` would be taken for a DNS name.
fn uri_name(uri: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    let name = match uri {
        Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
    };
    (is_name(&name) && !name.starts_with("dns:")).then_some(name)
}

fn dns_name<'a>(name: &[u8]) -> Option<Cow<'a, str>> {
    let name = std::str::from_utf8(name).ok().filter(|name| is_name(name))?;
    Some(Cow::Owned(format!("dns:{name}")))
}

/// The names of the certificate in an element; without a certificate, the names that the element
/// lists.
fn names_of_element(element: &[u8]) -> Result<Names<'_>, MalformedCertificate> {
    let mut names = Vec::new();
    let mut certificates = xfcc::pairs(element).filter(|pair| pair.key == b"Cert");
    match (certificates.next(), certificates.next()) {
        (Some(certificate), None) => return names_of_pem(&certificate.value()),
        (Some(_), Some(_)) => return Err(MalformedCertificate),
        (None, _) => {}
    }
    for pair in xfcc::pairs(element) {
        match pair.key {
            b"URI" => names.extend(uri_name(pair.value())),
            b"DNS" => names.extend(dns_name(&pair.value())),
            _ => {}
        }
        if names.len() > MAX_NAMES {
            return Err(MalformedCertificate);
        }
    }
    Ok(names)
}

fn names_of_pem<'a>(encoded: &[u8]) -> Result<Names<'a>, MalformedCertificate> {
    if encoded.len() > MAX_BYTES {
        return Err(MalformedCertificate);
    }
    let pem: Cow<'_, [u8]> = percent_decode(encoded).into();
    let certificate = CertificateDer::from_pem_slice(&pem).map_err(|_| MalformedCertificate)?;
    let certificate =
        webpki::EndEntityCert::try_from(&certificate).map_err(|_| MalformedCertificate)?;
    let mut names = Vec::new();
    for uri in certificate.valid_uri_names().take(MAX_NAMES + 1) {
        names.extend(uri_name(Cow::Owned(uri.into())));
    }
    for name in certificate.valid_dns_names().take(MAX_NAMES + 1) {
        names.extend(dns_name(name.as_bytes()));
    }
    if names.len() > MAX_NAMES { Err(MalformedCertificate) } else { Ok(names) }
}
