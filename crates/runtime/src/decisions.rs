//! The decision log: one line of JSON per decision, with the user, the request and the answer.
//!
//! A worker thread makes the line, which takes microseconds, and puts it into the bounded queue of [`Lines`], before it answers. So
//! no request ever waits for the reader.
//!
//! A line has no credentials, no header value but `x-request-id`, and no query but the part that decides about a request to
//! a search cluster: [`DecisionRecord`] does not contain others.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use identity::Subject;
use serde::{Serialize, Serializer};

use crate::lines::{Counts, Lines, Writer};
use crate::otlp::{ExportedDecision, LogRecords, Spans};
use crate::record::{DecisionRecord, DecisionSink};
use crate::trace_context::{Id, Tracing};
use mask::Masked;
use settings::{DecisionLog, DecisionLogSettings};

mod file;
mod loss;
mod mask;
pub(crate) mod path_mask;
pub(crate) mod settings;

pub(crate) use mask::Masks;

/// The version of the lines' format. A field that is new does not change it; one that is renamed, or means something else, does.
const VERSION: u8 = 1;

/// Maximum bytes of a value. Longer ones are cut, so that a client cannot fill the log with one request.
const LONGEST: usize = 1024;
/// Maximum bytes of a value that only the client claims: the user name of invalid credentials, an id.
const LONGEST_CLAIMED: usize = 256;
/// Maximum bytes of all names in a list.
const LONGEST_LIST: usize = 4096;

/// The decision log as worker threads use it.
#[derive(Debug)]
pub struct Decisions {
    settings: DecisionLogSettings,
    masks: Arc<Masks>,
    /// The lines of the file, if they are written to one.
    lines: Option<Lines>,
    /// Those that are exported.
    exported: Option<LogRecords>,
    spans: Option<Spans>,
    counts: Arc<Counts>,
}

impl Decisions {
    /// Starts the log, unless it is off, and nothing is traced. Lines go to `exported` as well, if there is one, and spans to
    /// `spans`.
    ///
    /// # Errors
    /// When the thread cannot be started, or a file cannot be opened.
    pub(crate) fn open(
        settings: &DecisionLogSettings,
        counts: Arc<Counts>,
        spans: Option<Spans>,
        exported: Option<LogRecords>,
    ) -> io::Result<Option<(Self, Option<Writer>)>> {
        let writes = settings.writes();
        if !writes && spans.is_none() && exported.is_none() {
            return Ok(None);
        }
        let file = writes.then(|| file::open(settings, counts.clone())).transpose()?;
        Self::start(settings, file, counts, spans, exported).map(Some)
    }

    /// What it masks.
    pub(crate) fn masks(&self) -> &Arc<Masks> {
        &self.masks
    }

    fn start(
        settings: &DecisionLogSettings,
        file: Option<impl Write + Send + 'static>,
        counts: Arc<Counts>,
        spans: Option<Spans>,
        exported: Option<LogRecords>,
    ) -> io::Result<(Self, Option<Writer>)> {
        let masks = Arc::new(Masks::new(settings)?);
        let started = file.map(|file| Lines::start("decisions", file, counts.clone())).transpose()?;
        let (lines, writer) = started.unzip();
        Ok((Self { settings: settings.clone(), masks, lines, exported, spans, counts }, writer))
    }

    /// Whether a decision is logged. Otherwise it is counted here: neither its masks nor its line are made, which costs more than
    /// the decision.
    fn takes(&self, record: &DecisionRecord<'_>) -> bool {
        if !self.wants(record.allowed) {
            return false;
        }
        if !self.settings.share(record.reason).takes() {
            self.counts.leave_out_one();
            return false;
        }
        let queues = || self.lines.iter().chain(self.exported.iter().map(LogRecords::queue));
        let has_room = queues().any(|lines| !lines.is_full());
        if !has_room {
            queues().for_each(Lines::drop_unformatted);
        }
        has_room
    }

    /// Logs a decision that is [taken](Self::takes).
    fn log(&self, record: &DecisionRecord<'_>, line: Line<'_>) {
        let sampled = self.settings.share(record.reason).below_one();
        let exported = line.exported(record);
        let Ok(mut line) = serde_json::to_string(&Line { sampled, ..line }) else {
            return self.counts.drop_one();
        };
        if let Some(logs) = &self.exported {
            logs.offer(&line, &exported);
        }
        if let Some(lines) = &self.lines {
            line.push('\n');
            lines.offer(line.into_bytes());
        }
    }
}

impl DecisionSink for Decisions {
    fn wants(&self, allowed: bool) -> bool {
        match self.settings.which {
            DecisionLog::Off => false,
            DecisionLog::Denied => !allowed,
            DecisionLog::All => true,
        }
    }

    fn tracing(&self) -> Option<Tracing> {
        let joined = self.exported.as_ref().map(|_| Tracing::Joined);
        self.spans.as_ref().map(|spans| spans.tracing).or(joined)
    }

