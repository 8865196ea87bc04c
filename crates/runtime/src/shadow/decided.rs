//! A copy of a decided request, which the shadow policy decides again.
//!
//! It is made on a worker thread, so copying is one allocation, and parsing waits until the
//! comparison. It has no credentials: of a token it has header and claims without the signature, of
//! Basic credentials the name.

use std::ops::Range;

use authorizer::{
    Allowed, Authorizer, Backend, Denied, Header, Reason, Request, RequestBody, Scratch, Stage, Verdict,
    authorization, reads_header,
};
use identity::{CredentialsError, Subject, UnixTime, signed_part};
use policy::model::SourceId;

/// A request that was decided, without its credentials, and its decision.
#[derive(Debug)]
pub(super) struct DecidedRequest {
    /// All parts, one after another.
    bytes: Vec<u8>,
    /// Where each part ends, by [`Part`].
    ends: [usize; PARTS],
    caller: CallerKind,
    reason: Option<Reason>,
    /// What was known of the body. The bytes of a whole one are [`Part::Body`].
    body: RequestBody<'static>,
    is_changeable: bool,
    received: UnixTime,
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

/// Who made a request, and how it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallerKind {
    Anonymous,
    Basic,
    Token,
}

/// The parts of a [`DecidedRequest`].
#[derive(Clone, Copy)]
pub(super) enum Part {
    Method,
    /// As received.
    Host,
    /// Without its query, unless a search cluster decides.
    Path,
    /// The proxy's id of the request.
    Id,
    /// The `x-request-id` header, cut.
    XRequestId,
    /// With the prefix of its source; empty for an anonymous caller.
    User,
    /// Of its token; empty without one.
    Issuer,
    /// The name of a Basic user without its prefix, or the signed part of a token.
    Caller,
    Rule,
    /// Of the policy that decided.
    Revision,
    Client,
    /// The header lines that the decision may depend on, each as `name:value` and a line feed.
    Headers,
    Body,
}

const PARTS: usize = 13;
/// Maximum bytes of the `x-request-id` header, as in the decision log: a client may choose it.
const MAX_ID: usize = 256;

impl DecidedRequest {
    /// Copies a request with its verdict. Query, client and body are copied only if the request is
    /// one to a search cluster, of either policy. `None` if the request was denied before its
    /// caller was known: no other policy can then be compared.
    pub(super) fn copy(
        active: &Authorizer,
        candidate: &Authorizer,
        request: &Request<'_>,
        verdict: &Verdict<'_>,
        received: UnixTime,
    ) -> Option<Self> {
        let Decision { reason, rule } = Decision::of(verdict);
        if !reason.is_none_or(has_known_caller) {
            return None;
        }
        let backend = active.backend(request.host);
        let for_cluster = [backend, candidate.backend(request.host)]
            .iter()
            .any(|backend| matches!(backend, Backend::Cluster(_)));
        let subject = match verdict {
            Verdict::Allowed(allowed) => allowed.subject,
            Verdict::Denied(denied) => denied.subject,
        };
        let (caller, of_caller) = match subject {
            None => (CallerKind::Anonymous, &b""[..]),
            Some(subject) if subject.issuer.is_some() => {
                let authorization = authorization(request.headers).ok().flatten();
                (CallerKind::Token, signed_part(authorization?)?)
            }
            Some(subject) => {
                let prefix = backend.identity().user_prefix(SourceId::BASIC);
                let name = subject.user.strip_prefix(prefix).unwrap_or(&subject.user);
                (CallerKind::Basic, name.as_bytes())
            }
        };
        let (client, headers) =
            if for_cluster { (request.client, request.headers) } else { (&b""[..], &[][..]) };
        let (body, of_body) = match request.body {
            RequestBody::Unseen => (RequestBody::Unseen, &b""[..]),
            RequestBody::Awaited => (RequestBody::Awaited, &b""[..]),
            RequestBody::Whole(bytes) => {
                (RequestBody::Whole(b""), if for_cluster { bytes } else { &b""[..] })
            }
        };
        let parts: [&[u8]; PARTS] = [
            request.method,
            request.host,
            if for_cluster { request.path } else { without_query(request.path) },
            request.id,
            x_request_id(request.headers),
            subject.map_or(b"", |subject| subject.user.as_bytes()),
            subject.and_then(|subject| subject.issuer.as_deref()).unwrap_or_default().as_bytes(),
            of_caller,
            rule.unwrap_or_default().as_bytes(),
            active.revision().policy.as_bytes(),
            client,
            b"",
            of_body,
        ];
        let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
        let mut ends = [0; PARTS];
        for (index, (part, end)) in parts.iter().zip(&mut ends).enumerate() {
            bytes.extend_from_slice(part);
            if index == Part::Headers as usize {
                push_headers(headers, &mut bytes);
            }
            *end = bytes.len();
        }
        let is_changeable = request.is_changeable;
        Some(Self { bytes, ends, caller, reason, body, is_changeable, received })
    }

