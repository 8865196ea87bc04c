//! The record of a decision: a line of the decision log, without credentials.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use authorizer::{
    Allowed, Authorizer, Backend, ClusterRequest, Denied, Header, MAX_INDICES, Reason,
    RecordedInputs, Request, Stage, Verdict, deciding_query,
};
use identity::{Certificate, CredentialsError, Subject};
use policy::model::SourceId;
use serde::{Deserialize, Serialize, Serializer};

use crate::clock;
use crate::trace_context::{DecisionTrace, TraceContext, Tracing};

/// The version of the lines' format. A new field does not change it.
const VERSION: u8 = 1;
/// Maximum bytes of a value, so that a request cannot fill the log.
pub(crate) const MAX_VALUE: usize = 1024;
/// Maximum bytes of a value that the client sends and nothing verifies.
const MAX_UNVERIFIED: usize = 256;
/// Maximum bytes of the names in a list, all together.
const MAX_LIST: usize = 4096;

/// A decision as it appears in the log, the OTLP export and the console. `docs/operations.md`
/// explains each field. `rolegate::commands::logged` parses the lines of the log. A text that does
/// not apply is empty.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DecisionRecord<'a> {
    pub(crate) version: u8,
    /// When the request was received, as time since the Unix epoch.
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Duration,
    pub(crate) decision: &'static str,
    /// The name of the reason for a denial.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) detail: Cow<'a, str>,
    /// The rule that decided, or the operation that a search cluster's roles permitted.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) rule: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) actions: Vec<&'a str>,
    /// The indices of a request to a search cluster, as the request names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) indices: Vec<&'a str>,
    /// The indices that a request is reduced to, if it is permitted on some of them only.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) permitted_indices: Vec<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) user: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) issuer: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) scheme: &'static str,
    /// The actor that calls for the user.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) actor: Cow<'a, str>,
    /// The names in the client's certificate, if the caller or its actor authenticated with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) certificate: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) attempted_user: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) attempted_issuer: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) method: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) host: Cow<'a, str>,
    /// The canonical path. For a search cluster, or if the path is invalid or was not read, the
    /// path as received, without query and fragment.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) path: Cow<'a, str>,
    /// The path as received, without query and fragment, if it differs from `path`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) raw_path: Cow<'a, str>,
    /// The query parameters that a decision about a search cluster depends on.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) query: Cow<'a, str>,
    /// The values that the policy's conditions read, without those that other fields show. `None`
    /// if there are none, or if the decision was made without conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) condition_inputs: Option<Box<RecordedInputs>>,
    /// Whether a value that the decision depends on is cut, masked or not UTF-8.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) inexact: bool,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) masked: bool,
    /// The share of decisions with this outcome (`allowed`, or this reason) that is logged, if it
    /// is less than 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sampled: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) client: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) request_id: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) x_request_id: Cow<'a, str>,
    #[serde(
        rename = "trace_id",
        serialize_with = "trace_id",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) trace: Option<DecisionTrace>,
    /// How the request came; left out for gRPC.
    #[serde(skip_serializing_if = "Via::is_grpc")]
    pub(crate) via: Via,
    pub(crate) policy: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) keys: &'a str,
    /// Time from the arrival of the request (see [`Received::arrived`]) to the decision.
    #[serde(rename = "duration_us", serialize_with = "microseconds")]
    pub(crate) duration: Duration,
    /// The HTTP status of a denial.
    #[serde(skip)]
    pub(crate) status: Option<u16>,
    /// Whether `path` comes from the verdict: it is canonical, or belongs to a search cluster.
    #[serde(skip)]
    pub(crate) is_canonical: bool,
}

/// Receives decisions.
pub trait DecisionSink: fmt::Debug + Send + Sync {
    /// Whether the sink takes decisions that allow (if `allowed` is true) or that deny (if false).
    fn wants(&self, allowed: bool) -> bool {
        let _ = allowed;
        true
    }

