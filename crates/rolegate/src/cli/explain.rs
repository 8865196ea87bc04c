//! The arguments of `rolegate explain`, and those of a request.

use std::path::{Path, PathBuf};

use clap::Args;
use identity::Certificate;

use super::{BodyArgs, CallerArgs, PolicyOptions};
use crate::error::InvalidValue;

/// The arguments of `explain`.
#[derive(Args, Debug)]
pub struct ExplainArgs {
    /// The HTTP method.
    #[arg(value_name = "METHOD")]
    method: Option<String>,
    /// The path, or a URL with its host.
    #[arg(value_name = "PATH|URL")]
    target: Option<String>,
    /// The host of the request; by default that of the URL, else `localhost`.
    #[arg(long)]
    host: Option<String>,
    /// Explain the decision in this file, a line of the decision log, for the caller that the line
    /// names. With more lines, group the denials, and say what is missing for each group. `-` reads
    /// standard input.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["target", "host", "headers", "client", "certificate", "time", "claims", "basic", "bearer", "api_key", "user", "issuer"]
    )]
    pub(crate) decision: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) caller: CallerArgs,
    /// The claims of the user's token, as JSON, for conditions and headers. Its roles and groups
    /// are those of `--role` and `--group`.
    #[arg(long, value_name = "JSON", value_parser = claims, requires = "user")]
    pub(crate) claims: Option<serde_json::Map<String, serde_json::Value>>,
    #[command(flatten)]
    pub(crate) variables: VariableArgs,
    #[command(flatten)]
    pub(crate) body: BodyArgs,
    /// If no rule allows the request: propose up to three changes of the policy that would, each
    /// with whom else it lets in and what more they may do. The one that allows least else comes
    /// first. No file is written.
    #[arg(long)]
    pub(crate) fix: bool,
    #[command(flatten)]
    pub(crate) policy: PolicyOptions,
}

/// The values that conditions read of a request, apart from the query of the URL.
#[derive(Args, Debug)]
pub(crate) struct VariableArgs {
    /// A header of the request; repeat the flag for more than one.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,
    /// The client's address, for conditions, and for role mappings of a search cluster with
    /// `hosts`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<std::net::IpAddr>,
    /// A name of the client's certificate, as the policy writes it: `spiffe://…` or `dns:…`; repeat
    /// the flag for more than one. Without another caller, it is the caller's credentials.
    #[arg(long, value_name = "NAME", value_parser = certificate)]
    pub(crate) certificate: Vec<String>,
    /// The time of the request (RFC 3339), for conditions.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) time: Option<identity::UnixTime>,
}

impl VariableArgs {
    /// The certificate, if its names are given.
    pub(crate) fn certificate(&self) -> Option<Certificate<'_>> {
        (!self.certificate.is_empty()).then_some(Certificate::Named(&self.certificate))
    }

    /// The client's address as text; empty if it is not given.
    pub(crate) fn client(&self) -> String {
        self.client.map(|address| address.to_string()).unwrap_or_default()
    }
}

/// The request.
#[derive(Args, Debug)]
pub(crate) struct RequestArgs {
    /// The HTTP method.
    #[arg(value_parser = method)]
    pub(crate) method: String,
    /// The path, or a URL with its host.
    #[arg(value_name = "PATH|URL")]
    pub(crate) target: String,
    /// The host of the request; by default that of the URL, else `localhost`.
    #[arg(long)]
    pub(crate) host: Option<String>,
}

impl ExplainArgs {
    /// Where the policy is. With `--decision` it is the only argument, in the place of the method.
    pub(crate) fn policy_path(&self) -> &Path {
        match (&self.decision, &self.method) {
            (Some(_), Some(policy)) => Path::new(policy),
            (Some(_), None) | (None, _) => self.policy.path.get(),
        }
    }

    /// The request; none with `--decision`.
    pub(crate) fn request(&self) -> Result<Option<RequestArgs>, InvalidValue> {
        if self.decision.is_some() {
            return Ok(None);
        }
        let method = self.method.as_deref().map(method).transpose()?;
        let (Some(method), Some(target)) = (method, &self.target) else {
            let message = "give a request, such as `GET /people`, or `--decision FILE`";
            return Err(InvalidValue(message.to_owned()));
        };
        Ok(Some(RequestArgs { method, target: target.clone(), host: self.host.clone() }))
    }
}

impl RequestArgs {
    /// The path with its query, and the host.
    pub(crate) fn path_and_host(&self) -> (String, String) {
        let (path, host) = explain::split_target(&self.target);
        let host = self.host.as_deref().or(host).unwrap_or("localhost");
        (path, host.to_owned())
    }

    /// Whether the arguments have a host.
    pub(crate) fn has_host(&self) -> bool {
        self.host.is_some() || explain::split_target(&self.target).1.is_some()
    }
}

fn method(text: &str) -> Result<String, InvalidValue> {
    let problem = if text.starts_with('/') || text.contains("://") {
        format!("not a method: write one before the path, such as `GET {text}`")
    } else if text.contains('/') || text.starts_with('.') || text.ends_with(".yaml") {
        "not a method: the policy comes last, as in `GET /people policy.yaml`".to_owned()
    } else if let Some((first, _)) = text.split_once(['|', ',']) {
        format!("a request has one method: did you mean `{}`?", first.trim())
    } else if text == "*" {
        "a request has one method: name it, such as `GET`".to_owned()
    } else {
        return Ok(text.to_owned());
    };
    Err(InvalidValue(problem))
}

fn header(text: &str) -> Result<(String, String), &'static str> {
    let (name, value) =
        text.split_once(':').ok_or("not a header: write one such as `x-team: red`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn certificate(text: &str) -> Result<String, &'static str> {
    let help = "not a name: write `spiffe://example.org/ns/a/sa/b`, or `dns:` before a DNS name";
    if text.contains(':') { Ok(text.to_owned()) } else { Err(help) }
}

fn time(text: &str) -> Result<identity::UnixTime, &'static str> {
    policy::cases::parse_time(text).ok_or("not a time: write one such as `2026-01-31T08:00:00Z`")
}

pub(super) fn claims(
    text: &str,
) -> Result<serde_json::Map<String, serde_json::Value>, &'static str> {
    serde_json::from_str(text)
        .map_err(|_| "not a JSON object: write one such as `{\"tenant\":\"acme\"}`")
}
