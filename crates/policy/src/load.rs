//! Loads a policy: parses its files, resolves names, and warns of what is probably not intended.

use std::path::Path;

use crate::lint;
use crate::model::{Identity, Policy};
use crate::parse;
use document::{Files, PolicyFile, Problem, Severity};

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

/// Loads the policy in `file`, with all files that it names.
///
/// # Errors
/// All problems in all files, including warnings, sorted by place.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    load_with(files, file, |_| Vec::new())
}

/// Like [`load`], but also reports what `check` finds in the identity settings, even if the policy has other errors.
/// This crate cannot check whether a hash or a key is usable, and all problems should be reported at once.
///
/// # Errors
/// Like [`load`], including the problems that `check` found.
pub fn load_with(
    files: &dyn Files,
    file: &Path,
    check: impl FnOnce(&Identity) -> Vec<Problem>,
) -> Result<Loaded, Vec<Problem>> {
    let parse::Parsed { policy: unresolved, mut problems, files } = parse::parse(files, file);
    let missing = unresolved.missing;
    lint::identities(&unresolved, &mut problems);
    lint::token_roles(&unresolved, &mut problems);
    let granted = unresolved.grants.len();
    let policy = parse::resolve(unresolved, &mut problems);
    lint::rules(&policy, missing.roles || missing.rules, &mut problems);
    // A grant of an unknown role may be that of a role which seems to be unused.
    let missing_grants = missing.grants || policy.grants.len() < granted;
    if !missing.roles && !missing_grants && !missing.identity {
        lint::roles(&policy, &mut problems);
        lint::shared_users(&policy, &mut problems);
        lint::shared_names(&policy, &mut problems);
        if !missing.rules {
            lint::prefixed_users(&policy, &mut problems);
        }
    }
    let broken = problems.iter().any(|problem| problem.severity == Severity::Error);
    if broken {
        problems.extend(check(&policy.identity));
    } else {
        lint::no_roles(&policy, file, &mut problems);
    }
    problems.sort_by(|one, other| one.at.cmp(&other.at));
    if broken {
        return Err(problems);
    }
    Ok(Loaded { policy, warnings: problems, files })
}
