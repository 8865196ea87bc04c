//! The table of metrics is the page.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use crate::admin::PageSources;
use runtime::counters::ErrorKind;
use runtime::lines::Counts;
use runtime::status::{BundleFacts, KeyFacts, Status};
use runtime::{Caches, OtlpCounts, ShadowStats};

use super::*;
use crate::checks::{AcceptError, TlsFailure, TlsTotals};

/// A server that has counted something of each kind.
struct Counted;

impl crate::admin::AuthorizationStats for Counted {
    fn decisions(&self) -> Totals {
        Totals {
            errors: ErrorKind::ALL.map(|kind| (kind, 1)).into(),
            credentials: vec![("basic", "valid", 1)],
            ..Totals::default()
        }
    }

    fn hashing(&self) -> HashingTotals {
        HashingTotals::default()
    }

    fn write_metrics(&self, page: &mut MetricsPage<'_>) {
        let wrong_protocols = WrongProtocol::ALL.map(|protocol| (protocol, 1)).into();
        let overloads = Overload::ALL.map(|overload| (overload, 1)).into();
        let refused_questions = RefusedQuestion::ALL.map(|why| (why, 1)).into();
        let accept_errors = AcceptError::ALL.map(|error| (error, 1)).into();
        let expiry = Some(Duration::from_secs(1));
        let tls = Some(TlsTotals {
            failures: TlsFailure::ALL.map(|failure| (failure, 1)).into(),
            expiry,
            ..TlsTotals::default()
        });
        connections(
            page,
            &ServerTotals {
                wrong_protocols,
                overloads,
                refused_questions,
                accept_errors,
                tls,
                ..ServerTotals::default()
            },
        );
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the page is a file")]
fn the_table_of_metrics_is_the_page() {
    let status = Status::default();
    status.update(|facts| {
        facts.policy.revision = Some(authorizer::Revision { policy: "p1".into(), keys: None });
        facts.inventory = Some(KeyFacts::default());
        facts.bundle =
            Some(BundleFacts { revision: Some(1), cached: Some(true), ..BundleFacts::default() });
        let issuers = runtime::compiled_policy::Issuers(vec!["https://id.example".into()]);
        facts
            .keys
            .insert("https://id.example/k".into(), KeyFacts { issuers, ..KeyFacts::default() });
    });
    let (decisions, logs) = (Arc::<Counts>::default(), Some(Arc::default()));
    let (status, checks) = (Arc::new(status), Arc::new(Counted));
    let shadow = Some(Arc::new(ShadowStats::new(status.clone())));
    let otlp = OtlpCounts { traces: Some(Arc::default()), logs: Some(Arc::default()) };
    let caches = Caches::default();
    let sources = PageSources { status, shadow, caches, decisions, otlp, logs, checks };
    let rendered = Arc::new(sources).render_metrics().unwrap();
    let page = PAGE.to_owned() + &rows(&rendered);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    if std::env::var_os("UPDATE_REFERENCE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        written, page,
        "docs/reference/metrics.md is not up to date: UPDATE_REFERENCE=1 make test writes it"
    );
}

const PAGE: &str = "# Metrics\n\n\
    `/metrics` of the admin listener, and of the listener of `metrics`, in OpenMetrics. Names and \
    labels are stable. [On call](../on-call.md) has the alerts. The metrics of TLS, bundles, the \
    shadow policy, fetched keys and inventories, and OTLP are there only with these. Besides, \
    there are the usual `process_…` metrics of the system.\n\n\
    | metric | labels | meaning |\n|---|---|---|\n";

/// A row for each metric of the page: its labels, with their values where these are few.
fn rows(rendered: &str) -> String {
    let mut rows = String::new();
    for family in rendered.split("# HELP ").skip(1) {
        let (help, series) = family.split_once('\n').unwrap();
        let (name, help) = help.split_once(' ').unwrap();
        if !name.starts_with("rolegate_") {
            continue;
        }
        let mut suffixes = ["_total", "_info"].into_iter();
        let suffix = suffixes.find(|suffix| series.contains(&format!("{name}{suffix}")));
        let suffix = suffix.unwrap_or_default();
        let mut labels: Vec<(&str, BTreeSet<&str>)> = Vec::new();
        for line in series.lines().filter(|line| line.contains('{')) {
            for label in line.split(['{', '}']).nth(1).unwrap().split("\",") {
                let (label, value) = label.split_once("=\"").unwrap();
                let value = value.trim_end_matches('"');
                match labels.iter_mut().find(|(name, _)| *name == label) {
                    Some((_, values)) => _ = values.insert(value),
                    None if label != "le" => labels.push((label, BTreeSet::from([value]))),
                    None => {}
                }
            }
        }
        let labels: Vec<String> = labels.iter().map(|(name, values)| label(name, values)).collect();
        let _ = writeln!(
            rows,
            "| `{name}{suffix}` | {} | {} |",
            labels.join("; "),
            help.trim_end_matches('.')
        );
    }
    rows
}

/// A label with its values, if the program has a list of them.
fn label(name: &str, values: &BTreeSet<&str>) -> String {
    let has_list = [
        "decision", "limit", "protocol", "kind", "result", "cache", "scheme", "signal", "severity",
    ];
    if name == "reason" && (values.len() > 10 || values.contains("")) {
        return "[`reason`](../operations.md#responses)".to_owned();
    }
    if !has_list.contains(&name) && name != "reason" || values.len() < 2 {
        return format!("`{name}`");
    }
    let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    format!("`{name}`: {}", values.join(", "))
}
