//! A request as a search cluster reads it.

use identity::UnixTime;

use super::Cluster;
use crate::request::Request;

const DESCRIBE_BODY: [&str; 2] = ["content-type", "content-encoding"];
/// The tenant of a request. If the account that the security plugin sees may use the tenant, the
/// plugin replaces the index of OpenSearch Dashboards, and checks no privilege on the other index.
/// Behind rolegate it sees the same account for all callers.
const TENANT: [&str; 2] = ["securitytenant", "security_tenant"];
/// The user to impersonate, if the account that the plugin sees may do that.
const IMPERSONATION: [&str; 1] = ["opendistro_security_impersonate_as"];

impl Cluster {
    /// A request as the cluster reads it.
    ///
    /// # Errors
    /// If it is invalid, or has a tenant or an impersonated user.
    pub fn search_request<'a>(
        &self,
        request: &Request<'a>,
        now: UnixTime,
    ) -> Result<search::Request<'a>, search::Problem> {
        if has_header(request, &TENANT) {
            return Err(search::Problem::Unsupported(
                "a tenant (`securitytenant`) other than the global one, whose header is empty",
            ));
        }
        if has_header(request, &IMPERSONATION) {
            return Err(search::Problem::Unsupported("a request in the name of another user"));
        }
        let not_utf8 = search::Problem::Invalid("its path is not UTF-8");
        Ok(search::Request {
            method: std::str::from_utf8(request.method).map_err(|_| not_utf8)?,
            target: std::str::from_utf8(request.path).map_err(|_| not_utf8)?,
            content_type: header(request, "content-type")?,
            content_encoding: header(request, "content-encoding")?,
            scrolls_are_checked: self.compiled.scrolls_are_checked,
            body: request.body,
            now: search::Request::time(now),
        })
    }
}

/// Whether the decision about a request to a search cluster may depend on a header of this name.
#[must_use]
pub fn reads_header(name: &[u8]) -> bool {
    let mut names = DESCRIBE_BODY.iter().chain(&TENANT).chain(&IMPERSONATION);
    names.any(|header| name.eq_ignore_ascii_case(header.as_bytes()))
}

/// Whether the request has any of these headers with a value.
fn has_header(request: &Request<'_>, names: &[&str]) -> bool {
    let mut lines = request.headers.iter().filter(|line| !line.value.is_empty());
    lines.any(|line| names.iter().any(|name| line.name.eq_ignore_ascii_case(name.as_bytes())))
}

/// The value of a header that may occur once.
fn header<'a>(request: &Request<'a>, name: &str) -> Result<Option<&'a str>, search::Problem> {
    let mut lines =
        request.headers.iter().filter(|line| line.name.eq_ignore_ascii_case(name.as_bytes()));
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(search::Problem::Invalid("it has two headers that describe its body"));
    }
    let not_utf8 = search::Problem::Invalid("a header that describes its body is not UTF-8");
    std::str::from_utf8(line.value).map(Some).map_err(|_| not_utf8)
}

/// The path without its query.
pub(super) fn path_of<'a>(request: &Request<'a>) -> &'a [u8] {
    request.path.split(|byte| *byte == b'?').next().unwrap_or_default()
}
