//! A copy of a decided request, which the shadow policy decides again.
//!
//! It is made on a worker thread; parsing waits until the comparison. It has no credentials: of a
//! token it has header and claims without the signature, of Basic credentials the name.

use authorizer::{
    Allowed, Authorizer, Backend, Denied, Header, Reason, Request, RequestBody, Scratch, Stage,
    Verdict, authorization, reads_header,
};
use identity::{Authenticator, CredentialsError, HeapSize, Subject, UnixTime, signed_part};
use policy::model::SourceId;

use crate::record::{self, without_query};

/// A request that was decided, without its credentials, and its decision.
#[derive(Debug)]
pub(super) struct DecidedRequest {
    pub(super) method: Box<[u8]>,
    pub(super) host: Box<[u8]>,
    /// Without its query, unless a search cluster decides.
    path: Box<[u8]>,
    pub(super) id: Box<[u8]>,
    pub(super) x_request_id: Box<[u8]>,
    client: Box<[u8]>,
    headers: CopiedHeaders,
    /// The bytes of a whole body are in `body_bytes`.
    body: RequestBody<'static>,
    body_bytes: Box<[u8]>,
    is_changeable: bool,
    caller: Caller,
    received: UnixTime,
    reason: Option<Reason>,
    rule: Option<Box<str>>,
    /// The revision of the policy that decided.
    pub(super) revision: Box<str>,
}

/// The header lines that the decision may depend on, as name and value.
type CopiedHeaders = Vec<(Box<[u8]>, Box<[u8]>)>;

/// Who made a request. A user has the prefix of its source.
#[derive(Debug)]
enum Caller {
    Anonymous,
    Basic { user: Box<str>, name: Box<str> },
    Token { user: Box<str>, issuer: Box<str>, signed_part: Box<[u8]> },
}

/// What a decision is, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision<'a> {
    /// Why the request is denied; `None` if it is allowed.
    pub(super) reason: Option<Reason>,
    /// The rule that decided, if one did.
    pub(super) rule: Option<&'a str>,
}

/// How the decision of a candidate differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// Not at all.
    Same,
    /// The candidate allows a request that is denied.
    WouldAllow,
    /// The candidate denies a request that is allowed.
    WouldDeny,
    /// Both allow or both deny, by another rule or for another reason.
    OtherRule,
    /// The candidate does not accept the caller's credentials: it answers with 401.
    UnknownCaller,
    /// What the decision of the candidate depends on is not known.
    NotCompared,
}

/// Maximum bytes of the `x-request-id` header, as in the decision log: a client may choose it.
const MAX_ID: usize = 256;

impl DecidedRequest {
    /// Copies a request with its verdict. Query, client, headers and body are copied only if the
    /// request is one to a search cluster, of either policy. `None` if the request was denied
    /// before its caller was known: no other policy can then be compared.
    pub(super) fn copy(
        active: &Authorizer,
        candidate: &Authorizer,
        request: &Request<'_>,
        verdict: &Verdict<'_>,
        received: UnixTime,
    ) -> Option<Self> {
        let Decision { reason, rule } = Decision::new(verdict);
        if !reason.is_none_or(has_known_caller) {
            return None;
        }
        let is_cluster =
            |policy: &Authorizer| matches!(policy.backend(request.host), Backend::Cluster(_));
        let for_cluster = is_cluster(active) || is_cluster(candidate);
        let (body, body_bytes) = match request.body {
            RequestBody::Unseen => (RequestBody::Unseen, &b""[..]),
            RequestBody::Awaited => (RequestBody::Awaited, &b""[..]),
            RequestBody::Whole(bytes) => (RequestBody::Whole(b""), bytes),
        };
        let x_request_id = record::value(request.headers, record::X_REQUEST_ID);
        Some(Self {
            method: request.method.into(),
            host: request.host.into(),
            path: if for_cluster { request.path } else { without_query(request.path) }.into(),
            id: request.id.into(),
            x_request_id: x_request_id.get(..MAX_ID).unwrap_or(x_request_id).into(),
            client: if for_cluster { request.client } else { b"" }.into(),
            headers: if for_cluster { copy_headers(request.headers) } else { Vec::new() },
            body,
            body_bytes: if for_cluster { body_bytes } else { b"" }.into(),
            is_changeable: request.is_changeable,
            caller: Caller::copy(active, request, verdict)?,
            received,
            reason,
            rule: rule.map(Into::into),
            revision: active.revision().policy.clone(),
        })
    }

