//! Subjects that are named and not authenticated, for tools, and what is known of callers that are not authenticated.

use std::collections::BTreeSet;
use std::sync::Arc;

use document::Suggestions;
use identity::{Attempted, CachedSubject, CredentialsError, Subject, UnixTime, UnknownKids};
use policy::KeyUrl;
use policy::model::{Identity, SourceId};

use crate::cluster::Cluster;
use crate::cluster_caller::ClusterCaller;
use crate::request::{self, Request};
use crate::{Authorizer, SubjectData};

impl Authorizer {
    /// The subject of a user on a host, as if it were authenticated, with more groups and roles than the policy gives it.
    /// The names have the prefixes of its source.
    ///
    /// # Errors
    /// [`CredentialsError::BadPassword`], which a request of this user would get, if the name can only be that of a Basic
    /// user and the policy has none of that name: it is misspelt, or the user was removed.
    pub fn subject_named<T: AsRef<str>>(
        &self,
        host: &[u8],
        user: &str,
        groups: &[T],
        roles: &[T],
    ) -> Result<Subject, CredentialsError> {
        self.subject_named_on(self.cluster_of(host, &mut Vec::new()), user, groups, roles)
    }

    /// The same on a host of the search cluster, which may have users of its own.
    pub(crate) fn subject_named_on<T: AsRef<str>>(
        &self,
        cluster: Option<&Cluster>,
        user: &str,
        groups: &[T],
        roles: &[T],
    ) -> Result<Subject, CredentialsError> {
        let identity = cluster.map_or(&self.loaded.policy.identity, Cluster::identity);
        let source = identity.source_of(user);
        let known = match cluster {
            Some(cluster) => cluster.authenticator.basic_user(user),
            None => self.authenticator.basic_user(user),
        };
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

    /// Whether the name can only be that of a Basic user, and no such user, whose password would be verified, may make
    /// requests to this host.
    #[must_use]
    pub fn is_unknown_to_basic(&self, host: &[u8], user: &str, source: Option<SourceId>) -> bool {
        let known = match self.cluster_of(host, &mut Vec::new()) {
            Some(cluster) => cluster.authenticator.basic_user(user),
            None => self.authenticator.basic_user(user),
        };
        known.is_none() && is_of_basic(self.identity_on(host), source)
    }

    /// How callers authenticate on this host: on those of the search cluster, its own users may take the place of the policy's.
    #[must_use]
    pub fn identity_on(&self, host: &[u8]) -> &Identity {
        self.cluster_of(host, &mut Vec::new()).map_or(&self.loaded.policy.identity, Cluster::identity)
    }

    /// Whether requests to this host are decided by a search cluster's own roles.
    #[must_use]
    pub fn is_of_cluster(&self, host: &[u8]) -> bool {
        self.cluster_of(host, &mut Vec::new()).is_some()
    }

    /// Those of these names that the search cluster of this host does not know, probably mistakes, each in words.
    #[must_use]
    pub fn unknown_on_cluster(
        &self,
        host: &[u8],
        user: Option<&str>,
        backend_roles: &[String],
    ) -> Vec<String> {
        let Some(cluster) = self.cluster_of(host, &mut Vec::new()) else { return Vec::new() };
        let identity = cluster.identity();
        let is_unknown = |user: &&str| self.is_unknown_to_basic(host, user, identity.source_of(user));
        let mut suggestions = Suggestions::for_a_page();
        let user = user.filter(is_unknown).map(|user| unknown_user(cluster, user, &mut suggestions));
        let patterns = || mapped_backend_roles(cluster);
        // Many roles are mapped from the same few.
        let known: BTreeSet<&str> = patterns().map(search::Pattern::text).collect();
        let unmapped = backend_roles.iter().filter(|name| !patterns().any(|pattern| pattern.matches(name)));
        let unmapped = unmapped.map(|name| {
            let meant = suggestions.closest(name, known.iter().copied());
            let meant = in_words(meant);
            format!("no role of the search cluster is mapped from the backend role `{name}`{meant}")
        });
        user.into_iter().chain(unmapped).collect()
    }

    /// That the search cluster has no user of this name, in words.
    pub(crate) fn unknown_user_of(cluster: &Cluster, user: &str) -> String {
        unknown_user(cluster, user, &mut Suggestions::for_a_page())
    }

    /// The user and the issuer that the invalid credentials of a request claim, unverified, and what is wrong with them;
    /// for logs and people, never for the client. `error` is why they are invalid.
    #[must_use]
    pub fn attempted(&self, request: &Request<'_>, error: CredentialsError, now: UnixTime) -> Attempted {
        let authorization = request::authorization(request.headers).ok().flatten();
        let of = |value| match self.cluster_of(request.host, &mut Vec::new()) {
            Some(cluster) => cluster.authenticator.attempted(value, error, now),
            None => self.authenticator.attempted(value, error, now),
        };
        authorization.map(of).unwrap_or_default()
    }

    /// The `kid`s of the keys of this URL; none if they are not fetched yet. A key without a `kid` has an empty one.
    #[must_use]
    pub fn kids(&self, url: &KeyUrl) -> BTreeSet<&str> {
        self.authenticator.kids(url)
    }

    /// How many names the inventory of the search cluster has; 0 without one.
    #[must_use]
    pub fn inventory_len(&self) -> u32 {
        self.cluster.as_ref().map_or(0, Cluster::inventory_len)
    }

    /// The `kid`s that tokens have named since the last call and the key set of this URL does not have.
    #[must_use]
    pub fn take_unknown_kids(&self, url: &KeyUrl) -> UnknownKids {
        let mut unknown = self.authenticator.take_unknown_kids(url);
        if let Some(cluster) = &self.cluster {
            unknown.extend(&cluster.authenticator.take_unknown_kids(url));
        }
        unknown
    }

    /// This subject with its roles and header values, without any verification. If nothing authenticated it, its source
    /// is the one that its name can come from.
    pub(crate) fn unverified(&self, mut subject: Subject) -> Arc<CachedSubject<SubjectData>> {
        subject.source = subject.source.or_else(|| self.loaded.policy.identity.source_of(&subject.user));
        // Who is not verified gets no identity header.
        let attached = SubjectData { signed: None, ..self.subject_data(&subject) };
        Arc::new(CachedSubject { attached, subject })
    }

    /// The same for a caller of the search cluster.
    pub(crate) fn unverified_on_cluster(
        &self,
        cluster: &Cluster,
        subject: Subject,
    ) -> Arc<CachedSubject<ClusterCaller>> {
        let attach = |subject: &Subject| self.cluster_caller(cluster, subject);
        Self::unverified_with(cluster, subject, attach)
    }

    /// The same to explain a decision.
    pub(crate) fn explained_on_cluster(
        &self,
        cluster: &Cluster,
        subject: Subject,
    ) -> Arc<CachedSubject<ClusterCaller>> {
        let attach = |subject: &Subject| self.uncached_cluster_caller(cluster, subject);
        Self::unverified_with(cluster, subject, attach)
    }

    fn unverified_with(
        cluster: &Cluster,
        mut subject: Subject,
        attach: impl FnOnce(&Subject) -> ClusterCaller,
    ) -> Arc<CachedSubject<ClusterCaller>> {
        subject.source = subject.source.or_else(|| cluster.identity().source_of(&subject.user));
        let mut attached = attach(&subject);
        // Who is not verified gets no identity header.
        attached.signed = None;
        Arc::new(CachedSubject { attached, subject })
    }
}

/// Whether a name with this source can only be that of a Basic user whose password is verified.
fn is_of_basic(identity: &Identity, source: Option<SourceId>) -> bool {
    identity.basic.as_ref().is_some_and(|basic| basic.verify) && source == Some(SourceId::BASIC)
}

/// The backend roles from which roles of the search cluster are mapped.
pub(crate) fn mapped_backend_roles(cluster: &Cluster) -> impl Iterator<Item = &search::Pattern> {
    let mappings = cluster.compiled.config.mappings.iter();
    mappings.flat_map(|mapping| mapping.backend_roles.iter().chain(&mapping.and_backend_roles))
}

fn unknown_user(cluster: &Cluster, user: &str, suggestions: &mut Suggestions) -> String {
    let names = cluster.identity().basic.iter().flat_map(|basic| basic.users.iter().map(|user| &*user.name));
    format!("the search cluster has no user `{user}`{}", in_words(suggestions.closest(user, names)))
}

fn in_words(meant: Option<&str>) -> String {
    meant.map(|meant| format!(": did you mean `{meant}`?")).unwrap_or_default()
}
