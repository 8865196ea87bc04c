//! Envoy reads its configuration with a parser of protocol buffers that takes one element for a
//! list of it. What is found in the list is found in the element, too: otherwise a listener without
//! authorization would pass.
#![expect(clippy::panic, reason = "the problems are the message of the failed test")]

use std::collections::BTreeSet;
use std::path::Path;

use document::FindingKind as _;
use envoy_lint::{Kind, lint};

/// The lists with one element are between `<` and `>`.
const TEMPLATE: &str = r#"
static_resources:
  listeners:
    - name: public
      address: { socket_address: { address: 0.0.0.0, port_value: 80 } }
      filter_chains: <{ filters: <{ name: hcm, typed_config: {
        "@type": envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager,
        upgrade_configs: <{ upgrade_type: websocket, filters: <{ name: envoy.filters.http.router }> }>,
        http_filters: <{ name: a, typed_config: {
          "@type": x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz,
          allowed_headers: { patterns: <{ exact: authorization }> },
          grpc_service: { envoy_grpc: { cluster_name: rolegate } } } }>,
        route_config: {
          request_headers_to_add: <{ header: { key: ":path", value: /x } }>,
          cluster_specifier_plugins: <{ extension: { name: p, typed_config: { "@type": x } } }>,
          virtual_hosts: <{ name: all, domains: <"*">, routes: <{ match: { prefix: / }, route: {
            weighted_clusters: { clusters: <{ name: group }> } },
            typed_per_filter_config: { a: { disabled: true } } }> }> } } }> }>
    - name: hop
      additional_addresses: <{ address: { socket_address: { address: 10.0.0.9, port_value: 81 } } }>
      filter_chains: <{ filters: <{ name: tcp, typed_config: {
        "@type": x/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy, cluster: other } }> }>
    - name: state
      filter_chains:
        - filters:
            - name: state
              typed_config:
                "@type": x/envoy.extensions.filters.network.set_filter_state.v3.Config
                on_new_connection: <{ object_key: envoy.tcp_proxy.cluster, format_string: {
                  text_format_source: { inline_string: "%REQUESTED_SERVER_NAME%" } } }>
  clusters:
    - { name: group, cluster_type: { typed_config: { clusters: <application> } } }
    - { name: other, cluster_type: { typed_config: { sub_clusters: <{ name: application }> } } }
    - name: application
      typed_extension_protocol_options: { x: { http_filters: <{ name: m, typed_config: {
        "@type": x/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation,
        mutations: { request_mutations: <{ append: { header: { key: ":method", value: GET } } }> } } }> } }
      load_assignment: { endpoints: <{ lb_endpoints: <{ endpoint: { address: { socket_address: {
        address: 10.0.0.9, port_value: 81 } } } }> }> }
    - name: rolegate
      circuit_breakers: { thresholds: <{ max_requests: 100000, max_pending_requests: 7 }> }
      health_checks: <{ grpc_health_check: {} }>
"#;

/// The findings without their columns, which differ.
fn found(text: &str) -> Vec<(Kind, u32, String, String)> {
    let found = lint(Path::new("envoy.yaml"), text.as_bytes(), &[]);
    let found = found.unwrap_or_else(|problems| panic!("{problems:?}"));
    let mut found: Vec<_> =
        found.into_iter().map(|one| (one.kind, one.at.line, one.message, one.fix)).collect();
    found.sort();
    found
}

#[test]
fn one_element_is_a_list_of_it() {
    let list = found(&TEMPLATE.replace('<', "[").replace('>', "]"));
    let kinds: BTreeSet<&str> = list.iter().map(|(kind, ..)| kind.name()).collect();
    for kind in [
        "upgrade-filters",
        "disabled-route",
        "bypass-listener",
        "rewritten-path",
        "plugin-routing",
        "circuit-breakers",
    ] {
        assert!(kinds.contains(kind), "{kind}: {kinds:?}");
    }
    assert_eq!(found(&TEMPLATE.replace(['<', '>'], "")), list);
}
