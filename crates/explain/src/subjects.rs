//! Subjects without authentication, from a user name, groups and roles, or from the claims of a
//! token. Also splits the URL of a request.

use std::sync::Arc;

use authorizer::{Backend, Cluster};
use identity::{CredentialsError, Subject};
use policy::model::{Identity, SourceId};
use serde_json::Value;

use crate::Explainer;

impl<'a> Explainer<'a> {
    /// The subject of a user on a host, as if it were authenticated, with more groups and roles
    /// than the policy gives it. The names have the prefixes of its source.
    ///
    /// # Errors
    /// [`CredentialsError::BadPassword`], as for a request of this user, if only a Basic user can
    /// have the name and the policy has no such user: it is misspelled, or the user was removed.
    pub fn subject_named<T: AsRef<str>>(
        self,
        host: &[u8],
        user: &str,
        groups: &[T],
        roles: &[T],
    ) -> Result<Subject, CredentialsError> {
        subject_named(self.authorizer.backend(host), user, groups, roles)
    }

    /// Whether only `identity.basic` can have a user with this name and source, verifies passwords,
    /// and has no such user.
    #[must_use]
    pub fn is_unknown_to_basic(self, host: &[u8], user: &str, source: Option<SourceId>) -> bool {
        is_unknown_to_basic(self.authorizer.backend(host), user, source)
    }

    /// How callers authenticate on this host: a search cluster may have its own users in place of
    /// the policy's users.
    #[must_use]
    pub fn identity_on(self, host: &[u8]) -> &'a Identity {
        self.authorizer.backend(host).identity()
    }

    /// The search cluster, if its own roles decide about requests to this host.
    pub(crate) fn cluster_of(self, host: &[u8]) -> Option<&'a Cluster> {
        match self.authorizer.backend(host) {
            Backend::Cluster(cluster) => Some(cluster),
            Backend::Rules(_) => None,
        }
    }

    /// Whether a search cluster's own roles decide about requests to this host.
    #[must_use]
    pub fn is_of_cluster(self, host: &[u8]) -> bool {
        self.cluster_of(host).is_some()
    }
}

/// The subject of a user, as if it were authenticated: see [`Explainer::subject_named`].
pub(crate) fn subject_named<T: AsRef<str>>(
    backend: Backend<'_>,
    user: &str,
    groups: &[T],
    roles: &[T],
) -> Result<Subject, CredentialsError> {
    let source = backend.identity().source_of(user);
    if is_unknown_to_basic(backend, user, source) {
        return Err(CredentialsError::BadPassword);
    }
    let Some(mut subject) = basic_user(backend, user).cloned() else {
        return Ok(unverified_subject(user, source, groups, roles));
    };
    add_names(&mut subject.groups, groups);
    add_names(&mut subject.roles, roles);
    Ok(subject)
}

/// A subject with these names, without claims.
#[must_use]
pub fn unverified_subject<T: AsRef<str>>(
    user: &str,
    source: Option<SourceId>,
    groups: &[T],
    roles: &[T],
) -> Subject {
    let mut subject = Subject {
        user: user.into(),
        issuer: None,
        source,
        groups: Vec::new(),
        roles: Vec::new(),
        claims: Value::Null,
    };
    add_names(&mut subject.groups, groups);
    add_names(&mut subject.roles, roles);
    subject
}

fn add_names<T: AsRef<str>>(names: &mut Vec<Arc<str>>, more: &[T]) {
    for name in more.iter().map(AsRef::as_ref) {
        if !names.iter().any(|present| **present == *name) {
            names.push(name.into());
        }
    }
}

/// The subject of a token with these claims, as JSON.
pub(crate) fn subject_of_claims(
    backend: Backend<'_>,
    claims: &str,
) -> Result<Subject, CredentialsError> {
    let claims = serde_json::from_str(claims).map_err(|_| CredentialsError::MalformedClaims)?;
    match backend {
        Backend::Rules(rules) => rules.authenticator().subject_from_claims(&claims),
        Backend::Cluster(cluster) => cluster.authenticator().subject_from_claims(&claims),
    }
}

fn basic_user<'a>(backend: Backend<'a>, user: &str) -> Option<&'a Subject> {
    match backend {
        Backend::Rules(rules) => rules.authenticator().basic_user(user),
        Backend::Cluster(cluster) => cluster.authenticator().basic_user(user),
    }
}

/// See [`Explainer::is_unknown_to_basic`].
pub(crate) fn is_unknown_to_basic(
    backend: Backend<'_>,
    user: &str,
    source: Option<SourceId>,
) -> bool {
    let verifies = backend.identity().basic.as_ref().is_some_and(|basic| basic.verify);
    verifies && source == Some(SourceId::BASIC) && basic_user(backend, user).is_none()
}

/// Splits a URL into path and host. A URL without a path has the path `/` (RFC 9110, 4.2.3). Other
/// texts are paths.
#[must_use]
pub fn split_target(target: &str) -> (String, Option<&str>) {
    let url = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"));
    let Some(url) = url else { return (target.to_owned(), None) };
    let end = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (host, path) = url.split_at_checked(end).unwrap_or((url, ""));
    let slash = if path.starts_with('/') { "" } else { "/" };
    (format!("{slash}{path}"), Some(host))
}

#[cfg(test)]
mod tests {
    use super::split_target;

    #[test]
    fn splits_a_url() {
        assert_eq!(split_target("/a?b"), ("/a?b".to_owned(), None));
        assert_eq!(split_target("https://h:1/a?b"), ("/a?b".to_owned(), Some("h:1")));
        assert_eq!(split_target("http://h"), ("/".to_owned(), Some("h")));
        assert_eq!(split_target("http://h?q"), ("/?q".to_owned(), Some("h")));
        assert_eq!(split_target("*"), ("*".to_owned(), None));
    }
}
