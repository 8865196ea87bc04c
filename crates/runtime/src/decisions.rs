//! The decision log: one line of JSON per decision, with the user, the request and the answer.
//!
//! A worker thread makes the line, which takes microseconds, and puts it into the bounded queue of
//! [`Lines`] before it answers. So no request ever waits for the reader.
//!
//! A line has no credentials, no header value but `x-request-id`, and no query but the part that
//! decides about a request to a search cluster: [`DecisionRecord`] does not contain others.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use identity::Subject;
use serde::{Serialize, Serializer};

use crate::denials::{Denial, RecentDenials};
use crate::lines::{Counts, Lines, Writer};
use crate::otlp;
use crate::record::{DecisionRecord, DecisionSink};
use crate::share::Share;
use crate::trace_context::{DecisionTrace, Tracing};
use file::LogFile;
use mask::Masked;
use settings::{DecisionLog, DecisionLogSettings};

mod file;
mod mask;
pub(crate) mod path_mask;
pub(crate) mod settings;

pub(crate) use mask::Masks;

/// The version of the lines' format. A new field does not change it.
const VERSION: u8 = 1;

/// Maximum bytes of a value, so that a client cannot fill the log with one request.
const LONGEST: usize = 1024;
/// Maximum bytes of a value that only the client claims.
const LONGEST_CLAIMED: usize = 256;
/// Maximum bytes of all names in a list.
const LONGEST_LIST: usize = 4096;

/// Takes the decisions of all worker threads: for the log, for a collector and for the console.
#[derive(Debug)]
pub(crate) struct Decisions {
    settings: DecisionLogSettings,
    masks: Arc<Masks>,
    counts: Arc<Counts>,
    /// The lines of the file, if they are written to one.
    lines: Option<Lines>,
    /// The same lines as log records for a collector.
    pub(crate) exported: Option<Lines>,
    /// The spans for a collector.
    pub(crate) spans: Option<Lines>,
    /// Whether decisions are part of traces.
    pub(crate) tracing: Option<Tracing>,
    pub(crate) denials: Option<Arc<RecentDenials>>,
}

impl Decisions {
    /// Takes nothing yet.
    pub(crate) fn new(settings: &DecisionLogSettings, masks: Arc<Masks>, counts: Arc<Counts>) -> Self {
        let settings = settings.clone();
        Self {
            settings,
            masks,
            counts,
            lines: None,
            exported: None,
            spans: None,
            tracing: None,
            denials: None,
        }
    }

    /// Opens the file of the log and starts its thread, unless no decision is written to a file.
    pub(crate) fn open_file(&mut self) -> io::Result<Option<Writer>> {
        if !self.settings.writes() {
            return Ok(None);
        }
        let file = LogFile::open(&self.settings, self.counts.clone())?;
        self.write_to(file).map(Some)
    }

    fn write_to(&mut self, file: impl Write + Send + 'static) -> io::Result<Writer> {
        let (lines, writer) = Lines::start("decisions", file, self.counts.clone())?;
        self.lines = Some(lines);
        Ok(writer)
    }

    /// Whether it takes any decision.
    pub(crate) fn is_used(&self) -> bool {
        let Self { lines, exported, spans, denials, .. } = self;
        lines.is_some() || exported.is_some() || spans.is_some() || denials.is_some()
    }

    /// Whether a decision is logged, unless sampling leaves it out.
    fn logs(&self, allowed: bool) -> bool {
        match self.settings.which {
            DecisionLog::Off => false,
            DecisionLog::Denied => !allowed,
            DecisionLog::All => true,
        }
    }

    /// Whether a decision gets a line. If not, it is counted here: making a line, or only its masks,
    /// costs more than the decision.
    fn admits(&self, record: &DecisionRecord<'_>) -> bool {
        if !self.logs(record.allowed) {
            return false;
        }
        if !self.settings.share(record.reason).takes() {
            self.counts.leave_out_one();
            return false;
        }
        let queues = || self.lines.iter().chain(&self.exported);
        let has_room = queues().any(|lines| !lines.is_full());
        if !has_room {
            queues().for_each(|lines| lines.counts.drop_one());
        }
        has_room
    }

