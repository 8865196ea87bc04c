//! Warnings about rules that are valid but probably not intended. None of them makes a policy unusable.
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

pub(crate) use names::{identities, no_roles, roles};
pub(crate) use prefixed_users::prefixed_users;
pub(crate) use shared_names::shared_names;
pub(crate) use shared_users::shared_users;
pub(crate) use token_roles::token_roles;

use crate::lint::trie::Trie;
use crate::lint::warnings::Warnings;
use crate::model::Policy;
use document::Problem;

/// Checks the rules. If some could not be read (`incomplete`), checks that need all of them are skipped.
pub(crate) fn rules(policy: &Policy, incomplete: bool, problems: &mut Vec<Problem>) {
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
