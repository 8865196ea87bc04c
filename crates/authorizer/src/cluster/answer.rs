//! Answers in the form of OpenSearch's security plugin, which its clients understand.

use std::collections::BTreeSet;
use std::fmt::Write;

use identity::CachedSubject;
use policy::model::Identity;
use search::{Missing, Problem, RequestBody, Verdict as ClusterVerdict};
use serde_json::json;

use super::caller::ClusterCaller;
use super::request::path_of;
use crate::answer::{ResponseHeader, challenges};
use crate::reason::{Limit, Reason};
use crate::request::Request;
use crate::scratch::DenialScratch;
use crate::verdict::{Denied, Verdict};

/// The headers of each kind of answer.
#[derive(Debug)]
pub(crate) struct Denials {
    json: [ResponseHeader; 1],
    unauthorized: Box<[ResponseHeader]>,
}

/// If the detail for the decision log is longer than this, in bytes, no further entries are added
/// to its lists. The last entry may exceed the limit.
const MAX_DETAIL: usize = 1_000;

impl Denials {
    pub(super) fn new(identity: &Identity) -> Self {
        let [json, text] = ["application/json; charset=UTF-8", "text/plain; charset=UTF-8"]
            .map(|value| ResponseHeader { name: "content-type", value: value.into() });
        let unauthorized = std::iter::once(text).chain(challenges(identity, "")).collect();
        Self { json: [json], unauthorized }
    }

    /// The answer to a request without valid credentials.
    pub(super) fn unauthorized<'a>(&'a self, request: &Request<'a>, reason: Reason) -> Verdict<'a> {
        let denied = Denied::new(reason, &self.unauthorized, "Unauthorized");
        Verdict::Denied(Denied { path: path_of(request), ..denied })
    }

    /// The answer to a request that exceeds a limit, for known and unknown callers.
    pub(crate) fn over_limit<'a>(
        &'a self,
        request: &Request<'a>,
        limit: Limit,
        body: &'a mut String,
    ) -> Verdict<'a> {
        let reason = Reason::Limit(limit);
        write_body(reason, &reason.to_string(), body);
        Verdict::Denied(Denied { path: path_of(request), ..Denied::new(reason, &self.json, body) })
    }

    /// The answer to a request of a known caller. Writes the body and the detail for the decision
    /// log. `answer` tells which privileges are missing.
    pub(super) fn forbidden<'a>(
        &'a self,
        request: &Request<'a>,
        reason: Reason,
        caller: &'a CachedSubject<ClusterCaller>,
        answer: &search::Answer,
        DenialScratch { body, detail }: &'a mut DenialScratch,
    ) -> Denied<'a> {
        // Nobody reads this answer: the request is decided again when its body has arrived.
        if request.body == RequestBody::Pending && reason == Reason::Cluster(Problem::BodyNeeded) {
            [&mut *detail, &mut *body].into_iter().for_each(String::clear);
        } else {
            write_detail(reason, answer, detail);
            // The attached subject is the caller as the role files see it.
            write_body(reason, &explained(reason, &caller.attached.subject, answer), body);
        }
        let subject = Some(&caller.subject);
        Denied { subject, path: path_of(request), detail, ..Denied::new(reason, &self.json, body) }
    }
}

/// The text of a denial; for missing privileges, in the words of the plugin.
pub(super) fn explained(
    reason: Reason,
    subject: &search::Subject,
    answer: &search::Answer,
) -> String {
    let actions: BTreeSet<&str> =
        answer.missing.iter().map(|missing| missing.action.name()).collect();
    if actions.is_empty() {
        return reason.to_string();
    }
    let actions: Vec<&str> = actions.into_iter().collect();
    format!(
        "no permissions for [{}] and User [name={}, backend_roles=[{}], requestedTenant=null]",
        actions.join(", "),
        subject.name,
        subject.backend_roles.join(", ")
    )
}

/// The body that the plugin writes, with this text as `error.reason`.
fn write_body(reason: Reason, text: &str, body: &mut String) {
    let kind = match reason.status() {
        403 => "security_exception",
        413 | 503 => "status_exception",
        _ => "illegal_argument_exception",
    };
    body.clear();
    let (error, status) = (error_members(kind, text), reason.status());
    // Writing to a string does not fail.
    let _ =
        write!(body, "{{\"error\":{{\"root_cause\":[{{{error}}}],{error}}},\"status\":{status}}}");
}

/// The members of an error object, in JSON.
pub(super) fn error_members(kind: &str, text: &str) -> String {
    format!("\"type\":\"{kind}\",\"reason\":{}", json!(text))
}

/// Writes why the request is denied, for the decision log: the missing privileges, or the problem.
/// If only a part of the request is permitted, the permitted names come first.
fn write_detail(reason: Reason, answer: &search::Answer, detail: &mut String) {
    detail.clear();
    if let ClusterVerdict::PermittedInPart(parts) = &answer.verdict {
        detail.push_str("permitted: ");
        for name in parts.iter().flat_map(|part| &part.names) {
            if detail.len() > MAX_DETAIL {
                break;
            }
            detail.extend([name, " "]);
        }
        detail.push_str("; ");
    }
    for Missing { action, name, reason } in &answer.missing {
        if detail.len() > MAX_DETAIL {
            detail.push('…');
            break;
        }
        let separator = if detail.is_empty() || detail.ends_with(' ') { "" } else { ", " };
        let place = if name.is_empty() { "the cluster" } else { name };
        let _ = write!(detail, "{separator}{} on {place} ({reason})", action.name());
    }
    if answer.missing.is_empty() && matches!(reason, Reason::Cluster(_)) {
        let _ = write!(detail, "{reason}");
    }
}
