//! What a decision log is told of each request: enough to answer "who asked what, and why that answer", and no proof.

use std::fmt;
use std::time::Duration;

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
