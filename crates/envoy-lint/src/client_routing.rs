//! What lets a client name the cluster or the host that gets its request.

use policy::document::View;

use crate::{Findings, Kind};

/// Reports what says which header, or which format, gives the cluster or host.
pub(crate) fn by_header(value: &View<'_>, findings: &mut Findings) {
    let name = value.text().unwrap_or_default();
    by(&format!("`{name}`"), value, findings);
}

/// Reports what gives the cluster or host by something that the client sends.
pub(crate) fn by(what: &str, value: &View<'_>, findings: &mut Findings) {
    let message = format!(
        "a client names by {what} which cluster or host gets the request, and the policy decides by the host that \
         it was sent to"
    );
    let fix = "write `cluster` and `host_rewrite_literal`, or let the policy set or remove the header and accept this";
    findings.add(value, Kind::ClientRouting, message, fix);
}
