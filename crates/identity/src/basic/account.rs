//! A user of a policy, with the password hash parsed.

use std::sync::Arc;

use document::{Problem, Secret, Warning};
use policy::model::{self, BasicUser, SourceId};
use serde_json::Value;

use crate::Subject;
use crate::names::prefixed;
use crate::password::{Stored, Weakness};

/// A user.
pub(crate) struct Account {
    /// The user name in the credentials, without a prefix.
    pub(crate) name: Arc<str>,
    /// The subject of a caller who is authenticated as this user.
    pub(crate) subject: Subject,
    /// The text of the hash in the policy. A verified password stays valid under another policy with the same text.
    pub(crate) hash_text: Option<Secret>,
    /// The parsed hash; `None` where passwords are not checked.
    pub(crate) stored: Option<Stored>,
}

impl Account {
    /// Parses the hash, and adds what is wrong with it to `problems`.
    pub(super) fn compile(user: &BasicUser, settings: &model::Basic, problems: &mut Vec<Problem>) -> Self {
        let groups = user.groups.iter().map(|group| prefixed(&settings.group_prefix, group)).collect();
        Self {
            name: Arc::clone(&user.name),
            subject: subject(prefixed(&settings.user_prefix, &user.name), groups),
            hash_text: user.password.clone(),
            stored: stored(user, settings, problems),
        }
    }

    /// The sort key of accounts.
    pub(super) fn order(&self) -> (Option<&str>, &str) {
        (self.hash_text.as_ref().map(|secret| &*secret.0), &self.name)
    }
}

fn stored(user: &BasicUser, settings: &model::Basic, problems: &mut Vec<Problem>) -> Option<Stored> {
    let name = &user.name;
    match user.password.as_ref().map(|secret| Stored::parse(&secret.0)) {
        Some(Ok((stored, weakness))) => {
            problems.extend(weakness.map(|weakness| {
                let (kind, message) = match weakness {
                    Weakness::Weak(how) => {
                        (Warning::WeakHash, format!("the password of `{name}` is hashed with {how}"))
                    }
                    Weakness::Slow(how) => {
                        let how = format!("{how}: a check takes about a second or longer");
                        (Warning::SlowHash, format!("the password of `{name}` is hashed with {how}"))
                    }
                };
                Problem::warning(user.at.clone(), kind, message)
                    .help("make a new one with `rolegate hash-password`, or in a file with `rolegate passwd`")
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

/// A subject that is authenticated by a password.
pub(super) fn subject(user: Arc<str>, groups: Vec<Arc<str>>) -> Subject {
    let source = Some(SourceId::BASIC);
    Subject { user, issuer: None, source, groups, roles: Vec::new(), claims: Value::Null }
}
