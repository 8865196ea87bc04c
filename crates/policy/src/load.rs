//! Loads a policy: parses its files and resolves names.

use std::path::Path;

use document::{Files, PolicyFile, Problem, Severity};

use crate::model::Policy;
use crate::parse::unresolved::UnresolvedGrant;
use crate::parse::{self as parser};

/// A valid policy, with everything that was read to load it.
#[derive(Debug)]
pub struct Loaded {
    /// The policy.
    pub policy: Policy,
    /// Warnings, which do not prevent its use.
    pub warnings: Vec<Problem>,
    /// Every file that was read, in order of reading: the policy, included files, password files and key files.
    pub files: Vec<PolicyFile>,
}

/// What was read from a policy's files. The policy is complete if no problem is an error.
#[derive(Debug)]
pub struct Parsed {
    /// The policy, without the parts that could not be read.
    pub policy: Policy,
    /// All problems so far.
    pub problems: Vec<Problem>,
    /// The grants as written, with their places.
    pub grants: Vec<UnresolvedGrant>,
    /// The main file.
    pub file: std::path::PathBuf,
    /// Every file that was read, in order of reading.
    pub files: Vec<PolicyFile>,
}

/// Loads the policy in `file`, with all files that it names. [`lint::load`](../lint/fn.load.html) also warns of what is probably
/// not intended.
///
/// # Errors
/// All problems in all files, including warnings, sorted by place.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    parse(files, file).into_loaded()
}

/// Parses the policy in `file`, with all files that it names.
#[must_use]
pub fn parse(files: &dyn Files, file: &Path) -> Parsed {
    let parser::Parsed { policy: unresolved, mut problems, files } = parser::parse(files, file);
    let grants = unresolved.grants.clone();
    let policy = parser::resolve(unresolved, &mut problems);
    Parsed { policy, problems, grants, file: file.to_owned(), files }
}

impl Parsed {
    /// Whether the policy has an error.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }

    /// The policy, if it is valid.
    ///
    /// # Errors
    /// All problems, if at least one is an error, sorted by place.
    pub fn into_loaded(mut self) -> Result<Loaded, Vec<Problem>> {
        self.problems.sort_by(|a, b| a.at.cmp(&b.at));
        if self.is_broken() {
            return Err(self.problems);
        }
        Ok(Loaded { policy: self.policy, warnings: self.problems, files: self.files })
    }
}
