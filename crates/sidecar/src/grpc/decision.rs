//! The record of a decision for the decision log: the subject, the request, and the reason of the answer. It contains
//! no credentials.

use std::fmt;
use std::time::Duration;

use authorizer::{Request, Revision, Verdict};

/// One decided request. It holds no header value, no query and no credentials.
#[derive(Clone, Copy, Debug)]
pub struct DecisionRecord<'a> {
    /// When the request was received, as time since the Unix epoch.
    pub time: Duration,
    /// The proxy's request ID; may be empty.
    pub request_id: &'a str,
    /// The method.
    pub method: &'a str,
    /// The host, as received.
    pub host: &'a str,
    /// The path, without its query and fragment.
    pub path: &'a str,
    /// The name of the subject, if known.
    pub user: Option<&'a str>,
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The name of the reason for a denial; `None` when allowed.
    pub reason: Option<&'static str>,
    /// The rule that decided, if one did.
    pub rule: Option<&'a str>,
    /// Which policy and which keys decided.
    pub revision: &'a Revision,
    /// Time from the complete message to the verdict.
    pub duration: Duration,
}

/// Receives decisions.
pub trait DecisionSink: fmt::Debug + Send + Sync {
    /// Whether it takes decisions that allow, or that deny. Called before a record is made, which costs about as much
    /// as evaluating the rules.
    fn wants(&self, allowed: bool) -> bool {
        let _ = allowed;
        true
    }

    /// Takes a decision, or drops it. It is called on a request thread, so it must neither block nor do I/O.
    fn offer(&self, record: &DecisionRecord<'_>);
}

/// Passes a verdict to `sink`.
pub(super) fn offer(
    sink: &dyn DecisionSink,
    verdict: &Verdict<'_>,
    request: &Request<'_>,
    revision: &Revision,
    time: Duration,
    duration: Duration,
) {
    let (path, user, reason, rule) = match verdict {
        Verdict::Allowed(allowed) => (allowed.path, allowed.user, None, Some(allowed.rule)),
        Verdict::Denied(denied) => (denied.path, denied.user, Some(denied.reason.name()), denied.rule),
    };
    // A path that cannot be parsed has no canonical form: the path as received is used instead.
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
