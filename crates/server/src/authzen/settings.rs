//! The settings of AuthZEN.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use http::Uri;

use crate::{Address, AdminAddress};

/// Where questions of AuthZEN are answered, and to whom.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "AuthZEN")]
pub struct AuthZenSettings {
    /// Address where questions of the AuthZEN API are answered over HTTP, or `off`.
    ///
    /// The policy needs the section `authzen`. TLS is that of the gRPC listeners, and required
    /// unless the address is loopback or a Unix socket.
    #[arg(id = "authzen", long = "authzen", value_name = "ADDR", default_value = "off")]
    pub address: AdminAddress,

    /// File with the bearer tokens of clients, one in a line.
    ///
    /// A token has at least 32 characters; two tokens allow a change without an outage. The file is
    /// read again like the files of TLS. Required without `tls-client-ca`, and on a Unix socket.
    #[arg(long, value_name = "FILE")]
    pub authzen_tokens: Option<PathBuf>,

    /// URL at which clients reach AuthZEN, such as `https://pdp.example.com`, for its metadata.
    ///
    /// Without it, the URLs in the metadata begin with the `Host` of the request. Behind a proxy that
    /// ends TLS or changes the path, set it.
    #[arg(long, value_name = "URL")]
    pub authzen_url: Option<PublicUrl>,
}

/// The URL at which clients reach AuthZEN, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl {
    /// The URL.
    pub text: String,
    /// Its path; empty if it has none.
    pub path: String,
}

impl FromStr for PublicUrl {
    type Err = InvalidUrl;

    fn from_str(text: &str) -> Result<Self, InvalidUrl> {
        let text = text.trim_end_matches('/');
        let url: Uri = text.parse().map_err(|_| InvalidUrl)?;
        // The identifier of a policy decision point is `https`, without a query (9.1.1).
        let is_identifier = url.scheme_str() == Some("https")
            && url.host().is_some_and(|host| !host.is_empty())
            && !text.contains(['?', '#', '@']);
        let path = url.path().trim_end_matches('/').to_owned();
        is_identifier.then(|| Self { text: text.to_owned(), path }).ok_or(InvalidUrl)
    }
}

/// A text that is not a [`PublicUrl`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a URL such as `https://pdp.example.com`, without a query")]
pub struct InvalidUrl;

/// Why AuthZEN cannot be served with these settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// Everybody could ask.
    #[error(
        "`authzen` needs `authzen-tokens` or, on TCP, `tls-client-ca`: a client can name any \
         subject"
    )]
    NoAuthentication,
    /// Tokens would travel unencrypted.
    #[error(
        "`authzen` needs `tls-certificate` and `tls-key` on an address that other machines can \
         reach: use them, or loopback or a Unix socket"
    )]
    NoTls,
    /// The policy does not say what questions mean.
    #[error("`authzen` needs the section `authzen` of the policy: it says what questions mean")]
    NoSection,
}

impl AuthZenSettings {
    /// Checks who could ask. `has_client_ca`: TLS asks clients for certificates.
    ///
    /// # Errors
    /// If a token or TLS is missing.
    pub fn check(&self, has_tls: bool, has_client_ca: bool) -> Result<(), SettingsError> {
        let AdminAddress::On(address) = &self.address else { return Ok(()) };
        let has_certificates = has_tls && has_client_ca && matches!(address, Address::Tcp(_));
        if self.authzen_tokens.is_none() && !has_certificates {
            return Err(SettingsError::NoAuthentication);
        }
        if !has_tls && !address.is_local() {
            return Err(SettingsError::NoTls);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthZenSettings, PublicUrl, SettingsError};

    #[test]
    fn nobody_asks_without_authentication_or_encryption() {
        use SettingsError::{NoAuthentication, NoTls};
        for (address, tokens, tls, client_ca, expected) in [
            ("off", false, false, false, Ok(())),
            ("127.0.0.1:1", false, false, false, Err(NoAuthentication)),
            ("127.0.0.1:1", false, true, false, Err(NoAuthentication)),
            ("127.0.0.1:1", false, true, true, Ok(())),
            ("127.0.0.1:1", true, false, false, Ok(())),
            // A Unix socket has no TLS.
            ("unix:/run/a", false, true, true, Err(NoAuthentication)),
            ("unix:/run/a", true, false, false, Ok(())),
            ("0.0.0.0:1", true, false, false, Err(NoTls)),
            ("[::]:1", true, false, true, Err(NoTls)),
            ("0.0.0.0:1", true, true, false, Ok(())),
            ("0.0.0.0:1", false, true, true, Ok(())),
        ] {
            let authzen_tokens = tokens.then(|| "tokens".into());
            let address = address.parse().unwrap();
            let settings = AuthZenSettings { address, authzen_tokens, authzen_url: None };
            assert_eq!(settings.check(tls, client_ca), expected, "{settings:?} {tls} {client_ca}");
        }
    }

    #[test]
    fn a_public_url_is_https_and_has_no_query() {
        for (text, url) in [
            ("https://pdp.example.com", Some(("https://pdp.example.com", ""))),
            ("https://pdp.example.com/", Some(("https://pdp.example.com", ""))),
            ("https://a:8443/tenant/1/", Some(("https://a:8443/tenant/1", "/tenant/1"))),
            ("http://pdp.example.com", None),
            ("https://", None),
            ("https://a?b", None),
            ("https://a#b", None),
            ("https://user@a", None),
            ("pdp.example.com", None),
            ("/a", None),
            ("", None),
        ] {
            let parsed = text.parse::<PublicUrl>().ok();
            let parsed = parsed.as_ref().map(|url| (&*url.text, &*url.path));
            assert_eq!(parsed, url, "{text}");
        }
    }
}
