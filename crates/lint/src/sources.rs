//! The sources of callers (Basic, API keys, certificates and the issuers of tokens), and the names
//! and roles that callers from each of them can have.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use document::Place;
use policy::model::{API_KEYS, CERTIFICATES, Identity, Issuer, NameTemplate, Policy, RoleId};

use crate::related::{Roles, reserved};
use crate::warnings::Steps;

/// The maximum number of comparisons between granted names and sources, in a check.
pub(crate) const MAX_COMPARISONS: usize = 2_000_000;

/// The maximum number of sources that are compared with each other.
pub(crate) const MAX_SOURCES: usize = 64;

/// The maximum number of sources that a warning names.
const MAX_LISTED: usize = 8;

/// A source of callers.
pub(crate) struct Source<'i> {
    /// The source in messages: `Basic`, or another source in backticks.
    pub(crate) label: String,
    pub(crate) at: &'i Place,
    /// The issuer of the tokens. `None` for Basic, API keys and certificates.
    pub(crate) issuer: Option<&'i Issuer>,
    /// The file with lines of users, if users of Basic are in one.
    pub(crate) users_file: Option<&'i Path>,
    users: Names<'i>,
    groups: Names<'i>,
}

/// The names that a source may provide.
pub(crate) struct Names<'i> {
    pub(crate) prefix: &'i str,
    /// The possible names, without the prefix; `None` means any.
    pub(crate) listed: Option<BTreeSet<&'i str>>,
}

impl<'i> Source<'i> {
    /// The sources that are configured.
    pub(crate) fn list(identity: &'i Identity) -> Vec<Self> {
        let basic = identity.basic.iter().map(|basic| {
            let users = basic.users.iter().map(|user| &*user.name).collect();
            let groups = basic.users.iter().flat_map(|user| &user.groups).map(|group| &**group);
            Source {
                label: "Basic".to_owned(),
                at: &basic.at,
                issuer: None,
                users_file: basic
                    .users
                    .iter()
                    .map(|user| &*user.at.file)
                    .find(|file| **file != *basic.at.file),
                // Without `verify` any user name in the header is trusted.
                users: Names { prefix: &basic.user_prefix, listed: basic.verify.then_some(users) },
                groups: Names { prefix: &basic.group_prefix, listed: Some(groups.collect()) },
            }
        });
        let api_keys = identity.api_keys.iter().map(|keys| {
            let users = keys.keys.iter().map(|key| &*key.user).collect();
            let groups = keys.keys.iter().flat_map(|key| &key.groups).map(|group| &**group);
            Source {
                label: format!("`{API_KEYS}`"),
                at: &keys.at,
                issuer: None,
                users_file: None,
                users: Names { prefix: &keys.user_prefix, listed: Some(users) },
                groups: Names { prefix: &keys.group_prefix, listed: Some(groups.collect()) },
            }
        });
        let certificates = identity.certificates.iter().map(|certificates| {
            let users = certificates.users.iter().map(|entry| &entry.user);
            let groups = certificates.groups.iter().flat_map(|entry| &entry.groups);
            Source {
                label: format!("`{CERTIFICATES}`"),
                at: &certificates.at,
                issuer: None,
                users_file: None,
                users: Names { prefix: &certificates.user_prefix, listed: literals(users) },
                groups: Names { prefix: &certificates.group_prefix, listed: literals(groups) },
            }
        });
        let jwt = identity.jwt.iter().map(|issuer| Source {
            label: format!("`{}`", issuer.issuer),
            at: &issuer.at,
            issuer: Some(issuer),
            users_file: None,
            users: Names { prefix: &issuer.user_prefix, listed: None },
            groups: Names {
                prefix: &issuer.group_prefix,
                listed: issuer.claims.groups.is_none().then(BTreeSet::new),
            },
        });
        basic.chain(api_keys).chain(certificates).chain(jwt).collect()
    }

