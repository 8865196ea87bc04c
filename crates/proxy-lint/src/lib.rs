//! Reports settings of nginx and Caddy that make rolegate unsafe or broken behind `auth_request`
//! and `forward_auth`.
//!
//! * `directive`: the directives of a configuration; `nginx_file` and `caddyfile` read them, with
//!   the files that they include;
//! * `nginx`, `caddy`: the findings; `scope`: the directives of nginx that apply in a place;
//! * `finding`: the kinds of findings.
//!
//! The crate does no I/O.

mod caddy;
mod caddyfile;
mod directive;
mod finding;
mod nginx;
mod nginx_file;
mod scope;

use std::path::Path;

use document::{Files, Problem, unaccepted_findings};

pub use finding::{Finding, Kind};

/// A proxy whose configuration can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// nginx, or its ingress.
    Nginx,
    /// Caddy.
    Caddy,
}

/// The options of a check.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    /// The proxy.
    pub proxy: Proxy,
    /// The headers that tell the application who calls, in lower case.
    pub identity_headers: &'a [String],
    /// Kinds of findings that are not reported.
    pub accepted: &'a [Kind],
}

/// The files that were read, with their texts.
pub(crate) type Texts = Vec<(std::path::PathBuf, String)>;

impl Proxy {
    /// The proxy whose configuration is probably in a file with this name.
    #[must_use]
    pub fn of_file(file: &Path) -> Self {
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if name.contains("caddy") { Self::Caddy } else { Self::Nginx }
    }
}

/// All findings, by place, except accepted ones. A comment `# accept: NAME because REASON` accepts
/// the finding on its line. If the line has nothing but the comment, it accepts the finding on the
/// next line that is not a comment.
///
/// # Errors
/// If the file cannot be read, or has no `auth_request` or `forward_auth`.
pub fn lint(
    files: &dyn Files,
    file: &Path,
    options: Options<'_>,
) -> Result<Vec<Finding>, Vec<Problem>> {
    let (mut findings, texts) = match options.proxy {
        Proxy::Nginx => nginx::lint(files, file, options)?,
        Proxy::Caddy => caddy::lint(files, file, options)?,
    };
    // A file that is included twice has each finding twice.
    findings.sort_by(|a, b| (&a.at, a.kind, &a.message).cmp(&(&b.at, b.kind, &b.message)));
    findings.dedup();
    let files = texts.iter().map(|(file, text)| (file.as_path(), text.as_str()));
    Ok(unaccepted_findings(findings, "rolegate lint-proxy", files, options.accepted))
}
