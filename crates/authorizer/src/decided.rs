//! A decided request that another policy decides again, to compare the two: the candidate of `--shadow`.
//!
//! It is copied on a worker thread, so copying is one allocation, and parsing waits until the comparison. It has no
//! credentials: of a token it has header and claims without the signature, of Basic credentials the name.

use std::ops::Range;

use identity::{CredentialsError, Subject, UnixTime, signed_part};
use policy::model::{Identity, SourceId};

use crate::cluster::{self, Cluster};
use crate::reason::Reason;
use crate::request::{self, Header, Request};
use crate::verdict::{Allowed, Denied, Verdict};
use crate::{Authorizer, RequestBody, Scratch};

/// A request that was decided, without its credentials, and its decision.
#[derive(Debug)]
pub struct DecidedRequest {
    /// All parts, one after another.
    bytes: Vec<u8>,
    /// Where each part ends, by [`Part`].
    ends: [usize; PARTS],
    caller: CallerKind,
    reason: Option<Reason>,
    /// What is known of the body; that of [`Part::Body`] if it is whole.
    body: Body,
    is_changeable: bool,
    received: UnixTime,
}

/// What a decision is, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decided<'a> {
    /// Why the request is denied; `None` if it is allowed.
    reason: Option<Reason>,
    /// The rule that decided, if one did.
    pub rule: Option<&'a str>,
}

/// How the decision of a candidate differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
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

/// What was known of a body: a [`RequestBody`] without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Unseen,
    Awaited,
    Whole,
}

/// The parts of a [`DecidedRequest`].
#[derive(Clone, Copy)]
enum Part {
    Method,
    Host,
    Path,
    Id,
    /// The `x-request-id` header, cut.
    XRequestId,
    User,
    /// Of its token; empty without one.
    Issuer,
    /// The name of a Basic user without its prefix, or the signed part of a token.
    Caller,
    Rule,
    Revision,
    Client,
    /// The header lines that the decision may depend on, each as `name:value` and a line feed.
    Headers,
    Body,
}

const PARTS: usize = 13;
/// Maximum bytes of the `x-request-id` header, as in the decision log: a client may choose it.
const LONGEST_ID: usize = 256;

impl DecidedRequest {
    /// Copies a request with its verdict. Query, client and body are copied only if the request is one to a search cluster, of
    /// either policy. `None` if the request was denied before its caller was known: no other policy can then be compared.
    #[must_use]
    pub fn copy(
        active: &Authorizer,
        candidate: &Authorizer,
        request: &Request<'_>,
        verdict: &Verdict<'_>,
        received: UnixTime,
    ) -> Option<Self> {
        let Decided { reason, rule } = Decided::of(verdict);
        if !reason.is_none_or(has_known_caller) {
            return None;
        }
        let cluster = active.cluster_of(request.host, &mut Vec::new());
        let for_cluster = cluster.is_some() || candidate.cluster_of(request.host, &mut Vec::new()).is_some();
        let subject = subject_of(verdict);
        let (caller, of_caller) = match subject {
            None => (CallerKind::Anonymous, &b""[..]),
            Some(subject) if subject.issuer.is_some() => {
                let authorization = request::authorization(request.headers).ok().flatten();
                (CallerKind::Token, signed_part(authorization?)?)
            }
            Some(subject) => {
                let identity = cluster.map_or(&active.loaded.policy.identity, Cluster::identity);
                (CallerKind::Basic, without_prefix(subject, identity).as_bytes())
            }
        };
        let path = if for_cluster { request.path } else { without_query(request.path) };
        let (client, headers, body) = match (for_cluster, request.body) {
            (true, RequestBody::Whole(body)) => (request.client, request.headers, body),
            (true, RequestBody::Unseen | RequestBody::Awaited) => (request.client, request.headers, &b""[..]),
            (false, _) => (&b""[..], &[][..], &b""[..]),
        };
        let parts: [&[u8]; PARTS] = [
            request.method,
            request.host,
            path,
            request.id,
            x_request_id(request.headers),
            subject.map_or(b"", |subject| subject.user.as_bytes()),
            subject.and_then(|subject| subject.issuer.as_deref()).unwrap_or_default().as_bytes(),
            of_caller,
            rule.unwrap_or_default().as_bytes(),
            active.revision.policy.as_bytes(),
            client,
            b"",
            body,
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
        let body = match request.body {
            RequestBody::Unseen => Body::Unseen,
            RequestBody::Awaited => Body::Awaited,
            RequestBody::Whole(_) => Body::Whole,
        };
        let is_changeable = request.is_changeable;
        Some(Self { bytes, ends, caller, reason, body, is_changeable, received })
    }

    /// Decides the request by `candidate` as well, and passes on how its decision differs.
    pub fn compare<R>(
        &self,
        candidate: &Authorizer,
        scratch: &mut Scratch,
        report: impl FnOnce(Difference, Decided<'_>) -> R,
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
                Body::Unseen => RequestBody::Unseen,
                Body::Awaited => RequestBody::Awaited,
                Body::Whole => RequestBody::Whole(self.part(Part::Body)),
            },
            is_changeable: self.is_changeable,
        };
        let verdict = candidate.decide_again(self, &request, scratch);
        let decided = Decided::of(&verdict);
        // A candidate that were active would have waited for the body.
        let unknown = self.body == Body::Awaited && verdict.needs_body();
        let difference = if unknown { Difference::NotCompared } else { self.decided().difference(decided) };
        report(difference, decided)
    }