    /// Which decisions have a recorded span; `None` if the sink does not use traces. A decision
    /// with a recorded span is offered even if [`Self::wants`] is false.
    fn tracing(&self) -> Option<Tracing> {
        None
    }

    /// Takes a decision, or drops it. Called on a worker thread: it must neither block nor do I/O.
    /// A [`DecisionRecord`] costs about as much as evaluating the rules: create one only if the
    /// sink uses it.
    fn offer(&self, verdict: &Verdict<'_>, context: &DecisionContext<'_>);
}

/// When a request was complete, and when its last wait ended. A request waits for the verification
/// of its credentials, for example.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// When the request was complete. The latency counts from here. For a request that is denied
    /// because the rest of it did not come in time, this is when its first part was read.
    pub arrived: Instant,
    /// When the last wait ended; without a wait, the same as `arrived`.
    pub resumed: Instant,
    /// Wall-clock time of `resumed`, since the Unix epoch.
    pub resumed_time: Duration,
}

/// A decided request and its circumstances, for the counters, the log and the shadow policy.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    /// The policy, keys and caches that decided.
    pub authorizer: &'a Authorizer,
    /// The request.
    pub request: &'a Request<'a>,
    /// The client's address, as text; empty if it is not known.
    pub client: &'a [u8],
    /// When the request was received.
    pub received: Received,
    /// When the request was decided.
    pub decided_at: Instant,
    /// The `traceparent` of the call with which the proxy asked for the decision: the parent of the
    /// decision's span. It may be empty.
    pub traceparent: &'a [u8],
    /// How the request came.
    pub via: Via,
}

/// How a request came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// Over gRPC, or inside Envoy.
    #[default]
    Grpc,
    /// Over HTTP forward-auth.
    Http,
    /// As a question of AuthZEN, which was mapped to a request.
    Authzen,
}

impl Via {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_grpc(&self) -> bool {
        *self == Self::Grpc
    }
}

impl Received {
    /// The current time, by both clocks.
    #[must_use]
    pub fn now() -> Self {
        let arrived = Instant::now();
        Self { arrived, resumed: arrived, resumed_time: clock::now() }
    }

    /// Wall-clock time when the request arrived, since the Unix epoch: for the log and spans.
    pub fn arrival(self) -> Duration {
        self.resumed_time.saturating_sub(self.resumed.saturating_duration_since(self.arrived))
    }

    /// The times of the same request, whose last wait ends now. The expiry of credentials, and
    /// date math in names of indices, are evaluated at `resumed_time`: a client that prolongs the
    /// wait gains nothing. The latency still counts from `arrived`.
    pub fn resumed_now(self) -> Self {
        Self { resumed: Instant::now(), resumed_time: clock::now(), ..self }
    }
}

