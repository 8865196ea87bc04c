//! The discovery document of an issuer (OpenID Connect Discovery 1.0, 3), which names the URL of
//! its key set.

use document::excerpt;
use policy::KeyUrl;
use serde_json::Value;

use crate::{json, jwks};

/// Why a discovery document does not lead to a key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// It is not a JSON object without duplicate names.
    #[error("not a discovery document: not JSON{0}")]
    NotJson(String),
    /// Its `issuer` is missing, or is not exactly that of the policy: it may be about another
    /// issuer (4.3).
    #[error("its `issuer` is {found}, not `{expected}`")]
    WrongIssuer {
        /// The `issuer` in it.
        found: String,
        /// That of the policy.
        expected: String,
    },
    /// Its `jwks_uri` is missing.
    #[error("it has no `jwks_uri`")]
    NoKeys,
    /// Its `jwks_uri` is not a URL that the policy could name.
    #[error("its `jwks_uri` cannot be used: {0}")]
    Url(&'static str),
}

/// The URL of the key set that the discovery document of this issuer names. `at` is where it was
/// fetched.
///
/// # Errors
/// If it is not a discovery document of this issuer, byte for byte, or its `jwks_uri` is not
/// `https`, or `http` on a loopback address where the document itself is.
pub fn key_set_url(document: &[u8], at: &KeyUrl, issuer: &str) -> Result<KeyUrl, DiscoveryError> {
    let members = json::parse(document)
        .map_err(|error| DiscoveryError::NotJson(jwks::not_json(document, &error)))?;
    let name = members.get("issuer").and_then(Value::as_str);
    if name != Some(issuer) {
        let found = name.map_or("missing".to_owned(), |name| format!("`{}`", excerpt(name)));
        return Err(DiscoveryError::WrongIssuer { found, expected: excerpt(issuer) });
    }
    let url = members.get("jwks_uri").and_then(Value::as_str).ok_or(DiscoveryError::NoKeys)?;
    at.key_set(url).map_err(DiscoveryError::Url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(document: &str) -> Result<String, String> {
        let issuer = "https://id.example/realms/a";
        let at = KeyUrl::for_discovery(&issuer.into());
        match key_set_url(document.as_bytes(), &at, issuer) {
            Ok(url) => Ok(url.with_secrets().to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_document_of_the_issuer_names_its_key_set() {
        let document = r#"{"issuer":"https://id.example/realms/a","jwks_uri":"https://keys.example/a?v=1","more":[]}"#;
        assert_eq!(result(document), Ok("https://keys.example/a?v=1".to_owned()));
    }

    #[test]
    fn any_other_document_is_an_error_that_says_why() {
        let issuer = r#""issuer":"https://id.example/realms/a""#;
        for (document, error) in [
            ("<html>", "not a discovery document: not JSON (begins with `<html>`)"),
            ("{}", "its `issuer` is missing, not `https://id.example/realms/a`"),
            ("[]", "its `issuer` is missing, not `https://id.example/realms/a`"),
            (
                r#"{"issuer":"https://id.example/realms/a/","jwks_uri":"https://a/"}"#,
                "its `issuer` is `https://id.example/realms/a/`, not `https://id.example/realms/a`",
            ),
            (&format!("{{{issuer}}}"), "it has no `jwks_uri`"),
            (&format!(r#"{{{issuer},"jwks_uri":1}}"#), "it has no `jwks_uri`"),
            (
                &format!(r#"{{{issuer},"jwks_uri":"http://127.0.0.1/"}}"#),
                "its `jwks_uri` cannot be used: `http`, while the document is at `https`",
            ),
            (
                &format!(r#"{{{issuer},"jwks_uri":"file:///keys"}}"#),
                "its `jwks_uri` cannot be used: the URL has no valid host",
            ),
            (
                &format!(r#"{{{issuer},{issuer},"jwks_uri":"https://a/"}}"#),
                "not a discovery document: not JSON: a duplicate member name at line 1 column 78",
            ),
        ] {
            assert_eq!(result(document), Err(error.to_owned()), "{document}");
        }
    }
}
