//! A line of the decision log, which is also what is exported and kept of a decision.

use std::sync::Arc;
use std::time::Duration;

use identity::Subject;
use serde::{Serialize, Serializer};

use super::mask::Masked;
use crate::record::DecisionRecord;
use crate::share::Share;
use crate::trace_context::DecisionTrace;

/// The version of the lines' format. A new field does not change it.
const VERSION: u8 = 1;

/// Maximum bytes of a value, so that a client cannot fill the log with one request.
pub(super) const LONGEST: usize = 1024;
/// Maximum bytes of a value that only the client claims.
const LONGEST_CLAIMED: usize = 256;
/// Maximum bytes of all names in a list.
const LONGEST_LIST: usize = 4096;

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
    #[serde(
        rename = "trace_id",
        serialize_with = "trace_id",
        skip_serializing_if = "Option::is_none"
    )]
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
    pub(super) fn new(record: &DecisionRecord<'a>, masked: &'a Masked<'_>, share: Share) -> Self {
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
            attempted_issuer: record
                .attempted
                .issuer
                .as_deref()
                .map(|issuer| cut(issuer, LONGEST_CLAIMED)),
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
fn trace_id<S: Serializer>(
    trace: &Option<DecisionTrace>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
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
