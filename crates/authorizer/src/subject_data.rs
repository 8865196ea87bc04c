//! What is computed for a subject once and cached with it: its roles and the headers that tell the application who it is.

use std::sync::Arc;

use engine::{PatternSubject, RoleSet};
use identity::{CachedSubject, HeapSize, Subject, UnixTime};

use crate::Authorizer;
use crate::answer::{self, TemplateValues, Values};
use crate::identity_header::{NotSigned, SignedIdentity};

/// The roles of a subject under this policy and its values of `set_headers`. Computed when the subject is verified and
/// cached with it, so that its next requests neither resolve roles nor format headers.
#[derive(Debug)]
pub struct SubjectData {
    pub(crate) roles: RoleSet,
    /// The length of the `user_prefix` in its user name.
    pub(crate) user_prefix_len: usize,
    pub(crate) values: Values,
    /// Its identity header, if the policy has one and the subject was authenticated by credentials.
    pub(crate) signed: Option<SignedIdentity>,
}

impl HeapSize for SubjectData {
    fn heap_size(&self) -> usize {
        let signed = self.signed.as_ref().map_or(0, SignedIdentity::heap_size);
        self.roles.heap_size() + self.values.heap_size() + signed
    }
}

/// The authenticated caller; `None` is an anonymous one.
pub(crate) type Caller<'a> = Option<&'a CachedSubject<SubjectData>>;

impl Authorizer {
    pub(crate) fn subject_data(&self, subject: &Subject) -> SubjectData {
        let groups = subject.groups.iter().map(|group| &**group);
        let roles = self.engine.roles_of(&subject.user, groups, subject.roles.iter().map(|role| &**role));
        let names: Vec<&str> = self.engine.role_names(&roles).collect();
        let template =
            TemplateValues { subject: Some(subject), roles: &names, revision: &self.revision.policy };
        let values = answer::render(&self.loaded.policy.allow_response.set_headers, template);
        let prefix = subject.source.map_or("", |source| self.loaded.policy.identity.user_prefix(source));
        let signed = self.signer.as_ref().map(|signer| signer.place(subject, &answer::shown_roles(&names)));
        SubjectData { roles, user_prefix_len: prefix.len(), values, signed }
    }

    /// This subject with its roles and header values, without any verification. If nothing authenticated it, its source
    /// is the one that its name can come from.
    pub(crate) fn unverified(&self, mut subject: Subject) -> Arc<CachedSubject<SubjectData>> {
        subject.source = subject.source.or_else(|| self.loaded.policy.identity.source_of(&subject.user));
        // Who is not verified gets no identity header.
        let attached = SubjectData { signed: None, ..self.subject_data(&subject) };
        Arc::new(CachedSubject { attached, subject })
    }

    /// The identity header of an authenticated caller; none for others, or if the policy has none.
    pub(crate) fn signed_identity<'a>(
        &self,
        caller: Caller<'_>,
        now: UnixTime,
        value: &'a mut String,
    ) -> Result<Option<&'a str>, NotSigned> {
        let Some((signer, caller)) = self.signer.as_ref().zip(caller) else { return Ok(None) };
        let Some(signed) = &caller.attached.signed else { return Ok(None) };
        let roles = || {
            let names: Vec<&str> = self.engine.role_names(&caller.attached.roles).collect();
            answer::shown_roles(&names).into_iter().map(str::to_owned).collect()
        };
        signer.write(signed, (&caller.subject, &self.revision.policy), roles, now, value)?;
        Ok(Some(value))
    }

    /// The public keys of the identity header as a JWK Set (RFC 7517), if the policy has one that is a JWT.
    #[must_use]
    pub fn identity_keys(&self) -> Option<&str> {
        self.signer.as_ref()?.public_keys()
    }
}

/// The subject, as patterns see it.
pub(crate) fn pattern_subject(cached: &CachedSubject<SubjectData>) -> PatternSubject<'_> {
    let CachedSubject { subject, attached } = cached;
    PatternSubject { user: subject.user.as_bytes(), prefix: attached.user_prefix_len, source: subject.source }
}