impl<'a> DecisionRecord<'a> {
    /// The record of a decision, neither masked nor cut.
    #[must_use]
    pub fn new(
        verdict: &'a Verdict<'_>,
        context: &DecisionContext<'a>,
        trace: Option<DecisionTrace>,
    ) -> Self {
        let DecisionContext { authorizer, request, client, received, decided_at, .. } = *context;
        let (Verdict::Allowed(Allowed { read_claims, .. })
        | Verdict::Denied(Denied { read_claims, .. })) = verdict;
        let (path, subject, reason, rule, detail, cluster) = match verdict {
            Verdict::Allowed(allowed) => {
                (allowed.path, allowed.subject, None, allowed.rule, "", &allowed.cluster)
            }
            Verdict::Denied(denied) => {
                let (reason, rule) = (Some(denied.reason), denied.rule.unwrap_or_default());
                (denied.path, denied.subject, reason, rule, denied.detail, &denied.cluster)
            }
        };
        let cluster = cluster.as_deref();
        let credentials_error = reason.and_then(Reason::credentials_error);
        let attempted = credentials_error
            .map(|error| authorizer.attempted(request, error, received.resumed_time))
            .unwrap_or_default();
        let is_for_cluster = cluster.is_some() || reason.map(Reason::stage) == Some(Stage::Cluster);
        // Conditions are part of the rules: a denial in an earlier stage depends on none.
        let is_by_rules = reason.is_none_or(|reason| reason.stage() == Stage::Rules);
        let condition_inputs = match authorizer.backend(request.host) {
            Backend::Rules(rules) if is_by_rules => {
                rules.recorded_inputs(request, *read_claims, received.resumed_time)
            }
            Backend::Rules(_) | Backend::Cluster(_) => None,
        };
        // The verdict has no path if the path is invalid or was not parsed. Then the path as
        // received is used.
        let is_canonical = !path.is_empty();
        let received_path = without_query(request.path);
        let path = if is_canonical { path } else { received_path };
        // Only the roles of a search cluster read the query.
        let target = if is_for_cluster { request.path } else { received_path };
        let lossy = String::from_utf8_lossy;
        let (method, host, target) = (lossy(request.method), lossy(request.host), lossy(target));
        let inexact = [&method, &host, &target].iter().any(|text| matches!(text, Cow::Owned(_)));
        let revision = authorizer.revision();
        let mut record = Self {
            version: VERSION,
            time: received.arrival(),
            decision: if reason.is_none() { "allowed" } else { "denied" },
            reason: reason.map(Reason::name),
            detail: attempted.detail.map_or(detail.into(), Cow::Owned),
            rule,
            scheme: scheme_of(authorizer, request, reason, subject),
            attempted_user: attempted.user.unwrap_or_default().into(),
            attempted_issuer: attempted.issuer.unwrap_or_default().into(),
            method,
            host,
            path: lossy(path),
            raw_path: if received_path == path { Cow::default() } else { lossy(received_path) },
            query: deciding_query(&target).into(),
            condition_inputs,
            inexact,
            client: lossy(client),
            request_id: lossy(request.id),
            x_request_id: lossy(header_value(request.headers, X_REQUEST_ID)),
            trace,
            via: context.via,
            policy: &revision.policy,
            keys: revision.keys.as_deref().unwrap_or_default(),
            duration: decided_at.saturating_duration_since(received.arrived),
            status: reason.map(Reason::status),
            is_canonical,
            ..Self::default()
        };
        if let Some(cluster) = cluster {
            record.actions = actions(cluster);
            record.indices = indices(cluster);
            record.permitted_indices = leading_names(&cluster.permitted);
        }
        if let Some(subject) = subject {
            record.set_subject(subject);
        }
        let actor = subject.and_then(|subject| subject.actor.as_ref());
        let actor_has_certificate =
            actor.and_then(|actor| actor.source) == Some(SourceId::CERTIFICATES);
        if record.scheme == CERTIFICATE || actor_has_certificate {
            record.set_certificate(authorizer.certificate(request));
        }
        record
    }

    fn set_subject(&mut self, subject: &'a Subject) {
        self.user = Cow::Borrowed(&subject.user);
        self.issuer = subject.issuer.as_deref().unwrap_or_default();
        self.actor = subject.actor.as_ref().map_or(Cow::default(), |actor| (&*actor.user).into());
        self.groups = leading_names(&subject.groups);
        self.roles = leading_names(&subject.roles);
        self.inexact |= self.groups.len() < subject.groups.len();
        self.inexact |= self.roles.len() < subject.roles.len();
    }

    fn set_certificate(&mut self, certificate: Option<Certificate<'_>>) {
        let names = certificate.and_then(|certificate| certificate.names().ok());
        let names = names.unwrap_or_default();
        let leading = leading_names(names.iter().map(|name| &**name));
        self.inexact |= leading.len() < names.len();
        self.certificate = leading.into_iter().map(str::to_owned).collect();
    }

