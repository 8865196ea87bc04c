//! Subjects without authentication, from a user name, groups and roles, or from the claims of a
//! token. Also splits the URL of a request.

use std::sync::Arc;

use authorizer::{Backend, Cluster, Request};
use identity::{CredentialsError, Subject};
use policy::Policy;
use policy::model::{Identity, SourceId};
use policy::pattern::PatternSubject;
use serde_json::Value;

use crate::Explainer;

impl<'a> Explainer<'a> {
    /// The subject of a user on a host, as if it were authenticated, with more groups and roles
    /// than the policy gives it. The names have the prefixes of its source.
    ///
    /// # Errors
    /// [`CredentialsError::BadPassword`] or [`CredentialsError::BadApiKey`] if nobody can have the
    /// name: only sources that list their users can have it, and none lists it. The name is
    /// misspelled, or the user was removed. A request of this user gets the same error.
    pub fn subject_named<T: AsRef<str>>(
        self,
        host: &[u8],
        user: &str,
        groups: &[T],
        roles: &[T],
    ) -> Result<Subject, CredentialsError> {
        subject_named(self.authorizer.backend(host), user, groups, roles)
    }

    /// The subject of a token with these claims, as JSON. Nothing is verified.
    ///
    /// # Errors
    /// If no token can have these claims. The times and the audience are not checked.
    pub fn subject_of_claims(self, host: &[u8], claims: &str) -> Result<Subject, CredentialsError> {
        subject_of_claims(self.authorizer.backend(host), claims)
    }

    /// Whether nobody can have this user name: only sources that list their users can have it
    /// (Basic that verifies passwords, API keys, certificates), and none lists it. `source` is the
    /// source of the name, if it is certain.
    #[must_use]
    pub fn is_unknown_user(self, host: &[u8], user: &str, source: Option<SourceId>) -> bool {
        is_unknown_user(self.authorizer.backend(host), user, source)
    }

    /// The caller on this host who has an API key and this user name, prefix included.
    #[must_use]
    pub fn user_with_key(self, host: &[u8], user: &str) -> Option<&'a Subject> {
        user_with_key(self.authorizer.backend(host), user)
    }

    /// The caller on this host with a certificate of these names; `None` if the policy names none
    /// of them.
    ///
    /// # Errors
    /// If the names are those of two users.
    pub fn user_with_certificate(
        self,
        host: &[u8],
        names: &[String],
    ) -> Result<Option<Subject>, CredentialsError> {
        subject_of_names(self.authorizer.backend(host), names)
    }

    /// This caller. If the policy requires an actor, and the request's certificate names one, the
    /// caller has this actor.
    #[must_use]
    pub fn with_actor(self, request: &Request<'_>, subject: Subject) -> Subject {
        self.authorizer.with_required_actor(request, subject.clone()).unwrap_or(subject)
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
    if is_unknown_user(backend, user, source) {
        return Err(match source {
            Some(SourceId::API_KEYS) => CredentialsError::BadApiKey,
            Some(_) | None => CredentialsError::BadPassword,
        });
    }
    let basic = basic_user(backend, user)
        .filter(|_| !matches!(source, Some(SourceId::API_KEYS | SourceId::CERTIFICATES)));
    let key = user_with_key(backend, user).filter(|_| source != Some(SourceId::CERTIFICATES));
    let Some(mut subject) = basic.or(key).cloned() else {
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
        actor: None,
    };
    add_names(&mut subject.groups, groups);
    add_names(&mut subject.roles, roles);
    subject
}

/// The subject as patterns with `{user}` see it.
pub(crate) fn pattern_subject<'a>(policy: &Policy, subject: &'a Subject) -> PatternSubject<'a> {
    let prefix = subject.source.map_or("", |source| policy.identity.user_prefix(source));
    let (user, prefix_len) = (subject.user.as_bytes(), prefix.len());
    PatternSubject { user, prefix_len, source: subject.source }
}

fn add_names<T: AsRef<str>>(names: &mut Vec<Arc<str>>, more: &[T]) {
    for name in more.iter().map(AsRef::as_ref) {
        if !names.iter().any(|present| **present == *name) {
            names.push(name.into());
        }
    }
}

/// The subject of a certificate with these names; `None` if the policy names none of them.
pub(crate) fn subject_of_names(
    backend: Backend<'_>,
    names: &[String],
) -> Result<Option<Subject>, CredentialsError> {
    match backend {
        Backend::Rules(rules) => rules.authenticator().certificate_verified_elsewhere(names),
        Backend::Cluster(cluster) => cluster.authenticator().certificate_verified_elsewhere(names),
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

fn user_with_key<'a>(backend: Backend<'a>, user: &str) -> Option<&'a Subject> {
    match backend {
        Backend::Rules(rules) => rules.authenticator().user_with_key(user),
        Backend::Cluster(cluster) => cluster.authenticator().user_with_key(user),
    }
}

/// See [`Explainer::is_unknown_user`].
pub(crate) fn is_unknown_user(backend: Backend<'_>, user: &str, source: Option<SourceId>) -> bool {
    let Identity { basic, api_keys, certificates, jwt, .. } = backend.identity();
    let lacks_password = basic_user(backend, user).is_none();
    let lacks_key = user_with_key(backend, user).is_none();
    let verifies = basic.as_ref().is_some_and(|basic| basic.verify);
    match source {
        Some(SourceId::BASIC) => verifies && lacks_password,
        Some(SourceId::API_KEYS) => lacks_key,
        Some(SourceId::CERTIFICATES) => {
            !certificates.as_ref().is_some_and(|certificates| certificates.may_have_user(user))
        }
        Some(_) => false,
        // Several of Basic, API keys and certificates can have the name. If there are issuers, a
        // token may have it, too.
        None => {
            let may_have_certificate =
                certificates.as_ref().is_some_and(|certificates| certificates.may_have_user(user));
            let sources = [basic.is_some(), api_keys.is_some(), certificates.is_some()];
            jwt.is_empty()
                && (verifies || basic.is_none())
                && sources.iter().filter(|is_there| **is_there).count() > 1
                && lacks_password
                && lacks_key
                && !may_have_certificate
        }
    }
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
