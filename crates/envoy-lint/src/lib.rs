//! Finds what makes rolegate unsafe, broken or slow in a configuration of Envoy: around the filter `ext_authz`, or around
//! rolegate's own library.
//!
//! [`lint`] reads a bootstrap, a listener, an HTTP connection manager, a filter, the pages of `/config_dump`, an
//! `EnvoyFilter` of Istio, or a `ConfigMap` in YAML with some of these as blocks (`|`). `configuration` finds the parts in it; `connection_manager`,
//! `routes`, `authorizer` and `cluster` look at one part each, `bypass` at how parts are connected, and report [`Finding`]s, whose kinds `finding` lists.
//! `filter` finds the configuration of a filter, also of one that Envoy gets by discovery; `filters` looks at the order of filters,
//! `envoy_filter` at that of those that Istio inserts. `rewrites` looks at paths, methods and hosts that are rewritten behind the
//! authorization, `route_cache` at filters that have Envoy choose another route there, `transport` at the connection to rolegate,
//! `client_routing` at what a client names, `credentials` at logs. `gateway` and `mesh` look at resources of Envoy Gateway and
//! Istio, which `kubernetes` finds. `values` has what all of these ask of a value.
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

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use document::{Acceptable, Mark, Node, Problem, Reader, View};

pub use finding::{Finding, Kind, Severity};

use configuration::Configuration;
use filter::Discovered;

/// All findings, by place. `accepted` are kinds that are not reported; a comment `# accept: NAME because REASON` accepts
/// one finding, on its line or on those directly above it.
///
/// # Errors
/// If the file is not YAML, has a field in two spellings (`upgrade_configs` and `upgradeConfigs`), or has neither the filter
/// `ext_authz` nor rolegate's library in it.
pub fn lint(file: &Path, bytes: &[u8], accepted: &[Kind]) -> Result<Vec<Finding>, Vec<Problem>> {
    let file: Arc<Path> = file.into();
    let mut reader = Reader::new(file.clone());
    let documents = documents(&mut reader, bytes)?;
    let roots: Vec<View<'_>> = documents.iter().map(|root| View::root(root, &file)).collect();
    // Only one of them would be looked at.
    let in_two: Vec<Problem> = roots.iter().filter_map(|root| root.in_one_spelling().err()).collect();
    if !in_two.is_empty() {
        return Err(in_two);
    }
    let mut discovered = Discovered::default();
    roots.iter().for_each(|root| discovered.add(root));
    let configurations: Vec<_> = roots.iter().map(|root| Configuration::of(root, &discovered)).collect();
    let mut findings = Findings::default();
    configurations.iter().for_each(|one| one.lint(&configurations, &discovered, &mut findings));
    let (objects, meshes) = (kubernetes::objects(&roots), mesh::configs(&roots));
    gateway::lint(&objects, &mut findings);
    mesh::lint(&objects, &meshes, &mut findings);
    let is_policy = |object: &View<'_>| gateway::authorizes(object) || mesh::authorizes(object);
    if !configurations.iter().any(Configuration::authorizes)
        && meshes.is_empty()
        && !objects.iter().any(is_policy)
    {
        let message = "there is no filter `ext_authz` here, and not rolegate's library";
        let (more, help) = if configurations.iter().any(Configuration::has_routes) {
            let help = "add them as a further document (`---`) to the file with their listener, or give what `/config_dump` prints";
            (": routes alone are not checked", help)
        } else {
            let help = "give a bootstrap, a listener, an HTTP connection manager or a page of `/config_dump` that has one";
            ("", help)
        };
        return Err(vec![Problem::error(reader.place(Mark::START), format!("{message}{more}")).help(help)]);
    }
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    Ok(findings.unaccepted(&file, text, accepted))
}

/// The documents of the file, and those inside its `ConfigMap`s.
fn documents(reader: &mut Reader, bytes: &[u8]) -> Result<Vec<Node>, Vec<Problem>> {
    let file: Arc<Path> = reader.place(Mark::START).file;
    let mut documents = parsed(reader, bytes)?;
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let inner = documents.iter().map(|root| kubernetes::configurations(&View::root(root, &file), text));
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

/// The findings so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding about this value, with the text of its kind.
    fn report(&mut self, view: &View<'_>, kind: Kind) {
        let (message, fix) = kind.text();
        self.add(view, kind, message, fix);
    }

    /// Adds a finding about this value.
    fn add(&mut self, view: &View<'_>, kind: Kind, message: impl Into<String>, fix: impl Into<String>) {
        let visible = |text: String| -> String {
            let escaped = |letter: char| match letter {
                '\n' => String::from(letter),
                _ if letter.is_control() => letter.escape_default().to_string(),
                _ => String::from(letter),
            };
            text.chars().map(escaped).collect()
        };
        let (message, fix) = (visible(message.into()), visible(fix.into()));
        let finding = Finding { kind, at: view.place(), message, fix };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }

    fn unaccepted(self, file: &Path, text: &str, kinds: &[Kind]) -> Vec<Finding> {
        let names: Vec<&'static str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let acceptable = Acceptable { noun: "finding", command: "rolegate lint-envoy", names: &names };
        let found: Vec<_> = self.0.iter().map(|finding| (&finding.at, finding.kind.name())).collect();
        let by_comment = acceptable.accepted([(file, text)].into_iter(), &found);
        let kinds: BTreeSet<Kind> = kinds.iter().copied().collect();
        let left = self.0.into_iter().zip(by_comment.findings);
        let left = left.filter(|(finding, accepted)| !accepted && !kinds.contains(&finding.kind));
        let wrong = by_comment.wrong.into_iter().map(|(at, message, fix)| Finding {
            kind: Kind::Acceptance,
            at,
            message,
            fix,
        });
        let mut all: Vec<Finding> = left.map(|(finding, _)| finding).chain(wrong).collect();
        all.sort_by(|one, other| (&one.at, one.kind).cmp(&(&other.at, other.kind)));
        all
    }
}