    /// The decision that was made.
    #[must_use]
    pub fn decided(&self) -> Decided<'_> {
        let rule = self.text(Part::Rule);
        Decided { reason: self.reason, rule: (!rule.is_empty()).then_some(rule) }
    }

    /// The revision of the policy that made it.
    #[must_use]
    pub fn revision(&self) -> &str {
        self.text(Part::Revision)
    }

    /// The user, with the prefix of its source; `None` for an anonymous caller.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        (self.caller != CallerKind::Anonymous).then(|| self.text(Part::User))
    }

    /// The issuer of the caller's token; `None` without a token.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        (self.caller == CallerKind::Token).then(|| self.text(Part::Issuer))
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &[u8] {
        self.part(Part::Method)
    }

    /// The host, as received.
    #[must_use]
    pub fn host(&self) -> &[u8] {
        self.part(Part::Host)
    }

    /// The path as received, without its query and fragment.
    #[must_use]
    pub fn path(&self) -> &[u8] {
        without_query(self.part(Part::Path))
    }

    /// The proxy's id of the request; may be empty.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        self.part(Part::Id)
    }

    /// The `x-request-id` header, cut; empty if there is none.
    #[must_use]
    pub fn x_request_id(&self) -> &[u8] {
        self.part(Part::XRequestId)
    }

    /// The memory that it takes, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }

    fn part(&self, part: Part) -> &[u8] {
        let index = part as usize;
        let end = |index: usize| self.ends.get(index).copied().unwrap_or_default();
        let start = index.checked_sub(1).map_or(0, end);
        self.bytes.get(Range { start, end: end(index) }).unwrap_or_default()
    }

    fn text(&self, part: Part) -> &str {
        std::str::from_utf8(self.part(part)).unwrap_or_default()
    }

    fn headers(&self) -> impl Iterator<Item = Header<'_>> {
        self.part(Part::Headers).split(|byte| *byte == b'\n').filter_map(|line| {
            let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
            Some(Header { name, value: value.get(1..)? })
        })
    }
}

impl<'a> Decided<'a> {
    fn of(verdict: &Verdict<'a>) -> Self {
        match verdict {
            Verdict::Allowed(Allowed { rule, .. }) => Self { reason: None, rule: Some(rule) },
            Verdict::Denied(Denied { reason, rule, .. }) => Self { reason: Some(*reason), rule: *rule },
        }
    }

    /// How the decision of a candidate differs from this one.
    fn difference(self, candidate: Decided<'_>) -> Difference {
        let same = || self.rule == candidate.rule && self.reason() == candidate.reason();
        match (self.reason, candidate.reason) {
            (_, Some(Reason::InvalidCredentials(_))) => Difference::UnknownCaller,
            (Some(_), None) => Difference::WouldAllow,
            (None, Some(_)) => Difference::WouldDeny,
            (None, None) | (Some(_), Some(_)) if same() => Difference::Same,
            (None, None) | (Some(_), Some(_)) => Difference::OtherRule,
        }
    }

