//! Warns of users whose password hashes do not all cost the same.

use std::collections::HashMap;
use std::sync::Arc;

use document::{Problem, Warning};
use policy::model;

use super::account::Account;

/// A warning if the hashes of these users have different parameters. `accounts` are those of the users, in their order.
///
/// A user that does not exist costs as much as one of the accounts, whichever: where 60 hashes take long and one does
/// not, hardly a name that does not exist is answered as fast as the one user is.
pub(super) fn mixed_hashes(settings: &model::Basic, accounts: &[Arc<Account>]) -> Option<Problem> {
    if !settings.verify {
        return None;
    }
    let hashed = settings.users.iter().zip(accounts);
    let hashed: Vec<_> =
        hashed.filter_map(|(user, account)| Some((user, account.stored.as_ref()?.cost()))).collect();
    let mut numbers = HashMap::new();
    for (_, cost) in &hashed {
        *numbers.entry(*cost).or_insert(0_usize) += 1;
    }
    // Of costs that are equally frequent, the first.
    let (usual, usual_cost) = hashed.iter().rev().max_by_key(|(_, cost)| numbers.get(cost))?;
    let mut others = hashed.iter().filter(|(_, cost)| cost != usual_cost);
    let (first, _) = others.next()?;
    let more = match others.count() {
        0 => String::new(),
        more => format!(" (and {more} more like this)"),
    };
    let message = format!(
        "the password of `{}` is hashed with other parameters than that of `{}`, so the time of an answer can show that this \
         user exists{more}",
        first.name, usual.name
    );
    let help = "hash all passwords with the same `--algorithm` and `--cost` of `rolegate hash-password`";
    let warning = Problem::warning(first.at.clone(), Warning::MixedHashes, message).help(help);
    Some(warning.related(usual.at.clone(), format!("the password of `{}`", usual.name)))
}
