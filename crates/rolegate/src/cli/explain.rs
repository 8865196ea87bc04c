//! The arguments of `rolegate explain`, and those of a request.

use std::path::{Path, PathBuf};

use clap::Args;

use super::{BodyArgs, CallerArgs, Format, PolicyArgs, PublicKeys};

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
    /// The policy.
    #[command(flatten)]
    policy: PolicyArgs,
    /// Explain the decision in this file, one line of the decision log, for the caller that it names; `-` reads standard
    /// input. With more lines: group the denials, and say what is missing for each group.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["target", "host", "headers", "client", "basic", "bearer", "user", "issuer"]
    )]
    pub decision: Option<PathBuf>,
    /// The caller.
    #[command(flatten)]
    pub caller: CallerArgs,
    /// A header of the request; repeat the flag for more than one.
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[command(flatten)]
    pub body: BodyArgs,
    /// The client's address, for role mappings of a search cluster with `hosts`.
    #[arg(long, value_name = "ADDRESS")]
    pub client: Option<std::net::IpAddr>,
    /// Who must have signed a bundle.
    #[command(flatten)]
    pub public_keys: PublicKeys,
    /// Output format.
    #[arg(long, visible_alias = "format", value_enum, default_value_t)]
    pub output: Format,
}

/// The request.
#[derive(Args, Debug)]
pub struct RequestArgs {
    /// The HTTP method.
    #[arg(value_parser = method)]
    pub method: String,
    /// The path, or a URL with its host.
    #[arg(value_name = "PATH|URL")]
    pub target: String,
    /// The host of the request; by default that of the URL, else `localhost`.
    #[arg(long)]
    pub host: Option<String>,
}

impl ExplainArgs {
    /// Where the policy is. With `--decision` it is the only argument, in the place of the method.
    #[must_use]
    pub fn policy(&self) -> &Path {
        match (&self.decision, &self.method) {
            (Some(_), Some(policy)) => Path::new(policy),
            (Some(_), None) | (None, _) => self.policy.path(),
        }
    }

    /// The request; none with `--decision`.
    ///
    /// # Errors
    /// What to write instead.
    pub fn request(&self) -> Result<Option<RequestArgs>, String> {
        if self.decision.is_some() {
            return Ok(None);
        }
        let method = self.method.as_deref().map(method).transpose()?;
        let (Some(method), Some(target)) = (method, &self.target) else {
            return Err("give a request, such as `GET /people`, or `--decision FILE`".to_owned());
        };
        Ok(Some(RequestArgs { method, target: target.clone(), host: self.host.clone() }))
    }
}

impl RequestArgs {
    /// The path with its query, in the form that HTTP has, and the host.
    #[must_use]
    pub fn path_and_host(&self) -> (String, String) {
        let (path, host) = explain::split_target(&self.target);
        let host = self.host.as_deref().or(host).unwrap_or("localhost");
        (path, host.to_owned())
    }
}

fn method(text: &str) -> Result<String, String> {
    if text.starts_with('/') || text.contains("://") {
        return Err(format!("not a method: write one before the path, such as `GET {text}`"));
    }
    if text.contains('/') || text.starts_with('.') || text.ends_with(".yaml") {
        return Err("not a method: the policy comes last, as in `GET /people policy.yaml`".to_owned());
    }
    match text.split_once(['|', ',']) {
        Some((first, _)) => Err(format!("a request has one method: did you mean `{}`?", first.trim())),
        None if text == "*" => Err("a request has one method: name it, such as `GET`".to_owned()),
        None => Ok(text.to_owned()),
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("not a header: write one such as `x-team: red`")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}
