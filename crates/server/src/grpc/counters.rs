//! The counters of the server beside those of the decisions ([`runtime::counters`]).

use runtime::counters::{Counter, Totals};
use runtime::hashing::HashingTotals;

use super::accept_error::AcceptError;
use super::overload::Overload;
use super::tls::TlsTotals;
use super::wrong_protocol::WrongProtocol;

/// The counters of one worker's connections. Only its thread writes them. Aligned, so that two workers never share a
/// cache line.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ConnectionCounters {
    pub(super) in_flight: Counter,
    pub(super) connections: Counter,
    pub(super) accepted: Counter,
    pub(super) evicted: Counter,
    pub(super) rejected: Counter,
}

/// The counters of a server, summed over all workers at one moment.
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
    /// Failed accepts, by why. Each is listed.
    pub accept_errors: Vec<(AcceptError, u64)>,
    /// Connections and requests in another protocol than ext_authz over gRPC, by what it was. Each is listed.
    pub wrong_protocols: Vec<(WrongProtocol, u64)>,
    /// Checks denied because too many others waited, by the limit that was reached. Each is listed.
    pub overloads: Vec<(Overload, u64)>,
    /// Counters of TLS, if it is on.
    pub tls: Option<TlsTotals>,
    /// Counters of password hashing.
    pub hashing: HashingTotals,
}

impl ServerTotals {
    /// Adds the counters of one worker.
    pub(super) fn add(&mut self, worker: &ConnectionCounters) {
        self.in_flight += worker.in_flight.read();
        self.connections += worker.connections.read();
        self.connections_accepted += worker.accepted.read();
        self.connections_evicted += worker.evicted.read();
        self.connections_rejected += worker.rejected.read();
    }
}
