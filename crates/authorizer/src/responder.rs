//! Answers requests for both backends: the headers of an allowed request, and the response to a
//! denied request.

use std::sync::Arc;

use document::Problem;
use identity::{Credentials, Subject, UnixTime};
use policy::model::Piece;

use crate::answer::{self, Denials, TemplateValues, Values};
use crate::authentication::Trust;
use crate::identity_header::{IdentitySigner, NotSigned, SignedIdentity};
use crate::metadata::{self, CallerMetadata};
use crate::reason::{Limit, Reason};
use crate::request::{self, Request};
use crate::sanitizer::{Changes, HeaderSanitizer};
use crate::scratch::{AnswerScratch, ChangeScratch};
use crate::verdict::{Allowed, Denied, Verdict};

/// Answers requests by the settings of a policy.
#[derive(Debug)]
pub(crate) struct Responder {
    loaded: Arc<policy::Loaded>,
    /// The revision of the policy.
    revision: Box<str>,
    sanitizer: HeaderSanitizer,
    denials: Denials,
    /// Whether a header or the metadata of an allowed request depends on the caller's roles.
    pub(crate) shows_roles: bool,
    /// Signs the identity header, if the policy has it.
    pub(crate) signer: Option<IdentitySigner>,
}

/// The headers that tell the application who a caller is, and its metadata. Cached with the caller,
/// so that they are formatted once for all its requests.
#[derive(Debug)]
pub(crate) struct CallerHeaders {
    /// Its values of `set_headers`.
    values: Values,
    /// Its identity header, if the policy has it and the caller was authenticated by credentials.
    signed: Option<SignedIdentity>,
    metadata: CallerMetadata,
}

/// A request that a backend permits.
pub(crate) struct Permitted<'a> {
    /// The rule, as `<role>: <rule>`; for a request to a search cluster, its operation.
    pub(crate) rule: &'a str,
    pub(crate) subject: Option<&'a Subject>,
    pub(crate) headers: &'a CallerHeaders,
    pub(crate) path: &'a [u8],
    /// The path and query with which it is forwarded, if they are changed; otherwise empty.
    pub(crate) target: &'a str,
    /// The filters for its answer; empty if there are none.
    pub(crate) document_security: &'a str,
}

impl Responder {
    /// # Errors
    /// Every problem of the identity header's keys.
    pub(crate) fn compile(
        loaded: Arc<policy::Loaded>,
        revision: Box<str>,
    ) -> Result<Self, Vec<Problem>> {
        let policy = &loaded.policy;
        let signer = policy.identity_header.as_ref().map(IdentitySigner::compile).transpose()?;
        let response = &policy.allow_response;
        let mut by_role = response.metadata.iter().flat_map(|entry| &entry.values);
        let shows_roles = signer.is_some()
            || response.templates().any(|(.., template)| template.0.contains(&Piece::Roles))
            || by_role.any(|(role, _)| role.is_some());
        Ok(Self {
            shows_roles,
            sanitizer: HeaderSanitizer::new(policy),
            denials: Denials::new(&policy.deny_response, &policy.identity),
            signer,
            revision,
            loaded,
        })
    }

    /// The headers of a caller with these roles. `caller` is `None` if it is anonymous. Only a
    /// verified caller gets an identity header.
    pub(crate) fn caller_headers(
        &self,
        caller: Option<(&Subject, Trust)>,
        roles: &[&str],
    ) -> CallerHeaders {
        let subject = caller.map(|(subject, _)| subject);
        let template = TemplateValues { subject, roles, revision: &self.revision };
        let verified = caller.filter(|(_, trust)| *trust == Trust::Verified);
        let signer = self.signer.as_ref().zip(verified);
        let response = &self.loaded.policy.allow_response;
        CallerHeaders {
            values: answer::render(&response.set_headers, template),
            metadata: metadata::render(&response.metadata, template),
            signed: signer.map(|(signer, (subject, _))| signer.prepare(subject, roles)),
        }
    }

    /// The changes to a permitted request. `roles` are the caller's, for its identity header.
    ///
    /// # Errors
    /// If not all changes can be made: then the request must be denied.
    pub(crate) fn changes<'a>(
        &'a self,
        request: &Request<'a>,
        permitted: Permitted<'a>,
        roles: impl FnOnce() -> Vec<String>,
        now: UnixTime,
        scratch: &'a mut ChangeScratch,
    ) -> Result<Allowed<'a>, Reason> {
        let Permitted { rule, subject, headers, path, target, document_security } = permitted;
        let ChangeScratch { with_rule, aliases, identity, cookies } = scratch;
        // An alias that is not removed could spoof a header (S12 in `SECURITY.md`).
        // `may_have_names` is false if no header of the request has a name that the policy sets or
        // removes.
        let may_have_names = self.sanitizer.find_aliases(request.headers, aliases)?;
        let cookies = self.sanitizer.remaining_cookies(request.headers, cookies)?;
        let mut has_identity = false;
        if let (Some(signer), Some(signed), Some(subject)) =
            (&self.signer, &headers.signed, subject)
        {
            signer
                .write(signed, (subject, &self.revision), roles, now, identity)
                .map_err(|NotSigned| Reason::Limit(Limit::ResponseSize))?;
            has_identity = true;
        }
        headers.values.render_rule(rule, with_rule);
        let changes = Changes {
            sanitizer: &self.sanitizer,
            values: &headers.values,
            with_rule,
            identity: has_identity.then_some(identity),
            headers: request.headers,
            aliases,
            may_have_names,
            document_security,
            cookies,
        };
        let rewritten = (!target.is_empty()).then_some(target);
        let (read_claims, cluster) = (None, None);
        let metadata = &headers.metadata;
        let allowed =
            Allowed { rule, subject, read_claims, path, cluster, rewritten, changes, metadata };
        if request.sets_headers_only && !allowed.only_sets_headers() {
            return Err(Reason::UnsupportedChange);
        }
        if allowed.is_too_large() { Err(Reason::Limit(Limit::ResponseSize)) } else { Ok(allowed) }
    }

    /// Denies a request before its caller is authenticated.
    pub(crate) fn deny_early<'a>(
        &'a self,
        request: &Request<'a>,
        reason: Reason,
        scratch: &'a mut AnswerScratch,
    ) -> Verdict<'a> {
        Verdict::Denied(self.deny(request, reason, None, None, &mut scratch.denial.body))
    }

    /// The answer to a denied request, as the policy configures it. Writes its body.
    /// `credentials` are those of the request.
    pub(crate) fn deny<'a>(
        &'a self,
        request: &Request<'a>,
        reason: Reason,
        credentials: Option<Credentials<'_>>,
        rule: Option<&'a str>,
        body: &'a mut String,
    ) -> Denied<'a> {
        let is_grpc = request.is_grpc();
        self.denials.write_body(reason, rule, (request.id, is_grpc), body);
        let headers = self.denials.headers(reason, request::is_bearer(credentials), is_grpc);
        Denied { rule, ..Denied::new(reason, headers, body) }
    }
}

impl CallerHeaders {
    /// The bytes that they have allocated on the heap.
    pub(crate) fn heap_size(&self) -> usize {
        let signed = self.signed.as_ref().map_or(0, SignedIdentity::heap_size);
        self.values.heap_size() + signed + self.metadata.heap_size()
    }
}
