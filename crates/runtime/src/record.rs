//! A decided request: with what it was decided, and the record of it for the decision log, without
//! credentials.

use std::borrow::Cow;
use std::fmt;
use std::time::{Duration, Instant};

use authorizer::{
    Authorizer, ClusterRequest, Denied, Header, MAX_INDICES, Reason, Request, Revision, Stage,
    Verdict, deciding_query,
};
use identity::{Attempted, Subject};

use crate::clock;
use crate::trace_context::{DecisionTrace, TraceContext, Tracing};

/// One decided request, without credentials. Of its query it has what decides about a request to a
/// search cluster, of its headers `x-request-id` and the trace.
#[derive(Clone, Copy, Debug)]
pub struct DecisionRecord<'a> {
    /// When the request was received, as time since the Unix epoch.
    pub time: Duration,
    /// The client's address; empty if the proxy names none.
    pub client: &'a str,
    /// The proxy's request ID; may be empty.
    pub request_id: &'a str,
    /// The `x-request-id` header; empty if there is none.
    pub x_request_id: &'a str,
    /// The trace of the proxy's check, else of the request's `traceparent`.
    pub trace: Option<DecisionTrace>,
    /// The scheme of the credentials: `basic`, `bearer` or `other`; empty if there are none.
    pub scheme: &'static str,
    /// The method.
    pub method: &'a str,
    /// The host, as received.
    pub host: &'a str,
    /// The canonical path. For a search cluster, or if the path is not valid or was not read, the
    /// path as received, without query and fragment.
    pub path: &'a str,
    /// Whether the path was read.
    pub canonical: bool,
    /// The path as received, without its query and fragment.
    pub raw_path: &'a str,
    /// The parameters that decide about a request to a search cluster; may be empty.
    pub query: &'a str,
    /// Whether the method, the host or the path has bytes that are not UTF-8, which are replaced.
    pub replaced: bool,
    /// The subject, if known.
    pub subject: Option<&'a Subject>,
    /// Who invalid credentials claim to be, and why they are invalid: bounded and escaped.
    pub attempted: &'a Attempted,
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The name of the reason for a denial; `None` when allowed.
    pub reason: Option<&'static str>,
    /// The HTTP status of a denial; `None` when allowed.
    pub status: Option<u16>,
    /// The rule that decided, if one did; the operation, if a search cluster's roles permitted it.
    pub rule: Option<&'a str>,
    /// More about why a request to a search cluster is denied; may be empty.
    pub cluster_detail: &'a str,
    /// The actions of a request to a search cluster.
    pub actions: &'a [&'a str],
    /// The indices of a request to a search cluster, as it names them: the first ones.
    pub indices: &'a [&'a str],
    /// The indices that it is reduced to, if it is permitted on some of them only: the first ones.
    pub permitted_indices: &'a [&'a str],
    /// Which policy and which keys decided.
    pub revision: &'a Revision,
    /// Time from the complete message to the verdict.
    pub duration: Duration,
}

/// Receives decisions.
pub trait DecisionSink: fmt::Debug + Send + Sync {
    /// Whether it takes decisions that allow, or that deny. A record costs about as much as
    /// evaluating the rules, so it is only made then.
    fn wants(&self, allowed: bool) -> bool {
        let _ = allowed;
        true
    }

    /// Whether decisions are part of traces. Recorded ones are offered even where [`Self::wants`]
    /// is false.
    fn tracing(&self) -> Option<Tracing> {
        None
    }

    /// Takes a decision, or drops it. Called on a worker thread: it must neither block nor do I/O.
    fn offer(&self, record: &DecisionRecord<'_>);
}

/// When a request was complete or, if it never is, when its first part was read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Wall-clock time since the Unix epoch, or that of the end of its wait.
    pub time: Duration,
    /// Monotonic: for the latency.
    pub at: Instant,
    /// The same, or the end of the wait if it had to wait.
    pub started: Instant,
}

/// A request and what decided it: what is counted, logged and compared with its verdict.
#[derive(Clone, Copy, Debug)]
pub struct DecisionContext<'a> {
    /// What authorized it.
    pub authorizer: &'a Authorizer,
    /// The request.
    pub request: &'a Request<'a>,
    /// The client's address, as text; empty if it is not known.
    pub client: &'a [u8],
    /// When it was received.
    pub received: Received,
    /// When it was decided.
    pub decided_at: Instant,
    /// The `traceparent` of the proxy's own call, the parent of the decision's span; may be empty.
    pub traceparent: &'a [u8],
}

impl Received {
    /// The current time, by both clocks.
    #[must_use]
    pub fn now() -> Self {
        let at = Instant::now();
        Self { time: clock::now(), at, started: at }
    }

    /// Wall-clock time of its arrival since the Unix epoch: for the decision log and spans.
    pub fn arrival(self) -> Duration {
        self.time.saturating_sub(self.started.saturating_duration_since(self.at))
    }

