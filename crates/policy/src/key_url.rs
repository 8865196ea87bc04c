//! The URL of a document that is fetched, such as a key set.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use crate::canonical;
use document::Secret;

/// Shorter parts of a URL are not treated as secrets, because they occur in texts by chance: `v`,
/// `1`, `jwks`.
const MIN_SECRET: usize = 6;

/// The URL of something that rolegate fetches: a key set, a discovery document that names a key
/// set, the inventory of a search cluster, a bundle, or answers about tokens (introspection). With
/// it go the certificate authorities that are trusted for its server.
///
/// Its query may contain a secret (`?api_key=…`), so `Display` and `Debug` show only the part
/// before the query, without user, password and fragment. Output, logs and metric labels use only
/// these two. Two URLs that differ only in a hidden part look the same, but are not equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyUrl {
    url: Arc<str>,
    document: Document,
    trusted_ca: Option<Arc<[u8]>>,
}

/// The document at a [`KeyUrl`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Document {
    /// A key set, or a bundle.
    KeySet,
    /// The discovery document of this issuer.
    Discovery(Arc<str>),
    /// The inventory of a search cluster, and the `user:password` of the requests.
    Inventory(Option<Secret>),
    /// Answers about tokens (RFC 7662), and the `user:password` of the questions.
    Introspection(Secret),
}

impl KeyUrl {
    /// The URL of an issuer's discovery document (OpenID Connect Discovery 1.0, 4.1).
    #[must_use]
    pub fn for_discovery(issuer: &Arc<str>) -> Self {
        let base = issuer.strip_suffix('/').unwrap_or(issuer);
        let url = format!("{base}/.well-known/openid-configuration");
        Self { document: Document::Discovery(issuer.clone()), ..url.as_str().into() }
    }

    /// The URL of the inventory of the search cluster at `url`, with the `user:password` of the
    /// requests.
    #[must_use]
    pub fn for_inventory(url: &str, credentials: Option<&str>) -> Self {
        let url = format!("{}/_resolve/index/*?expand_wildcards=all", url.trim_end_matches('/'));
        let credentials = credentials.map(|credentials| Secret(credentials.into()));
        Self { document: Document::Inventory(credentials), ..url.as_str().into() }
    }

    /// The URL at which an issuer is asked about tokens, with the `user:password` of the questions.
    #[must_use]
    pub fn for_introspection(url: &str, credentials: &str) -> Self {
        Self { document: Document::Introspection(Secret(credentials.into())), ..url.into() }
    }

    /// Why the URL may not be fetched, and how to fix it. Neither text contains a part of the URL.
    #[must_use]
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        url_fault(&self.url)
    }

    /// Whether it is the URL of the inventory of a search cluster.
    #[must_use]
    pub fn is_inventory(&self) -> bool {
        matches!(self.document, Document::Inventory(_))
    }

    /// The `user:password` of the requests, if they have credentials. Only for fetching; never log
    /// or print it.
    #[must_use]
    pub fn credentials(&self) -> Option<&str> {
        match &self.document {
            Document::Inventory(Some(credentials)) | Document::Introspection(credentials) => {
                Some(&credentials.0)
            }
            _ => None,
        }
    }

    /// The same URL, but only the certificate authorities in this PEM text are trusted. With
    /// `None`, the certificate authorities of the system are trusted.
    #[must_use]
    pub fn trusting(self, trusted_ca: Option<Arc<[u8]>>) -> Self {
        Self { trusted_ca, ..self }
    }

    /// The URL of the key set that the discovery document at this URL names, with the same trusted
    /// certificate authorities.
    ///
    /// # Errors
    /// The reason if it may not be fetched: it would not be valid in a policy, or it is `http`
    /// while the document was fetched over `https`.
    pub fn key_set(&self, jwks_uri: &str) -> Result<Self, &'static str> {
        if let Some((fault, _)) = url_fault(jwks_uri) {
            return Err(fault);
        }
        if self.url.starts_with("https:") && !jwks_uri.starts_with("https:") {
            return Err("`http`, while the document is at `https`");
        }
        Ok(Self { trusted_ca: self.trusted_ca.clone(), ..jwks_uri.into() })
    }

    /// The whole URL. Only for fetching; never log or print it.
    #[must_use]
    pub fn with_secrets(&self) -> &str {
        &self.url
    }

    /// The issuer whose discovery document is at this URL; `None` if something else is.
    #[must_use]
    pub fn discovery_of(&self) -> Option<&str> {
        match &self.document {
            Document::Discovery(issuer) => Some(issuer),
            _ => None,
        }
    }

    /// The certificate authorities that are trusted for the server, in PEM; `None` means the
    /// certificate authorities of the system.
    #[must_use]
    pub fn trusted_ca(&self) -> Option<&Arc<[u8]>> {
        self.trusted_ca.as_ref()
    }

    /// Whether a text, such as an error message, contains a hidden part of this URL.
    #[must_use]
    pub fn has_secret_in(&self, text: &str) -> bool {
        let after_scheme = self.url.split_once("//").map_or(&*self.url, |(_, after)| after);
        let mut parts = after_scheme.split(['?', '#']);
        let authority = parts.next().and_then(|part| part.split('/').next()).unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let hidden = user.split(':').chain(parts.flat_map(|part| part.split(['&', '='])));
        hidden.filter(|part| part.len() >= MIN_SECRET).any(|part| text.contains(part))
    }
}

