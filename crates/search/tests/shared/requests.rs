//! Requests, roles and subjects for several tests.
#![expect(clippy::expect_used, reason = "a failed set-up is a failed test")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use document::MapFiles;
use search::explain::requirement;
use search::{Need, Privileges, Request, RequestBody, SecurityConfig, Steps, Subject};

/// A request at the same time as every other: noon of 1 January 2026.
pub(crate) fn request<'a>(method: &'a str, target: &'a str, body: &'a str) -> Request<'a> {
    Request {
        method,
        target,
        content_type: Some("application/json"),
        content_encoding: None,
        scrolls_are_checked: false,
        body: RequestBody::Whole(body.as_bytes()),
        now: Request::time(Duration::from_secs(1_767_268_800)),
    }
}

/// A configuration with these roles, in YAML.
pub(crate) fn config(roles: &str) -> Arc<SecurityConfig> {
    let roles = format!("_meta: {{ type: roles, config_version: 2 }}\n{roles}");
    let files = MapFiles::new("os/roles.yml", roles);
    Arc::new(SecurityConfig::load(&files, Path::new("os")).expect("valid roles").config)
}

/// The user `ann` with these roles.
pub(crate) fn subject(roles: &[&str]) -> Subject {
    let roles = roles.iter().map(ToString::to_string).collect();
    Subject { name: "ann".to_owned(), roles, ..Subject::default() }
}

/// Whether the roles of a subject are those that its request requires.
pub(crate) fn meets_requirement(
    privileges: &Privileges,
    subject: &Subject,
    needs: &[Need<'_>],
) -> bool {
    let requirement =
        requirement(privileges, (needs, false), |_| true, &mut Steps::new(usize::MAX));
    let roles = privileges.config().roles_of(subject);
    let variables = subject.variables(&roles, privileges.evaluation());
    requirement.expect("enough steps").is_met_by(&roles, &variables)
}
