//! The console: one page for the person on call, rendered by the server and without a script.
//!
//! [`Console`] answers the requests below `/console` that the admin listener passes on. Pages are
//! rendered on a thread of low priority, not on that of the admin listener, which also answers
//! probes, nor on a worker thread. Only counters and status are read on the thread of the admin
//! listener: worker threads take the same locks, and a thread of low priority may lose the
//! processor while it holds one.
//!
//! * `site`: which requests are answered, with which headers, and the bounded queue to the thread
//!   that renders;
//! * `history`: samples of the counters, for rates, percentiles and charts of the last minutes;
//! * `problems`: what is wrong now, the worst first: the conditions of `runtime`, and what the
//!   counters say;
//! * `difference`: what the shadow policy would change, computed once for each pair of policies;
//! * `holders`: who has a role, with a bound on the work;
//! * `question`: what a submitted form asks for: to list some denials, to explain a request, or to
//!   list rules;
//! * `page`: the HTML.
//!
//! The console only reads. It shows no credentials, no password hashes and no keys. Of denials it
//! shows what the decision log shows.

#![deny(clippy::wildcard_enum_match_arm)]

mod difference;
mod history;
mod holders;
mod page;
mod problems;
mod question;
mod site;
mod times;

use std::sync::Arc;

use runtime::{ActivePolicy, RecentDenials};
use server::admin::Metrics;

pub use site::Console;

/// What the console shows.
#[derive(Debug)]
pub struct Sources {
    /// The status and the counters.
    pub metrics: Arc<Metrics>,
    /// The active policy.
    pub policy: ActivePolicy,
    /// The shadow policy, if there is one.
    pub shadow: Option<ActivePolicy>,
    /// The last denials.
    pub denials: Option<Arc<RecentDenials>>,
    /// Names in the `Host` header that are answered besides `localhost` and loopback addresses.
    pub hosts: Vec<String>,
    /// Where rolegate runs.
    pub runs_in: RunsIn,
}

/// Where rolegate runs: what happens to a request without a decision, and what helps, depends on
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsIn {
    /// In a process of its own, which Envoy calls over ext_authz.
    OwnProcess,
    /// Inside Envoy.
    Envoy,
}
