//! What `rolegate lint-envoy` calls unsafe or slow, in a real Envoy: `deploy/envoy/minimal.yaml` with one mistake each. The
//! command names the mistake, and requests show what it costs.

use std::path::Path;

use envoy_lint::{Kind, Severity, lint};
use testbed::client::{Connection, Version};

use super::minimal::{Running, start, unix};
use super::{ALICE, authorization};

const FILTER: &str = "- name: envoy.filters.http.ext_authz";
const OPEN: &str = "failure_mode_allow: false";
const ROUTE: &str = "- match: { prefix: \"/\" }";

/// Starts all with this mistake, which is the only one that the command finds.
async fn with_mistake(kind: Kind, from: &str, to: &str) -> Running {
    let running = start(unix, &[(from, to)]).await;
    let findings = lint(Path::new("envoy.yaml"), running.text.as_bytes(), &[]).unwrap();
    let counted = findings.iter().filter(|finding| finding.kind.severity() != Severity::Note);
    assert_eq!(counted.map(|finding| finding.kind).collect::<Vec<_>>(), [kind]);
    running
}

/// The status of a request with these headers.
async fn status(running: &Running, path: &str, headers: &[(&str, &str)]) -> u16 {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut connection = Connection::open(running.envoy.address, Version::Http1).await.unwrap();
    connection.send("GET", path, "localhost", &headers, b"").await.unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mistake_nothing_is_found_and_nobody_passes() {
    let running = start(unix, &[]).await;
    let findings = lint(Path::new("envoy.yaml"), running.text.as_bytes(), &[]).unwrap();
    assert!(findings.iter().all(|finding| finding.kind.severity() == Severity::Note), "{findings:?}");
    assert_eq!(status(&running, "/secret", &[]).await, 401);
    let upgrade = [("connection", "upgrade"), ("upgrade", "websocket")];
    assert_ne!(status(&running, "/secret", &upgrade).await, 200);
    assert_eq!(status(&running, "/people%2Fx", &[]).await, 400);
    assert_eq!(running.app.requests(), 0);
}

/// Nobody has credentials, and the request reaches the application.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_that_is_off_or_only_sometimes_on_lets_everybody_pass() {
    let filter = format!("{FILTER}\n                    disabled: true");
    let sometimes =
        format!("{OPEN}\n                      filter_enabled: {{ default_value: {{ numerator: 0 }} }}");
    let route = "- typed_per_filter_config:
                            envoy.filters.http.ext_authz:
                              \"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
                              disabled: true
                          match: { prefix: \"/\" }";
    for (kind, from, to) in [
        (Kind::DisabledFilter, FILTER, &*filter),
        (Kind::ConditionalFilter, OPEN, &*sometimes),
        (Kind::DisabledRoute, ROUTE, route),
    ] {
        let running = with_mistake(kind, from, to).await;
        assert_eq!(status(&running, "/secret", &[]).await, 200, "{kind:?}");
        assert_eq!(running.app.requests(), 1, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_fails_open_lets_everybody_pass_without_rolegate() {
    let mut running = with_mistake(Kind::FailsOpen, OPEN, "failure_mode_allow: true").await;
    assert_eq!(status(&running, "/secret", &[]).await, 401);
    running.rolegate.kill();
    assert_eq!(status(&running, "/secret", &[]).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_upgrades_passes_its_own_filters_only() {
    let upgrade = "max_request_headers_kb: 96
                upgrade_configs:
                  - upgrade_type: websocket
                    filters:
                      - name: envoy.filters.http.router
                        typed_config:
                          \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let running = with_mistake(Kind::UpgradeFilters, "max_request_headers_kb: 96", upgrade).await;
    assert_eq!(status(&running, "/secret", &[]).await, 401);
    status(&running, "/secret", &[("connection", "upgrade"), ("upgrade", "websocket")]).await;
    assert_eq!(running.app.requests(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_before_the_authorization_answers_by_itself() {
    let early = format!(
        "- name: envoy.filters.http.health_check
                    typed_config:
                      \"@type\": type.googleapis.com/envoy.extensions.filters.http.health_check.v3.HealthCheck
                      pass_through_mode: false
                      headers: [{{ name: \":path\", string_match: {{ exact: /secret }} }}]
                  {FILTER}"
    );
    let running = with_mistake(Kind::EarlyFilter, FILTER, &early).await;
    assert_eq!(status(&running, "/secret", &[]).await, 200);
    assert_eq!(status(&running, "/other", &[]).await, 401);
}

/// rolegate denies `%2F`, which another reader of the path may take for a slash. Here it never sees it.
#[tokio::test(flavor = "multi_thread")]
async fn decoded_slashes_are_not_seen() {
    let to = "merge_slashes: true\n                path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD";
    let running = with_mistake(Kind::UnescapedSlashes, "merge_slashes: true", to).await;
    assert_eq!(status(&running, "/people%2Fx", &[]).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_header_every_caller_is_anonymous() {
    let to = format!("{OPEN}\n                      allowed_headers: {{ patterns: [{{ exact: cookie }}] }}");
    let running = with_mistake(Kind::HiddenHeaders, OPEN, &to).await;
    let [(name, value)] = authorization(ALICE);
    assert_eq!(status(&running, "/people", &[(&name, &value)]).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_without_a_status_of_its_own_looks_like_a_denial() {
    let from = "status_on_error: { code: ServiceUnavailable }";
    let mut running = with_mistake(Kind::StatusOnError, from, "").await;
    running.rolegate.kill();
    assert_eq!(status(&running, "/people", &[]).await, 403);
}
