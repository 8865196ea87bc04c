//! The users of a policy, and the decoys that stand in for users that do not exist.

use std::collections::HashMap;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use document::Problem;
use policy::model;

use super::account::{Account, subject};
use super::credentials::Credentials;
use super::mixed_hashes::mixed_hashes;
use super::pending::{PasswordResult, PendingPassword};
use crate::Subject;
use crate::keyed_hasher::KeyedHasher;
use crate::names::prefixed;

/// How many of the policy's hashes make up the key that decoys are chosen with: see [`decoy_key`].
const KEY_HASHES: usize = 8;

/// The users of a policy.
pub(crate) struct Accounts {
    by_name: HashMap<Arc<str>, Arc<Account>>,
    /// The accounts with a hash, which stand in for users that do not exist. In the order of their hashes, which begin
    /// with their parameters, so accounts of the same cost are neighbours.
    decoys: Vec<Arc<Account>>,
    decoy_key: hmac::Key,
    user_prefix: Arc<str>,
}

/// The result of a password check under a policy.
pub(crate) enum PasswordMatch<'a> {
    /// The password is that of this account.
    Right(&'a Arc<Account>),
    /// The password is wrong, or there is no such user.
    Wrong,
}

impl Accounts {
    /// Parses the hashes, and adds what is wrong with them to `problems`.
    pub(crate) fn compile(settings: &model::Basic, problems: &mut Vec<Problem>) -> Self {
        let read = |user| Arc::new(Account::compile(user, settings, problems));
        let accounts: Vec<Arc<Account>> = settings.users.iter().map(read).collect();
        problems.extend(mixed_hashes(settings, &accounts));
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

    /// The subject of the user with this name, which has the prefix.
    pub(crate) fn with_prefix(&self, user: &str) -> Option<&Subject> {
        self.named(user.strip_prefix(&*self.user_prefix)?).map(|account| &account.subject)
    }

    /// The account here that has the same name and, byte for byte, the same hash.
    pub(crate) fn unchanged(&self, account: &Account) -> Option<&Arc<Account>> {
        let is_same = |here: &&Arc<Account>| here.hash_text.is_some() && here.hash_text == account.hash_text;
        self.named(&account.name).filter(is_same)
    }

    /// What the result of a verification means under this policy; `None` if since then the user was added or removed,
    /// or got another hash.
    ///
    /// Both look-ups are always made, so that this costs the same for a user that exists and for one that does not.
    pub(crate) fn match_of(&self, result: &PasswordResult) -> Option<PasswordMatch<'_>> {
        let (named, unchanged) = (self.named(&result.user), self.unchanged(&result.account));
        match (result.exists, named, unchanged) {
            (true, Some(_), Some(account)) if result.right => Some(PasswordMatch::Right(account)),
            // An unknown user has no right password, whatever has happened to its decoy.
            (true, Some(_), Some(_)) | (false, None, _) => Some(PasswordMatch::Wrong),
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

    /// The name with the prefix of its source. It costs the same for a user that exists and for one that does not.
    pub(crate) fn user_name(&self, name: &str) -> Arc<str> {
        prefixed(&self.user_prefix, name)
    }

    /// The verification of these credentials; `None` if the policy has no user with a hash.
    ///
    /// A user that does not exist must cost as much as one that exists. So an account of the policy stands in for it,
    /// the decoy. It is the same one for the same name each time, so that the cost of the hash does not show either
    /// whether a user exists. A decoy is also chosen for a user that exists, so that this function costs the same for
    /// both.
    pub(crate) fn pending(
        &self,
        credentials: &Credentials,
        credentials_hash: u128,
        hasher: &KeyedHasher,
    ) -> Option<PendingPassword> {
        let decoy = self.decoy(credentials.user());
        let account = self.named(credentials.user()).filter(|account| account.stored.is_some());
        let exists = account.is_some();
        let account = Arc::clone(account.or(decoy)?);
        Some(PendingPassword::new(account, exists, credentials, credentials_hash, hasher))
    }

    /// The account that stands in for a user of this name. Each account does so for an equal share of all names. The
    /// choice depends on the name and the policy alone: if a restart or another replica chose differently, the cost of
    /// a user that does not exist would change, and that of one that exists would not.
    ///
    /// The hash of the name is scaled to the number of accounts, not divided by it: when an account is added or
    /// removed, few names get another cost, where with a remainder nearly all of them would.
    fn decoy(&self, name: &str) -> Option<&Arc<Account>> {
        let tag = hmac::sign(&self.decoy_key, name.as_bytes());
        let hash = u64::from_be_bytes(*tag.as_ref().first_chunk()?);
        let accounts = u128::try_from(self.decoys.len()).ok()?;
        let place = (u128::from(hash) * accounts) >> 64;
        self.decoys.get(usize::try_from(place).ok()?)
    }
}

/// The key that decoys are chosen with: without the policy's hashes, nobody can predict the decoy of a name.
///
/// It is made of the [`KEY_HASHES`] hashes with the least digests, whatever their order in the policy. All hashes would
/// do too, but then each changed password would give all users that do not exist another cost, while those that exist
/// keep theirs. A single hash could be known to its user: `{SHA}` has no salt.
fn decoy_key(decoys: &[Arc<Account>]) -> hmac::Key {
    let hashes = decoys.iter().filter_map(|account| account.hash_text.as_ref());
    let mut digests: Vec<_> = hashes.map(|secret| digest(&SHA256, secret.0.as_bytes())).collect();
    digests.sort_unstable_by(|one, other| one.as_ref().cmp(other.as_ref()));
    let key: Vec<u8> = digests.iter().take(KEY_HASHES).flat_map(|digest| digest.as_ref().to_vec()).collect();
    hmac::Key::new(hmac::HMAC_SHA256, &key)
}

#[cfg(test)]
mod tests;
