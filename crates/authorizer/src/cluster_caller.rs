//! What is computed for a caller of the search cluster once and cached with it.

use identity::HeapSize;
use search::Caller;

use crate::answer::Values;
use crate::identity_header::SignedIdentity;

/// A caller of the cluster, cached with its subject.
#[derive(Debug)]
pub struct ClusterCaller {
    /// As the cluster sees it, without an address.
    pub(crate) subject: search::Subject,
    /// The subject, prepared for decisions by its roles.
    pub(crate) prepared: Caller,
    /// Its values of `set_headers`.
    pub(crate) values: Values,
    /// Its identity header, if the policy has one and the caller was authenticated by credentials.
    pub(crate) signed: Option<SignedIdentity>,
}

impl HeapSize for ClusterCaller {
    fn heap_size(&self) -> usize {
        let signed = self.signed.as_ref().map_or(0, SignedIdentity::heap_size);
        let subject = &self.subject;
        let text = |text: &String| identity::allocated(text.len()) + size_of::<String>();
        let names = subject.backend_roles.iter().chain(&subject.roles).map(text).sum::<usize>();
        let attributes = subject.attributes.iter().map(|(name, value)| text(name) + text(value));
        self.values.heap_size()
            + signed
            + self.prepared.heap_size()
            + text(&subject.name)
            + names
            + attributes.sum::<usize>()
    }
}
