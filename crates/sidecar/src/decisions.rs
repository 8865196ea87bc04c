//! The decision log: one line of JSON per decision on standard output, with the user, the request and the answer.
//!
//! A request thread only puts a line into the bounded queue of [`Lines`], so no request ever waits for the reader.
//!
//! A line has no header values, no query and no credentials: [`DecisionRecord`] does not contain them.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::grpc::{DecisionRecord, DecisionSink};
use crate::lines::{Counts, Lines, Writer};
use crate::settings::DecisionLog;

/// Maximum bytes of a value. Longer ones are cut, so that a client cannot fill the log with one request.
const LONGEST: usize = 1024;

/// The decision log as request threads use it.
#[derive(Debug)]
pub(crate) struct Decisions {
    which: DecisionLog,
    lines: Lines,
    counts: Arc<Counts>,
}

impl Decisions {
    /// Starts the log, unless it is off.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(
        which: DecisionLog,
        to: impl Write + Send + 'static,
        counts: Arc<Counts>,
    ) -> io::Result<Option<(Self, Writer)>> {
        if which == DecisionLog::Off {
            return Ok(None);
        }
        let (lines, writer) = Lines::start("decisions", to, counts.clone())?;
        Ok(Some((Self { which, lines, counts }, writer)))
    }
}

impl DecisionSink for Decisions {
    fn wants(&self, allowed: bool) -> bool {
        match self.which {
            DecisionLog::Off => false,
            DecisionLog::Denied => !allowed,
            DecisionLog::All => true,
        }
    }

    fn offer(&self, record: &DecisionRecord<'_>) {
        let Ok(mut line) = serde_json::to_vec(&Line::of(record)) else { return self.counts.drop_one() };
        line.push(b'\n');
        self.lines.offer(line);
    }
}

#[derive(Serialize)]
struct Line<'a> {
    #[serde(serialize_with = "seconds")]
    time: Duration,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    method: &'a str,
    host: &'a str,
    path: &'a str,
    request_id: &'a str,
    policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'a str>,
    duration_us: u64,
}

impl<'a> Line<'a> {
    fn of(record: &DecisionRecord<'a>) -> Self {
        Self {
            time: record.time,
            decision: if record.allowed { "allowed" } else { "denied" },
            reason: record.reason,
            rule: record.rule,
            user: record.user.map(cut),
            method: cut(record.method),
            host: cut(record.host),
            path: cut(record.path),
            request_id: cut(record.request_id),
            policy: &record.revision.policy,
            keys: record.revision.keys.as_deref(),
            duration_us: u64::try_from(record.duration.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

/// Serializes a time as seconds since the Unix epoch, rounded to the microsecond.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e6)
}

fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(LONGEST);
    text.split_at_checked(end).map_or(text, |(front, _)| front)
}

#[cfg(test)]
mod tests;
