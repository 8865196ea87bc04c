//! The users of a policy, with their hashes ready to be compared with.

use std::collections::HashMap;
use std::sync::Arc;

use policy::model::{self, BasicUser, Secret};
use policy::problem::Problem;
use serde_json::Value;

use super::{Credentials, PasswordCheck, PasswordChecked};
use crate::Subject;
use crate::names::prefixed;
use crate::password::Stored;
use crate::seal::Seal;

/// The users of a policy.
pub(crate) struct Accounts {
    by_name: HashMap<Arc<str>, Arc<Account>>,
    /// Those with a hash, in the order of the policy: who stands in for a user that does not exist.
    decoys: Vec<Arc<Account>>,
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
        Self {
            by_name: accounts
                .iter()
                .map(|account| (Arc::clone(&account.name), Arc::clone(account)))
                .collect(),
            decoys: accounts.into_iter().filter(|account| account.stored.is_some()).collect(),
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
    /// same name each time, so that names cannot be told apart by the parameters of their hashes either.
    pub(crate) fn check(
        &self,
        credentials: &Credentials,
        sealed: u128,
        seal: &Seal,
    ) -> Option<PasswordCheck> {
        let decoy = self.decoy(seal.whole(credentials.user().as_bytes()));
        let account = self.named(credentials.user()).filter(|account| account.stored.is_some());
        let known = account.is_some();
        let account = Arc::clone(account.or(decoy)?);
        Some(PasswordCheck::new(account, known, credentials, sealed, seal))
    }

    fn decoy(&self, hash: u128) -> Option<&Arc<Account>> {
        let place = hash.checked_rem(u128::try_from(self.decoys.len()).ok()?)?;
        self.decoys.get(usize::try_from(place).ok()?)
    }
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
