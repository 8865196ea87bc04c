//! What a decision log is told of each request: enough to answer "who asked what, and why that answer", and no proof.

use std::fmt;
use std::time::Duration;

use authorizer::{Request, Verdict};

/// One decided request. Holds no header value, no query and no proof.
#[derive(Clone, Copy, Debug)]
pub struct DecisionRecord<'a> {
    /// When it was decided, since the Unix epoch.
    pub time: Duration,
    /// What the proxy calls the request; may be empty.
    pub request_id: &'a str,
    /// The method.
    pub method: &'a str,
    /// The host, as it came.
    pub host: &'a str,
    /// The path, without its query and fragment.
    pub path: &'a str,
    /// Who asked, where that is known.
    pub user: Option<&'a str>,
    /// Whether it may go on.
    pub allowed: bool,
    /// Why not: the name of the reason; `None` when allowed.
    pub reason: Option<&'static str>,
    /// The rule that decided, if one did.
    pub rule: Option<&'a str>,
    /// The revision of the policy.
    pub revision: &'a str,
    /// How long it took, from the message to the answer.
    pub duration: Duration,
}

/// Where decisions are told.
pub trait DecisionSink: fmt::Debug + Send + Sync {
    /// Takes note of a decision, or drops it: called on a request thread, so it neither waits nor does I/O.
    fn offer(&self, record: &DecisionRecord<'_>);
}

/// Tells `sink` of a verdict.
pub(super) fn offer(
    sink: &dyn DecisionSink,
    verdict: &Verdict<'_>,
    request: &Request<'_>,
    revision: &str,
    time: Duration,
    duration: Duration,
) {
    let (path, user, reason, rule) = match verdict {
        Verdict::Allowed(allowed) => (allowed.path, allowed.user, None, Some(allowed.rule)),
        Verdict::Denied(denied) => (denied.path, denied.user, Some(denied.reason.name()), denied.rule),
    };
    // What could not be read has no canonical path: then the one that was asked for.
    let path = if path.is_empty() { without_query(request.path) } else { path };
    sink.offer(&DecisionRecord {
        time,
        request_id: &String::from_utf8_lossy(request.id),
        method: &String::from_utf8_lossy(request.method),
        host: &String::from_utf8_lossy(request.host),
        path: &String::from_utf8_lossy(path),
        user,
        allowed: reason.is_none(),
        reason,
        rule,
        revision,
        duration,
    });
}

fn without_query(path: &[u8]) -> &[u8] {
    path.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default()
}
