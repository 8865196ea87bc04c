//! The arguments of `rolegate lint-proxy`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use proxy_lint::{Kind, Proxy};

use super::Format;
use super::findings::finding_kind;

/// The arguments of `lint-proxy`.
#[derive(Args, Debug)]
pub struct LintProxyArgs {
    /// The configuration of nginx, or a Caddyfile, with the files that it includes; `-` reads
    /// standard input. Files are found relative to this one.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The proxy; by default Caddy if the name of the file has `caddy` in it, otherwise nginx.
    #[arg(long, value_enum, value_name = "PROXY")]
    pub(crate) proxy: Option<ProxyName>,
    /// A header that tells the application who calls, besides those that the configuration takes
    /// from rolegate's answer; repeat the flag for more than one.
    #[arg(long, value_name = "NAME", default_value = "x-user")]
    pub(crate) identity_header: Vec<String>,
    /// Accept findings with this name; repeat the flag for more than one. The file accepts one
    /// finding by a comment: `# accept: NAME because REASON`.
    #[arg(long, value_name = "NAME", value_parser = finding_kind::<Kind>)]
    pub(crate) accept: Vec<Kind>,
    /// Fail on notes too.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub(crate) output: Format,
}

/// A proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyName {
    /// nginx, with `auth_request`.
    Nginx,
    /// Caddy, with `forward_auth`.
    Caddy,
}

impl LintProxyArgs {
    /// The proxy that is given, or that of the file's name.
    pub(crate) fn proxy(&self) -> Proxy {
        match self.proxy {
            Some(ProxyName::Nginx) => Proxy::Nginx,
            Some(ProxyName::Caddy) => Proxy::Caddy,
            None => Proxy::of_file(&self.file),
        }
    }
}
