//! Loads a policy from its files.

mod draft;
mod gather;
mod host;
pub mod htpasswd;
mod identity;
mod jwt;
mod link;
mod lint;
mod method;
mod password;
mod path;
mod percent;
mod response;
mod rule;
mod sources;
mod template;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::load::gather::Gather;
use crate::load::sources::Sources;
use crate::model::{Identity, Policy};
use crate::problem::{Problem, Severity};

/// The source of a policy's files.
pub trait Files {
    /// The contents of a file.
    ///
    /// # Errors
    /// A message for people, such as `no such file`.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// The names of the files in a folder, in any order. The current folder is `.`.
    ///
    /// # Errors
    /// A message for people.
    fn list(&self, folder: &Path) -> Result<Vec<String>, String>;
}

/// A valid policy, with everything that was read to load it.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// Warnings, which do not prevent its use.
    pub warnings: Vec<Problem>,
    /// Every file that was read, in order of reading: the policy, included files, password files and key files.
    pub sources: Vec<Source>,
}

/// A file that was read.
#[derive(Clone)]
pub struct Source {
    /// Its path.
    pub path: PathBuf,
    /// Its contents.
    pub bytes: Arc<[u8]>,
}

/// Omits the bytes, which may be password hashes and keys.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Source").field(&self.path).finish()
    }
}

/// Loads the policy in `file`, with all files that it names.
///
/// # Errors
/// All problems in all files, including warnings, sorted by place.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    load_with(files, file, |_| Vec::new())
}

/// Like [`load`], but also reports what `judge` finds in the identity settings, even if the policy has other errors.
/// This crate cannot check whether a hash or a key is usable, and all problems should be reported at once.
///
/// # Errors
/// Like [`load`], including the problems that `judge` found.
pub fn load_with(
    files: &dyn Files,
    file: &Path,
    judge: impl FnOnce(&Identity) -> Vec<Problem>,
) -> Result<Loaded, Vec<Problem>> {
    let mut gather = Gather::new(Sources::new(files));
    gather.policy(file);
    let Gather { sources, draft, mut problems, .. } = gather;
    let missing = draft.missing;
    lint::identities(&draft, &mut problems);
    let policy = link::link(draft, &mut problems);
    lint::rules(&policy, missing.roles || missing.rules, &mut problems);
    if !missing.roles && !missing.grants && !missing.identity {
        lint::roles(&policy, &mut problems);
    }
    let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    if broken {
        problems.extend(judge(&policy.identity));
    }
    problems.sort_by(|one, other| one.at.cmp(&other.at));
    if broken {
        return Err(problems);
    }
    Ok(Loaded { policy, warnings: problems, sources: sources.finish() })
}

/// Files in memory, by path.
#[derive(Clone, Debug, Default)]
pub struct MapFiles(pub BTreeMap<PathBuf, Vec<u8>>);

impl MapFiles {
    /// A single file.
    #[must_use]
    pub fn of(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().and(path, bytes)
    }

    /// Adds a file.
    #[must_use]
    pub fn and(mut self, path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.insert(PathBuf::from(path), bytes.into());
        self
    }
}

impl Files for MapFiles {
    fn read(&self, path: &Path) -> Result<Vec<u8>, String> {
        let same = |it: &&PathBuf| sources::identity(it) == sources::identity(path);
        let known = self.0.get(path).or_else(|| self.0.keys().find(same).and_then(|it| self.0.get(it)));
        known.cloned().ok_or_else(|| "no such file".to_owned())
    }

    fn list(&self, folder: &Path) -> Result<Vec<String>, String> {
        let folder = if folder == Path::new(".") { Path::new("") } else { folder };
        let inside = self.0.keys().filter(|path| path.parent() == Some(folder));
        let names: Vec<String> =
            inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
        if names.is_empty() { Err("no such folder".to_owned()) } else { Ok(names) }
    }
}