    /// The same, decided now: credentials and dates must be valid at the decision, however long a
    /// client makes the wait. The latency still counts from its arrival.
    pub fn waited(self) -> Self {
        Self { time: clock::now(), started: Instant::now(), ..self }
    }
}

pub(crate) fn offer(
    sink: &dyn DecisionSink,
    verdict: &Verdict<'_>,
    context: &DecisionContext<'_>,
    trace: Option<DecisionTrace>,
) {
    let DecisionContext { authorizer, request, client, received, decided_at, .. } = *context;
    let (path, subject, reason, rule, cluster_detail, cluster) = match verdict {
        Verdict::Allowed(allowed) => {
            (allowed.path, allowed.subject, None, Some(allowed.rule), "", &allowed.cluster)
        }
        Verdict::Denied(denied) => {
            let Denied { path, subject, reason, rule, detail, cluster, .. } = denied;
            (*path, *subject, Some(*reason), *rule, *detail, cluster)
        }
    };
    let (actions, indices) =
        cluster.as_ref().map(|cluster| (actions(cluster), indices(cluster))).unwrap_or_default();
    let permitted = cluster.iter().flat_map(|cluster| &cluster.permitted);
    let permitted: Vec<&str> = permitted.map(String::as_str).collect();
    let credentials_error = reason.and_then(Reason::credentials_error);
    let attempted =
        credentials_error.map(|error| authorizer.attempted(request, error, received.time));
    let attempted = attempted.unwrap_or_default();
    let is_of_cluster = cluster.is_some() || reason.map(Reason::stage) == Some(Stage::Cluster);
    let query = is_of_cluster.then(|| deciding_query(&String::from_utf8_lossy(request.path)));
    let raw_path = without_query(request.path);
    // A path that cannot be parsed has no canonical form: the path as received is used instead.
    let canonical = !path.is_empty();
    let path = if canonical { path } else { raw_path };
    let lossy = String::from_utf8_lossy;
    let (method, host, raw_path) = (lossy(request.method), lossy(request.host), lossy(raw_path));
    let replaced = [&method, &host, &raw_path].iter().any(|text| matches!(text, Cow::Owned(_)));
    sink.offer(&DecisionRecord {
        time: received.arrival(),
        client: &lossy(client),
        request_id: &lossy(request.id),
        x_request_id: &lossy(value(request.headers, X_REQUEST_ID)),
        trace,
        scheme: scheme_of(request),
        method: &method,
        host: &host,
        path: &lossy(path),
        canonical,
        raw_path: &raw_path,
        query: query.as_deref().unwrap_or_default(),
        replaced,
        subject,
        attempted: &attempted,
        allowed: reason.is_none(),
        reason: reason.map(Reason::name),
        status: reason.map(Reason::status),
        rule,
        cluster_detail,
        actions: &actions,
        indices: &indices,
        permitted_indices: &permitted,
        revision: authorizer.revision(),
        duration: decided_at.saturating_duration_since(received.at),
    });
}

/// The actions of a request to a search cluster.
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
    distinct
}

pub(crate) const X_REQUEST_ID: &[u8] = b"x-request-id";
const TRACEPARENT: &[u8] = b"traceparent";

/// Whether the decision log shows this header, or a part of it.
pub fn is_logged(name: &[u8]) -> bool {
    [X_REQUEST_ID, TRACEPARENT].iter().any(|logged| name.eq_ignore_ascii_case(logged))
}

pub(crate) fn value<'a>(headers: &[Header<'a>], name: &[u8]) -> &'a [u8] {
    let mut named = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    named.next().map(|header| header.value).unwrap_or_default()
}

/// The trace of the proxy's own call (`of_check`) if it is valid; else of the request.
pub(crate) fn trace_of(request: &Request<'_>, of_check: &[u8]) -> Option<TraceContext> {
    TraceContext::parse(of_check)
        .or_else(|| TraceContext::parse(value(request.headers, TRACEPARENT)))
}

/// The scheme of a request's credentials; empty without any. An unknown word is not shown: it may
/// be credentials without a scheme.
pub(crate) fn scheme_of(request: &Request<'_>) -> &'static str {
    let authorization = value(request.headers, b"authorization");
    let word = authorization.split(|byte| *byte == b' ').next().unwrap_or_default();
    if authorization.is_empty() {
        ""
    } else if word.eq_ignore_ascii_case(b"basic") {
        "basic"
    } else if word.eq_ignore_ascii_case(b"bearer") {
        "bearer"
    } else {
        "other"
    }
}

pub(crate) fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arrival_of_a_request_is_before_its_wait() {
        let (at, wait) = (Instant::now(), Duration::from_secs(3));
        let received = Received { time: Duration::from_secs(100), at, started: at + wait };
        assert_eq!(received.arrival(), Duration::from_secs(97));
    }
}
