//! A copy of a decided request, which the shadow policy decides again.
//!
//! The copy is made on a worker thread, and parsed only when it is compared. It has no credentials:
//! only the header and claims of a token, without the signature, the name of a Basic user, the id
//! and the hash of an API key, or the names of a certificate.

use std::borrow::Cow;

use authorizer::{
    Allowed, Authorizer, Backend, Denied, Header, Reason, Request, RequestBody, Rules, Scratch,
    Stage, Verdict, reads_header,
};
use identity::{
    Authenticator, Certificate, Credentials, CredentialsError, HeapSize, Subject, UnixTime,
    signed_part,
};
use policy::model::SourceId;

use crate::record::{self, without_query};

/// A request that was decided, without its credentials, and its decision.
#[derive(Debug)]
pub(super) struct DecidedRequest {
    /// The bytes of all texts. With a buffer for each text, the throughput was 6 % lower.
    bytes: Vec<u8>,
    lengths: [usize; TEXTS],
    headers: CopiedHeaders,
    /// Without its bytes, which are among the texts.
    body: RequestBody<'static>,
    can_change_bodies: bool,
    sets_headers_only: bool,
    /// Whether the caller has an API key.
    has_api_key: bool,
    /// Whether the candidate reads a certificate in the request, and no other credentials.
    has_certificate: bool,
    /// The names in the client's certificate, from the place in the request where the candidate
    /// reads it. The active policy may read another place.
    certificate: Option<Vec<String>>,
    received: UnixTime,
    reason: Option<Reason>,
}

const TEXTS: usize = 12;

/// The texts of a request, in this order. A text that does not apply is empty.
///
/// * of the request: method, host, path, request ID, `x-request-id`, client, body;
/// * of the caller: user (with the prefix of its source), issuer of the token, credentials (the
///   name of a Basic user, the signed part of a token, or the proof of an API key);
/// * of the decision: the rule that decided, and the revision of the policy.
type Texts<'a> = [&'a [u8]; TEXTS];

/// The header lines that the decision may depend on, as name and value.
type CopiedHeaders = Vec<(Box<[u8]>, Box<[u8]>)>;

/// A decision, for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decision<'a> {
    /// Why the request is denied; `None` if it is allowed.
    pub(super) reason: Option<Reason>,
    /// The rule that decided, if any.
    pub(super) rule: Option<&'a str>,
}

/// The result of a comparison: how the decision of a candidate differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Difference {
    /// The same decision.
    Same,
    /// The candidate allows a request that is denied.
    WouldAllow,
    /// The candidate denies a request that is allowed.
    WouldDeny,
    /// Both allow or both deny, by another rule or for another reason.
    OtherRule,
    /// The candidate does not accept the caller's credentials: it answers with 401.
    UnknownCaller,
    /// The decision of the candidate depends on something unknown, such as a body that had not
    /// arrived.
    NotCompared,
    /// The comparison panicked.
    Error,
}

/// Maximum bytes of the `x-request-id` header, as in the decision log: a client may choose it.
const MAX_ID: usize = 256;

