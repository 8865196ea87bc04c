//! The users of a policy, with their hashes ready to be compared with.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use policy::model::{self, BasicUser, Secret};
use policy::problem::Problem;
use serde_json::Value;

use super::{Credentials, PasswordCheck, PasswordChecked};
use crate::Subject;
use crate::keyed_hasher::KeyedHasher;
use crate::names::prefixed;
use crate::password::Stored;

/// How many of the policy's hashes the choice of decoys is keyed with: see [`decoy_key`].
const KEY_HASHES: usize = 8;

/// The users of a policy.
pub(crate) struct Accounts {
    by_name: HashMap<Arc<str>, Arc<Account>>,
    /// Those with a hash, who stand in for users that do not exist. In the order of their hashes, which begin with their
    /// parameters: those of the same cost are neighbours.
    decoys: Vec<Arc<Account>>,
    decoy_key: hmac::Key,
    user_prefix: Arc<str>,
}

/// A user.
pub(crate) struct Account {
    /// Without a prefix: as it signs in.
    pub(crate) name: Arc<str>,
    /// Who it is once it has signed in.
    pub(crate) subject: Subject,
    /// The hash as it was written: what tells whether a password that was right still is.
    pub(crate) written: Option<Secret>,
    /// The hash; `None` where passwords are not checked.
    pub(crate) stored: Option<Stored>,
}

/// What a password that was hashed says under a policy.
pub(crate) enum Settled<'a> {
    /// It is the password of this account.
    Right(&'a Arc<Account>),
    /// A wrong password, or no such user.
    Wrong,
}

impl Accounts {
    /// Reads the hashes; what is wrong with them goes to `problems`.
    pub(crate) fn compile(settings: &model::Basic, problems: &mut Vec<Problem>) -> Self {
        let read = |user| Arc::new(Account::compile(user, settings, problems));
        let accounts: Vec<Arc<Account>> = settings.users.iter().map(read).collect();
        let by_name = accounts.iter().map(|account| (Arc::clone(&account.name), Arc::clone(account)));
        let by_name = by_name.collect();
        let mut decoys = accounts;
        decoys.retain(|account| account.stored.is_some());
        decoys.sort_unstable_by(|one, other| one.order().cmp(&other.order()));
        Self {
            decoy_key: decoy_key(&decoys),
            by_name,
            decoys,
            user_prefix: Arc::clone(&settings.user_prefix),
        }
    }

    pub(crate) fn named(&self, name: &str) -> Option<&Arc<Account>> {
        self.by_name.get(name)
    }

    /// The account here that is the same one: of that name, and with that hash byte for byte.
    pub(crate) fn unchanged(&self, account: &Account) -> Option<&Arc<Account>> {
        let same = |here: &&Arc<Account>| here.written.is_some() && here.written == account.written;
        self.named(&account.name).filter(same)
    }

