//! What is reported: exactly these lines, for each of the configurations in `findings.txt`, which
//! are `good.yaml` with some lines replaced; and what is accepted.
//!
//! A case has `=== title`, then lines to replace (`- `) and what replaces them (`+ `), then `---`
//! and the findings, word for word.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]
#![expect(clippy::disallowed_methods, reason = "the tree is what is tested")]
#![expect(clippy::panic, reason = "the problems are the message of the failed test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use document::{FindingKind as _, FindingSeverity};
use envoy_lint::{Finding, Kind, lint};

const GOOD: &str = include_str!("good.yaml");
const CASES: &str = include_str!("findings.txt");
/// A filter that authorizes, and what turns it off on a route.
const FILTER: &str =
    "name: a, typed_config: { '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz }";
const OFF: &str = "typed_per_filter_config: { a: { '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute, disabled: true } }";

fn found(text: &str) -> Vec<Finding> {
    lint(Path::new("envoy.yaml"), text.as_bytes(), &[])
        .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
}

fn messages(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{finding}\n")).collect()
}

/// The cases: title, configuration, findings.
fn cases() -> Vec<(&'static str, String, &'static str)> {
    let case = |case: &'static str| {
        let (title, rest) = case.split_once('\n').unwrap();
        let (edits, findings) = rest.split_once("---\n").unwrap();
        (title, edited(edits), findings.trim_end())
    };
    CASES.split("=== ").skip(1).map(case).collect()
}

fn edited(edits: &str) -> String {
    let mut text = GOOD.to_owned();
    let (mut from, mut to) = (Vec::new(), Vec::new());
    for line in edits.lines().chain(["- "]) {
        if !line.starts_with('+') && !to.is_empty() {
            let (old, new) = (from.join("\n"), to.join("\n"));
            assert_eq!(text.matches(&old).count(), 1, "{old}");
            text = text.replace(&old, &new);
            (from, to) = (Vec::new(), Vec::new());
        }
        let lines = if line.starts_with('+') { &mut to } else { &mut from };
        lines.push(line.get(2..).unwrap_or_default());
    }
    text
}

#[test]
fn each_finding_is_worded_as_recorded() {
    assert_eq!(messages(&found(GOOD)), "");
    let mut differences = String::new();
    for (title, text, expected) in cases() {
        let found = messages(&found(&text));
        if found.trim_end() != expected {
            differences += &format!("=== {title}\n---\n{found}\n");
        }
    }
    assert!(differences.is_empty(), "\n{differences}");
}

#[test]
fn each_kind_has_a_case() {
    for kind in Kind::ALL {
        let (severity, name) = (kind.severity().name(), kind.name());
        assert!(CASES.contains(&format!(": {severity}[{name}]: ")), "{name}");
    }
}

fn yaml_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            yaml_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn every_shipped_configuration_is_neither_unsafe_nor_slow() {
    let mut files = Vec::new();
    yaml_files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy"), &mut files);
    let mut checked = 0;
    let mut wrong = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        // Both words are in each configuration that authorizes, and in the EnvoyFilter.
        let is_of_envoy = text.contains("typed_config")
            && (text.contains("v3.ExtAuthz") || text.contains("DynamicModuleFilter"));
        let policies =
            ["SecurityPolicy", "EnvoyExtensionPolicy", "AuthorizationPolicy", "IstioOperator"];
        let is_policy = policies.iter().any(|kind| text.contains(&format!("\nkind: {kind}\n")));
        if !is_of_envoy && !is_policy {
            continue;
        }
        checked += 1;
        let findings =
            lint(&file, text.as_bytes(), &[]).unwrap_or_else(|problems| panic!("{problems:?}"));
        let counts = |finding: &&Finding| {
            finding.kind.severity() != FindingSeverity::Note || finding.kind == Kind::Acceptance
        };
        wrong += &messages(&findings.iter().filter(counts).cloned().collect::<Vec<_>>());
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(checked, 20, "a configuration lost its filter, or there is a new one");
}