impl From<Arc<str>> for KeyUrl {
    fn from(url: Arc<str>) -> Self {
        Self { url, document: Document::KeySet, trusted_ca: None }
    }
}

impl From<&str> for KeyUrl {
    fn from(url: &str) -> Self {
        Arc::<str>::from(url).into()
    }
}

impl fmt::Display for KeyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The parser accepts only `https://` and `http://`. For other texts it is better to hide
        // too much than too little.
        let scheme = self.url.split_once("//").map(|(scheme, _)| scheme);
        let scheme = scheme.filter(|scheme| scheme.is_empty() || scheme.ends_with(':'));
        let scheme = scheme.map_or(String::new(), |scheme| format!("{scheme}//"));
        // RFC 3986, 3.2: the authority ends at the first of these, and the part before its last `@`
        // is user information.
        let after_scheme = self.url.strip_prefix(&*scheme).unwrap_or(&self.url);
        let visible = after_scheme.split(['?', '#']).next().unwrap_or_default();
        let end = visible.find(['/', '\\']).unwrap_or(visible.len());
        let (authority, path) = visible.split_at_checked(end).unwrap_or((visible, ""));
        write!(f, "{scheme}{}{path}", authority.rsplit('@').next().unwrap_or_default())
    }
}

impl fmt::Debug for KeyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Why a URL is not valid in a policy, and how to fix it.
pub(crate) fn url_fault(url: &str) -> Option<(&'static str, &'static str)> {
    let form = "write `https://host/path`";
    let Some((scheme, rest)) = url.split_once("://") else { return Some(("not a URL", form)) };
    if url.contains(|character: char| {
        character.is_control()
            || character.is_whitespace()
            || !character.is_ascii()
            || "\"<>\\^`{|}".contains(character)
    }) {
        return Some(("the URL has a character that URLs do not have", "percent-encode it"));
    }
    if rest.contains('#') {
        return Some(("the URL has a fragment", "leave it out"));
    }
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some(("the URL has a user or password", "leave it out"));
    }
    let mut lowered = Vec::new();
    let host = canonical::host(authority.as_bytes(), &mut lowered).unwrap_or_default();
    let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
    if host.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Some(("the URL has no valid host", form));
    }
    match scheme {
        "https" => None,
        "http" if is_loopback(host) => None,
        "http" => Some(("`http` is accepted only on a loopback address", "write `https`")),
        _ => Some(("the URL does not start with `https://`", form)),
    }
}

fn is_loopback(host: &[u8]) -> bool {
    let host = String::from_utf8_lossy(host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests;
