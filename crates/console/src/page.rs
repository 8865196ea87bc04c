//! The page: first the problems, then the status and the traffic, then the forms.

mod charts;
mod cluster_roles;
mod denials;
mod difference;
mod explain;
mod rules;
mod status;
mod traffic;

pub(crate) use difference::LastComparison;

use std::time::Duration;

use maud::{DOCTYPE, Markup, Render, html};
use runtime::clock;
use runtime::conditions::{Condition, Severity, rough};
use runtime::status::Facts;
use server::admin::PageSources;

use crate::Sources;
use crate::history::{FIVE_MINUTES, History, MINUTE, Sample};
use crate::problems::{InstanceState, all_conditions};
use crate::question::Question;
use crate::times;

/// A list of names or patterns that is longer than this, in bytes, ends with `and N more`.
const MAX_TEXT: usize = 300;

/// The state that pages are rendered from, shared by the thread that renders and the thread of the
/// admin listener.
#[derive(Debug)]
pub(crate) struct ConsoleState {
    pub(crate) sources: Sources,
    pub(crate) history: History,
    pub(crate) last_comparison: LastComparison,
}

/// The counters and the status now. The admin's thread reads them: the thread that renders has a
/// low priority, and must not hold locks that worker threads take, too.
#[derive(Debug)]
pub(crate) struct Current {
    sample: Sample,
    ready: Result<(), String>,
    facts: Facts,
    shadow: Option<Facts>,
    conditions: Vec<Condition>,
}

impl Current {
    pub(crate) fn read(sources: &PageSources) -> Self {
        Self {
            sample: Sample::take(sources),
            ready: sources.status.ready().map_err(|why| why.to_string()),
            facts: sources.status.facts(),
            shadow: sources.shadow.as_ref().map(|shadow| shadow.status.facts()),
            conditions: sources.conditions(),
        }
    }
}

/// The page that answers this question.
pub(crate) fn render(state: &ConsoleState, current: &Current, question: &Question) -> String {
    let ConsoleState { sources, history, last_comparison } = state;
    let Current { sample, ready, facts, shadow, conditions } = current;
    let (minute, five_minutes) =
        (history.window(sample, MINUTE), history.window(sample, FIVE_MINUTES));
    let conditions = all_conditions(&InstanceState {
        runs_in: sources.runs_in,
        ready: ready.clone(),
        conditions,
        has_shadow: shadow.is_some(),
        minute: &minute,
        five_minutes: &five_minutes,
    });
    let policy = sources.policy.snapshot();
    let active = policy.as_deref();
    let charts = charts::charts(&history.points(sample), sample.at);
    let denials = denials::section(sources.denials.as_deref(), question);
    let mut parts = vec![
        ("wrong", "What is wrong", wrong(&conditions)),
        ("status", "Policy and keys", status::section(facts, shadow.as_ref(), active)),
        ("traffic", "Checks", traffic::section(&minute, &five_minutes, &charts)),
        ("denials", "Last denials", denials),
        ("explain", "Explain a request", explain::section(active, &question.explained)),
        ("rules", "Who can do what", rules::section(active, &question.rules)),
    ];
    if let Some(shadow) = &sources.shadow {
        let shadow = shadow.snapshot();
        let difference = difference::section(policy.as_ref(), shadow.as_ref(), last_comparison);
        parts.push(("difference", "What the shadow policy would change", difference));
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if question.refresh { meta http-equiv="refresh" content="10"; }
                title { (title(&conditions)) }
                link rel="stylesheet" href="/console/style.css";
                link rel="icon" href="/console/icon.svg" type="image/svg+xml";
            }
            body {
                a.skip href="#wrong" { "Skip to what is wrong" }
                header {
                    h1 { "rolegate" }
                    p {
                        "As of " time { (times::utc(clock::now())) } ". "
                        a href=(link(question, question.refresh)) { "Reload" }
                        @if question.refresh {
                            " · reloads every 10 s · " a href=(link(question, false)) { "stop" }
                        } @else {
                            " · " a href=(link(question, true)) { "reload every 10 s" }
                        }
                    }
                    nav aria-label="Parts of this page" {
                        @for (id, heading, _) in &parts { a href={ "#" (id) } { (heading) } }
                    }
                }
                main {
                    @for (id, heading, content) in &parts {
                        section id=(id) aria-labelledby={ (id) "-head" } {
                            h2 id={ (id) "-head" } { (heading) }
                            (content)
                        }
                    }
                }
                footer {
                    "rolegate " (env!("CARGO_PKG_VERSION")) ". This page changes nothing, and \
                    shows no credentials."
                }
            }
        }
    };
    page.into_string()
}

/// The address of this page, with or without automatic reloads. It has no fragment, so that a click
/// loads the page again.
fn link(question: &Question, refresh: bool) -> String {
    Question { refresh, ..question.clone() }.link()
}

/// How long ago a time since the Unix epoch was.
fn ago(time: Duration) -> String {
    format!("{} ago", rough(clock::now().saturating_sub(time)))
}

fn title(conditions: &[Condition]) -> String {
    let problems =
        conditions.iter().filter(|condition| condition.severity == Severity::Problem).count();
    match (problems, conditions.len() - problems) {
        (0, 0) => "ok · rolegate".to_owned(),
        (0, warnings) => format!("{} · rolegate", counted(warnings, "warning")),
        (problems, _) => format!("{} · rolegate", counted(problems, "problem")),
    }
}

/// A table that can be scrolled.
fn table(
    label: &str,
    class: Option<&str>,
    heads: impl IntoIterator<Item = impl Render>,
    bodies: &Markup,
) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label=(label) {
            table class=[class] {
                thead { tr { @for head in heads { th scope="col" { (head) } } } }
                (bodies)
            }
        }
    }
}

fn wrong(conditions: &[Condition]) -> Markup {
    html! {
        @if conditions.is_empty() {
            p.trouble.good { strong { "✓ Nothing is wrong" } " that this instance knows of." }
        } @else {
            ul.troubles {
                @for condition in conditions {
                    li.trouble.(condition.severity.name()) {
                        p { strong { (mark(condition.severity)) } ": " (condition.text) }
                        @if !condition.details.is_empty() {
                            ul { @for line in &condition.details { li { code { (line) } } } }
                        }
                        p.hint { (condition.hint) }
                    }
                }
            }
        }
    }
}

const fn mark(severity: Severity) -> &'static str {
    match severity {
        Severity::Problem => "✗ Problem",
        Severity::Warning => "! Warning",
    }
}

/// `1 problem`, `2 problems`.
fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

/// Names or patterns, separated by commas. Those after the first [`MAX_TEXT`] bytes are counted.
fn list(items: &[impl ToString]) -> String {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        if text.len() > MAX_TEXT {
            return format!("{text}, and {} more", items.len() - index);
        }
        let separator = if index == 0 { "" } else { ", " };
        text = text + separator + &item.to_string();
    }
    text
}

/// A labelled field of a form.
fn field(form: &str, name: &str, label: &str, value: &str, hint: &str) -> Markup {
    let id = format!("{form}-{name}");
    html! {
        div.field {
            label for=(id) { (label) }
            input type="text" id=(id) name=(name) value=(value) placeholder=(hint)
                autocomplete="off" autocapitalize="none" spellcheck="false" maxlength="1024";
        }
    }
}
