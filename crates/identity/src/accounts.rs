//! The users of a policy, and the decoys that stand in for users that do not exist.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_lc_rs::hmac;
use document::{Place, Problem, Secret, Warning};
use policy::model::{self, BasicUser, SourceId};
use serde_json::Value;

use crate::names::prefixed;
use crate::password::{Stored, Weakness};
use crate::{CredentialsError, Subject};

/// The users of a policy.
pub(crate) struct Accounts {
    by_name: HashMap<Arc<str>, Arc<Account>>,
    /// The accounts with a hash, which stand in for users that do not exist. In the order of their
    /// hashes, which begin with their parameters, so accounts of the same cost are neighbours.
    decoys: Vec<Arc<Account>>,
    /// The text of the first of these hashes: without it, nobody can predict the decoy of a name.
    decoy_key: hmac::Key,
    user_prefix: Arc<str>,
}

/// A user of a policy, with the password hash parsed.
pub(crate) struct Account {
    /// The user name in the credentials, without a prefix.
    pub(crate) name: Arc<str>,
    /// The subject of a caller who is authenticated as this user.
    pub(crate) subject: Subject,
    /// The text of the hash in the policy. A verified password stays valid under another policy
    /// with the same text.
    pub(crate) hash_text: Option<Secret>,
    /// The parsed hash; `None` where passwords are not checked.
    pub(crate) stored: Option<Stored>,
}

/// A password that was compared with the hash of an account.
#[derive(Clone)]
pub(crate) struct PasswordResult {
    /// Of another name if it is the decoy of a user that did not exist.
    pub(crate) account: Arc<Account>,
    /// The user name in the credentials.
    pub(crate) user: Box<str>,
    /// Whether it is the password of the account.
    pub(crate) matches: bool,
}

impl Accounts {
    /// Parses the hashes, and adds what is wrong with them to `problems`.
    pub(crate) fn compile(settings: &model::Basic, problems: &mut Vec<Problem>) -> Self {
        let mut weak_users = BTreeMap::new();
        let accounts: Vec<Arc<Account>> = settings
            .users
            .iter()
            .map(|user| Arc::new(account(user, settings, &mut weak_users, problems)))
            .collect();
        problems.extend(
            weak_users
                .into_iter()
                .map(|(weakness, users)| warn_of_weakness(settings, weakness, users)),
        );
        problems.extend(warn_of_mixed_hashes(settings, &accounts));
        let by_name =
            accounts.iter().map(|account| (account.name.clone(), account.clone())).collect();
        let mut decoys = accounts;
        decoys.retain(|account| account.stored.is_some());
        decoys.sort_unstable_by(|a, b| (a.hash(), &a.name).cmp(&(b.hash(), &b.name)));
        let key = decoys.first().map_or("", |account| account.hash());
        Self {
            decoy_key: hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()),
            by_name,
            decoys,
            user_prefix: Arc::clone(&settings.user_prefix),
        }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Account>> {
        self.by_name.get(name)
    }

    /// The user with this name, which has the prefix.
    pub(crate) fn with_prefix(&self, user: &str) -> Option<&Arc<Account>> {
        self.named(user.strip_prefix(&*self.user_prefix)?)
    }

    /// The account here that has the same name and, byte for byte, the same hash.
    pub(crate) fn unchanged(&self, account: &Account) -> Option<&Arc<Account>> {
        self.named(&account.name)
            .filter(|named| named.hash_text.is_some() && named.hash_text == account.hash_text)
    }

    /// The account whose password it is, under this policy; `None` if since then the user was added
    /// or removed, or got another hash.
    ///
    /// Both look-ups are always made, so that this costs the same for a user that exists and for
    /// one that does not.
    pub(crate) fn match_result(
        &self,
        result: &PasswordResult,
    ) -> Option<Result<&Arc<Account>, CredentialsError>> {
        let (named, unchanged) = (self.named(&result.user), self.unchanged(&result.account));
        let existed = *result.account.name == *result.user;
        match (existed, named, unchanged) {
            (true, Some(_), Some(account)) if result.matches => Some(Ok(account)),
            // An unknown user has no right password, whatever has happened to its decoy.
            (true, Some(_), Some(_)) | (false, None, _) => Some(Err(CredentialsError::BadPassword)),
            (true, ..) | (false, Some(_), _) => None,
        }
    }

    /// The subject of a user where passwords are not checked. The policy need not name the user.
    pub(crate) fn unverified_subject(&self, name: &str) -> Subject {
        match self.named(name) {
            Some(account) => account.subject.clone(),
            None => subject(self.user_name(name), Vec::new()),
        }
    }

    /// The name with the prefix of its source. It costs the same for a user that exists and for one
    /// that does not.
    pub(crate) fn user_name(&self, name: &str) -> Arc<str> {
        prefixed(&self.user_prefix, name)
    }

    /// The account whose hash a password of this user is compared with; `None` if the policy has no
    /// user with a hash.
    ///
    /// A user that does not exist must cost as much as one that exists. So an account of the policy
    /// stands in for it, the decoy: the same one for the same name each time, as the cost of a user
    /// that exists is the same each time. A decoy is also chosen for a user that exists, so that
    /// this function costs the same for both.
    pub(crate) fn account_or_decoy(&self, user: &str) -> Option<Arc<Account>> {
        let decoy = self.decoy(user);
        let account = self.named(user).filter(|account| account.stored.is_some());
        account.or(decoy).cloned()
    }

