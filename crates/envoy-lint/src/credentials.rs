//! Credentials in logs and spans.

use document::View;

use crate::{Findings, Kind};

/// Settings that say what is written about a request.
const LOGS: [&str; 3] = ["access_log", "custom_tags", "upstream_log"];

const HEADERS: [&str; 3] = ["authorization", "cookie", "proxy-authorization"];

/// Reports logs and spans of this connection manager that have passwords or tokens in them.
pub(crate) fn lint(manager: &View<'_>, findings: &mut Findings) {
    search(manager, false, findings);
}

fn search(view: &View<'_>, is_log: bool, findings: &mut Findings) {
    if is_log && view.text().is_some_and(names_credentials) {
        findings.report(view, Kind::LoggedCredentials);
    }
    for (key, value) in view.entries() {
        // A filter of an access log says which requests are written.
        if !(is_log && key == "filter") {
            search(&value, is_log || LOGS.contains(&&*key), findings);
        }
    }
    view.items().iter().for_each(|item| search(item, is_log, findings));
}

/// Whether this is the name of such a header, or a format with it, such as `%REQ(AUTHORIZATION)%`.
fn names_credentials(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    is_header(&text) || text.split('%').any(reads_credentials)
}

/// Whether this part of a format reads such a header.
fn reads_credentials(part: &str) -> bool {
    let Some((operator, arguments)) = part.split_once('(') else { return false };
    let mut names = arguments.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
    operator == "cookie" || names.any(is_header)
}

fn is_header(name: &str) -> bool {
    HEADERS.contains(&name)
}
