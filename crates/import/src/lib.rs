//! A policy with the same answers as the configuration of another system (Envoy's RBAC filter, or
//! Istio), apart from listed exceptions.
//!
//! The original becomes a condition (`expr`) on parts of the request and on the caller. A condition
//! that rolegate cannot express is approximated from below where it allows, and from above where it
//! denies, so that the imported policy never allows more, except where a note says so, where
//! `--allow-wider` accepts it, and in other spellings of an allowed path (`/a//b`): rolegate
//! compares canonical paths. For Envoy a note says so; for Istio only `import istio --help` does,
//! because Istio itself normalizes most paths. Each approximation is a [`Note`] with its place.
//! `lower` makes rules and roles of the condition, `write` the text of the policy. `envoy` and
//! `istio` read the originals, `matcher`, `paths` and `regex` turn Envoy's conditions on texts into
//! patterns, `term` combines these, and `sources` has the identity sources.
//!
//! The crate does no I/O.

mod envoy;
mod expr;
mod istio;
mod lower;
mod matcher;
mod note;
mod paths;
mod regex;
mod sources;
mod spelling;
mod term;
mod text_matcher;
mod tokens;
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
    /// The audiences of issuers for which the original names none.
    pub audiences: Vec<String>,
    /// The listener of Envoy to import, if there are several.
    pub listener: Option<String>,
    /// The namespace of the workload whose policies of Istio are imported.
    pub namespace: Option<String>,
    /// The namespace whose policies of Istio are for the workloads of all others (`rootNamespace`
    /// of its `MeshConfig`).
    pub root_namespace: String,
    /// The labels of this workload.
    pub labels: Vec<(String, String)>,
}

/// The root namespace of an installation of Istio that names no other.
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
    /// The key sets that are files beside it, by name.
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
/// If it is not a document, has no RBAC filter, or is too complex.
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

/// Imports with `allow_wider` only if that makes a difference: if the strict policy is the same
/// apart from its comments, that one is returned, because the notes about allowing more would be
/// untrue.
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
        Problem::error(start.clone(), "there are too many alternatives")
    })?;
    let sources = &original.sources;
    notes.extend(sources.notes.borrow().iter().cloned());
    let notes = notes.into_iter().collect();
    let write::Written { policy, key_sets, inexact } = write::policy(sources, &roles);
    let mut imported = Imported { policy, key_sets, notes };
    write::accept_warnings(&mut imported, sources, &inexact).map_err(|problem| {
        Problem::error(start.clone(), format!("the imported policy is not valid: {problem}"))
    })?;
    Ok(imported)
}