    /// The account that stands in for a user of this name. Each account does so for an equal share
    /// of all names. The choice depends on the name and the policy alone: a restart or another
    /// replica chooses the same.
    ///
    /// The hash of the name is scaled to the number of accounts: when one is added or removed, few
    /// names get another cost. With a remainder nearly all of them would.
    fn decoy(&self, name: &str) -> Option<&Arc<Account>> {
        let tag = hmac::sign(&self.decoy_key, name.as_bytes());
        let hash = u64::from_be_bytes(*tag.as_ref().first_chunk()?);
        let accounts = u128::try_from(self.decoys.len()).ok()?;
        let place = (u128::from(hash) * accounts) >> 64;
        self.decoys.get(usize::try_from(place).ok()?)
    }
}

impl Account {
    /// The text of the hash; empty without one.
    pub(crate) fn hash(&self) -> &str {
        self.hash_text.as_ref().map_or("", |secret| &secret.0)
    }
}

/// The users with a hash of each weakness: the place and the name.
type WeakUsers = BTreeMap<Weakness, Vec<(Place, String)>>;

/// Parses the hash of a user, and adds its errors to `problems`.
fn account(
    user: &BasicUser,
    settings: &model::Basic,
    weak_users: &mut WeakUsers,
    problems: &mut Vec<Problem>,
) -> Account {
    let groups = user.groups.iter().map(|group| prefixed(&settings.group_prefix, group)).collect();
    Account {
        name: Arc::clone(&user.name),
        subject: subject(prefixed(&settings.user_prefix, &user.name), groups),
        hash_text: user.password.clone(),
        stored: stored(user, settings, weak_users, problems),
    }
}

fn stored(
    user: &BasicUser,
    settings: &model::Basic,
    weak_users: &mut WeakUsers,
    problems: &mut Vec<Problem>,
) -> Option<Stored> {
    let name = &user.name;
    let Some(hash) = &user.password else {
        if settings.verify {
            problems.push(Problem::error(user.at.clone(), format!("`{name}` has no password")));
        }
        return None;
    };
    match Stored::parse(&hash.0) {
        Ok((stored, weakness)) => {
            if let Some(weakness) = weakness {
                let users = weak_users.entry(weakness).or_default();
                users.push((user.at.clone(), format!("`{name}`")));
            }
            Some(stored)
        }
        Err(error) => {
            let message = format!("the password of `{name}` is {}", error.message);
            problems.push(Problem::error(user.at.clone(), message).help(error.help));
            None
        }
    }
}

/// The warning about the users whose hashes have the same weakness, at the settings of Basic.
fn warn_of_weakness(
    settings: &model::Basic,
    weakness: Weakness,
    users: Vec<(Place, String)>,
) -> Problem {
    let (kind, how, consequence) = match weakness {
        Weakness::Weak(how) => (Warning::WeakHash, how, ""),
        Weakness::Slow(how) => (Warning::SlowHash, how, ": a check takes about a second or longer"),
    };
    let passwords = match &*users {
        [(_, name)] => format!("the password of {name} is"),
        users => format!("{} passwords are", users.len()),
    };
    let message = format!("{passwords} hashed with {how}{consequence}");
    let help = "make a new hash with `rolegate hash-password`, or in a file with `rolegate passwd`";
    Problem::warning(settings.at.clone(), kind, message).help(help).places(users)
}

/// A subject that is authenticated by a password.
fn subject(user: Arc<str>, groups: Vec<Arc<str>>) -> Subject {
    let source = Some(SourceId::BASIC);
    Subject { user, issuer: None, source, groups, roles: Vec::new(), claims: Value::Null }
}

/// A warning if the hashes of these users have different parameters. `accounts` are those of the
/// users, in their order.
///
/// A user that does not exist costs as much as one of the accounts, whichever. If 60 hashes take
/// long and one does not, hardly any unknown name is answered as fast as that one user.
fn warn_of_mixed_hashes(settings: &model::Basic, accounts: &[Arc<Account>]) -> Option<Problem> {
    if !settings.verify {
        return None;
    }
    let users = settings.users.iter().zip(accounts);
    let costs: Vec<_> =
        users.filter_map(|(user, account)| Some((user, account.stored.as_ref()?.cost()))).collect();
    let mut counts = HashMap::new();
    for (_, cost) in &costs {
        *counts.entry(*cost).or_insert(0_usize) += 1;
    }
    // Of costs that are equally frequent, the first.
    let (usual, usual_cost) = costs.iter().rev().max_by_key(|(_, cost)| counts.get(cost))?;
    let mut others = costs.iter().filter(|(_, cost)| cost != usual_cost);
    let (first, _) = others.next()?;
    let more = match others.count() {
        0 => String::new(),
        more => format!(" (and {more} more like this)"),
    };
    let message = format!(
        "the password of `{}` is hashed with other parameters than that of `{}`, so the time of an \
         answer can show that this user exists{more}",
        first.name, usual.name
    );
    let help =
        "hash all passwords with the same `--algorithm` and `--cost` of `rolegate hash-password`";
    let warning = Problem::warning(first.at.clone(), Warning::MixedHashes, message).help(help);
    Some(warning.related(usual.at.clone(), format!("the password of `{}`", usual.name)))
}

#[cfg(test)]
mod tests;