    /// What a check says about its user here; `None` where it was made for another hash, or before the user came or went.
    ///
    /// Both look-ups are always made, so that this costs the same for a user that exists and for one that does not.
    pub(crate) fn settle(&self, checked: &PasswordChecked) -> Option<Settled<'_>> {
        let (named, same) = (self.named(&checked.user), self.unchanged(&checked.account));
        match (checked.known, named, same) {
            (true, Some(_), Some(account)) if checked.right => Some(Settled::Right(account)),
            // An unknown user stays wrong whatever has become of the account that stood in for it.
            (true, Some(_), Some(_)) | (false, None, _) => Some(Settled::Wrong),
            (true, ..) | (false, Some(_), _) => None,
        }
    }

    /// Who that is where passwords are not checked: also a user that the policy does not name.
    pub(crate) fn trusted(&self, name: &str) -> Subject {
        match self.named(name) {
            Some(account) => account.subject.clone(),
            None => subject(prefixed(&self.user_prefix, name), Vec::new()),
        }
    }

    /// The check of these credentials; `None` where the policy has no users at all.
    ///
    /// A user that does not exist costs what one that exists costs: a user of the policy stands in, the same one for the
    /// same name each time, so that names cannot be told apart by the parameters of their hashes either. It is chosen for
    /// a user that exists too, so that both cost the same here.
    pub(crate) fn check(
        &self,
        credentials: &Credentials,
        sealed: u128,
        hasher: &KeyedHasher,
    ) -> Option<PasswordCheck> {
        let decoy = self.decoy(credentials.user());
        let account = self.named(credentials.user()).filter(|account| account.stored.is_some());
        let known = account.is_some();
        let account = Arc::clone(account.or(decoy)?);
        Some(PasswordCheck::new(account, known, credentials, sealed, hasher))
    }

    /// Who stands in for a user of this name: each account for as many names as any other. It depends on the name and the
    /// policy alone, so restarts and replicas do not tell a user that does not exist, whose cost would change, from one
    /// that does.
    ///
    /// The hash of the name is scaled to the number of accounts, not divided by it: an account that comes or goes moves
    /// few names to another cost, where a remainder would move nearly all of them.
    fn decoy(&self, name: &str) -> Option<&Arc<Account>> {
        let tag = hmac::sign(&self.decoy_key, name.as_bytes());
        let hash = u64::from_be_bytes(*tag.as_ref().first_chunk()?);
        let accounts = u128::try_from(self.decoys.len()).ok()?;
        let place = (u128::from(hash) * accounts) >> 64;
        self.decoys.get(usize::try_from(place).ok()?)
    }
}

/// The key of the choice of decoys: without the policy's hashes nobody can predict a name's decoy.
///
/// It is made of those hashes whose digests are the least, whatever their order in the policy. All of them would do too,
/// but each password that is changed would then move all users that do not exist to other costs, while those that exist
/// keep theirs. One alone could be known to its user: `{SHA}` has no salt.
fn decoy_key(decoys: &[Arc<Account>]) -> hmac::Key {
    let written = decoys.iter().filter_map(|account| account.written.as_ref());
    let mut digests: Vec<_> = written.map(|secret| digest(&SHA256, secret.0.as_bytes())).collect();
    digests.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    let key: Vec<u8> = digests.iter().take(KEY_HASHES).flat_map(|digest| digest.as_ref().to_vec()).collect();
    hmac::Key::new(hmac::HMAC_SHA256, &key)
}

impl Account {
    fn compile(user: &BasicUser, settings: &model::Basic, problems: &mut Vec<Problem>) -> Self {
        let groups = user.groups.iter().map(|group| prefixed(&settings.group_prefix, group)).collect();
        Self {
            name: Arc::clone(&user.name),
            subject: subject(prefixed(&settings.user_prefix, &user.name), groups),
            written: user.password.clone(),
            stored: stored(user, settings, problems),
        }
    }

    /// What accounts are sorted by.
    fn order(&self) -> (Option<&str>, &str) {
        (self.written.as_ref().map(|secret| &*secret.0), &self.name)
    }
}

fn stored(user: &BasicUser, settings: &model::Basic, problems: &mut Vec<Problem>) -> Option<Stored> {
    let name = &user.name;
    match user.password.as_ref().map(|secret| Stored::parse(&secret.0)) {
        Some(Ok((stored, weakness))) => {
            problems.extend(weakness.map(|weakness| {
                let message = format!("the password of `{name}` is hashed with {}", weakness.0);
                Problem::warning(user.at.clone(), message)
                    .help("make a new one with `rolegate hash-password`")
            }));
            Some(stored)
        }
        Some(Err(error)) => {
            let message = format!("the password of `{name}` is {}", error.message);
            problems.push(Problem::error(user.at.clone(), message).help(error.help));
            None
        }
        None => {
            if settings.verify {
                problems.push(Problem::error(user.at.clone(), format!("`{name}` has no password")));
            }
            None
        }
    }
}

fn subject(user: Arc<str>, groups: Vec<Arc<str>>) -> Subject {
    Subject { user, groups, roles: Vec::new(), claims: Value::Null }
}

#[cfg(test)]
mod tests;
