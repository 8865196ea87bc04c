//! Checks over HTTP forward-auth: a proxy asks about each request, and tells in headers which
//! request it means. nginx (`auth_request`), Traefik, Caddy, HAProxy and Envoy (`http_service`) do.
//!
//! `profile` finds the request in the headers, `connection` serves a connection, and `exchange` a
//! question on it. `trusted` says who may ask.

mod asker;
pub(crate) mod connection;
mod exchange;
mod profile;
mod settings;
mod trusted;
mod unsupported;

use std::sync::Arc;

pub use profile::Profile;
pub use settings::{ForwardAuthSettings, SettingsError};
pub use trusted::{NetworkError, TrustedNetwork};
pub use unsupported::unsupported;

/// How a listener answers questions over HTTP.
#[derive(Clone, Debug)]
pub struct ForwardAuth {
    /// Where the request is that a question is about.
    pub profile: Profile,
    /// What the proxy puts before each path; empty for nothing. Only for [`Profile::Envoy`].
    pub path_prefix: Arc<str>,
    /// The networks of the proxies. `None` if something else keeps strangers away: the permissions
    /// of a Unix socket, or mutual TLS.
    pub trusted: Option<Vec<TrustedNetwork>>,
}
