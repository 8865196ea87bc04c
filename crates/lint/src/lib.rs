//! Warnings about policies that are valid but probably not intended. None of them makes a policy unusable.
//!
//! Each check has a budget: for a policy that is built to be expensive, some warnings are omitted, so that the time
//! stays proportional to the number of rules.

mod below;
mod cover;
mod escape;
mod names;
mod overlap;
mod prefixed_users;
mod reach;
mod related;
mod search;
mod shared_names;
mod shared_users;
mod similar_names;
mod tenants;
mod token_roles;
mod trie;
mod warnings;

use std::path::Path;

use document::{Files, Problem};
use policy::model::{Identity, Policy};
use policy::{Loaded, Parsed};

use crate::trie::Trie;
use crate::warnings::Warnings;

/// Loads the policy in `file` as [`policy::load`], and adds warnings.
///
/// # Errors
/// All problems in all files, including warnings, sorted by place.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    load_with(files, file, |_| Vec::new())
}

/// Like [`load`]. If the policy has errors, the problems that `check` finds in the identity settings are among them: neither this
/// crate nor `policy` can check whether a hash or a key is usable, and all problems should be reported at once.
///
/// # Errors
/// Like [`load`], including the problems that `check` found.
pub fn load_with(
    files: &dyn Files,
    file: &Path,
    check: impl FnOnce(&Identity) -> Vec<Problem>,
) -> Result<Loaded, Vec<Problem>> {
    let mut parsed = policy::parse(files, file);
    let warnings = warnings_of(&parsed);
    parsed.problems.extend(warnings);
    if parsed.is_broken() {
        parsed.problems.extend(check(&parsed.policy.identity));
    }
    parsed.into_loaded()
}

/// The warnings about a policy. Checks that need a part that could not be read are skipped.
fn warnings_of(parsed: &Parsed) -> Vec<Problem> {
    let Parsed { policy, missing, .. } = parsed;
    let mut problems = Vec::new();
    if !missing.identity {
        names::identities(parsed, &mut problems);
        token_roles::token_roles(parsed, &mut problems);
    }
    rules(policy, missing.roles || missing.rules, &mut problems);
    // A grant of an unknown role may be that of a role which seems to be unused.
    let missing_grants = missing.grants || policy.grants.len() < parsed.grants.len();
    if !missing.roles && !missing_grants && !missing.identity {
        names::roles(policy, &mut problems);
        shared_users::shared_users(policy, &mut problems);
        shared_names::shared_names(policy, &mut problems);
        if !missing.rules {
            prefixed_users::prefixed_users(policy, &mut problems);
        }
    }
    if !parsed.is_broken() {
        names::no_roles(policy, &parsed.file, &mut problems);
    }
    problems
}

/// Checks the rules. If some could not be read (`incomplete`), checks that need all of them are skipped.
fn rules(policy: &Policy, incomplete: bool, problems: &mut Vec<Problem>) {
    let trie = Trie::new(policy);
    trie.case_variants(&mut Warnings::new(problems));
    trie.trailing_slashes(&mut Warnings::new(problems));
    search::unused_rules(policy, &mut Warnings::new(problems));
    cover::useless(policy, &trie, &mut Warnings::new(problems));
    if !incomplete {
        below::open(policy, &trie, &mut Warnings::new(problems));
        escape::escaped(policy, &trie, problems);
        tenants::open(policy, &trie, &mut Warnings::new(problems));
        reach::denials(&trie, &mut Warnings::new(problems));
    }
}
