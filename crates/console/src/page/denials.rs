//! The last denials, each with a link that explains it.

use maud::{Markup, html};
use runtime::{Denial, MAX_DENIALS, RecentDenials, clock};

use super::counted;
use crate::question::ExplainedFields;
use crate::times::{rough, utc};

pub(super) fn section(denials: Option<&RecentDenials>) -> Markup {
    let all = denials.map(RecentDenials::newest_first).unwrap_or_default();
    let not_kept = denials.map_or(0, RecentDenials::not_kept);
    html! {
        section #denials aria-labelledby="denials-head" {
            h2 #denials-head { "Last denials" }
            @if all.is_empty() {
                p { "None since the start." }
            } @else {
                p.hint {
                    (counted(all.len(), "denial")) ", equal ones in one row. At most " (MAX_DENIALS)
                    " are kept: the oldest of the most frequent reason goes first."
                    @if not_kept > 0 { " " (not_kept) " more came too fast to be kept: the metrics count them, and the decision log has them if it is on and not sampled." }
                }
                div.scroll tabindex="0" role="region" aria-labelledby="denials-head" {
                    table {
                        thead {
                            tr {
                                @for head in ["last", "times", "reason", "user", "request", "rule", "client", "x-request-id"] {
                                    th scope="col" { (head) }
                                }
                            }
                        }
                        tbody { @for (denial, times) in grouped(&all) { (row(denial, times)) } }
                    }
                }
            }
        }
    }
}

/// The newest of each group of equal denials, with the size of the group.
fn grouped(all: &[Denial]) -> Vec<(&Denial, usize)> {
    let mut groups: Vec<(&Denial, usize)> = Vec::new();
    for denial in all {
        match groups.iter_mut().find(|(newest, _)| key(newest) == key(denial)) {
            Some((_, times)) => *times += 1,
            None => groups.push((denial, 1)),
        }
    }
    groups
}

/// What equal denials have in common.
fn key(denial: &Denial) -> impl PartialEq + '_ {
    let Denial { reason, detail, user, attempted_user, method, host, path, client, .. } = denial;
    (reason, detail, user, attempted_user, method, host, path, client)
}

fn row(denial: &Denial, times: usize) -> Markup {
    html! {
        tr {
            td title=(utc(denial.time)) { (rough(clock::now().saturating_sub(denial.time))) " ago" }
            td { (times) }
            td { code { (denial.reason) } @if !denial.detail.is_empty() { br; (denial.detail) } }
            td {
                @match (&denial.user, &denial.attempted_user) {
                    (Some(user), _) => (user),
                    (None, Some(attempted)) => { "claims to be " (attempted) },
                    (None, None) => "–",
                }
            }
            td.request {
                a href=(ExplainedFields::of(denial).link()) { (denial.method) " " (denial.host) (denial.path) }
                @if denial.inexact { br; "(masked or cut: not exactly this request)" }
            }
            td { @match &denial.rule { Some(rule) => code { (rule) }, None => "–" } }
            td { (denial.client) }
            td { code { (denial.x_request_id) } }
        }
    }
}
