//! The settings of HTTP forward-auth.

use std::sync::Arc;

use clap::Args;

use super::{ForwardAuth, Profile, TrustedNetwork};
use crate::{Address, AdminAddress};

/// Where proxies other than Envoy ask, and how.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "HTTP forward-auth")]
pub struct ForwardAuthSettings {
    /// Address where nginx, Traefik, Caddy, HAProxy or Envoy ask over HTTP/1.1, or `off`.
    ///
    /// TLS is that of the gRPC listeners. It needs `http-profile`, and on TCP `http-trusted`.
    #[arg(id = "http", long = "http", value_name = "ADDR", default_value = "off")]
    pub address: AdminAddress,

    /// Proxy that asks, which determines where the original request is.
    ///
    /// It is never guessed. A question without one of these headers, or with one of them twice, gets
    /// 400.
    #[arg(long, value_enum, value_name = "PROXY")]
    pub http_profile: Option<Profile>,

    /// Networks of the proxies that may ask, such as `10.0.0.0/8`.
    ///
    /// Other addresses get 403. Required on TCP without `tls-client-ca`: a peer that
    /// may ask can name any client.
    #[arg(long, value_name = "NETWORK", value_delimiter = ',')]
    pub http_trusted: Vec<TrustedNetwork>,

    /// What Envoy puts before each path (`path_prefix`), with the profile `envoy`.
    #[arg(long, value_name = "PATH")]
    pub http_path_prefix: Option<String>,
}

/// What is missing for HTTP forward-auth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// The proxy is not known.
    #[error(
        "`http` needs `http-profile`, the proxy that asks: nginx, traefik, caddy, haproxy or envoy"
    )]
    NoProfile,
    /// Anybody could ask.
    #[error(
        "`http` needs `http-trusted`, the networks of the proxies, such as `http-trusted: \
         127.0.0.1/32`: a peer that may ask can name any client and any request. Only a Unix \
         socket (`http: unix:PATH`) and mutual TLS (`tls-client-ca`) need none"
    )]
    NoTrusted,
}

impl ForwardAuthSettings {
    /// The address and how to answer there; `None` if it is off. `has_client_ca`: clients need a
    /// certificate.
    ///
    /// # Errors
    /// If another setting is missing.
    pub fn listener(
        &self,
        has_client_ca: bool,
    ) -> Result<Option<(&Address, Arc<ForwardAuth>)>, SettingsError> {
        let AdminAddress::On(address) = &self.address else { return Ok(None) };
        let profile = self.http_profile.ok_or(SettingsError::NoProfile)?;
        let trusted = Some(self.http_trusted.clone()).filter(|networks| !networks.is_empty());
        if trusted.is_none() && matches!(address, Address::Tcp(_)) && !has_client_ca {
            return Err(SettingsError::NoTrusted);
        }
        let path_prefix = self.http_path_prefix.as_deref().unwrap_or_default().into();
        Ok(Some((address, Arc::new(ForwardAuth { profile, path_prefix, trusted }))))
    }

    /// Whether every address may ask.
    #[must_use]
    pub fn trusts_everybody(&self) -> bool {
        self.http_trusted.iter().any(|network| network.is_everybody())
    }
}
