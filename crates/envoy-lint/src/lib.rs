//! Finds what makes rolegate unsafe, broken or slow in a configuration of Envoy: around the filter
//! `ext_authz`, or around rolegate's own library.
//!
//! [`lint`] reads a bootstrap, a listener, an HTTP connection manager, a filter, the pages of
//! `/config_dump`, resources of Istio and Envoy Gateway, or a `ConfigMap` in YAML with some of
//! these as blocks (`|`). `configuration` finds the parts of all documents; the other modules check
//! one part each and report [`Finding`]s, whose kinds `finding` lists.
//!
//! The crate does no I/O.

mod authorizer;
mod bypass;
mod client_routing;
mod cluster;
mod configuration;
mod connection_manager;
mod credentials;
mod envoy_filter;
mod filter;
mod filters;
mod finding;
mod gateway;
mod kubernetes;
mod mesh;
mod rewrites;
mod route_cache;
mod routes;
mod transport;
mod values;

use std::path::Path;
use std::sync::Arc;

use document::{Acceptable, Mark, Node, Problem, Reader, View};

pub use finding::{Finding, Kind, Severity};

use configuration::Configuration;
use filter::Discovered;

/// All findings, by place. `accepted` are kinds that are not reported; a comment `# accept: NAME
/// because REASON` accepts one finding, on its line or on those directly above it.
///
/// # Errors
/// If the file is not YAML, has a field in two spellings (`upgrade_configs` and `upgradeConfigs`),
/// or has neither the filter `ext_authz` nor rolegate's library in it.
pub fn lint(file: &Path, bytes: &[u8], accepted: &[Kind]) -> Result<Vec<Finding>, Vec<Problem>> {
    let file: Arc<Path> = file.into();
    let mut reader = Reader::new(file.clone());
    let documents = documents(&mut reader, bytes)?;
    let roots: Vec<View<'_>> = documents.iter().map(|root| View::root(root, &file)).collect();
    // Only one of them would be read.
    let in_two: Vec<Problem> =
        roots.iter().filter_map(|root| root.in_one_spelling().err()).collect();
    if !in_two.is_empty() {
        return Err(in_two);
    }
    let discovered = Discovered::new(&roots);
    let configuration = Configuration::new(&roots, &discovered);
    let mut findings = Findings::default();
    configuration.lint(&discovered, &mut findings);
    let (objects, meshes) = (kubernetes::objects(&roots), mesh::configs(&roots));
    gateway::lint(&objects, &mut findings);
    mesh::lint(&objects, &meshes, &mut findings);
    let is_policy = |object: &View<'_>| gateway::authorizes(object) || mesh::authorizes(object);
    if !configuration.authorizes() && meshes.is_empty() && !objects.iter().any(is_policy) {
        let message = "there is no filter `ext_authz` here, and not rolegate's library";
        let (more, help) = if configuration.has_routes() {
            let help = "add them as a further document (`---`) to the file with their listener, or give what `/config_dump` prints";
            (": routes alone are not checked", help)
        } else {
            let help = "give a bootstrap, a listener, an HTTP connection manager or a page of `/config_dump` that has one";
            ("", help)
        };
        return Err(vec![
            Problem::error(reader.place(Mark::START), format!("{message}{more}")).help(help),
        ]);
    }
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    Ok(findings.unaccepted(&file, text, accepted))
}

/// The documents of the file, and those inside its `ConfigMap`s.
fn documents(reader: &mut Reader, bytes: &[u8]) -> Result<Vec<Node>, Vec<Problem>> {
    let file: Arc<Path> = reader.place(Mark::START).file;
    let mut documents = parsed(reader, bytes)?;
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let inner =
        documents.iter().map(|root| kubernetes::configurations(&View::root(root, &file), text));
    let inner = inner.collect::<Result<Vec<_>, _>>().map_err(|problem| vec![problem])?;
    for text in inner.concat() {
        documents.extend(parsed(reader, text.as_bytes())?);
    }
    Ok(documents)
}

fn parsed(reader: &mut Reader, bytes: &[u8]) -> Result<Vec<Node>, Vec<Problem>> {
    match reader.parse_foreign(bytes) {
        Some(documents) if reader.errors() == 0 => Ok(documents),
        Some(_) | None => {
            let start = reader.place(Mark::START);
            Err(std::mem::replace(reader, Reader::new(start.file)).finish())
        }
    }
}

#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding about this value, with the text of its kind.
    fn report(&mut self, view: &View<'_>, kind: Kind) {
        let (message, fix) = kind.text();
        self.add(view, kind, message, fix);
    }

    /// Adds a finding about this value.
    fn add(
        &mut self,
        view: &View<'_>,
        kind: Kind,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let (message, fix) = (visible(&message.into()), visible(&fix.into()));
        let finding = Finding { kind, at: view.place(), message, fix };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    /// The findings that neither a comment nor `accepted` accepts, and those about comments.
    fn unaccepted(self, file: &Path, text: &str, accepted: &[Kind]) -> Vec<Finding> {
        let names: Vec<&'static str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let acceptable =
            Acceptable { noun: "finding", command: "rolegate lint-envoy", names: &names };
        let places: Vec<_> =
            self.0.iter().map(|finding| (&finding.at, finding.kind.name())).collect();
        let by_comment = acceptable.accepted([(file, text)].into_iter(), &places);
        let mut findings: Vec<Finding> = self
            .0
            .into_iter()
            .zip(by_comment.findings)
            .filter(|(finding, is_accepted)| !is_accepted && !accepted.contains(&finding.kind))
            .map(|(finding, _)| finding)
            .collect();
        findings.extend(by_comment.wrong.into_iter().map(|(at, message, fix)| Finding {
            kind: Kind::Acceptance,
            at,
            message,
            fix,
        }));
        findings.sort_by(|a, b| (&a.at, a.kind).cmp(&(&b.at, b.kind)));
        findings
    }
}

/// The text with its control characters escaped, apart from ends of lines.
fn visible(text: &str) -> String {
    let is_hidden = |letter: char| letter.is_control() && letter != '\n';
    let escape = |letter: char| {
        if is_hidden(letter) { letter.escape_default().to_string() } else { letter.to_string() }
    };
    text.chars().map(escape).collect()
}