    /// Decides the request by `candidate` as well, and passes on how its decision differs.
    pub(super) fn compare<R>(
        &self,
        candidate: &Authorizer,
        scratch: &mut Scratch,
        report: impl FnOnce(Difference, Decision<'_>) -> R,
    ) -> R {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| Header { name, value }).collect();
        let request = Request {
            method: &self.method,
            host: &self.host,
            path: &self.path,
            headers: &headers,
            id: &self.id,
            client: &self.client,
            body: match self.body {
                RequestBody::Whole(_) => RequestBody::Whole(&self.body_bytes),
                unknown @ (RequestBody::Unseen | RequestBody::Awaited) => unknown,
            },
            is_changeable: self.is_changeable,
        };
        let caller = match candidate.backend(&self.host) {
            Backend::Rules(rules) => self.caller.verify(rules.authenticator(), self.received),
            Backend::Cluster(cluster) => self.caller.verify(cluster.authenticator(), self.received),
        };
        let verdict = candidate.check_again(&request, caller, scratch, self.received);
        let decision = Decision::new(&verdict);
        // As the active policy, the candidate would have waited for the body.
        let is_unknown = self.body == RequestBody::Awaited && verdict.needs_body();
        let difference =
            if is_unknown { Difference::NotCompared } else { self.decision().difference(decision) };
        report(difference, decision)
    }

    pub(super) fn decision(&self) -> Decision<'_> {
        Decision { reason: self.reason, rule: self.rule.as_deref() }
    }

    /// The user, with the prefix of its source; `None` for an anonymous caller.
    pub(super) fn user(&self) -> Option<&str> {
        match &self.caller {
            Caller::Anonymous => None,
            Caller::Basic { user, .. } | Caller::Token { user, .. } => Some(user),
        }
    }

    /// The issuer of the caller's token; `None` without a token.
    pub(super) fn issuer(&self) -> Option<&str> {
        match &self.caller {
            Caller::Anonymous | Caller::Basic { .. } => None,
            Caller::Token { issuer, .. } => Some(issuer),
        }
    }

    /// The path as received, without its query and fragment.
    pub(super) fn path(&self) -> &[u8] {
        without_query(&self.path)
    }

    pub(super) fn size(&self) -> usize {
        let Self { method, host, path, id, x_request_id, client, body_bytes, .. } = self;
        let texts: usize = [method, host, path, id, x_request_id, client, body_bytes]
            .iter()
            .map(|text| text.len())
            .sum();
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let headers = headers + self.headers.capacity() * size_of::<(Box<[u8]>, Box<[u8]>)>();
        let rule = self.rule.as_ref().map_or(0, |rule| rule.len());
        texts + headers + rule + self.revision.len() + self.caller.size() + size_of::<Self>()
    }
}

impl Caller {
    /// `None` if the caller is not known.
    fn copy(active: &Authorizer, request: &Request<'_>, verdict: &Verdict<'_>) -> Option<Self> {
        let (Verdict::Allowed(Allowed { subject, .. }) | Verdict::Denied(Denied { subject, .. })) =
            verdict;
        let Some(subject) = subject else { return Some(Self::Anonymous) };
        let user = subject.user.as_ref().into();
        Some(match &subject.issuer {
            Some(issuer) => {
                let authorization = authorization(request.headers).ok().flatten()?;
                let signed_part = signed_part(authorization)?.into();
                Self::Token { user, issuer: issuer.as_ref().into(), signed_part }
            }
            None => {
                let prefix = active.backend(request.host).identity().user_prefix(SourceId::BASIC);
                let name = subject.user.strip_prefix(prefix).unwrap_or(&subject.user).into();
                Self::Basic { user, name }
            }
        })
    }

