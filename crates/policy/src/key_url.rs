//! The URL of a key set.

use std::fmt;
use std::sync::Arc;

/// Shorter parts of a URL are not treated as secrets, because they occur in texts by chance: `v`, `1`, `jwks`.
const MIN_SECRET: usize = 6;

/// The URL of a key set. Its query may contain a secret (`?api_key=…`), so `Display` and `Debug` show only what
/// precedes the query, without user, password and fragment. All output, logs and metric labels use these.
///
/// Two URLs that differ only in hidden parts look the same, but are not equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyUrl(Arc<str>);

impl KeyUrl {
    /// The whole URL. Only for fetching; never log or print it.
    #[must_use]
    pub fn with_secrets(&self) -> &str {
        &self.0
    }

    /// Whether a text, such as an error message, contains a hidden part of this URL.
    #[must_use]
    pub fn has_secret_in(&self, text: &str) -> bool {
        let rest = self.0.split_once("//").map_or(&*self.0, |(_, rest)| rest);
        let (before, after) =
            rest.split_at_checked(rest.find(['?', '#']).unwrap_or(rest.len())).unwrap_or((rest, ""));
        let authority = before.split('/').next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let parts = user.split(':').chain(after.split(['?', '#', '&', '=']));
        parts.filter(|part| part.len() >= MIN_SECRET).any(|part| text.contains(part))
    }
}

impl From<Arc<str>> for KeyUrl {
    fn from(url: Arc<str>) -> Self {
        Self(url)
    }
}

impl From<&str> for KeyUrl {
    fn from(url: &str) -> Self {
        Self(url.into())
    }
}

impl fmt::Display for KeyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = match self.0.split_once("//") {
            // The parser accepts only `https://` and `http://`. For anything else, rather too much is hidden than too
            // little.
            Some((scheme, rest)) if scheme.is_empty() || scheme.ends_with(':') => (Some(scheme), rest),
            _ => (None, &*self.0),
        };
        // RFC 3986, 3.2: the authority ends at the first of these, and the part before its last `@` is user
        // information.
        let shown = rest.split(['?', '#']).next().unwrap_or_default();
        let (authority, path) = match shown.find(['/', '\\']) {
            Some(end) => shown.split_at_checked(end).unwrap_or((shown, "")),
            None => (shown, ""),
        };
        let host = authority.rsplit('@').next().unwrap_or_default();
        match scheme {
            Some(scheme) => write!(f, "{scheme}//{host}{path}"),
            None => write!(f, "{host}{path}"),
        }
    }
}

impl fmt::Debug for KeyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::KeyUrl;

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("https://a/b", "https://a/b"),
            ("https://a/b?c=s3cret#s3cret", "https://a/b"),
            ("https://a/b#s3cret?s3cret", "https://a/b"),
            ("https://a?s3cret/b", "https://a"),
            ("https://s3cret:s3cret@a:1/b", "https://a:1/b"),
            ("https://s3cret@s3cret@[::1]:1/b@c", "https://[::1]:1/b@c"),
            ("https://s3cret:s3cret@a?s3cret@b", "https://a"),
            ("s3cret:s3cret@a/b?s3cret", "a/b"),
            ("//s3cret@a/b", "//a/b"),
            ("", ""),
        ] {
            let url = KeyUrl::from(url);
            assert_eq!(url.to_string(), shown);
            assert_eq!(format!("{url:?}"), format!("{shown:?}"));
        }
        let url = KeyUrl::from("https://user:passw0rd@a/path-of-it?v=1&api_key=s3cret-s3cret");
        for text in ["at https://a/path-of-it?v=1&api_key=s3cret-s3cret", "key `s3cret-s3cret`", "passw0rd"] {
            assert!(url.has_secret_in(text), "{text}");
        }
        for harmless in ["", "v=1", "https://a/path-of-it", "connection refused"] {
            assert!(!url.has_secret_in(harmless), "{harmless}");
        }
        assert_ne!(KeyUrl::from("https://a?1"), KeyUrl::from("https://a?2"));
    }
}
