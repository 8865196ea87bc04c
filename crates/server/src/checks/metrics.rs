//! The counters of the gRPC server beside those of the decisions ([`runtime::counters`]), and its
//! figures on the admin pages. `docs/reference/metrics.md` lists all metrics.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use runtime::counters::{Counter, ThreadCounters, Totals};
use runtime::hashing::HashingTotals;

use super::context::Shared;
use super::notices::{AcceptError, Overload, WrongProtocol};
use super::tls::TlsTotals;
use crate::admin::{FailureCount, MetricsPage, whole};

/// The counters of a worker's connections. Only its thread writes them. Aligned, so that two
/// workers never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ConnectionCounters {
    pub(crate) in_flight: Counter,
    pub(crate) connections: Counter,
    pub(crate) accepted: Counter,
    pub(crate) evicted: Counter,
    pub(crate) rejected: Counter,
}

/// The counters of a server, summed over all workers.
#[derive(Clone, Debug, Default)]
pub struct ServerTotals {
    /// The counters of the decisions.
    pub checks: Totals,
    /// Checks that wait for the rest of their message, or until their credentials are verified.
    pub in_flight: u64,
    /// Open connections.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Idle connections closed to make room for others.
    pub connections_evicted: u64,
    /// New connections closed at once, because the limit was reached and no connection was idle.
    pub connections_rejected: u64,
    /// Failed accepts, by reason, also if zero.
    pub accept_errors: Vec<(AcceptError, u64)>,
    /// Connections and requests in another protocol than ext_authz over gRPC, by protocol, also if
    /// zero.
    pub wrong_protocols: Vec<(WrongProtocol, u64)>,
    /// Checks denied because too many others waited, by the limit, also if zero.
    pub overloads: Vec<(Overload, u64)>,
    /// Counters of TLS, if it is on.
    pub tls: Option<TlsTotals>,
    /// Counters of password hashing.
    pub hashing: HashingTotals,
}

type WorkerCounters = (Arc<ThreadCounters>, Arc<ConnectionCounters>);

/// The counters of a server. They can be read while it drains and after it has stopped, too.
#[derive(Clone, Debug)]
pub struct Counters {
    workers: Vec<WorkerCounters>,
    shared: Arc<Shared>,
}

impl Counters {
    pub(crate) fn new(workers: Vec<WorkerCounters>, shared: Arc<Shared>) -> Self {
        Self { workers, shared }
    }

    /// The current counters, summed over all workers.
    #[must_use]
    pub fn totals(&self) -> ServerTotals {
        let shared = &self.shared;
        let mut totals = ServerTotals {
            checks: Totals::sum(self.workers.iter().map(|(checks, _)| &**checks)),
            accept_errors: shared.accept_errors.counts(),
            hashing: shared.hashing.totals(),
            wrong_protocols: shared.wrong_protocols.counts(),
            overloads: shared.overloads.counts(),
            tls: shared.options.tls.as_ref().map(|tls| tls.totals()),
            ..ServerTotals::default()
        };
        self.workers.iter().for_each(|(_, connections)| totals.add(connections));
        totals
    }
}

impl ServerTotals {
    /// Adds the counters of a worker.
    pub(crate) fn add(&mut self, worker: &ConnectionCounters) {
        self.in_flight += worker.in_flight.read();
        self.connections += worker.connections.read();
        self.connections_accepted += worker.accepted.read();
        self.connections_evicted += worker.evicted.read();
        self.connections_rejected += worker.rejected.read();
    }
}

/// The counters of the gRPC server; none before it runs. Kept until the process ends, so that the
/// last requests are counted, too.
#[derive(Debug, Default)]
pub struct OnceCounters(OnceLock<Counters>);

impl OnceCounters {
    /// Sets the counters of the server, once.
    pub fn set(&self, counters: Counters) {
        let _ = self.0.set(counters);
    }

    fn totals(&self) -> ServerTotals {
        self.0.get().map(Counters::totals).unwrap_or_default()
    }
}

impl crate::admin::AuthorizationStats for OnceCounters {
    fn decisions(&self) -> Totals {
        self.totals().checks
    }

    fn hashing(&self) -> HashingTotals {
        self.totals().hashing
    }

    fn failure_counts(&self) -> Vec<FailureCount> {
        failure_counts(&self.totals()).into()
    }

    fn certificate_expiry(&self) -> Option<Duration> {
        self.totals().tls?.expiry
    }

