//! From files to a policy.

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

/// Where the bytes of a policy's files come from.
pub trait Files {
    /// The bytes of a file.
    ///
    /// # Errors
    /// A text for the reader, such as `no such file`.
    fn read(&self, path: &Path) -> Result<Vec<u8>, String>;

    /// The names of the files in a folder, in any order. The current folder is `.`.
    ///
    /// # Errors
    /// A text for the reader.
    fn list(&self, folder: &Path) -> Result<Vec<String>, String>;
}

/// A policy that may be used, with what was read for it.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// What somebody should look at.
    pub warnings: Vec<Problem>,
    /// Every file that was read, in the order of reading: the policy, what it includes, password and key files.
    pub sources: Vec<Source>,
}

/// A file that was read.
#[derive(Clone)]
pub struct Source {
    /// Its path.
    pub path: PathBuf,
    /// What was in it.
    pub bytes: Arc<[u8]>,
}

/// Without the bytes: passwords' hashes and keys are among them.
impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Source").field(&self.path).finish()
    }
}

/// Loads the policy in `file` with everything that it names.
///
/// # Errors
/// Every problem in all the files, warnings among them, in the order of their places.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    load_with(files, file, |_| Vec::new())
}

/// As [`load`], with what `judge` finds in the identity settings of a policy that is broken elsewhere: whether a hash or
/// a key is any good is not for this crate to say, and all that is wrong should be said at once.
///
/// # Errors
/// As [`load`], with the problems that `judge` found among them.
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
    /// Only this one file.
    #[must_use]
    pub fn of(path: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().and(path, bytes)
    }

    /// The same with another file.
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
