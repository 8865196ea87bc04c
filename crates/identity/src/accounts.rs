//! The users of a policy, and the decoys that stand in for users that do not exist.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aws_lc_rs::hmac;
use document::{Place, Problem, Secret, Warning};
use policy::model::{self, BasicUser, SourceId};
use serde_json::Value;

use crate::password::{StoredHash, Weakness};
use crate::{CredentialsError, Subject, with_prefix};

/// The users of a policy.
pub(crate) struct Accounts {
    by_name: HashMap<Arc<str>, Arc<Account>>,
    /// The accounts with a hash, which stand in for users that do not exist. Sorted by their
    /// hashes, which begin with their parameters, so accounts of the same cost are neighbours.
    decoys: Vec<Arc<Account>>,
    /// The text of the first of these hashes: nobody without it can predict the decoy of a name.
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
    pub(crate) stored: Option<StoredHash>,
}

/// A password that was compared with the hash of an account.
#[derive(Clone)]
pub(crate) struct PasswordResult {
    /// Has another name if it is the decoy of a user that did not exist.
    pub(crate) account: Arc<Account>,
    /// The user name in the credentials.
    pub(crate) user: Box<str>,
    /// Whether it is the password of the account.
    pub(crate) matches: bool,
}

impl Accounts {
    /// Parses the hashes, and adds their problems to `problems`.
    pub(crate) fn compile(settings: &model::Basic, problems: &mut Vec<Problem>) -> Self {
        let mut weak_users = WeakUsers::new();
        let mut accounts = Vec::new();
        for user in &settings.users {
            accounts.push(Arc::new(Account::compile(user, settings, &mut weak_users, problems)));
        }
        for (weakness, users) in weak_users {
            problems.push(warn_of_weakness(settings, weakness, users));
        }
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

    pub(crate) fn find(&self, name: &str) -> Option<&Arc<Account>> {
        self.by_name.get(name)
    }

    /// The account of a user name with its prefix.
    pub(crate) fn find_prefixed(&self, user: &str) -> Option<&Arc<Account>> {
        self.find(user.strip_prefix(&*self.user_prefix)?)
    }

    /// The account here that has the same name and, byte for byte, the same hash.
    pub(crate) fn find_unchanged(&self, previous: &Account) -> Option<&Arc<Account>> {
        self.find(&previous.name).filter(|account| {
            account.hash_text.is_some() && account.hash_text == previous.hash_text
        })
    }

    /// The account of the verified password under this policy, or the error of a wrong password.
    /// `None` if since the verification the user was added or removed, or got another hash.
    ///
    /// Both look-ups are always made, so that this costs the same whether the user exists or not.
    pub(crate) fn account_verified_by(
        &self,
        result: &PasswordResult,
    ) -> Option<Result<&Arc<Account>, CredentialsError>> {
        let account = self.find(&result.user);
        let unchanged = self.find_unchanged(&result.account);
        let existed = *result.account.name == *result.user;
        match (existed, account, unchanged) {
            (true, Some(_), Some(account)) if result.matches => Some(Ok(account)),
            // An unknown user has no right password, even if its decoy has changed.
            (true, Some(_), Some(_)) | (false, None, _) => Some(Err(CredentialsError::BadPassword)),
            (true, ..) | (false, Some(_), _) => None,
        }
    }

    /// The subject of a user where passwords are not checked. The policy need not name the user.
    pub(crate) fn unverified_subject(&self, name: &str) -> Subject {
        match self.find(name) {
            Some(account) => account.subject.clone(),
            None => basic_subject(self.user_name(name), Vec::new()),
        }
    }

    /// A name with the prefix. It costs the same whether the user exists or not.
    pub(crate) fn user_name(&self, name: &str) -> Arc<str> {
        with_prefix(&self.user_prefix, name)
    }

    /// The account whose hash a password of this user is compared with; `None` if the policy has no
    /// user with a hash.
    ///
    /// A password check must take as long if the user does not exist: otherwise response times
    /// would show which users exist. So another account stands in for a user that does not exist:
    /// its decoy. A name always has the same decoy, because the checks of an existing user always
    /// cost the same, too. A decoy is also chosen for an existing user, so that this function costs
    /// the same for both.
    pub(crate) fn account_or_decoy(&self, user: &str) -> Option<Arc<Account>> {
        let decoy = self.decoy(user);
        let account = self.find(user).filter(|account| account.stored.is_some());
        account.or(decoy).cloned()
    }

    /// The account that stands in for a user of this name. Each account stands in for an equal
    /// share of all names. The choice depends only on the name and the policy, so it is the same
    /// after a restart and on another replica.
    ///
    /// The hash of the name is scaled to the number of accounts. So when an account is added or
    /// removed, a name keeps its decoy or gets a neighbour, which mostly costs the same. With a
    /// remainder nearly every name would get an unrelated decoy.
    fn decoy(&self, name: &str) -> Option<&Arc<Account>> {
        let tag = hmac::sign(&self.decoy_key, name.as_bytes());
        let hash = u64::from_be_bytes(*tag.as_ref().first_chunk()?);
        let accounts = u128::try_from(self.decoys.len()).ok()?;
        let place = (u128::from(hash) * accounts) >> 64;
        self.decoys.get(usize::try_from(place).ok()?)
    }
}

impl Account {
    /// Parses the hash of a user, and adds its errors to `problems`.
    fn compile(
        user: &BasicUser,
        settings: &model::Basic,
        weak_users: &mut WeakUsers,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let groups = user.groups.iter();
        let groups = groups.map(|group| with_prefix(&settings.group_prefix, group)).collect();
        Self {
            name: Arc::clone(&user.name),
            subject: basic_subject(with_prefix(&settings.user_prefix, &user.name), groups),
            hash_text: user.password.clone(),
            stored: parse_hash(user, settings, weak_users, problems),
        }
    }

