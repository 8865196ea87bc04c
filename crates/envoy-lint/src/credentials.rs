//! Credentials in logs and spans.

use document::View;

use crate::{Findings, Kind};

/// Settings with formats of logs and spans.
const LOGS: [&str; 3] = ["access_log", "custom_tags", "upstream_log"];

const HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Reports logs and spans of this connection manager that have passwords or tokens in them.
pub(crate) fn lint(manager: &View<'_>, findings: &mut Findings) {
    manager.walk(&mut |key, value| {
        let is_log = LOGS.contains(&key);
        if is_log {
            lint_log(value, findings);
        }
        !is_log
    });
}

fn lint_log(log: &View<'_>, findings: &mut Findings) {
    if log.text().is_some_and(names_credentials) {
        findings.report(log, Kind::LoggedCredentials);
    }
    log.walk(&mut |key, value| {
        // A filter of an access log says which requests are written.
        let is_written = key != "filter";
        if is_written && value.text().is_some_and(names_credentials) {
            findings.report(value, Kind::LoggedCredentials);
        }
        is_written
    });
}

/// Whether this is the name of such a header, or a format with it, such as `%REQ(AUTHORIZATION)%`.
fn names_credentials(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let reads_credentials = |part: &str| {
        let Some((operator, arguments)) = part.split_once('(') else { return false };
        let mut names =
            arguments.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        operator == "cookie" || names.any(|name| HEADERS.contains(&name))
    };
    HEADERS.contains(&&*text) || text.split('%').any(reads_credentials)
}