#[test]
fn a_kind_is_accepted_by_name() {
    let text = GOOD
        .replace("failure_mode_allow: false", "failure_mode_allow: true")
        .replace("merge_slashes: true", "");
    let left = lint(Path::new("envoy.yaml"), text.as_bytes(), &[Kind::FailsOpen]).unwrap();
    assert_eq!(
        left.iter().map(|finding| finding.kind).collect::<Vec<_>>(),
        [Kind::UnmergedSlashes]
    );
}

#[test]
fn json_with_other_names_of_fields_is_read() {
    let text = r#"{"httpFilters": [{"name": "rolegate", "typedConfig": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz",
        "failureModeAllow": true}}]}"#;
    let kinds: Vec<Kind> = found(text).iter().map(|finding| finding.kind).collect();
    assert!(
        kinds.contains(&Kind::FailsOpen) && kinds.contains(&Kind::UnnormalizedPath),
        "{kinds:?}"
    );
}

/// A `ConfigMap` holds a configuration as text: the places are those in the manifest.
#[test]
fn a_configuration_in_a_config_map_is_read_where_it_is() {
    let block: String = GOOD.lines().map(|line| format!("    {line}\n")).collect();
    let block = block.replace("failure_mode_allow: false", "failure_mode_allow: true");
    let text = format!(
        "kind: Service\n---\nkind: ConfigMap\ndata:\n  other: x\n  envoy.yaml: |-\n{block}  last: y\n"
    );
    let findings = found(&text);
    assert_eq!(findings.len(), 1, "{findings:?}");
    let at = &findings.first().unwrap().at;
    let line = text.lines().nth(usize::try_from(at.line).unwrap() - 1).unwrap();
    assert_eq!(
        line.get(usize::try_from(at.column).unwrap() - 1..),
        Some("failure_mode_allow: true")
    );
}

/// As Envoy reads them with `lds_config` and `cds_config`: also one file each.
#[test]
fn a_cluster_in_another_document_is_seen() {
    let listener = "http_filters:
  - name: a
    typed_config:
      '@type': type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz
      grpc_service: { envoy_grpc: { cluster_name: authz } }
";
    let cluster = "clusters: [{ name: authz, load_assignment: {} }]\n";
    let kinds =
        |text: &str| found(text).iter().map(|finding| finding.kind).collect::<BTreeSet<_>>();
    assert!(kinds(listener).contains(&Kind::UnseenCluster));
    let indented =
        |text: &str| text.lines().map(|line| format!("    {line}\n")).collect::<String>();
    let (lds, cds) = (indented(listener), indented(cluster));
    for both in [
        format!("{listener}---\n{cluster}"),
        format!("{cluster}---\n{listener}"),
        format!("kind: ConfigMap\ndata:\n  lds.yaml: |\n{lds}  cds.yaml: |\n{cds}"),
    ] {
        let kinds = kinds(&both);
        assert!(
            kinds.contains(&Kind::Http1Cluster) && !kinds.contains(&Kind::UnseenCluster),
            "{both}{kinds:?}"
        );
    }
}

