//! The console: a page for the person on call, rendered by the server and without a script.
//!
//! [`Console`] answers the requests below `/console` that the admin listener passes on. Pages are
//! rendered on a thread of low priority, not on that of the admin listener, which also answers
//! probes, nor on a worker thread. Only counters and status are read on the thread of the admin
//! listener: worker threads take the same locks, and a thread of low priority may lose the
//! processor while it holds a lock.
//!
//! * `site`: the requests that are answered, the headers of the answers, and the bounded queue to
//!   the thread that renders;
//! * `history`: samples of the counters, for rates, percentiles and charts of the last minutes;
//! * `problems`: everything that is wrong now, the worst first: the conditions of `runtime`, and
//!   those that follow from the counters;
//! * `holders`: who has a role;
//! * `question`: the fields of the forms that list denials, explain a request, and list rules;
//! * `page`: the HTML.
//!
//! The console only reads. It shows no credentials, no password hashes and no keys. Denials are
//! masked as in the decision log.

#![deny(clippy::wildcard_enum_match_arm)]

mod history;
mod holders;
mod page;
mod problems;
mod question;
mod site;
mod times;

use std::sync::Arc;

use runtime::{ActivePolicy, RecentDenials};
use server::admin::PageSources;

pub use site::Console;

/// The sources of everything that the console shows.
#[derive(Debug)]
pub struct Sources {
    /// The status and the counters.
    pub pages: Arc<PageSources>,
    /// The active policy.
    pub policy: ActivePolicy,
    /// The shadow policy, if any.
    pub shadow: Option<ActivePolicy>,
    /// The last denials.
    pub denials: Option<Arc<RecentDenials>>,
    /// Names in the `Host` header that are answered besides `localhost` and loopback addresses.
    pub hosts: Vec<String>,
    /// Where rolegate runs.
    pub runs_in: RunsIn,
}

/// Where rolegate runs. What happens to a request without a decision depends on it, and so do the
/// hints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsIn {
    /// In a process of its own, which Envoy calls over ext_authz.
    OwnProcess,
    /// Inside Envoy.
    Envoy,
}
