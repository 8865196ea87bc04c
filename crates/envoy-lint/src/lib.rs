//! Reports settings of Envoy that make rolegate unsafe, broken or slow: around the filter
//! `ext_authz`, or around rolegate's own library.
//!
//! [`lint`] reads a bootstrap, a listener, an HTTP connection manager, a filter, the pages of
//! `/config_dump`, resources of Istio and Envoy Gateway, or a `ConfigMap` in YAML with some of
//! these as blocks (`|`). `configuration` collects the parts of all documents. Each other module
//! checks one part and reports [`Finding`]s. `finding` lists their kinds.
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

use std::path::Path;
use std::sync::Arc;

use document::{FindingKind as _, Node, Place, Problem, Reader, View, unaccepted_findings};

pub use finding::{Finding, Kind};

use configuration::Configuration;
use filter::Discovered;

/// Fixes for a part that is in a control plane, not in the file.
const LINT_DUMP: &str = "lint what `/config_dump` of Envoy's admin page prints";
const LINT_ENDPOINTS: &str = "lint what `/config_dump?include_eds` of Envoy's admin page prints";

/// All findings, by place. `accepted` are kinds that are not reported; a comment `# accept: NAME
/// because REASON` accepts the finding on its line or on the lines directly below it.
///
/// # Errors
/// If the file is not YAML, has a field in two spellings (`upgrade_configs` and `upgradeConfigs`),
/// or contains neither the filter `ext_authz` nor rolegate's library.
pub fn lint(file: &Path, bytes: &[u8], accepted: &[Kind]) -> Result<Vec<Finding>, Vec<Problem>> {
    let file: Arc<Path> = file.into();
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let documents = parse_with_config_maps(&file, text, bytes)?;
    let roots: Vec<View<'_>> = documents.iter().map(|root| View::root(root, &file)).collect();
    // Of a field in two spellings, only one value would be read.
    let ambiguous: Vec<_> = roots.iter().filter_map(|root| root.check_spellings().err()).collect();
    if !ambiguous.is_empty() {
        return Err(ambiguous);
    }
    let discovered = Discovered::new(&roots);
    let configuration = Configuration::new(&roots, &discovered);
    let mut findings = Findings::default();
    configuration.lint(&discovered, &mut findings);
    let (objects, meshes) = (kubernetes::objects(&roots), mesh::configs(&roots));
    gateway::lint(&objects, &mut findings);
    mesh::lint(&objects, &meshes, &mut findings);
    let is_policy = |object: &View<'_>| gateway::authorizes(object) || mesh::authorizes(object);
    if configuration.authorizes() || !meshes.is_empty() || objects.iter().any(is_policy) {
        let files = [(&*file, text)].into_iter();
        return Ok(unaccepted_findings(findings.0, "rolegate lint-envoy", files, accepted));
    }
    let message = "there is neither a filter `ext_authz` nor rolegate's library here";
    let (more, help) = if configuration.has_routes() {
        let help = "add them as a further document (`---`) to the file with their listener, or \
                    give what `/config_dump` prints";
        (": routes alone are not checked", help)
    } else {
        let help = "give a bootstrap, a listener, an HTTP connection manager or a page of \
                    `/config_dump` that has one";
        ("", help)
    };
    let start = Place::start_of(&file);
    Err(vec![Problem::error(start, format!("{message}{more}")).help(help)])
}

/// The documents of the file, and those inside its `ConfigMap`s.
fn parse_with_config_maps(
    file: &Arc<Path>,
    text: &str,
    bytes: &[u8],
) -> Result<Vec<Node>, Vec<Problem>> {
    let mut documents = parse(file, bytes)?;
    let mut blocks = Vec::new();
    for root in &documents {
        let configurations = kubernetes::configurations(&View::root(root, file), text);
        blocks.extend(configurations.map_err(|problem| vec![problem])?);
    }
    for block in blocks {
        documents.extend(parse(file, block.as_bytes())?);
    }
    Ok(documents)
}

fn parse(file: &Arc<Path>, bytes: &[u8]) -> Result<Vec<Node>, Vec<Problem>> {
    let mut reader = Reader::new(file.clone());
    match reader.parse_foreign(bytes) {
        Some(documents) if reader.errors() == 0 => Ok(documents),
        Some(_) | None => Err(reader.finish()),
    }
}

/// The findings of all checks, in the order of the checks.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    /// Adds a finding about this value, with the message and the fix of its kind.
    fn add_kind(&mut self, view: &View<'_>, kind: Kind) {
        let (message, fix) = kind.text();
        self.add(view, kind, message, fix);
    }

    /// Adds such a finding about the setting at this path, unless it is missing or `false`.
    fn add_kind_if_on(&mut self, view: &View<'_>, path: &str, kind: Kind) {
        let (message, fix) = kind.text();
        self.add_if_on(view, path, kind, message, fix);
    }

    fn add_if_on(&mut self, view: &View<'_>, path: &str, kind: Kind, message: &str, fix: &str) {
        if let Some(setting) = setting_unless_false(view, path) {
            self.add(&setting, kind, message, fix);
        }
    }

    /// Adds a finding about this value.
    fn add(&mut self, view: &View<'_>, kind: Kind, message: impl AsRef<str>, fix: impl AsRef<str>) {
        let (message, fix) = (visible(message.as_ref()), visible(fix.as_ref()));
        let finding = Finding { kind, at: view.place(), message, fix };
        if !self.0.contains(&finding) {
            self.0.push(finding);
        }
    }
}

/// Escapes control characters other than newlines.
fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() && character != '\n' {
            visible.extend(character.escape_default());
        } else {
            visible.push(character);
        }
    }
    visible
}

/// The setting at this path, unless it is missing or `false`. A value that cannot be read counts as
/// `true`, which is the unsafe value.
fn setting_unless_false<'n>(view: &View<'n>, path: &str) -> Option<View<'n>> {
    view.get(path).filter(|value| value.boolean() != Some(false))
}

/// The value at this path, or `view` itself if there is none.
fn get_or_self<'n>(view: &View<'n>, path: &str) -> View<'n> {
    view.get(path).unwrap_or_else(|| view.clone())
}

/// Whether a name is in a list of names separated by spaces.
fn is_among(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|listed| listed == name)
}

/// Whether a condition holds for this value or any text inside it.
fn has_text(view: &View<'_>, condition: &dyn Fn(&str) -> bool) -> bool {
    view.any(&|value| value.text().is_some_and(condition))
}