impl DecidedRequest {
    /// Copies a request with its verdict, as far as either policy reads it:
    ///
    /// * if a search cluster of either decides: query, client, headers and body;
    /// * if conditions of either read more than the path: query, client and headers;
    /// * otherwise none of these.
    ///
    /// `None` if the candidate could not decide by the copy:
    ///
    /// * the request was denied before its caller was known;
    /// * the candidate reads a header of the request as an API key, and the active policy does not;
    /// * the two policies read different tokens in the request;
    /// * the candidate cannot read the certificate or the credentials;
    /// * the credentials cannot be copied without their secret.
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
        let [active_key, candidate_key] = [active, candidate]
            .map(|policy| policy.backend(request.host).identity().api_key_header());
        let candidate_reads = |line: &Header<'_>| {
            candidate_key.is_some_and(|name| line.name.eq_ignore_ascii_case(name.as_bytes()))
        };
        if active_key != candidate_key && request.headers.iter().any(candidate_reads) {
            return None;
        }
        let certificate = match candidate.certificate(request) {
            Some(certificate) => {
                let names = certificate.names().ok()?;
                Some(names.into_iter().map(Cow::into_owned).collect())
            }
            None => None,
        };
        let read_by_candidate = candidate.credentials(request).ok()?;
        if token(active, request) != token(candidate, request) {
            return None;
        }
        let has_certificate = matches!(read_by_candidate, Some(Credentials::Certificate(_)));
        let for_cluster = [active, candidate]
            .iter()
            .any(|policy| matches!(policy.backend(request.host), Backend::Cluster(_)));
        let (body, body_bytes) = match request.body {
            RequestBody::Unavailable => (RequestBody::Unavailable, &b""[..]),
            RequestBody::Pending => (RequestBody::Pending, &b""[..]),
            RequestBody::Whole(bytes) => (RequestBody::Whole(b""), bytes),
        };
        let rules = [active.rules(), candidate.rules()];
        let (path, client, headers, body_bytes) = if for_cluster {
            (request.path, request.client, copy_headers(request.headers, &rules), body_bytes)
        } else if rules.iter().any(|rules| rules.reads_more_than_the_path()) {
            (request.path, request.client, copy_headers(request.headers, &rules), &b""[..])
        } else {
            (without_query(request.path), &b""[..], Vec::new(), &b""[..])
        };
        let x_request_id = record::header_value(request.headers, record::X_REQUEST_ID);
        let x_request_id = x_request_id.get(..MAX_ID).unwrap_or(x_request_id);
        let (Verdict::Allowed(Allowed { subject, .. }) | Verdict::Denied(Denied { subject, .. })) =
            verdict;
        let credentials = match subject {
            Some(subject) => credentials(active, request, subject)?,
            None => Cow::default(),
        };
        let [user, issuer] = subject.map_or_else(Default::default, |subject| {
            [subject.user.as_bytes(), subject.issuer.as_deref().unwrap_or_default().as_bytes()]
        });
        let source = subject.and_then(|subject| subject.source);
        let (rule, revision) = (rule.unwrap_or_default(), &active.revision().policy);
        let texts: Texts<'_> = [
            request.method,
            request.host,
            path,
            request.id,
            x_request_id,
            client,
            body_bytes,
            user,
            issuer,
            &credentials,
            rule.as_bytes(),
            revision.as_bytes(),
        ];
        let (bytes, lengths) = (texts.concat(), texts.map(<[u8]>::len));
        let has_api_key = source == Some(SourceId::API_KEYS);
        Some(Self {
            bytes,
            lengths,
            headers,
            body,
            can_change_bodies: request.can_change_bodies,
            sets_headers_only: request.sets_headers_only,
            has_api_key,
            has_certificate,
            certificate,
            received,
            reason,
        })
    }

    pub(super) fn texts(&self) -> Texts<'_> {
        let mut bytes = &*self.bytes;
        self.lengths.map(|length| {
            let (text, after) = bytes.split_at_checked(length).unwrap_or_default();
            bytes = after;
            text
        })
    }

    /// Decides the request with `candidate`, and reports how its decision differs.
    pub(super) fn compare<R>(
        &self,
        candidate: &Authorizer,
        scratch: &mut Scratch,
        report: impl FnOnce(Difference, Decision<'_>) -> R,
    ) -> R {
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| Header { name, value }).collect();
        let [method, host, path, id, _, client, body, user, issuer, credentials, _, _] =
            self.texts();
        let body = match self.body {
            RequestBody::Whole(_) => RequestBody::Whole(body),
            unknown @ (RequestBody::Unavailable | RequestBody::Pending) => unknown,
        };
        let certificate = self.certificate.as_deref().map(Certificate::Named);
        let peer = &b""[..];
        let request = Request {
            method,
            host,
            path,
            headers: &headers,
            id,
            client,
            peer,
            certificate,
            body,
            can_change_bodies: self.can_change_bodies,
            sets_headers_only: self.sets_headers_only,
            // Only requests of a proxy are copied, no questions of AuthZEN.
            question: None,
            claimed_user: None,
        };
        let caller = [user, issuer, credentials];
        let caller = match candidate.backend(host) {
            Backend::Rules(rules) => self.verify(rules.authenticator(), caller),
            Backend::Cluster(cluster) => self.verify(cluster.authenticator(), caller),
        };
        let verdict = candidate.check_authenticated(&request, caller, scratch, self.received);
        let decision = Decision::new(&verdict);
        // The active policy has decided without the body. The candidate needs the body, and would
        // have waited for it.
        let is_unknown = self.body == RequestBody::Pending && verdict.needs_body();
        let difference =
            if is_unknown { Difference::NotCompared } else { self.decision().difference(decision) };
        report(difference, decision)
    }

    /// The caller under another policy.
    fn verify<A: HeapSize>(
        &self,
        authenticator: &Authenticator<A>,
        [user, issuer, credentials]: [&[u8]; 3],
    ) -> Result<Option<Subject>, CredentialsError> {
        if self.has_certificate {
            let names = self.certificate.as_deref().unwrap_or_default();
            authenticator.certificate_verified_elsewhere(names)
        } else if self.has_api_key {
            authenticator.api_key_verified_elsewhere(credentials, self.received).map(Some)
        } else if !issuer.is_empty() {
            authenticator.token_verified_elsewhere(credentials, self.received).map(Some)
        } else if !user.is_empty() {
            authenticator.basic_user_verified_elsewhere(text(credentials)).map(Some)
        } else {
            Ok(None)
        }
    }

    pub(super) fn decision(&self) -> Decision<'_> {
        let [.., rule, _] = self.texts();
        let rule = Some(text(rule)).filter(|rule| !rule.is_empty());
        Decision { reason: self.reason, rule }
    }

    /// The memory that the copy takes, in bytes.
    pub(super) fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let headers = headers + self.headers.capacity() * size_of::<(Box<[u8]>, Box<[u8]>)>();
        let names = self.certificate.iter().flatten();
        let names: usize = names.map(|name| size_of::<String>() + name.len()).sum();
        size_of::<Self>() + self.bytes.len() + headers + names
    }
}

