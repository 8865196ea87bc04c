//! What `rolegate lint-envoy` calls unsafe, broken or slow, in a real Envoy:
//! `deploy/envoy/minimal.yaml` with one mistake each. The command names the mistake, and requests
//! show what it costs.

use std::path::Path;

use document::{FindingKind as _, FindingSeverity};
use envoy_lint::{Kind, lint};
use rcgen::{CertificateParams, KeyPair};
use testbed::client::{Answer, Connection, Version};

use super::minimal::{HTTP2, Running, eventually, start, start_policy, start_with, tcp, unix};
use super::{ALICE, authorization};

const CLUSTERS: &str = "  clusters:\n    - name: application";
const FILTER: &str = "- name: envoy.filters.http.ext_authz";
const OPEN: &str = "failure_mode_allow: false";
const ROUTE: &str = "- match: { prefix: \"/\" }";

/// Starts all with this mistake, which is the only one that the command finds.
async fn with_mistake(kind: Kind, from: &str, to: &str) -> Running {
    let running = start(unix, &[(from, to)]).await;
    assert_eq!(kinds(&running.text), [kind]);
    running
}

/// What is found that is more than a note.
fn kinds(text: &str) -> Vec<Kind> {
    let findings = lint(Path::new("envoy.yaml"), text.as_bytes(), &[]).unwrap();
    let counted =
        findings.iter().filter(|finding| finding.kind.severity() != FindingSeverity::Note);
    counted.map(|finding| finding.kind).collect()
}

/// The status of a request with these headers.
async fn status(running: &Running, path: &str, headers: &[(&str, &str)]) -> u16 {
    answer(running, path, headers).await.status
}