    /// The text of the hash; empty if there is none.
    pub(crate) fn hash(&self) -> &str {
        self.hash_text.as_ref().map_or("", |secret| &secret.0)
    }
}

/// The users with a hash of each weakness: their places and names.
type WeakUsers = BTreeMap<Weakness, Vec<(Place, String)>>;

fn parse_hash(
    user: &BasicUser,
    settings: &model::Basic,
    weak_users: &mut WeakUsers,
    problems: &mut Vec<Problem>,
) -> Option<StoredHash> {
    let name = &user.name;
    let Some(hash) = &user.password else {
        if settings.verify {
            problems.push(Problem::error(user.at.clone(), format!("`{name}` has no password")));
        }
        return None;
    };
    match StoredHash::parse(&hash.0) {
        Ok((stored, None)) => Some(stored),
        Ok((stored, Some(weakness))) => {
            let users = weak_users.entry(weakness).or_default();
            users.push((user.at.clone(), format!("`{name}`")));
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
fn basic_subject(user: Arc<str>, groups: Vec<Arc<str>>) -> Subject {
    let source = Some(SourceId::BASIC);
    Subject {
        user,
        issuer: None,
        source,
        groups,
        roles: Vec::new(),
        claims: Value::Null,
        actor: None,
    }
}

/// Warns if the hashes of the users have different parameters. `accounts` are in the order of the
/// users.
///
/// A user that does not exist costs as much as its decoy. If 60 hashes take long and one does not,
/// hardly any unknown name has the fast one as its decoy. So a fast answer shows that the user with
/// that hash exists.
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
    // The first of the most frequent costs.
    let (usual, usual_cost) = costs.iter().rev().max_by_key(|(_, cost)| counts.get(cost))?;
    let mut unusual = costs.iter().filter(|(_, cost)| cost != usual_cost);
    let (first, _) = unusual.next()?;
    let more = match unusual.count() {
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