    fn offer(&self, record: &DecisionRecord<'_>) {
        let recorded = self.spans.as_ref().zip(record.trace.filter(|trace| trace.is_recorded));
        let is_logged = self.takes(record);
        if recorded.is_none() && !is_logged {
            return;
        }
        let masked = self.masks.of(record);
        let line = Line::of(record, &masked);
        if let Some((spans, trace)) = recorded {
            spans.offer(trace, &line.exported(record));
        }
        if is_logged {
            self.log(record, line);
        }
    }
}

/// A line of the log. `docs/operations.md` says what each field means; `commands::logged` reads it.
#[derive(Serialize)]
struct Line<'a> {
    version: u8,
    #[serde(serialize_with = "seconds")]
    time: Duration,
    decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indices: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permitted_indices: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    scheme: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    roles: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempted_user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempted_issuer: Option<&'a str>,
    // Empty for a message that was not read.
    #[serde(skip_serializing_if = "str::is_empty")]
    method: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_path: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    query: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    inexact: bool,
    #[serde(skip_serializing_if = "is_false")]
    masked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    client: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    request_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    x_request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<Id<16>>,
    policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'a str>,
    duration_us: u64,
}

impl<'a> Line<'a> {
    fn of(record: &DecisionRecord<'a>, masked: &'a Masked<'_>) -> Self {
        let mut inexact = record.replaced || masked.any;
        // What the decision depends on: if it is cut, the decision cannot be repeated.
        let mut exact = |text: &'a str| {
            inexact |= text.len() > LONGEST;
            cut(text, LONGEST)
        };
        let subject = record.subject;
        let user = masked.user.as_deref().map(&mut exact);
        let (method, host) = (exact(record.method), exact(record.host));
        let (raw_path, query) = (exact(masked.raw_path), exact(masked.query));
        let names = |list: fn(&Subject) -> &[Arc<str>]| subject.map(list).unwrap_or_default();
        let (groups, roles) = (names(|subject| &subject.groups), names(|subject| &subject.roles));
        let (some_groups, some_roles) = (first(groups), first(roles));
        let cluster_detail = Some(record.cluster_detail).filter(|detail| !detail.is_empty());
        let detail = record.attempted.detail.as_deref().or(cluster_detail);
        inexact |= some_groups.len() < groups.len() || some_roles.len() < roles.len();
        Self {
            version: VERSION,
            time: record.time,
            decision: if record.allowed { "allowed" } else { "denied" },
            reason: record.reason,
            detail: detail.map(|detail| cut(detail, LONGEST)),
            rule: record.rule,
            actions: first(record.actions),
            indices: first(record.indices),
            permitted_indices: first(record.permitted_indices),
            user,
            issuer: subject.and_then(|subject| subject.issuer.as_deref()),
            scheme: record.scheme,
            groups: some_groups,
            roles: some_roles,
            attempted_user: masked.attempted_user.as_deref().map(|user| cut(user, LONGEST_CLAIMED)),
            attempted_issuer: record.attempted.issuer.as_deref().map(|issuer| cut(issuer, LONGEST_CLAIMED)),
            method,
            host,
            path: cut(&masked.path, LONGEST),
            raw_path: (!raw_path.is_empty() && record.raw_path != record.path).then_some(raw_path),
            query,
            inexact,
            masked: masked.any,
            sampled: None,
            client: cut(record.client, LONGEST_CLAIMED),
            request_id: cut(record.request_id, LONGEST),
            x_request_id: cut(record.x_request_id, LONGEST_CLAIMED),
            trace_id: record.trace.map(|trace| trace.context.trace_id),
            policy: &record.revision.policy,
            keys: record.revision.keys.as_deref(),
            duration_us: u64::try_from(record.duration.as_micros()).unwrap_or(u64::MAX),
        }
    }
}

impl<'a> Line<'a> {
    /// What of it is exported in fields of their own.
    fn exported(&self, record: &DecisionRecord<'_>) -> ExportedDecision<'a> {
        ExportedDecision {
            trace: record.trace,
            time: record.time,
            duration: record.duration,
            decision: self.decision,
            reason: self.reason,
            status: record.status,
            rule: self.rule,
            revision: self.policy,
            method: self.method,
            host: self.host,
            path: self.path,
            user: self.user,
            client: self.client,
            x_request_id: self.x_request_id,
        }
    }
}

/// Serializes a time as seconds since the Unix epoch, rounded to the microsecond.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e6)
}

pub(crate) fn cut(text: &str, longest: usize) -> &str {
    text.split_at_checked(text.floor_char_boundary(longest)).map_or(text, |(front, _)| front)
}

/// The first names of a list, together not longer than [`LONGEST_LIST`].
fn first<T: AsRef<str>>(names: &[T]) -> Vec<&str> {
    let mut length = 0;
    let fits = |name: &&str| {
        length += name.len();
        length <= LONGEST_LIST
    };
    names.iter().map(AsRef::as_ref).take_while(fits).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests;