    /// Why the request is denied, by name; `None` if it is allowed.
    #[must_use]
    pub fn reason(self) -> Option<&'static str> {
        self.reason.map(Reason::name)
    }
}

impl Difference {
    /// All differences.
    pub const ALL: [Self; 6] = [
        Self::Same,
        Self::WouldAllow,
        Self::WouldDeny,
        Self::OtherRule,
        Self::UnknownCaller,
        Self::NotCompared,
    ];

    /// The name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
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

impl Authorizer {
    /// Decides a request for the caller that another policy has verified.
    fn decide_again<'a>(
        &'a self,
        decided: &DecidedRequest,
        request: &Request<'a>,
        scratch: &'a mut Scratch,
    ) -> Verdict<'a> {
        let now = decided.received;
        if let Some(cluster) = self.cluster_of(request.host, &mut scratch.host) {
            return self.authorize_cluster_with(cluster, request, now, scratch, |_, callers| {
                let subject = decided.caller_under(
                    |name| cluster.authenticator.basic_user_verified_elsewhere(name),
                    |token| cluster.authenticator.token_verified_elsewhere(token, now),
                )?;
                Ok(subject.map(|subject| callers.hold(self.unverified_on_cluster(cluster, subject))))
            });
        }
        self.authorize_with(request, now, scratch, |_, callers| {
            let subject = decided.caller_under(
                |name| self.authenticator.basic_user_verified_elsewhere(name),
                |token| self.authenticator.token_verified_elsewhere(token, now),
            )?;
            Ok(subject.map(|subject| callers.hold(self.unverified(subject))))
        })
    }
}

impl DecidedRequest {
    /// The caller under another policy.
    fn caller_under(
        &self,
        basic_user: impl FnOnce(&str) -> Result<Subject, CredentialsError>,
        token: impl FnOnce(&[u8]) -> Result<Subject, CredentialsError>,
    ) -> Result<Option<Subject>, CredentialsError> {
        match self.caller {
            CallerKind::Anonymous => Ok(None),
            CallerKind::Basic => basic_user(self.text(Part::Caller)).map(Some),
            CallerKind::Token => token(self.part(Part::Caller)).map(Some),
        }
    }
}

/// Whether the caller of a request that is denied for this reason is known: anonymous, or authenticated.
fn has_known_caller(reason: Reason) -> bool {
    match reason {
        Reason::MissingCredentials
        | Reason::NotAllowed
        | Reason::Denied
        | Reason::Cluster(_)
        | Reason::NotPermitted
        | Reason::PartlyPermitted
        | Reason::DocumentSecurityTooLong => true,
        Reason::InvalidMethod
        | Reason::InvalidPath(_)
        | Reason::InvalidHost(_)
        | Reason::ControlBytes
        | Reason::DuplicateAuthorization
        | Reason::ConnectionHeader
        | Reason::Limit(_)
        | Reason::InvalidCredentials(_) => false,
    }
}

fn subject_of<'v>(verdict: &'v Verdict<'_>) -> Option<&'v Subject> {
    match verdict {
        Verdict::Allowed(allowed) => allowed.subject,
        Verdict::Denied(denied) => denied.subject,
    }
}

/// The name of a Basic user as in its credentials.
fn without_prefix<'s>(subject: &'s Subject, identity: &Identity) -> &'s str {
    let prefix = identity.user_prefix(SourceId::BASIC);
    subject.user.strip_prefix(prefix).unwrap_or(&subject.user)
}

fn x_request_id<'a>(headers: &[Header<'a>]) -> &'a [u8] {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(b"x-request-id"));
    let value = header.map(|header| header.value).unwrap_or_default();
    value.get(..LONGEST_ID).unwrap_or(value)
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

/// Copies the header lines that a decision about a request to a cluster may depend on.
fn push_headers(headers: &[Header<'_>], bytes: &mut Vec<u8>) {
    for Header { name, value } in headers {
        if cluster::reads_header(name) {
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
