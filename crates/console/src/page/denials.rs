//! The last denials, each with a link that explains it.

use maud::{Markup, html};
use runtime::{Denial, MAX_DENIALS, RecentDenials};

use super::{ago, counted, field, table};
use crate::question::{ExplainedFields, Question};
use crate::times::utc;

pub(super) fn section(denials: Option<&RecentDenials>, question: &Question) -> Markup {
    let mut listed = denials.map(RecentDenials::newest_first).unwrap_or_default();
    let not_kept = denials.map_or(0, RecentDenials::not_kept);
    let kept = listed.len();
    let fields = &question.denials;
    listed.retain(|denial| fields.matches(denial));
    let heads = ["last", "count", "reason", "user", "request", "rule", "client", "request_id"];
    html! {
        @if kept == 0 {
            p { "None since the start." }
        } @else {
            form action="/console#denials" method="get" {
                (field(
                    "denials", "denied_id", "Request ID contains", &fields.id,
                    "request_id or x-request-id",
                ))
                (field("denials", "denied_user", "User contains", &fields.user, "any"))
                @if question.refresh { input type="hidden" name="refresh"; }
                button type="submit" { "Filter" }
            }
            p.hint role="status" {
                @if listed.len() < kept { (listed.len()) " of " }
                (counted(kept, "denial")) ", equal ones in one row. At most " (MAX_DENIALS)
                " are kept: the oldest of the most frequent reason goes first."
                @if not_kept > 0 {
                    " " (not_kept) " more came too fast to be kept: the metrics count them, and the \
                    decision log has them if it is on and not sampled."
                }
            }
        }
        @if !listed.is_empty() {
            (table("Last denials", None, heads, &html! {
                tbody { @for (denial, count) in grouped(&listed) { (row(denial, count)) } }
            }))
        }
    }
}

/// The newest of each group of equal denials, with the size of the group.
fn grouped(denials: &[Denial]) -> Vec<(&Denial, usize)> {
    let mut groups: Vec<(&Denial, usize)> = Vec::new();
    for denial in denials {
        match groups.iter_mut().find(|(newest, _)| key(newest) == key(denial)) {
            Some((_, count)) => *count += 1,
            None => groups.push((denial, 1)),
        }
    }
    groups
}

/// The fields that make denials equal.
fn key(denial: &Denial) -> impl PartialEq + '_ {
    let Denial { reason, detail, user, attempted_user, method, host, path, client, .. } = denial;
    (reason, detail, user, attempted_user, method, host, path, client)
}

fn row(denial: &Denial, count: usize) -> Markup {
    html! {
        tr {
            td { (utc(denial.time)) br; (ago(denial.time)) }
            td { (count) }
            td { code { (denial.reason) } @if !denial.detail.is_empty() { br; (denial.detail) } }
            td {
                @match (&denial.user, &denial.attempted_user) {
                    (Some(user), _) => (user),
                    (None, Some(attempted)) => { "claims to be " (attempted) },
                    (None, None) => "–",
                }
            }
            td.request {
                a href=(link(denial)) { (denial.method) " " (denial.host) (denial.path) }
                @if denial.inexact { br; "(masked or cut: not exactly this request)" }
            }
            td { @match &denial.rule { Some(rule) => code { (rule) }, None => "–" } }
            td { (denial.client) }
            td {
                code { (denial.request_id) }
                @if !denial.x_request_id.is_empty() && denial.x_request_id != denial.request_id {
                    br; "x-request-id " code { (denial.x_request_id) }
                }
            }
        }
    }
}

/// The address of the page that explains the request.
fn link(denial: &Denial) -> String {
    let question =
        Question { explained: ExplainedFields::from_denial(denial), ..Question::default() };
    format!("{}#explain", question.link())
}
