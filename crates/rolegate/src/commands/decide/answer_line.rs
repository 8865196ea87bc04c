//! A line with a decision.

use std::io::{self, Write};

use authorizer::{Allowed, Verdict};
use serde::{Serialize, Serializer};

use super::request_line::InvalidRequest;

#[derive(Serialize)]
struct DecisionLine<'a> {
    allowed: bool,
    /// 200 for an allowed request.
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headers: Option<SetHeaders<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_headers: Option<RemovedHeaders<'a>>,
}

/// The answer to a line that is not decided. It has no `status`.
#[derive(Serialize)]
struct ErrorLine {
    allowed: bool,
    line: u64,
    error: String,
}

/// Headers of an allowed request that are set before it is forwarded.
struct SetHeaders<'a>(&'a Allowed<'a>);

/// Headers of an allowed request that are removed before it is forwarded.
struct RemovedHeaders<'a>(&'a Allowed<'a>);

/// Writes a decision.
pub(super) fn write_decision(answers: &mut impl Write, verdict: &Verdict<'_>) -> io::Result<()> {
    let status = verdict.status();
    let line = match verdict {
        Verdict::Allowed(allowed) => DecisionLine {
            allowed: true,
            status,
            reason: None,
            rule: Some(allowed.rule),
            user: allowed.subject.map(|subject| &*subject.user),
            headers: allowed.set().next().map(|_| SetHeaders(allowed)),
            remove_headers: allowed.remove().next().map(|_| RemovedHeaders(allowed)),
        },
        Verdict::Denied(denied) => DecisionLine {
            allowed: false,
            status,
            reason: Some(denied.reason.name()),
            rule: denied.rule,
            user: denied.subject.map(|subject| &*subject.user),
            headers: None,
            remove_headers: None,
        },
    };
    write_line(answers, &line)
}

/// Writes that a line is not decided.
pub(super) fn write_error(
    answers: &mut impl Write,
    line: u64,
    error: &InvalidRequest,
) -> io::Result<()> {
    write_line(answers, &ErrorLine { allowed: false, line, error: error.to_string() })
}

fn write_line(answers: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *answers, line)?;
    answers.write_all(b"\n")
}

impl Serialize for SetHeaders<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.set())
    }
}

impl Serialize for RemovedHeaders<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.remove())
    }
}
