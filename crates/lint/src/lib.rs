//! Warnings about policies that are valid but probably not intended. None of them makes a policy
//! unusable. Each cause is reported once, at its source, with the places that it concerns.
//!
//! Each check has a budget: for a policy that is built to be expensive, some warnings are omitted,
//! so that the time stays proportional to the number of rules.

mod below;
mod bypass;
mod conditions;
mod contradictions;
mod cookies;
mod cover;
mod names;
mod overlap;
mod reach;
mod related;
mod roles;
mod shared;
mod sources;
mod tenants;
mod trie;
mod warnings;

use std::path::Path;

use document::{Files, Problem};
use policy::{Loaded, Parsed, Policy};

use crate::sources::{MAX_SOURCES, Source};
use crate::trie::Trie;
use crate::warnings::Warnings;

/// Loads the policy in `file` like [`policy::load`], and adds warnings if it has no errors.
///
/// # Errors
/// All errors in all files, sorted by place.
pub fn load(files: &dyn Files, file: &Path) -> Result<Loaded, Vec<Problem>> {
    load_with(files, file, |_| Vec::new())
}

/// Like [`load`]. If the policy has errors, the problems that `check` finds in it are added, so that
/// all problems are reported at once: neither this crate nor `policy` can check whether a hash, a
/// key or a certificate is usable. Without errors, `check` is not called: the caller compiles the
/// policy, which finds the same problems.
///
/// # Errors
/// Like [`load`], including the problems that `check` found.
pub fn load_with(
    files: &dyn Files,
    file: &Path,
    check: impl FnOnce(&Policy) -> Vec<Problem>,
) -> Result<Loaded, Vec<Problem>> {
    let mut parsed = policy::parse(files, file);
    let problems = if parsed.is_broken() { check(&parsed.policy) } else { find_warnings(&parsed) };
    parsed.problems.extend(problems);
    parsed.into_loaded()
}

/// The warnings about a policy without errors.
fn find_warnings(parsed: &Parsed) -> Vec<Problem> {
    let policy = &parsed.policy;
    let mut warnings = Warnings::default();
    let sources = Source::list(&policy.identity);
    let compared: Vec<&Source<'_>> = sources.iter().take(MAX_SOURCES).collect();
    names::claims_without_tokens(policy, &mut warnings);
    names::unknown_names(parsed, &sources, &mut warnings);
    names::unknown_names_in_conditions(policy, &sources, &mut warnings);
    names::ambiguous_names(parsed, &compared, &mut warnings);
    roles::token_roles(parsed, &compared, &mut warnings);
    roles::unused_roles(policy, &mut warnings);
    roles::no_roles(policy, &parsed.file, &mut warnings);
    shared::shared_users(policy, &compared, &mut warnings);
    shared::shared_names(policy, &compared, &mut warnings);
    shared::prefixed_users(policy, &mut warnings);
    conditions::conditions(policy, &mut warnings);
    cookies::cross_site_requests(policy, &compared, &mut warnings);
    let trie = Trie::new(policy);
    trie.case_variants(&mut warnings);
    trie.trailing_slashes(&mut warnings);
    reach::unused_rules(policy, &mut warnings);
    cover::redundant_rules(&trie, &mut warnings);
    below::open_below(&trie, &mut warnings);
    bypass::bypassed_denials(&trie, &mut warnings);
    tenants::open_tenants(&trie, &mut warnings);
    reach::unmatched_denials(&trie, &mut warnings);
    warnings.finish()
}
