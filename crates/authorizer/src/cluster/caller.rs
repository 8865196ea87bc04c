//! A caller as the cluster sees it.

use super::Cluster;
use crate::answer;
use crate::responder::CallerHeaders;
use identity::{HeapSize, Subject};
use policy::model::SourceId;
use search::Caller;

/// The data of the search cluster for a caller, cached with it.
#[derive(Debug)]
pub struct ClusterCaller {
    /// The caller as the cluster sees it, without an address.
    pub(super) subject: search::Subject,
    /// The subject, prepared for decisions by its roles.
    pub(super) prepared: Caller,
    pub(super) headers: CallerHeaders,
}

impl HeapSize for ClusterCaller {
    fn heap_size(&self) -> usize {
        let subject = &self.subject;
        let attributes = subject.attributes.iter().flat_map(|(name, value)| [name, value]);
        let names = subject.backend_roles.iter().chain(&subject.roles).chain([&subject.name]);
        let texts = names.chain(attributes);
        let texts = texts.map(|text| identity::allocated(text.len()) + size_of::<String>());
        self.headers.heap_size() + self.prepared.heap_size() + texts.sum::<usize>()
    }
}

impl Cluster {
    /// An authenticated subject as the cluster sees it, without an address. Its groups and the
    /// roles of its token are backend roles, and the claims of its token are attributes. A user of
    /// `internal_users.yml` has the attributes and roles of that file; the caller with an API key
    /// or a certificate of that name has not.
    #[must_use]
    pub fn subject(&self, subject: &Subject) -> search::Subject {
        let mut backend_roles: Vec<String> = Vec::new();
        for name in subject.groups.iter().chain(&subject.roles) {
            if !backend_roles.iter().any(|role| **role == **name) {
                backend_roles.push(name.to_string());
            }
        }
        let mut cluster_subject = search::Subject {
            name: subject.user.to_string(),
            backend_roles,
            ..search::Subject::default()
        };
        if subject.issuer.is_some() {
            // Lists and objects are no attributes: a pattern with such a claim matches nothing.
            let claims = subject.claims.as_object().into_iter().flatten();
            let attributes = claims.filter_map(|(name, claim)| {
                Some((format!("attr.jwt.{name}"), answer::claim_text(claim)?))
            });
            cluster_subject.attributes = attributes.collect();
        } else if !matches!(subject.source, Some(SourceId::API_KEYS | SourceId::CERTIFICATES))
            && let Some(user) = self.compiled.user(&subject.user)
        {
            let attributes = user.attributes.iter();
            let attributes = attributes
                .map(|(name, value)| (format!("attr.internal.{name}"), value.to_string()));
            cluster_subject.attributes = attributes.collect();
            cluster_subject.roles = user.roles.iter().map(ToString::to_string).collect();
            cluster_subject.is_service = user.is_service;
        }
        cluster_subject
    }
}
