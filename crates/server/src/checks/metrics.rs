//! The counters of the server that answers checks, and the metrics and failures that the admin
//! pages show of them. The counters of its decisions are in [`runtime::counters`].
//! `docs/reference/metrics.md` lists all metrics.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use runtime::counters::{Counter, ThreadCounters, Totals};
use runtime::hashing::HashingTotals;

use super::context::Shared;
use super::notices::{AcceptError, Overload, RefusedQuestion, WrongProtocol};
use super::tls::TlsTotals;
use crate::admin::{FailureCount, MetricsPage, whole};

/// The counters of a worker's connections. Only its thread writes them. Aligned, so that two
/// workers never share a cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct ConnectionCounters {
    /// Checks that wait now. [`ServerTotals::in_flight`] says for what.
    pub(crate) in_flight: Counter,
    /// Connections that are open now.
    pub(crate) connections: Counter,
    /// This and the following count connections since the start.
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
    /// Connections closed to make room for others while idle, or because a request head did not
    /// end in time.
    pub connections_evicted: u64,
    /// New connections closed at once, because the limit was reached and no connection was idle.
    pub connections_rejected: u64,
    /// Failed accepts by reason. All reasons are listed, also those with a count of 0.
    pub accept_errors: Vec<(AcceptError, u64)>,
    /// Connections and requests in another protocol than ext_authz over gRPC, by protocol. All
    /// protocols are listed, also those with a count of 0.
    pub wrong_protocols: Vec<(WrongProtocol, u64)>,
    /// Checks denied because too many others waited, by the limit that was reached. All limits are
    /// listed, also those with a count of 0.
    pub overloads: Vec<(Overload, u64)>,
    /// Questions over HTTP that were not decided, by reason. All reasons are listed, also those
    /// with a count of 0.
    pub refused_questions: Vec<(RefusedQuestion, u64)>,
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
            refused_questions: shared.refused_questions.counts(),
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

fn failure_counts(totals: &ServerTotals) -> [FailureCount; 6] {
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
            what: "Questions over HTTP that were not decided",
            hint: "See `http-trusted` and `http-profile`: the log says what is wrong.",
            count: sum(&totals.refused_questions),
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

/// Writes the metrics of waiting checks, connections, refused requests and TLS.
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
    let help = "Questions over HTTP that were not decided";
    let refused = totals.refused_questions.iter().map(|(why, number)| (why.name(), *number));
    page.counters("rolegate_http_refused", help, "reason", refused);
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
mod tests;
