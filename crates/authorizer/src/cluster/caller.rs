//! A caller as the cluster sees it.

use identity::{HeapSize, Subject};
use search::Caller;
use serde_json::Value;

use super::Cluster;
use crate::answer;
use crate::responder::CallerHeaders;

/// What is computed for a caller of the search cluster once and cached with it.
#[derive(Debug)]
pub struct ClusterCaller {
    /// As the cluster sees it, without an address.
    pub(super) subject: search::Subject,
    /// The subject, prepared for decisions by its roles.
    pub(super) prepared: Caller,
    pub(super) headers: CallerHeaders,
}

impl HeapSize for ClusterCaller {
    fn heap_size(&self) -> usize {
        let subject = &self.subject;
        let text = |text: &String| identity::allocated(text.len()) + size_of::<String>();
        let names = subject.backend_roles.iter().chain(&subject.roles).map(text).sum::<usize>();
        let attributes = subject.attributes.iter().map(|(name, value)| text(name) + text(value));
        self.headers.heap_size()
            + self.prepared.heap_size()
            + text(&subject.name)
            + names
            + attributes.sum::<usize>()
    }
}

impl Cluster {
    /// An authenticated subject as the cluster sees it, without an address: its groups and the
    /// roles of its token are backend roles. A user of `internal_users.yml` also has the attributes
    /// and roles of that file; the claims of a token are attributes.
    #[must_use]
    pub fn subject(&self, subject: &Subject) -> search::Subject {
        let mut backend_roles: Vec<String> = Vec::new();
        for name in subject.groups.iter().chain(&subject.roles) {
            if !backend_roles.iter().any(|role| **role == **name) {
                backend_roles.push(name.to_string());
            }
        }
        let mut of_cluster = search::Subject {
            name: subject.user.to_string(),
            backend_roles,
            ..search::Subject::default()
        };
        if subject.issuer.is_some() {
            let claims = subject.claims.as_object().into_iter().flatten();
            // Lists and objects are no attributes: a pattern with one matches nothing.
            let attribute = |(name, claim): (&String, &Value)| {
                Some((format!("attr.jwt.{name}"), answer::claim_text(claim)?))
            };
            of_cluster.attributes = claims.filter_map(attribute).collect();
        } else if let Some(user) = self.compiled.user(&subject.user) {
            let attribute =
                |(name, value): (&_, &_)| (format!("attr.internal.{name}"), format!("{value}"));
            of_cluster.attributes = user.attributes.iter().map(attribute).collect();
            of_cluster.roles = user.roles.iter().map(ToString::to_string).collect();
            of_cluster.is_service = user.is_service;
        }
        of_cluster
    }
}
