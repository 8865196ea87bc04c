//! The settings of AuthZEN.

use std::path::PathBuf;

use clap::Args;

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
}

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
    use super::{AuthZenSettings, SettingsError};

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
            let settings = AuthZenSettings { address: address.parse().unwrap(), authzen_tokens };
            assert_eq!(
                settings.check(tls, client_ca),
                expected,
                "{address} {tokens} {tls} {client_ca}"
            );
        }
    }
}