    fn log(&self, line: &Line<'_>) {
        let Ok(mut text) = serde_json::to_string(line) else {
            return self.counts.drop_one();
        };
        if let Some(exported) = &self.exported {
            exported.offer(otlp::encode_log_record(line, &text));
        }
        if let Some(lines) = &self.lines {
            text.push('\n');
            lines.offer(text.into_bytes());
        }
    }
}

impl DecisionSink for Decisions {
    fn wants(&self, allowed: bool) -> bool {
        self.logs(allowed) || !allowed && self.denials.is_some()
    }

    fn tracing(&self) -> Option<Tracing> {
        self.tracing
    }

    fn offer(&self, record: &DecisionRecord<'_>) {
        let is_logged = self.admits(record);
        let span = self.spans.as_ref().zip(record.trace.filter(|trace| trace.is_recorded));
        let denials = self.denials.as_ref().filter(|denials| !record.allowed && denials.admit(record.time));
        if !is_logged && span.is_none() && denials.is_none() {
            return;
        }
        let masked = self.masks.mask(record);
        let line = Line::new(record, &masked, self.settings.share(record.reason));
        if let Some((spans, trace)) = span {
            spans.offer(otlp::encode_span(&line, trace));
        }
        if let Some(denials) = denials {
            denials.keep(Denial::new(&line));
        }
        if is_logged {
            self.log(&line);
        }
    }
}

/// A decision as it is logged, exported and kept: cut and masked. `docs/operations.md` says what
/// each field means; `commands::logged` reads it.
#[derive(Serialize)]
pub(crate) struct Line<'a> {
    version: u8,
    #[serde(serialize_with = "seconds")]
    pub(crate) time: Duration,
    pub(crate) decision: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    actions: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    indices: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    permitted_indices: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) issuer: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    scheme: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) groups: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attempted_user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempted_issuer: Option<&'a str>,
    // Empty for a message that was not read.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) method: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) host: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) raw_path: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) query: &'a str,
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) inexact: bool,
    #[serde(skip_serializing_if = "is_false")]
    masked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    sampled: Option<f64>,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) client: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) request_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(crate) x_request_id: &'a str,
    #[serde(rename = "trace_id", serialize_with = "trace_id", skip_serializing_if = "Option::is_none")]
    pub(crate) trace: Option<DecisionTrace>,
    pub(crate) policy: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    keys: Option<&'a str>,
    #[serde(rename = "duration_us", serialize_with = "microseconds")]
    pub(crate) duration: Duration,
    /// The HTTP status of a denial.
    #[serde(skip)]
    pub(crate) status: Option<u16>,
}

impl<'a> Line<'a> {
    /// `share` is that of such decisions which is logged.
    fn new(record: &DecisionRecord<'a>, masked: &'a Masked<'_>, share: Share) -> Self {
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
            sampled: share.below_one(),
            client: cut(record.client, LONGEST_CLAIMED),
            request_id: cut(record.request_id, LONGEST),
            x_request_id: cut(record.x_request_id, LONGEST_CLAIMED),
            trace: record.trace,
            policy: &record.revision.policy,
            keys: record.revision.keys.as_deref(),
            duration: record.duration,
            status: record.status,
        }
    }
}

/// Serializes a time as seconds since the Unix epoch, rounded to the microsecond.
fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64((time.as_secs_f64() * 1e6).round() / 1e6)
}

#[expect(clippy::ref_option, reason = "serde passes a reference")]
fn trace_id<S: Serializer>(trace: &Option<DecisionTrace>, serializer: S) -> Result<S::Ok, S::Error> {
    trace.map(|trace| trace.context.trace_id).serialize(serializer)
}

fn microseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

fn cut(text: &str, longest: usize) -> &str {
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
