//! Credentials in logs and spans.

use document::View;

use crate::{Findings, Kind};

/// Settings with formats of logs and spans.
const LOGS: [&str; 3] = ["access_log", "custom_tags", "upstream_log"];

const HEADERS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// Reports logs and spans of this connection manager that contain passwords, tokens or API keys.
pub(crate) fn lint(manager: &View<'_>, findings: &mut Findings) {
    manager.walk(&mut |key, value| {
        let is_log = LOGS.contains(&key);
        if is_log {
            lint_format(value, findings);
            value.walk(&mut |key, value| {
                // A filter selects the requests to log, and writes nothing.
                let is_written = key != "filter";
                if is_written {
                    lint_format(value, findings);
                }
                is_written
            });
        }
        !is_log
    });
}

/// Reports the name of a header with credentials, or a format with it, such as
/// `%REQ(AUTHORIZATION)%`.
fn lint_format(format: &View<'_>, findings: &mut Findings) {
    let text = format.text().unwrap_or_default().to_ascii_lowercase();
    let reads_credentials = |part: &str| {
        let Some((operator, arguments)) = part.split_once('(') else { return false };
        let mut names =
            arguments.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        operator == "cookie" || names.any(|name| HEADERS.contains(&name))
    };
    if HEADERS.contains(&&*text) || text.split('%').any(reads_credentials) {
        findings.add_kind(format, Kind::LoggedCredentials);
    }
}
