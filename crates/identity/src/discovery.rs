//! The discovery document of an issuer (OpenID Connect Discovery 1.0, 3), which names the URL of
//! its key set.

use document::excerpt;
use policy::KeyUrl;
use serde_json::Value;

use crate::{json, jwks};

/// Why a discovery document does not lead to a key set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DiscoveryError(String);

/// The URL of the key set that the discovery document of this issuer names. `at` is the URL of the
/// document.
///
/// # Errors
/// If it is not the document of exactly this issuer (4.3), or its `jwks_uri` is neither `https`
/// nor, like the document, `http` on a loopback address.
pub fn key_set_url(document: &[u8], at: &KeyUrl, issuer: &str) -> Result<KeyUrl, DiscoveryError> {
    let members = json::parse(document).map_err(|error| {
        let reason = jwks::describe_non_json(document, &error);
        DiscoveryError(format!("not a discovery document: not JSON{reason}"))
    })?;
    let name = members.get("issuer").and_then(Value::as_str);
    if name != Some(issuer) {
        let name = name.map_or("missing".to_owned(), |name| format!("`{}`", excerpt(name)));
        return Err(DiscoveryError(format!("its `issuer` is {name}, not `{}`", excerpt(issuer))));
    }
    let Some(url) = members.get("jwks_uri").and_then(Value::as_str) else {
        return Err(DiscoveryError("it has no `jwks_uri`".to_owned()));
    };
    at.key_set(url)
        .map_err(|reason| DiscoveryError(format!("its `jwks_uri` cannot be used: {reason}")))
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