    /// The names of the users (`user`) or of the groups (`group`) of this source.
    pub(crate) fn names(&self, kind: &str) -> &Names<'i> {
        if kind == "user" { &self.users } else { &self.groups }
    }

    /// The roles that callers from this source can have.
    pub(crate) fn roles(&self, policy: &Policy) -> Roles {
        let mut roles: Vec<RoleId> = reserved(policy).collect();
        if let Some(issuer) = self.issuer {
            let by_token = policy.roles.entries().filter(|(_, role)| issuer.may_give(&role.name));
            roles.extend(by_token.map(|(id, _)| id));
        }
        let mut steps = Steps(MAX_COMPARISONS / MAX_SOURCES);
        for grant in &policy.grants {
            if self.users.include_any(&grant.users, &mut steps)
                || self.groups.include_any(&grant.groups, &mut steps)
            {
                roles.push(grant.role);
            }
        }
        Roles::with_extended(policy, roles)
    }
}

/// These names; `None` if one has a placeholder.
fn literals<'i>(names: impl Iterator<Item = &'i NameTemplate>) -> Option<BTreeSet<&'i str>> {
    names.map(NameTemplate::literal).collect()
}

impl Names<'_> {
    /// Whether the source may provide this name.
    pub(crate) fn include(&self, name: &str) -> bool {
        let name = name.strip_prefix(self.prefix).filter(|name| !name.is_empty());
        name.is_some_and(|name| self.listed.as_ref().is_none_or(|listed| listed.contains(name)))
    }

    /// Whether the policy lists the names of the source, and this name is one of them.
    pub(crate) fn is_listed(&self, name: &str) -> bool {
        self.listed.is_some() && self.include(name)
    }

    fn include_any(&self, names: &[Arc<str>], steps: &mut Steps) -> bool {
        steps.take(names.len()) && names.iter().any(|name| self.include(name))
    }

    /// Whether two sources may provide the same name.
    pub(crate) fn overlap(&self, other: &Self) -> bool {
        if !self.prefix.starts_with(other.prefix) && !other.prefix.starts_with(self.prefix) {
            return false;
        }
        let (a, b) = if other.listed.is_some() { (self, other) } else { (other, self) };
        let Some(listed) = &b.listed else { return true };
        match a.prefix.strip_prefix(b.prefix) {
            // `a` has any name after its prefix, so a name of `b` must begin with `rest` and be
            // longer. This allocates nothing, because there may be a million users.
            Some(rest) if a.listed.is_none() => {
                listed.iter().any(|name| name.len() > rest.len() && name.starts_with(rest))
            }
            _ => listed.iter().any(|name| a.include(&format!("{}{name}", b.prefix))),
        }
    }
}

/// The sources that may provide a name that another source may provide, too.
pub(crate) fn overlapping<'s, 'i>(sources: &[&'s Source<'i>], kind: &str) -> Vec<&'s Source<'i>> {
    let mut overlapping = sources.to_vec();
    overlapping.retain(|a| {
        sources.iter().any(|b| !std::ptr::eq(*a, *b) && a.names(kind).overlap(b.names(kind)))
    });
    overlapping
}

/// The help for two sources that may provide the same name. Different prefixes are not enough: with
/// the prefixes `p` and `pa:` the name `pa:x` is the user `a:x` of the first source and `x` of the
/// second.
pub(crate) fn help_to_keep_apart(kind: &str) -> String {
    format!("give each a `{kind}_prefix`, none of which is the start of another")
}

/// The labels of sources, each after the preposition: ``from Basic, from `a` and from `b` ``.
pub(crate) fn join_labels(preposition: &str, sources: &[&Source<'_>]) -> String {
    let mut parts: Vec<String> = sources
        .iter()
        .take(MAX_LISTED)
        .map(|source| format!("{preposition} {}", source.label))
        .collect();
    if sources.len() > MAX_LISTED {
        parts.push(format!("{preposition} {} more", sources.len() - MAX_LISTED));
    }
    let last = parts.pop().unwrap_or_default();
    if parts.is_empty() { last } else { format!("{} and {last}", parts.join(", ")) }
}