/// The credentials of a subject without their secret. `None` if they cannot be copied.
fn credentials<'r>(
    active: &Authorizer,
    request: &Request<'r>,
    subject: &'r Subject,
) -> Option<Cow<'r, [u8]>> {
    let backend = active.backend(request.host);
    match active.credentials(request).ok()??.of_user() {
        Credentials::ApiKey(key) => match backend {
            Backend::Rules(rules) => rules.authenticator().api_key_proof(key),
            Backend::Cluster(cluster) => cluster.authenticator().api_key_proof(key),
        }
        .map(Cow::Owned),
        // Its names are copied for the candidate, which may read it elsewhere.
        Credentials::Certificate(_) | Credentials::Both(..) => Some(Cow::default()),
        token if subject.issuer.is_some() => token.token().and_then(signed_part).map(Cow::Borrowed),
        Credentials::Token(_) => None,
        Credentials::Authorization(_) => {
            let prefix = backend.identity().user_prefix(SourceId::BASIC);
            let name = subject.user.strip_prefix(prefix).unwrap_or(&subject.user);
            Some(Cow::Borrowed(name.as_bytes()))
        }
    }
}

/// The token of a request, where this policy reads tokens.
fn token<'r>(policy: &Authorizer, request: &Request<'r>) -> Option<&'r [u8]> {
    let identity = policy.backend(request.host).identity();
    let credentials = policy.credentials(request).ok()??;
    let is_read = identity.reads_bearer() || matches!(credentials.of_user(), Credentials::Token(_));
    credentials.token().filter(|_| is_read)
}

/// A text that was copied from a `str`.
fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap_or_default()
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

    /// How the decision of a candidate differs from this decision.
    fn difference(self, candidate: Decision<'_>) -> Difference {
        match (self.reason, candidate.reason) {
            (_, Some(Reason::InvalidCredentials(_))) => Difference::UnknownCaller,
            (Some(_), None) => Difference::WouldAllow,
            (None, Some(_)) => Difference::WouldDeny,
            (None, None) | (Some(_), Some(_))
                if (self.rule, self.reason_name()) == (candidate.rule, candidate.reason_name()) =>
            {
                Difference::Same
            }
            (None, None) | (Some(_), Some(_)) => Difference::OtherRule,
        }
    }

    /// Why the request is denied, by name; `None` if it is allowed.
    pub(super) fn reason_name(self) -> Option<&'static str> {
        self.reason.map(Reason::name)
    }
}

impl Difference {
    /// The names in metrics and logs, in the order of the variants.
    pub(super) const NAMES: [&'static str; 7] = [
        "same",
        "would_allow",
        "would_deny",
        "other_rule",
        "unknown_caller",
        "not_compared",
        "error",
    ];

    pub(super) fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

/// Whether the caller was known when a request was denied for this reason. An anonymous caller is
/// known, too.
fn has_known_caller(reason: Reason) -> bool {
    match reason.stage() {
        Stage::Rules | Stage::Cluster => true,
        Stage::Request | Stage::Headers | Stage::Limit | Stage::Credentials => false,
    }
}

fn copy_headers(headers: &[Header<'_>], rules: &[&Rules]) -> CopiedHeaders {
    let read = headers.iter().filter(|header| {
        reads_header(header.name) || rules.iter().any(|rules| rules.reads_header(header.name))
    });
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
        let copied = copy_headers(&headers, &[]);
        let names: Vec<_> = copied.iter().map(|(name, _)| str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["Content-Type", "content-encoding", "SecurityTenant"]);
    }
}