/// Both as in what Envoy prints about itself: routes and clusters are on pages of their own.
#[test]
fn routes_of_a_config_dump_are_seen() {
    let text = "configs:
  - http_filters: [{ name: a, typed_config: { '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz } }]
    rds: { route_config_name: all }
  - dynamic_route_configs:
      - route_config:
          name: all
          virtual_hosts: [{ typed_per_filter_config: { a: { disabled: true } } }]
";
    let kinds: Vec<Kind> = found(text).iter().map(|finding| finding.kind).collect();
    assert!(
        kinds.contains(&Kind::DisabledRoute) && !kinds.contains(&Kind::UnseenRoutes),
        "{kinds:?}"
    );
}

/// A filter by discovery is linted like one in the listener, with the configuration on the page of
/// ECDS that has its name, or in a file of its own.
#[test]
fn a_filter_by_discovery_is_linted_with_its_configuration() {
    let kinds =
        |text: &str| found(text).iter().map(|finding| finding.kind).collect::<BTreeSet<_>>();
    let authz =
        "'@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, failure_mode_allow: true";
    let module = "'@type': x/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter, filter_name: rolegate";
    let resource = |name: &str, config: &str| {
        format!(
            "{{ '@type': x/envoy.config.core.v3.TypedExtensionConfig, name: {name}, typed_config: {{ {config} }} }}"
        )
    };
    let manager = |config: &str| {
        let kind = config.split([' ', ',']).nth(1).unwrap();
        format!(
            "http_filters: [{{ name: l, typed_config: {{ '@type': x/envoy.extensions.filters.http.lua.v3.Lua }} }}, \
             {{ name: a, config_discovery: {{ type_urls: [{kind}] }} }}]"
        )
    };
    for (config, own) in [(authz, Kind::FailsOpen), (module, Kind::ClosedModule)] {
        let manager = manager(config);
        for text in [
            format!(
                "configs: [{{ ecds_filters: [{{ ecds_filter: {} }}] }}, {{ {manager} }}]",
                resource("a", config)
            ),
            format!("{manager}\n---\nresources: [{}]\n", resource("a", config)),
        ] {
            let kinds = kinds(&text);
            let seen = [own, Kind::EarlyFilter, Kind::UnnormalizedPath];
            assert!(seen.iter().all(|kind| kinds.contains(kind)), "{text}\n{kinds:?}");
            assert!(!kinds.contains(&Kind::UnseenFilter), "{text}\n{kinds:?}");
        }
        let without = kinds(&manager);
        assert!(
            without.contains(&Kind::UnseenFilter) && without.contains(&Kind::EarlyFilter),
            "{without:?}"
        );
        let other = kinds(&format!("{manager}\n---\nresources: [{}]\n", resource("b", config)));
        assert!(other.contains(&Kind::UnseenFilter), "{other:?}");
    }
    // Another library is not rolegate's.
    let other = module.replace("rolegate", "other");
    let text = format!("{}\n---\nresources: [{}]\n", manager(module), resource("a", &other));
    assert!(lint(Path::new("envoy.yaml"), text.as_bytes(), &[]).is_err());
}

/// What an `EnvoyFilter` with authorization merges into the routes of Istio.
#[test]
fn routes_that_an_envoy_filter_patches_are_seen() {
    let kinds = |to: &str, value: &str| -> BTreeSet<Kind> {
        let text = format!(
            "kind: EnvoyFilter
spec:
  configPatches:
    - applyTo: HTTP_FILTER
      patch: {{ operation: INSERT_BEFORE, value: {{ {FILTER} }} }}
    - applyTo: {to}
      match: {{ routeConfiguration: {{ vhost: {{ name: b, route: {{ name: c }} }} }} }}
      patch: {{ operation: MERGE, value: {{ {value} }} }}
"
        );
        found(&text).iter().map(|finding| finding.kind).collect()
    };
    let alone = kinds("CLUSTER", "connect_timeout: 1s");
    let weighted =
        format!("route: {{ weighted_clusters: {{ clusters: [{{ name: d, {OFF} }}] }} }}");
    let host = format!("name: b, routes: [{{ name: c, {OFF} }}]");
    let table = format!("name: b, virtual_hosts: [{{ {OFF} }}]");
    let prefix = "match: { prefix: /api }, route: { prefix_rewrite: / }";
    let mutation = "typed_per_filter_config: { b: { mutations: { request_mutations: [{ append: { header: { key: ':path' } } }] } } }";
    for (to, value, kind) in [
        ("HTTP_ROUTE", OFF, Kind::DisabledRoute),
        ("VIRTUAL_HOST", OFF, Kind::DisabledRoute),
        ("ROUTE_CONFIGURATION", OFF, Kind::DisabledRoute),
        ("HTTP_ROUTE", &*weighted, Kind::DisabledRoute),
        ("VIRTUAL_HOST", &*host, Kind::DisabledRoute),
        ("ROUTE_CONFIGURATION", &*table, Kind::DisabledRoute),
        ("HTTP_ROUTE", "route: { cluster_header: x-cluster }", Kind::ClientRouting),
        ("HTTP_ROUTE", "route: { prefix_rewrite: / }", Kind::RewrittenPath),
        ("HTTP_ROUTE", prefix, Kind::AmbiguousRewrite),
        ("VIRTUAL_HOST", mutation, Kind::RewrittenPath),
    ] {
        let found = kinds(to, value);
        let more: Vec<&Kind> = found.difference(&alone).collect();
        assert_eq!(more, [&kind], "{to} {value}");
    }
}

/// Filters that patches insert, in the order that results; `OURS` stands for the patch that inserts
/// the filter.
#[test]
fn filters_that_an_envoy_filter_inserts_are_in_order() {
    const OURS: (&str, &str, &str) = ("INSERT_BEFORE", "envoy.filters.http.router", "");
    let lua = "name: l, typed_config: { '@type': x/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: { inline_string: \
               'function envoy_on_request(h) h:headers():replace(\":path\", \"/b\") end' } }";
    let patch = |(operation, next, value): (&str, &str, &str)| {
        let value = if value.is_empty() { FILTER } else { value };
        let next =
            if next.is_empty() { String::new() } else { format!("subFilter: {{ name: {next} }}") };
        format!(
            "    - applyTo: HTTP_FILTER
      match: {{ context: SIDECAR_INBOUND, listener: {{ filterChain: {{ filter: {{ name: hcm, {next} }} }} }} }}
      patch: {{ operation: {operation}, value: {{ {value} }} }}
"
        )
    };
    let kinds = |patches: &[(&str, &str, &str)], context: &str| -> BTreeSet<Kind> {
        let patches: String = patches.iter().map(|one| patch(*one)).collect();
        let patches = patches.replacen("SIDECAR_INBOUND", context, 1);
        found(&format!("kind: EnvoyFilter\nspec:\n  configPatches:\n{patches}"))
            .iter()
            .map(|finding| finding.kind)
            .collect()
    };
    let first = ("INSERT_FIRST", "", lua);
    let before_router = ("INSERT_BEFORE", "envoy.filters.http.router", lua);
    let may_be_first = (
        "INSERT_FIRST",
        "",
        "name: c, typed_config: { '@type': x/envoy.extensions.filters.http.cors.v3.Cors }",
    );
    let early = [
        vec![OURS, first],
        vec![first, OURS],
        vec![("INSERT_FIRST", "", ""), first],
        vec![before_router, OURS],
        vec![OURS, ("INSERT_BEFORE", "a", lua)],
        vec![("INSERT_BEFORE", "a", lua), OURS],
        vec![OURS, ("INSERT_BEFORE", "", lua)],
        vec![OURS, ("INSERT_BEFORE", "istio.stats", lua)],
        vec![OURS, ("INSERT_AFTER", "istio.stats", lua)],
        vec![OURS, ("REPLACE", "istio.stats", lua)],
    ];
    for patches in early {
        let kinds = kinds(&patches, "SIDECAR_INBOUND");
        assert!(
            kinds.contains(&Kind::EarlyFilter) && !kinds.contains(&Kind::RewrittenPath),
            "{patches:?} {kinds:?}"
        );
    }
    let late = [
        vec![OURS, before_router],
        vec![first, ("INSERT_FIRST", "", "")],
        vec![OURS, ("INSERT_AFTER", "a", lua)],
        vec![("INSERT_FIRST", "", ""), ("INSERT_BEFORE", "istio.stats", lua)],
    ];
    for patches in late {
        let kinds = kinds(&patches, "SIDECAR_INBOUND");
        assert!(
            !kinds.contains(&Kind::EarlyFilter) && kinds.contains(&Kind::RewrittenPath),
            "{patches:?} {kinds:?}"
        );
    }
    assert!(!kinds(&[OURS, may_be_first], "SIDECAR_INBOUND").contains(&Kind::EarlyFilter));
    // Where the filter is not, it is not missing.
    assert!(!kinds(&[OURS, first], "SIDECAR_OUTBOUND").contains(&Kind::EarlyFilter));
    assert!(kinds(&[OURS, first], "ANY").contains(&Kind::EarlyFilter));
}

/// What a patch merges into the connection manager: what it does not set, the manager has from
/// elsewhere.
#[test]
fn settings_that_an_envoy_filter_merges_are_seen() {
    let kinds = |settings: &str| -> BTreeSet<Kind> {
        let text = format!(
            "kind: EnvoyFilter
spec:
  configPatches:
    - applyTo: HTTP_FILTER
      patch: {{ operation: INSERT_BEFORE, value: {{ {FILTER} }} }}
    - applyTo: NETWORK_FILTER
      patch:
        operation: MERGE
        value:
          name: envoy.filters.network.http_connection_manager
          typed_config: {{ '@type': x/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, {settings} }}
"
        );
        found(&text).iter().map(|finding| finding.kind).collect()
    };
    let alone = kinds("stat_prefix: a");
    for (settings, kind) in [
        ("normalize_path: false", Kind::UnnormalizedPath),
        ("merge_slashes: false", Kind::UnmergedSlashes),
        ("path_with_escaped_slashes_action: UNESCAPE_AND_FORWARD", Kind::UnescapedSlashes),
        (
            "upgrade_configs: [{ upgrade_type: websocket, filters: [{ name: router }] }]",
            Kind::UpgradeFilters,
        ),
    ] {
        let found = kinds(settings);
        let more: Vec<&Kind> = found.difference(&alone).collect();
        assert_eq!(more, [&kind], "{settings}");
    }
    assert_eq!(
        kinds("normalize_path: true, upgrade_configs: [{ upgrade_type: websocket }]"),
        alone
    );
    assert!(!alone.contains(&Kind::UnnormalizedPath), "{alone:?}");
}

/// A `VirtualHost`, a `Route`, or a part of one in a file of its own.
#[test]
fn routes_outside_of_a_table_are_seen() {
    let kinds = |filter: &str, routes: &str| -> BTreeSet<Kind> {
        found(&format!("{filter}\n---\n{routes}\n")).iter().map(|finding| finding.kind).collect()
    };
    let filter = format!("{{ {FILTER} }}");
    let alone = kinds(&filter, "b: c");
    let host = "name: b\nroutes: [{ match: { prefix: / }, route: { cluster: c, host_rewrite_header: x-host } }]";
    let route = "match: { prefix: /api }\nroute: { cluster: c, prefix_rewrite: / }";
    for (routes, kind) in
        [(OFF, Kind::DisabledRoute), (host, Kind::ClientRouting), (route, Kind::AmbiguousRewrite)]
    {
        let found = kinds(&filter, routes);
        let more: Vec<&Kind> = found.difference(&alone).collect();
        assert_eq!(more, [&kind], "{routes}");
    }
    // A `VirtualService` of Istio has other routes, and what is beside routes that are none of
    // Envoy's is found.
    let service = "spec: { http: [{ match: [{ uri: { prefix: /a } }], route: [{ destination: { host: b } }] }] }";
    assert_eq!(kinds(&filter, service), alone);
    let beside = format!("routes: [{{ name: b, virtual_hosts: [{{ {OFF} }}] }}]");
    assert!(kinds(&filter, &beside).contains(&Kind::DisabledRoute));
    // A virtual host is not the table that has its name, but what it enables runs.
    let lua = "{ name: l, disabled: true, typed_config: { '@type': x/envoy.extensions.filters.http.lua.v3.Lua } }";
    let manager = format!("http_filters: [{lua}, {{ {FILTER} }}]\nrds: {{ route_config_name: b }}");
    let enabling = "name: b\ndomains: ['*']\ntyped_per_filter_config: { l: { '@type': x/envoy.config.route.v3.FilterConfig } }";
    let (without, with) = (kinds(&manager, "b: c"), kinds(&manager, enabling));
    assert!(
        without.contains(&Kind::UnseenRoutes) && !without.contains(&Kind::EarlyFilter),
        "{without:?}"
    );
    assert!(with.contains(&Kind::UnseenRoutes) && with.contains(&Kind::EarlyFilter), "{with:?}");
}

/// The page of the bootstrap has the static listeners and clusters, as the pages of the listeners
/// and of the clusters have; the routes are in the listeners and on a page of their own.
#[test]
fn what_a_config_dump_has_twice_is_found_once() {
    let routes = "{ virtual_hosts: [{ typed_per_filter_config: { a: { disabled: true } } }] }";
    let listener = format!(
        "{{ filter_chains: [{{ filters: [{{ typed_config: {{ route_config: {routes}, http_filters: [{{ name: a, typed_config: {{ \
         '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, failure_mode_allow: true, \
         grpc_service: {{ envoy_grpc: {{ cluster_name: authz }} }} }} }}] }} }}] }}] }}"
    );
    let typed = |value: &str| value.replacen('{', "{ '@type': x/y, ", 1);
    let cluster = "{ name: authz }";
    let dump = format!(
        "configs:
  - bootstrap: {{ static_resources: {{ listeners: [{listener}], clusters: [{cluster}] }} }}
  - static_clusters: [{{ cluster: {} }}]
  - static_listeners: [{{ listener: {} }}]
  - static_route_configs: [{{ route_config: {} }}]
",
        typed(cluster),
        typed(&listener),
        typed(routes)
    );
    let count =
        |text: &str, kind: Kind| found(text).iter().filter(|finding| finding.kind == kind).count();
    let once = [Kind::FailsOpen, Kind::NoRetries, Kind::DisabledRoute, Kind::Http1Cluster];
    assert_eq!(once.map(|kind| count(&dump, kind)), [1, 1, 1, 1], "{:?}", found(&dump));
    // Two listeners of one page are not the same one.
    let both = format!("static_resources: {{ listeners: [{listener}, {listener}] }}");
    assert_eq!(count(&both, Kind::NoRetries), 2, "{both}");
}

/// Retries count for the limits of a cluster, whichever filter has them.
#[test]
fn the_limits_of_a_cluster_are_one_finding() {
    let manager = |more: &str| {
        format!(
            "{{ http_filters: [{{ name: a, typed_config: {{ '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz, \
             grpc_service: {{ {more} envoy_grpc: {{ cluster_name: authz }} }} }} }}] }}"
        )
    };
    let managers = [manager(""), manager("retry_policy: {},")].join(", ");
    let text = format!("managers: [{managers}]\nclusters: [{{ name: authz }}]\n");
    let findings = found(&text);
    let limits: Vec<_> =
        findings.iter().filter(|finding| finding.kind == Kind::CircuitBreakers).collect();
    assert_eq!(limits.len(), 1, "{limits:?}");
    assert!(limits.first().unwrap().message.contains("max_retries"), "{limits:?}");
}

/// The tables of both listeners are on a page of their own.
#[test]
fn a_bypass_by_a_table_of_routes_is_seen() {
    let text = "configs:
  - http_filters: [{ name: a, typed_config: { '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz } }]
    rds: { route_config_name: public }
  - http_filters: [{ name: router }]
    rds: { route_config_name: internal }
  - dynamic_route_configs:
      - route_config:
          name: public
          virtual_hosts: [{ routes: [{ route: { cluster: application } }] }]
      - route_config:
          name: internal
          virtual_hosts: [{ routes: [{ route: { cluster: application } }] }]
";
    let has_bypass =
        |text: &str| found(text).iter().any(|finding| finding.kind == Kind::BypassListener);
    assert!(has_bypass(text));
    assert!(!has_bypass(
        &text.replace("name: internal\n          virtual", "name: other\n          virtual")
    ));
}

/// The endpoints of a control plane are on a page of their own (`/config_dump?include_eds`), or in
/// files of their own.
#[test]
fn a_bypass_by_endpoints_of_a_control_plane_is_seen() {
    let clusters = "clusters:
  - { name: application, eds_cluster_config: { service_name: app } }
  - { name: other, eds_cluster_config: {} }
";
    let manager = |filter: &str, cluster: &str| {
        format!(
            "http_filters: [{{ {filter} }}], route_config: {{ virtual_hosts: [{{ routes: [{{ route: {{ cluster: {cluster} }} }}] }}] }}"
        )
    };
    let managers = format!(
        "managers: [{{ {} }}, {{ {} }}]\n{clusters}",
        manager(FILTER, "application"),
        manager("name: router", "other")
    );
    let endpoints = |name: &str, address: &str| {
        format!(
            "'@type': x/envoy.config.endpoint.v3.ClusterLoadAssignment, cluster_name: {name}, endpoints: [{{ lb_endpoints: \
             [{{ endpoint: {{ address: {{ socket_address: {{ address: {address}, port_value: 80 }} }} }} }}] }}]"
        )
    };
    let kinds = |first: &str, other: &str| -> Vec<BTreeSet<Kind>> {
        let (first, other) = (endpoints("app", first), endpoints("other", other));
        let page = format!(
            "configs:\n  - dynamic_endpoint_configs: [{{ endpoint_config: {{ {first} }} }}, {{ endpoint_config: {{ {other} }} }}]\n"
        );
        let file = format!("resources: [{{ {first} }}, {{ {other} }}]\n");
        let texts = [page, file].map(|more| format!("{managers}---\n{more}"));
        texts.iter().map(|text| found(text).iter().map(|finding| finding.kind).collect()).collect()
    };
    for kinds in kinds("10.0.0.1", "10.0.0.1") {
        assert!(
            kinds.contains(&Kind::BypassListener) && !kinds.contains(&Kind::UnseenEndpoints),
            "{kinds:?}"
        );
    }
    for kinds in kinds("10.0.0.1", "10.0.0.2") {
        assert!(
            !kinds.contains(&Kind::BypassListener) && !kinds.contains(&Kind::UnseenEndpoints),
            "{kinds:?}"
        );
    }
    let without: BTreeSet<Kind> = found(&managers).iter().map(|finding| finding.kind).collect();
    assert!(
        !without.contains(&Kind::BypassListener) && without.contains(&Kind::UnseenEndpoints),
        "{without:?}"
    );
}

#[test]
fn a_file_without_authorization_or_without_an_end_is_an_error() {
    let help = "give a bootstrap, a listener, an HTTP connection manager or a page of `/config_dump` that has one";
    let shown = |text: &str| {
        let problems = lint(Path::new("envoy.yaml"), text.as_bytes(), &[]).unwrap_err();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        shown("static_resources: {}"),
        format!(
            "envoy.yaml:1:1: error: there is neither a filter `ext_authz` nor rolegate's library here\n    help: {help}"
        )
    );
    // Routes alone are not found to be fine: which listener uses them is not known.
    let action = "match: { prefix: / }, route: { cluster: application }";
    for routes in [
        &format!(
            "name: local\nvirtual_hosts: [{{ name: all, domains: ['*'], routes: [{{ {action} }}] }}]\n"
        ),
        &format!("{{ {action} }}\n"),
    ] {
        let message = "there is neither a filter `ext_authz` nor rolegate's library here: routes alone are not checked";
        let help = "add them as a further document (`---`) to the file with their listener, or give what `/config_dump` prints";
        assert_eq!(shown(routes), format!("envoy.yaml:1:1: error: {message}\n    help: {help}"));
    }
    assert!(shown("a: &a [*a]").contains("contains it"), "{}", shown("a: &a [*a]"));
    // Aliases of aliases: ten times ten times ten, and so on.
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let list = format!("*a{}, ", n - 1).repeat(10);
        bomb += &format!("a{n}: &a{n} [{}]\n", list.trim_end_matches(", "));
    }
    assert!(shown(&bomb).contains("more than 8000000 values"));
    let deep = (1..200).map(|n| format!("b{n}: &b{n} [*b{}]\n", n - 1)).collect::<String>();
    assert!(shown(&format!("b0: &b0 x\n{deep}")).contains("nested more than 64 deep"));
}

#[test]
fn an_alias_is_what_it_stands_for() {
    let text = GOOD
        .replace("failure_mode_allow: false", "failure_mode_allow: *yes")
        .replace("use_remote_address: true", "use_remote_address: &yes true");
    assert_eq!(
        found(&text).iter().map(|finding| finding.kind).collect::<Vec<_>>(),
        [Kind::FailsOpen]
    );
}