    /// Decides the request by `candidate` as well, and passes on how its decision differs.
    pub(super) fn compare<R>(
        &self,
        candidate: &Authorizer,
        scratch: &mut Scratch,
        report: impl FnOnce(Difference, Decision<'_>) -> R,
    ) -> R {
        let headers: Vec<Header<'_>> = self.headers().collect();
        let request = Request {
            method: self.part(Part::Method),
            host: self.part(Part::Host),
            path: self.part(Part::Path),
            headers: &headers,
            id: self.part(Part::Id),
            client: self.part(Part::Client),
            body: match self.body {
                RequestBody::Whole(_) => RequestBody::Whole(self.part(Part::Body)),
                unknown @ (RequestBody::Unseen | RequestBody::Awaited) => unknown,
            },
            is_changeable: self.is_changeable,
        };
        let caller = self.caller_under(candidate);
        let verdict = candidate.check_again(&request, caller, scratch, self.received);
        let decision = Decision::of(&verdict);
        // A candidate that were active would have waited for the body.
        let is_unknown = self.body == RequestBody::Awaited && verdict.needs_body();
        let difference =
            if is_unknown { Difference::NotCompared } else { self.decision().difference(decision) };
        report(difference, decision)
    }

    /// The decision that was made.
    pub(super) fn decision(&self) -> Decision<'_> {
        Decision { reason: self.reason, rule: Some(self.text(Part::Rule)).filter(|rule| !rule.is_empty()) }
    }

    /// The user, with the prefix of its source; `None` for an anonymous caller.
    pub(super) fn user(&self) -> Option<&str> {
        (self.caller != CallerKind::Anonymous).then(|| self.text(Part::User))
    }

    /// The issuer of the caller's token; `None` without a token.
    pub(super) fn issuer(&self) -> Option<&str> {
        (self.caller == CallerKind::Token).then(|| self.text(Part::Issuer))
    }

    /// The path as received, without its query and fragment.
    pub(super) fn path(&self) -> &[u8] {
        without_query(self.part(Part::Path))
    }

    /// The memory that it takes, in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }

    pub(super) fn part(&self, part: Part) -> &[u8] {
        let index = part as usize;
        let end = |index: usize| self.ends.get(index).copied().unwrap_or_default();
        let start = index.checked_sub(1).map_or(0, end);
        self.bytes.get(Range { start, end: end(index) }).unwrap_or_default()
    }

    pub(super) fn text(&self, part: Part) -> &str {
        std::str::from_utf8(self.part(part)).unwrap_or_default()
    }

    fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        self.part(Part::Headers).split(|byte| *byte == b'\n').filter_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
            Some(Header { name, value: value.get(1..)? })
        })
    }

    /// The caller under another policy.
    fn caller_under(&self, candidate: &Authorizer) -> Result<Option<Subject>, CredentialsError> {
        let (name, token) = (self.text(Part::Caller), self.part(Part::Caller));
        let backend = candidate.backend(self.part(Part::Host));
        match (self.caller, backend) {
            (CallerKind::Anonymous, _) => return Ok(None),
            (CallerKind::Basic, Backend::Rules(rules)) => {
                rules.authenticator().basic_user_verified_elsewhere(name)
            }
            (CallerKind::Basic, Backend::Cluster(cluster)) => {
                cluster.authenticator().basic_user_verified_elsewhere(name)
            }
            (CallerKind::Token, Backend::Rules(rules)) => {
                rules.authenticator().token_verified_elsewhere(token, self.received)
            }
            (CallerKind::Token, Backend::Cluster(cluster)) => {
                cluster.authenticator().token_verified_elsewhere(token, self.received)
            }
        }
        .map(Some)
    }
}

impl<'a> Decision<'a> {
    fn of(verdict: &Verdict<'a>) -> Self {
        match verdict {
            Verdict::Allowed(Allowed { rule, .. }) => Self { reason: None, rule: Some(rule) },
            Verdict::Denied(Denied { reason, rule, .. }) => Self { reason: Some(*reason), rule: *rule },
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
    /// All differences.
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

fn x_request_id<'a>(headers: &[Header<'a>]) -> &'a [u8] {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(b"x-request-id"));
    let value = header.map(|header| header.value).unwrap_or_default();
    value.get(..MAX_ID).unwrap_or(value)
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// Copies the header lines that a decision about a request to a cluster may depend on.
fn push_headers(headers: &[Header<'_>], bytes: &mut Vec<u8>) {
    for Header { name, value } in headers {
        if reads_header(name) {
            bytes.extend([name, &b":"[..], value, b"\n"].into_iter().flatten());
        }
    }
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
        let headers = headers.map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
        let mut bytes = Vec::new();
        push_headers(&headers, &mut bytes);
        assert_eq!(bytes, b"Content-Type:application/json\ncontent-encoding:gzip\nSecurityTenant:t\n");
    }
}