    fn write_metrics(&self, page: &mut MetricsPage<'_>) {
        connections(page, &self.totals());
    }
}

fn failure_counts(totals: &ServerTotals) -> [FailureCount; 5] {
    fn sum<K>(counts: &[(K, u64)]) -> u64 {
        counts.iter().map(|(_, count)| count).sum()
    }
    let tls = totals.tls.as_ref();
    [
        FailureCount {
            what: "Connections or requests that are not ext_authz over gRPC",
            hint: "The peer speaks another protocol, so it gets no decision: the log says what to \
                   change in Envoy.",
            count: sum(&totals.wrong_protocols),
        },
        FailureCount {
            what: "Connections closed at once, because there were too many and none was idle",
            hint: "See `max-connections`, and who connects.",
            count: totals.connections_rejected,
        },
        FailureCount {
            what: "Failed accepts",
            hint: "Connections wait: the system lacks file descriptors or memory, or the log has \
                   another error.",
            count: totals
                .accept_errors
                .iter()
                // A connection that failed before it was accepted affects no other.
                .filter(|(kind, _)| *kind != AcceptError::Connection)
                .map(|(_, count)| count)
                .sum(),
        },
        FailureCount {
            what: "Failed TLS handshakes",
            hint: "The metric `rolegate_tls_handshakes_failed_total` has the reasons.",
            count: tls.map_or(0, |tls| sum(&tls.failures)),
        },
        FailureCount {
            what: "Changes of the TLS files that could not be used",
            hint: "The last good certificate and key stay in use: the log says what is wrong.",
            count: tls.map_or(0, |tls| tls.failed_reloads),
        },
    ]
}

fn connections(page: &mut MetricsPage<'_>, totals: &ServerTotals) {
    let help = "Checks that wait for the rest of their message or for a verification";
    page.gauge("rolegate_checks_waiting", help, whole(totals.in_flight));
    let help = "Checks denied because too many others waited, by the limit that was reached";
    let overloads = totals.overloads.iter().map(|(limit, number)| (limit.name(), *number));
    page.counters("rolegate_checks_overloaded", help, "limit", overloads);
    page.gauge("rolegate_connections", "Open connections", whole(totals.connections));
    let accepted = totals.connections_accepted;
    page.counter("rolegate_connections_accepted", "Connections accepted", accepted);
    let help = "Idle connections closed to make room for others";
    page.counter("rolegate_connections_evicted", help, totals.connections_evicted);
    let help = "Connections closed at once as there were too many and none was idle";
    page.counter("rolegate_connections_rejected", help, totals.connections_rejected);
    let errors = totals.accept_errors.iter().map(|(error, number)| (error.name(), *number));
    page.counters("rolegate_accept_errors", "Failed accepts", "reason", errors);
    let help = "Connections and requests that are not ext_authz over gRPC";
    let wrong = totals.wrong_protocols.iter().map(|(protocol, number)| (protocol.name(), *number));
    page.counters("rolegate_wrong_protocol", help, "protocol", wrong);
    let Some(tls) = &totals.tls else { return };
    let help = "Failed TLS handshakes, and open connections whose client is not accepted any more";
    let failures = tls.failures.iter().map(|(failure, number)| (failure.name(), *number));
    page.counters("rolegate_tls_handshakes_failed", help, "reason", failures);
    if let Some(expiry) = tls.expiry {
        let help = "When the certificate, or one of its chain, is not valid any more";
        page.gauge("rolegate_tls_certificate_expiry_timestamp_seconds", help, expiry.as_secs_f64());
    }
    let reloads = [("ok", tls.reloads), ("failed", tls.failed_reloads)];
    page.counters("rolegate_tls_reloads", "Changed TLS files", "result", reloads);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fmt::Write as _;
    use std::path::Path;

    use crate::admin::PageSources;
    use runtime::counters::ErrorKind;
    use runtime::lines::Counts;
    use runtime::status::{BundleFacts, KeyFacts, Status};
    use runtime::{Caches, OtlpCounts, ShadowStats};

    use super::*;
    use crate::checks::{AcceptError, Overload, TlsFailure, TlsTotals, WrongProtocol};

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
            facts.bundle = Some(BundleFacts {
                revision: Some(1),
                cached: Some(true),
                ..BundleFacts::default()
            });
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
            let labels: Vec<String> =
                labels.iter().map(|(name, values)| label(name, values)).collect();
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
            "decision", "limit", "protocol", "kind", "result", "cache", "scheme", "signal",
            "severity",
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
}