async fn answer(running: &Running, path: &str, headers: &[(&str, &str)]) -> Answer {
    let headers: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut connection = Connection::open(running.envoy.address, Version::Http1).await.unwrap();
    connection.send("GET", path, "localhost", &headers, b"").await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_mistake_nothing_is_found_and_nobody_passes() {
    let running = start(unix, &[]).await;
    let findings = lint(Path::new("envoy.yaml"), running.text.as_bytes(), &[]).unwrap();
    assert!(
        findings.iter().all(|finding| finding.kind.severity() == FindingSeverity::Note),
        "{findings:?}"
    );
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
    let sometimes = format!(
        "{OPEN}\n                      filter_enabled: {{ default_value: {{ numerator: 0 }} }}"
    );
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
    let upgrade = "upgrade_configs:
                  - upgrade_type: websocket
                    filters:
                      - name: envoy.filters.http.router
                        typed_config:
                          \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let running = with_mistake(
        Kind::UpgradeFilters,
        "upgrade_configs: [{ upgrade_type: websocket }]",
        upgrade,
    )
    .await;
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

/// rolegate denies `%2F`, which another reader of the path may take for a slash. Here it never sees
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn decoded_slashes_are_not_seen() {
    let to = "merge_slashes: true\n                path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD";
    let running = with_mistake(Kind::UnescapedSlashes, "merge_slashes: true", to).await;
    assert_eq!(status(&running, "/people%2Fx", &[]).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_header_every_caller_is_anonymous() {
    let to = format!(
        "{OPEN}\n                      allowed_headers: {{ patterns: [{{ exact: cookie }}] }}"
    );
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

/// The policy sets `x-user` and `x-roles`.
#[tokio::test(flavor = "multi_thread")]
async fn headers_that_rolegate_may_not_change_are_those_of_the_client() {
    let [(name, value)] = authorization(ALICE);
    let forged = [(&*name, &*value), ("x-user", "root")];
    let user = async |running: &Running| {
        answer(running, "/people", &forged).await.json()["headers"]["x-user"].clone()
    };
    assert_eq!(user(&start(unix, &[]).await).await, serde_json::json!(["alice"]));
    for rules in ["disallow_all: true", "disallow_expression: { regex: x-user }"] {
        let to =
            format!("{OPEN}\n                      decoder_header_mutation_rules: {{ {rules} }}");
        let running = with_mistake(Kind::IgnoredMutations, OPEN, &to).await;
        assert_eq!(user(&running).await, serde_json::json!(["root"]), "{rules}");
    }
    let rules = "decoder_header_mutation_rules: { disallow_all: true, disallow_is_error: true }";
    let to = format!("{OPEN}\n                      {rules}");
    let running = with_mistake(Kind::RejectedMutations, OPEN, &to).await;
    assert_eq!(status(&running, "/people", &forged).await, 500);
    assert_eq!(running.app.requests(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn decisions_of_a_shadow_are_ignored() {
    let to = format!("{OPEN}\n                      shadow_mode: true");
    let running = with_mistake(Kind::ShadowMode, OPEN, &to).await;
    assert_eq!(status(&running, "/secret", &[]).await, 200);
}

/// Whoever answers gets the password of Alice, and may allow everything. Here an impostor with a
/// certificate of its own does.
#[tokio::test(flavor = "multi_thread")]
async fn without_verification_anybody_can_answer_for_rolegate() {
    const NAME: &str = "match_typed_subject_alt_names: [{ san_type: DNS, matcher: { exact: rolegate.example.com } }]";
    for (context, kind, expected) in [
        (String::new(), Some(Kind::UnverifiedConnection), 200),
        ("trusted_ca: { filename: CA }".to_owned(), Some(Kind::UnverifiedConnection), 200),
        (
            format!(
                "trusted_ca: {{ filename: CA }}, {NAME}, trust_chain_verification: ACCEPT_UNTRUSTED"
            ),
            Some(Kind::UnverifiedConnection),
            200,
        ),
        (format!("trusted_ca: {{ filename: CA }}, {NAME}"), None, 503),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (certificate, key) = (path("impostor.pem"), path("impostor.key"));
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["impostor.example.com".to_owned()]).unwrap();
        std::fs::write(&certificate, params.self_signed(&pair).unwrap().pem()).unwrap();
        std::fs::write(&key, pair.serialize_pem()).unwrap();
        let cluster = format!(
            "{HTTP2}
      transport_socket:
        name: tls
        typed_config:
          \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
          common_tls_context: {{ validation_context: {{ {} }} }}",
            context.replace("CA", &certificate)
        );
        let more = ["--tls-certificate", &certificate, "--tls-key", &key];
        let running = start_with(folder, tcp, &more, &[(HTTP2, &cluster)]).await;
        let [(name, value)] = authorization(ALICE);
        assert_eq!(status(&running, "/people", &[(&name, &value)]).await, expected, "{context}");
        // Over a network, of which the tests have none.
        let (before, after) = running.text.rsplit_once("address: 127.0.0.1").unwrap();
        let remote = format!("{before}address: rolegate.example.com{after}");
        assert_eq!(kinds(&remote), Vec::from_iter(kind), "{context}");
    }
}

/// A filter behind the authorization.
fn behind(kind: &str, config: &str) -> String {
    format!(
        "- name: behind
                    typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.{kind}, {config} }}
                  {ROUTER}"
    )
}

const ROUTER: &str = "- name: envoy.filters.http.router";

/// Nobody may delete anything.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_behind_the_authorization_makes_another_request() {
    let tools =
        "tool_config: { tools: [{ name: delete_user, http_rule: { delete: \"/users/{id}\" } }] }";
    let bridge = behind("mcp_json_rest_bridge.v3.McpJsonRestBridge", tools);
    let policy =
        "version: 1\nroles:\n  anyone: { allow: [\"POST /mcp\"], deny: [\"* /users/**\"] }\n";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, policy).unwrap();
    let running = start_policy(folder, &file, unix, &[], &[(ROUTER, &bridge)]).await;
    assert_eq!(kinds(&running.text), [Kind::OtherRequest]);
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_user","arguments":{"id":"1"}}}"#;
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let mut connection = Connection::open(running.envoy.address, Version::Http1).await.unwrap();
    let answer = connection.send("POST", "/mcp", "localhost", &headers, call).await.unwrap().text();
    assert!(answer.contains("DELETE") && answer.contains("/users/1"), "{answer}");
    assert_eq!(status(&running, "/users/1", &[]).await, 401);
}

/// The policy decides by the host, and the client names the address.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_chooses_an_address_by_state_of_a_filter() {
    let state = "on_request_headers: [{ object_key: envoy.network.transport_socket.original_dst_address, \
                 format_string: { text_format_source: { inline_string: \"%REQ(x-address)%\" } } }]";
    let state = behind("set_filter_state.v3.Config", state);
    let clusters = "  clusters:
    - name: original
      type: ORIGINAL_DST
      lb_policy: CLUSTER_PROVIDED
    - name: application";
    let route =
        "- match: { prefix: \"/\" }\n                          route: { cluster: original }";
    let replaced = [(ROUTER, &*state), (CLUSTERS, clusters), (ROUTES, route)];
    let running = start(unix, &replaced).await;
    assert_eq!(kinds(&running.text), [Kind::ClientRouting]);
    let [(name, value)] = authorization(ALICE);
    let address = running.app.address.to_string();
    assert_eq!(status(&running, "/people", &[(&name, &value), ("x-address", &address)]).await, 200);
    assert_eq!(running.app.requests(), 1);
}

/// rolegate would answer `%2F` with 400.
#[tokio::test(flavor = "multi_thread")]
async fn slashes_that_a_runtime_decodes_are_not_seen() {
    let runtime = "layered_runtime: { layers: [{ name: a, static_layer: { http_connection_manager.path_with_escaped_slashes_action: 4 } }] }
admin:";
    let running = with_mistake(Kind::UnescapedSlashes, "admin:", runtime).await;
    assert_eq!(status(&running, "/people%2Fx", &[]).await, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_format_writes_passwords_to_the_access_log() {
    let running =
        with_mistake(Kind::LoggedCredentials, "%REQ(X-REQUEST-ID)%", "%REQ(AUTHORIZATION)%").await;
    let [(name, value)] = authorization(ALICE);
    assert_eq!(status(&running, "/people", &[(&name, &value)]).await, 200);
    eventually(&value, || running.envoy.log()).await;
}

/// A preflight has no credentials.
#[tokio::test(flavor = "multi_thread")]
async fn preflights_need_a_filter_before_the_authorization() {
    let cors = "- name: envoy.filters.http.cors
                    typed_config: { \"@type\": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors }";
    let route = format!(
        "- typed_per_filter_config:
                            envoy.filters.http.cors:
                              \"@type\": type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy
                              allow_origin_string_match: [{{ exact: \"https://example.com\" }}]
                          {}",
        ROUTE.trim_start_matches("- ")
    );
    for (from, expected, kind) in
        [(FILTER, 200, None), (ROUTER, 401, Some(Kind::RefusedPreflights))]
    {
        let filters = format!("{cors}\n                  {from}");
        let running = start(unix, &[(from, &filters), (ROUTE, &route)]).await;
        assert_eq!(kinds(&running.text), Vec::from_iter(kind), "{from}");
        let headers = [("origin", "https://example.com"), ("access-control-request-method", "GET")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut connection = Connection::open(running.envoy.address, Version::Http1).await.unwrap();
        let answer =
            connection.send("OPTIONS", "/people", "localhost", &headers, b"").await.unwrap();
        assert_eq!(answer.status, expected, "{from}");
    }
}

/// A second listener with this network filter.
fn second_listener(filter: &str) -> String {
    format!(
        "    - name: internal
      address: {{ socket_address: {{ address: 127.0.0.1, port_value: 0 }} }}
      filter_chains:
        - filters:
            - {filter}
{CLUSTERS}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_forwards_connections_lets_everybody_pass() {
    let tcp = "name: envoy.filters.network.tcp_proxy
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
                stat_prefix: internal
                cluster: application";
    let http = "name: envoy.filters.network.http_connection_manager
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: internal
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: { \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
                route_config:
                  virtual_hosts:
                    - { name: all, domains: [\"*\"], routes: [{ match: { prefix: / }, route: { cluster_header: x-cluster } }] }";
    for filter in [tcp, http] {
        let mut running =
            with_mistake(Kind::BypassListener, CLUSTERS, &second_listener(filter)).await;
        assert_eq!(status(&running, "/secret", &[]).await, 401);
        running.envoy.address = running.envoy.addresses[1];
        assert_eq!(
            status(&running, "/secret", &[("x-cluster", "application")]).await,
            200,
            "{filter}"
        );
    }
}

const ROUTES: &str =
    "- match: { prefix: \"/\" }\n                          route: { cluster: application }";

/// Starts all with this policy, and with this route as the only one.
async fn with_route(policy: &str, matching: &str, more: &str) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, policy).unwrap();
    let route = format!(
        "- match: {{ {matching} }}\n                          route: {{ cluster: application{more} }}"
    );
    start_policy(folder, &file, unix, &[], &[(ROUTES, &route)]).await
}

/// Nobody may see what is below `/internal`, neither under the paths of clients nor under that of
/// the application.
#[tokio::test(flavor = "multi_thread")]
async fn rules_are_compared_with_the_path_before_a_route_rewrites_it() {
    let policy = "version: 1
roles:
  anyone: { allow: [\"* /**\"], deny: [\"* /internal/**\", \"* /api/internal/**\"] }
";
    let any_case = "prefix: /api/, case_sensitive: false";
    let regex = ", regex_rewrite: { pattern: { regex: \"^/v[0-9]+/\" }, substitution: / }";
    for (kind, matching, more, path, arrives) in [
        (
            Kind::AmbiguousRewrite,
            "prefix: /api",
            ", prefix_rewrite: /",
            "/apiinternal/x",
            "/internal/x",
        ),
        (
            Kind::AmbiguousRewrite,
            "path_separated_prefix: /api",
            ", prefix_rewrite: /",
            "/api/a/internal/x",
            "//a/internal/x",
        ),
        (
            Kind::AmbiguousRewrite,
            any_case,
            ", prefix_rewrite: /api/",
            "/API/internal/x",
            "/api/internal/x",
        ),
        (
            Kind::AmbiguousRewrite,
            "prefix: /",
            ", path_rewrite: \"/%REQ(x-path)%\"",
            "/",
            "/internal/x",
        ),
        (Kind::AmbiguousRewrite, "prefix: /", regex, "/v1/internal/x", "/internal/x"),
        (
            Kind::AmbiguousRewrite,
            "safe_regex: { regex: \"/v.*\" }",
            ", prefix_rewrite: /internal/x",
            "/v1",
            "/internal/x",
        ),
        (
            Kind::RewrittenPath,
            "prefix: /v1/",
            ", regex_rewrite: { pattern: { regex: ^/v1/ }, substitution: / }",
            "/v1/internal/x",
            "/internal/x",
        ),
        (
            Kind::RewrittenPath,
            "prefix: /v1/",
            ", prefix_rewrite: /",
            "/v1/internal/x",
            "/internal/x",
        ),
        (Kind::IgnoredCase, any_case, "", "/API/internal/x", "/API/internal/x"),
    ] {
        let running = with_route(policy, matching, more).await;
        let findings = lint(Path::new("envoy.yaml"), running.text.as_bytes(), &[]).unwrap();
        let kinds = [Kind::AmbiguousRewrite, Kind::RewrittenPath, Kind::IgnoredCase];
        let found = findings.iter().map(|finding| finding.kind).filter(|kind| kinds.contains(kind));
        assert_eq!(found.collect::<Vec<_>>(), [kind], "{matching}{more}");
        let answer = answer(&running, path, &[("x-path", "internal/x")]).await;
        assert_eq!(answer.json()["path"], arrives, "{matching}{more}");
        assert_ne!(status(&running, "/api/internal/x", &[]).await, 200, "{matching}{more}");
    }
}

/// The host, too, is the one that the client sent.
#[tokio::test(flavor = "multi_thread")]
async fn rules_are_compared_with_the_host_before_a_route_rewrites_it() {
    let policy =
        |host: &str| format!("version: 1\nroles:\n  anyone: {{ allow: [\"* {host}/**\"] }}\n");
    let rewrite = ", host_rewrite_literal: application.internal";
    for (host, expected) in [("localhost", 200), ("application.internal", 401)] {
        let running = with_route(&policy(host), "prefix: /", rewrite).await;
        let answer = answer(&running, "/x", &[]).await;
        assert_eq!(answer.status, expected, "{host}");
        if expected == 200 {
            let seen = &answer.json()["headers"]["host"];
            assert_eq!(*seen, serde_json::json!(["application.internal"]));
        }
    }
}

/// `SECURITY.md`: Envoy follows a redirect of the application itself, and the request that it makes
/// is authorized.
#[tokio::test(flavor = "multi_thread")]
async fn an_internal_redirect_is_authorized_again() {
    let policy =
        "version: 1\nroles:\n  anyone: { allow: [\"* /**\"], deny: [\"* /internal/**\"] }\n";
    for (to, expected) in [("/public", 200), ("/internal/x", 401)] {
        let folder = tempfile::tempdir().unwrap();
        let (file, pipe) =
            (folder.path().join("policy.yaml"), folder.path().join("redirects.sock"));
        std::fs::write(&file, policy).unwrap();
        let pipe = format!("{{ pipe: {{ path: {} }} }}", pipe.display());
        let redirects = format!(
            "    - name: redirects
      address: {pipe}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                \"@type\": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: redirects
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {{ \"@type\": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
                route_config:
                  virtual_hosts:
                    - name: all
                      domains: [\"*\"]
                      routes: [{{ match: {{ prefix: / }}, redirect: {{ path_redirect: {to}, response_code: FOUND }} }}]
  clusters:
    - name: redirects
      load_assignment:
        cluster_name: redirects
        endpoints: [{{ lb_endpoints: [{{ endpoint: {{ address: {pipe} }} }}] }}]
    - name: application"
        );
        let route = format!(
            "- match: {{ prefix: /open }}
                          route: {{ cluster: redirects, internal_redirect_policy: {{}} }}
                        {ROUTES}"
        );
        let running =
            start_policy(folder, &file, unix, &[], &[(ROUTES, &route), (CLUSTERS, &redirects)])
                .await;
        let answer = answer(&running, "/open", &[]).await;
        assert_eq!(answer.status, expected, "{to}: {}", answer.text());
        assert_eq!(running.app.requests(), u64::from(expected == 200), "{to}");
    }
}