    /// Cuts long values. Called after masking.
    pub(crate) fn cut(&mut self) {
        let Self { user, actor, method, host, path, raw_path, query, .. } = self;
        for text in [user, actor, method, host, path, raw_path, query] {
            // The decision depends on these values.
            self.inexact |= text.len() > MAX_VALUE;
            cut(text, MAX_VALUE);
        }
        cut(&mut self.detail, MAX_VALUE);
        cut(&mut self.request_id, MAX_VALUE);
        let Self { attempted_user, attempted_issuer, client, x_request_id, .. } = self;
        for text in [attempted_user, attempted_issuer, client, x_request_id] {
            cut(text, MAX_UNVERIFIED);
        }
    }
}

fn cut(text: &mut Cow<'_, str>, max: usize) {
    let end = text.floor_char_boundary(max);
    match text {
        Cow::Borrowed(text) => *text = text.get(..end).unwrap_or(text),
        Cow::Owned(text) => text.truncate(end),
    }
}

/// The names at the start of a list that fit into [`MAX_LIST`] bytes.
fn leading_names<'n, T: AsRef<str> + ?Sized + 'n>(
    names: impl IntoIterator<Item = &'n T>,
) -> Vec<&'n str> {
    let mut length = 0;
    let names = names.into_iter().map(AsRef::as_ref).take_while(|name| {
        length += name.len();
        length <= MAX_LIST
    });
    names.collect()
}

/// Serializes a time as seconds since the Unix epoch, rounded to the microsecond.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e6)
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn trace_id<S: Serializer>(
    trace: &Option<DecisionTrace>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    trace.map(|trace| format!("{:032x}", trace.context.trace_id)).serialize(serializer)
}

fn microseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn actions<'r>(request: &'r ClusterRequest<'_>) -> Vec<&'r str> {
    let actions = request.needs.iter().flat_map(|need| need.actions);
    distinct(actions.map(|action| action.name()), usize::MAX)
}

/// The first indices, as the request names them.
fn indices<'r>(request: &'r ClusterRequest<'_>) -> Vec<&'r str> {
    let names = request.needs.iter().map(|need| need.target.text());
    distinct(names.filter(|name| !name.is_empty()), MAX_INDICES)
}

fn distinct<'r>(names: impl Iterator<Item = &'r str>, max: usize) -> Vec<&'r str> {
    let mut distinct = Vec::new();
    for name in names {
        if distinct.len() < max && !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    leading_names(distinct)
}

pub(crate) const X_REQUEST_ID: &[u8] = b"x-request-id";
const TRACEPARENT: &[u8] = b"traceparent";

/// Whether the decision log shows this header, or a part of it.
pub fn is_logged(name: &[u8]) -> bool {
    [X_REQUEST_ID, TRACEPARENT].iter().any(|logged| name.eq_ignore_ascii_case(logged))
}

pub(crate) fn header_value<'a>(headers: &[Header<'a>], name: &[u8]) -> &'a [u8] {
    let header = headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
    header.map(|header| header.value).unwrap_or_default()
}

/// The trace of the call with which the proxy asked for the decision. If that call has none, the
/// trace of the request.
pub(crate) fn caller_trace(context: &DecisionContext<'_>) -> Option<TraceContext> {
    TraceContext::parse(context.traceparent)
        .or_else(|| TraceContext::parse(header_value(context.request.headers, TRACEPARENT)))
}

/// The scheme of a request whose credentials are the client's certificate.
const CERTIFICATE: &str = "certificate";

