//! A policy with the same answers as the configuration of another system (Envoy's RBAC filter, or
//! Istio), apart from listed exceptions.
//!
//! The original becomes a condition (`expr`) on parts of the request and on the caller. A condition
//! that rolegate cannot express is approximated from below where it allows, and from above where it
//! denies. The imported policy therefore allows more only in three cases: a note says so, or
//! `--allow-wider` accepts it, or a request has another spelling of an allowed path (`/a//b`),
//! because rolegate compares canonical paths. A note mentions spellings for Envoy; for Istio, which
//! normalizes most paths, only `import istio --help` does. Each approximation is a [`Note`] with
//! its place.
//!
//! `envoy` and `istio` read the originals. `matcher`, `paths` and `regex` turn string matchers into
//! patterns, `when`, `header`, `address` and `range` write conditions in CEL, and `term` combines
//! conditions. `sources` has the identity sources. `lower` turns the condition into rules and
//! roles, and `write` writes them as a policy.
//!
//! The crate does no I/O.

mod address;
mod envoy;
mod expr;
mod header;
mod istio;
mod lower;
mod matcher;
mod note;
mod paths;
mod range;
mod regex;
mod sources;
mod spelling;
mod term;
mod text_matcher;
mod tokens;
mod when;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use document::{Place, Problem, Reader, View};

pub use note::{Effect, Note};

use lower::Original;

/// The choices of the person who imports.
#[derive(Clone, Debug)]
pub struct Options {
    /// Also import conditions that rolegate compares less strictly than the original; each is a
    /// [`Note`].
    pub allow_wider: bool,
    /// The audiences of issuers without audiences in the original.
    pub audiences: Vec<String>,
    /// The listener of Envoy to import, if there are several.
    pub listener: Option<String>,
    /// The namespace of the workload whose Istio policies are imported.
    pub namespace: Option<String>,
    /// Istio's root namespace (`rootNamespace` of `MeshConfig`), whose policies apply to all
    /// namespaces.
    pub root_namespace: String,
    /// The labels of this workload.
    pub labels: Vec<(String, String)>,
}

/// Istio's default root namespace.
pub const ROOT_NAMESPACE: &str = "istio-system";

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_wider: false,
            audiences: Vec::new(),
            listener: None,
            namespace: None,
            root_namespace: ROOT_NAMESPACE.to_owned(),
            labels: Vec::new(),
        }
    }
}

/// An imported policy.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The text of `policy.yaml`.
    pub policy: String,
    /// The key sets to write beside the policy: name and content of each file.
    pub key_sets: Vec<(String, String)>,
    /// The differences from the original.
    pub notes: Vec<Note>,
}

impl Imported {
    /// Whether the policy denies what the original allows.
    #[must_use]
    pub fn is_stricter(&self) -> bool {
        self.notes.iter().any(|note| note.effect == Effect::Stricter)
    }
}

/// Imports a configuration of Envoy: a whole bootstrap, a listener, or the configuration of its
/// RBAC filter.
///
/// # Errors
/// If the file is not YAML or JSON, has no RBAC filter, or is too complex.
pub fn envoy_rbac(file: &Path, bytes: &[u8], options: &Options) -> Result<Imported, Vec<Problem>> {
    let file: Arc<Path> = file.into();
    let mut reader = Reader::new(file.clone());
    let help = "give the configuration of Envoy, as YAML or JSON";
    let root = match reader.parse_nonempty(bytes, help) {
        Some(root) if reader.errors() == 0 => root,
        Some(_) | None => return Err(reader.finish()),
    };
    let (root, start) = (View::root(&root, &file), Place::start_of(&file));
    as_strict_as_possible(options, &start, |options| envoy::read(&root, options))
}

/// Imports `AuthorizationPolicy` and `RequestAuthentication` of Istio, from files with any number
/// of documents.
///
/// # Errors
/// If a file is not YAML, there is no such document, the documents are for different workloads, or
/// the result is too complex.
pub fn istio(files: &[(PathBuf, Vec<u8>)], options: &Options) -> Result<Imported, Vec<Problem>> {
    let mut documents = Vec::new();
    for (file, bytes) in files {
        let file: Arc<Path> = file.as_path().into();
        let mut reader = Reader::new(file.clone());
        match reader.parse_foreign(bytes) {
            Some(roots) if reader.errors() == 0 => {
                documents.extend(roots.into_iter().map(|root| (file.clone(), root)));
            }
            Some(_) | None => return Err(reader.finish()),
        }
    }
    let views: Vec<View<'_>> =
        documents.iter().map(|(file, root)| View::root(root, file)).collect();
    let start = Place::start_of(files.first().map_or(Path::new(""), |(file, _)| file));
    as_strict_as_possible(options, &start, |options| istio::read(&views, options, &start))
}

/// Uses `allow_wider` only if that makes a difference. If the strict policy differs in nothing but
/// comments, it is returned, because notes about allowing more would be untrue.
fn as_strict_as_possible(
    options: &Options,
    start: &Place,
    read: impl Fn(&Options) -> Result<Original, Problem>,
) -> Result<Imported, Vec<Problem>> {
    let import = |options: &Options| import(&read(options)?, start);
    let imported = import(options).map_err(|problem| vec![problem])?;
    if options.allow_wider
        && let Ok(strict) = import(&Options { allow_wider: false, ..options.clone() })
        && without_comments(&strict.policy).eq(without_comments(&imported.policy))
    {
        return Ok(strict);
    }
    Ok(imported)
}

fn without_comments(policy: &str) -> impl Iterator<Item = &str> {
    policy.lines().filter(|line| !line.trim_start().starts_with('#'))
}

fn import(original: &Original, start: &Place) -> Result<Imported, Problem> {
    let mut notes: BTreeSet<Note> = original.notes.iter().cloned().collect();
    let roles = lower::roles(original, &mut notes).map_err(|expr::TooComplex| {
        Problem::error(start.clone(), "the conditions have too many alternatives")
    })?;
    let sources = &original.sources;
    notes.extend(sources.notes.borrow().iter().cloned());
    // Of each unusual request, one note is enough.
    let mut messages = BTreeSet::new();
    notes.retain(|note| note.effect != Effect::Unusual || messages.insert(note.message.clone()));
    let notes = notes.into_iter().collect();
    let write::Written { policy, key_sets, inexact } = write::policy(sources, &roles);
    let mut imported = Imported { policy, key_sets, notes };
    write::accept_warnings(&mut imported, sources, &inexact).map_err(|problem| {
        Problem::error(start.clone(), format!("the imported policy is not valid: {problem}"))
    })?;
    Ok(imported)
}
