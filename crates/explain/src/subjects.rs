//! Subjects that are named and not authenticated, and what the sources of callers know of them.

use std::collections::BTreeSet;

use authorizer::{Backend, Cluster};
use document::Suggestions;
use identity::{CredentialsError, Subject};
use policy::model::{Identity, SourceId};

use crate::Explainer;

impl<'a> Explainer<'a> {
    /// The subject of a user on a host, as if it were authenticated, with more groups and roles
    /// than the policy gives it. The names have the prefixes of its source.
    ///
    /// # Errors
    /// [`CredentialsError::BadPassword`], which a request of this user would get, if the name can
    /// only be that of a Basic user and the policy has none of that name: it is misspelt, or the
    /// user was removed.
    pub fn subject_named<T: AsRef<str>>(
        self,
        host: &[u8],
        user: &str,
        groups: &[T],
        roles: &[T],
    ) -> Result<Subject, CredentialsError> {
        subject_named(self.authorizer.backend(host), user, groups, roles)
    }

    /// Whether the name can only be that of a Basic user, and no such user, whose password would be
    /// verified, may make requests to this host.
    #[must_use]
    pub fn is_unknown_to_basic(self, host: &[u8], user: &str, source: Option<SourceId>) -> bool {
        let backend = self.authorizer.backend(host);
        basic_user(backend, user).is_none() && is_of_basic(backend.identity(), source)
    }

    /// How callers authenticate on this host: on those of the search cluster, its own users may
    /// take the place of the policy's.
    #[must_use]
    pub fn identity_on(self, host: &[u8]) -> &'a Identity {
        self.authorizer.backend(host).identity()
    }

    /// Whether requests to this host are decided by a search cluster's own roles.
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
    let identity = backend.identity();
    let source = identity.source_of(user);
    let known = basic_user(backend, user);
    if known.is_none() && is_of_basic(identity, source) {
        return Err(CredentialsError::BadPassword);
    }
    let mut subject = known.cloned().unwrap_or_else(|| Subject {
        user: user.into(),
        issuer: None,
        source,
        groups: Vec::new(),
        roles: Vec::new(),
        claims: serde_json::Value::Null,
    });
    for (all, more) in [(&mut subject.groups, groups), (&mut subject.roles, roles)] {
        for name in more.iter().map(AsRef::as_ref) {
            if !all.iter().any(|known| **known == *name) {
                all.push(name.into());
            }
        }
    }
    Ok(subject)
}

/// The subject of a token with these claims, as JSON.
pub(crate) fn subject_of_text(
    backend: Backend<'_>,
    claims: &str,
) -> Result<Subject, CredentialsError> {
    let claims = serde_json::from_str(claims).map_err(|_| CredentialsError::MalformedClaims)?;
    match backend {
        Backend::Rules(rules) => rules.authenticator().subject_of(&claims),
        Backend::Cluster(cluster) => cluster.authenticator().subject_of(&claims),
    }
}

fn basic_user<'a>(backend: Backend<'a>, user: &str) -> Option<&'a Subject> {
    match backend {
        Backend::Rules(rules) => rules.authenticator().basic_user(user),
        Backend::Cluster(cluster) => cluster.authenticator().basic_user(user),
    }
}

/// Whether a name with this source can only be that of a Basic user whose password is verified.
fn is_of_basic(identity: &Identity, source: Option<SourceId>) -> bool {
    identity.basic.as_ref().is_some_and(|basic| basic.verify) && source == Some(SourceId::BASIC)
}

/// Those of these names that a search cluster does not know, probably mistakes, each in words.
pub(crate) fn unknown_on_cluster(
    cluster: &Cluster,
    user: Option<&str>,
    backend_roles: &[String],
) -> Vec<String> {
    let (identity, backend) = (cluster.identity(), Backend::Cluster(cluster));
    let is_unknown = |user: &&str| {
        basic_user(backend, user).is_none() && is_of_basic(identity, identity.source_of(user))
    };
    let mut suggestions = Suggestions::for_a_page();
    let user = user.filter(is_unknown).map(|user| unknown_user(cluster, user));
    let patterns = || mapped_backend_roles(cluster);
    // Many roles are mapped from the same few.
    let known: BTreeSet<&str> = patterns().map(search::Pattern::text).collect();
    let unmapped =
        backend_roles.iter().filter(|name| !patterns().any(|pattern| pattern.matches(name)));
    let unmapped = unmapped.map(|name| {
        let meant = in_words(suggestions.closest(name, known.iter().copied()));
        format!("no role of the search cluster is mapped from the backend role `{name}`{meant}")
    });
    user.into_iter().chain(unmapped).collect()
}

/// The backend roles from which roles of the search cluster are mapped.
pub(crate) fn mapped_backend_roles(cluster: &Cluster) -> impl Iterator<Item = &search::Pattern> {
    let mappings = cluster.config().mappings.iter();
    mappings.flat_map(|mapping| mapping.backend_roles.iter().chain(&mapping.and_backend_roles))
}

/// That the search cluster has no user of this name, in words.
pub(crate) fn unknown_user(cluster: &Cluster, user: &str) -> String {
    let names = cluster
        .identity()
        .basic
        .iter()
        .flat_map(|basic| basic.users.iter().map(|user| &*user.name));
    let meant = Suggestions::for_a_page().closest(user, names);
    format!("the search cluster has no user `{user}`{}", in_words(meant))
}

fn in_words(meant: Option<&str>) -> String {
    meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default()
}