/// The scheme of a request's credentials; empty if it has none. An unknown scheme is shown as
/// `other`, because the word may be a secret that was sent without a scheme. A certificate counts
/// as credentials if the caller authenticated with it, or if an error in it was the reason for the
/// denial.
pub(crate) fn scheme_of(
    authorizer: &Authorizer,
    request: &Request<'_>,
    reason: Option<Reason>,
    subject: Option<&Subject>,
) -> &'static str {
    let is_certificate = match (subject, reason.and_then(Reason::credentials_error)) {
        (Some(subject), _) => subject.source == Some(SourceId::CERTIFICATES),
        (None, error) => matches!(
            error,
            Some(CredentialsError::MalformedCertificate | CredentialsError::SeveralUsers)
        ),
    };
    if is_certificate {
        return CERTIFICATE;
    }
    let authorization = header_value(request.headers, b"authorization");
    let word = authorization.split(|byte| *byte == b' ').next().unwrap_or_default();
    if authorization.is_empty() {
        let identity = authorizer.backend(request.host).identity();
        if authorizer::has_token_elsewhere(request.headers, identity) {
            return "bearer";
        }
        let key_header = identity.api_key_header();
        let has_key = key_header.is_some_and(|name| {
            let mut headers = request.headers.iter();
            headers.any(|header| header.name.eq_ignore_ascii_case(name.as_bytes()))
        });
        if has_key { "api_key" } else { "" }
    } else if word.eq_ignore_ascii_case(b"basic") {
        "basic"
    } else if word.eq_ignore_ascii_case(b"bearer") {
        "bearer"
    } else {
        "other"
    }
}

/// A path without its query and fragment.
pub(crate) fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use authorizer::Scratch;
    use document::MapFiles;
    use identity::FetchedKeys;

    use super::*;

    /// A search cluster denies a request whose query is not UTF-8.
    #[test]
    fn a_decision_is_inexact_if_it_depends_on_bytes_that_are_not_utf8() {
        let policy = "version: 1\nsearch: { folder: cluster, hosts: [search.example] }\n\
                      roles: { anyone: { allow: [GET /a] } }\n";
        let files = MapFiles::new("policy.yaml", policy)
            .and("cluster/roles.yml", "_meta: { type: roles, config_version: 2 }\nr: {}\n");
        let loaded = policy::load(&files, Path::new("policy.yaml")).unwrap();
        let authorizer =
            Authorizer::compile(Arc::new(loaded), &FetchedKeys::new(), None).unwrap().0;
        let received = Received::now();
        for (host, path, inexact) in [
            ("search.example", &b"/a?index=b"[..], false),
            ("search.example", b"/a?index=\xff", true),
            ("app.example", b"/a?index=\xff", false),
            ("app.example", b"/\xff", true),
        ] {
            let host = host.as_bytes();
            let request = Request { method: b"GET", host, path, ..Request::default() };
            let (caller, mut scratch) = (Ok(Some(subject(&[]))), Scratch::default());
            let verdict =
                authorizer.check_as(&request, caller, &mut scratch, received.resumed_time);
            let context = DecisionContext {
                authorizer: &authorizer,
                request: &request,
                client: b"",
                received,
                decided_at: received.arrived,
                traceparent: b"",
                via: Via::Grpc,
            };
            let record = DecisionRecord::new(&verdict, &context, None);
            assert_eq!(record.inexact, inexact, "{record:?}");
        }
    }

    /// A token of 16 KiB can have a thousand groups.
    #[test]
    fn long_lists_are_cut_and_the_record_says_so() {
        let groups: Vec<String> = (0..1000).map(|number| format!("group-{number:04}")).collect();
        let subject = subject(&groups);
        let mut record = DecisionRecord::default();
        record.set_subject(&subject);
        assert_eq!((record.groups.len(), record.inexact), (409, true));
    }

    #[test]
    fn the_arrival_of_a_request_is_before_its_wait() {
        let (arrived, resumed_time) = (Instant::now(), Duration::from_secs(100));
        let resumed = arrived + Duration::from_secs(3);
        let received = Received { arrived, resumed, resumed_time };
        assert_eq!(received.arrival(), Duration::from_secs(97));
    }

    fn subject(groups: &[String]) -> Subject {
        Subject {
            user: "carol".into(),
            issuer: None,
            source: None,
            groups: groups.iter().map(|group| group.as_str().into()).collect(),
            roles: [].into(),
            claims: serde_json::Value::Null,
            actor: None,
        }
    }
}