    /// The caller under another policy.
    fn verify<A: HeapSize>(
        &self,
        authenticator: &Authenticator<A>,
        received: UnixTime,
    ) -> Result<Option<Subject>, CredentialsError> {
        match self {
            Self::Anonymous => Ok(None),
            Self::Basic { name, .. } => authenticator.basic_user_verified_elsewhere(name).map(Some),
            Self::Token { signed_part, .. } => {
                authenticator.token_verified_elsewhere(signed_part, received).map(Some)
            }
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Anonymous => 0,
            Self::Basic { user, name } => user.len() + name.len(),
            Self::Token { user, issuer, signed_part } => {
                user.len() + issuer.len() + signed_part.len()
            }
        }
    }
}

impl<'a> Decision<'a> {
    fn new(verdict: &Verdict<'a>) -> Self {
        match verdict {
            Verdict::Allowed(Allowed { rule, .. }) => Self { reason: None, rule: Some(rule) },
            Verdict::Denied(Denied { reason, rule, .. }) => {
                Self { reason: Some(*reason), rule: *rule }
            }
        }
    }

    /// How the decision of a candidate differs from this one.
    fn difference(self, candidate: Decision<'_>) -> Difference {
        let same = || self.rule == candidate.rule && self.reason_name() == candidate.reason_name();
        match (self.reason, candidate.reason) {
            (_, Some(Reason::InvalidCredentials(_))) => Difference::UnknownCaller,
            (Some(_), None) => Difference::WouldAllow,
            (None, Some(_)) => Difference::WouldDeny,
            (None, None) | (Some(_), Some(_)) if same() => Difference::Same,
            (None, None) | (Some(_), Some(_)) => Difference::OtherRule,
        }
    }

    /// Why the request is denied, by name; `None` if it is allowed.
    pub(super) fn reason_name(self) -> Option<&'static str> {
        self.reason.map(Reason::name)
    }
}

impl Difference {
    pub(super) const ALL: [Self; 6] = [
        Self::Same,
        Self::WouldAllow,
        Self::WouldDeny,
        Self::OtherRule,
        Self::UnknownCaller,
        Self::NotCompared,
    ];

    /// The name in metrics and logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::WouldAllow => "would_allow",
            Self::WouldDeny => "would_deny",
            Self::OtherRule => "other_rule",
            Self::UnknownCaller => "unknown_caller",
            Self::NotCompared => "not_compared",
        }
    }
}

/// Whether the caller of a request that is denied for this reason is known: anonymous, or
/// authenticated.
fn has_known_caller(reason: Reason) -> bool {
    match reason.stage() {
        Stage::Rules | Stage::Cluster => true,
        Stage::Request | Stage::Headers | Stage::Limit | Stage::Credentials => false,
    }
}

fn copy_headers(headers: &[Header<'_>]) -> CopiedHeaders {
    let read = headers.iter().filter(|header| reads_header(header.name));
    read.map(|header| (header.name.into(), header.value.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_headers_that_decisions_depend_on_are_copied() {
        let headers = [
            ("authorization", "Basic secret"),
            ("Content-Type", "application/json"),
            ("cookie", "session=secret"),
            ("content-encoding", "gzip"),
            ("x-content-type", "secret"),
            ("SecurityTenant", "t"),
        ];
        let headers =
            headers.map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
        let copied = copy_headers(&headers);
        let names: Vec<_> = copied.iter().map(|(name, _)| str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["Content-Type", "content-encoding", "SecurityTenant"]);
    }
}
