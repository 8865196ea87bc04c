//! Patches of an `EnvoyFilter` that put the filter where no request passes it, and parts of a configuration that are easily overlooked.

#![expect(clippy::panic, reason = "the problems are the message of the failed test")]

use std::path::Path;

use envoy_lint::{Kind, lint};

const FILTER: &str =
    "name: a, typed_config: { '@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz }";

fn kinds(text: &str) -> Vec<Kind> {
    let found = lint(Path::new("envoy.yaml"), text.as_bytes(), &[]);
    found
        .unwrap_or_else(|problems| panic!("{problems:?}\n{text}"))
        .iter()
        .map(|finding| finding.kind)
        .collect()
}

fn patch(apply_to: &str, operation: &str, next: &str, value: &str) -> String {
    let next = if next.is_empty() { String::new() } else { format!("subFilter: {{ name: {next} }}") };
    format!(
        "    - applyTo: {apply_to}
      match: {{ context: SIDECAR_INBOUND, listener: {{ filterChain: {{ filter: {{ name: hcm, {next} }} }} }} }}
      patch: {{ operation: {operation}, value: {{ {value} }} }}
"
    )
}

fn filter(patches: &[String]) -> String {
    format!("kind: EnvoyFilter\nspec:\n  configPatches:\n{}", patches.concat())
}

const ROUTER: &str = "envoy.filters.http.router";

#[test]
fn a_filter_that_no_request_passes_is_seen() {
    let own = || patch("HTTP_FILTER", "INSERT_BEFORE", ROUTER, FILTER);
    for (apply_to, operation, next) in [
        ("HTTP_FILTER", "ADD", ROUTER),
        ("HTTP_FILTER", "ADD", ""),
        ("HTTP_FILTER", "INSERT_AFTER", ROUTER),
        ("HTTP_FILTER", "INSERT_AFTER", ""),
        ("HTTP_FILTER", "MERGE", ROUTER),
        ("HTTP_FILTER", "MERGE", ""),
        ("HTTP_FILTER", "REPLACE", ROUTER),
        ("HTTP_FILTER", "REPLACE", ""),
        ("NETWORK_FILTER", "INSERT_BEFORE", ""),
        ("LISTENER", "MERGE", ""),
    ] {
        let kinds = kinds(&filter(&[patch(apply_to, operation, next, FILTER)]));
        assert!(kinds.contains(&Kind::MisplacedFilter), "{apply_to} {operation} {next}: {kinds:?}");
    }
    for patches in [
        vec![own()],
        vec![patch("HTTP_FILTER", "INSERT_FIRST", "", FILTER)],
        vec![patch("HTTP_FILTER", "INSERT_AFTER", "istio.stats", FILTER)],
        vec![patch("HTTP_FILTER", "REPLACE", "istio.stats", FILTER)],
        vec![own(), patch("HTTP_FILTER", "MERGE", "a", FILTER)],
        vec![patch("HTTP_FILTER", "MERGE", "a", FILTER), own()],
    ] {
        let kinds = kinds(&filter(&patches));
        let wrong = [Kind::MisplacedFilter, Kind::DisabledFilter, Kind::UnseenFilter];
        assert!(!kinds.iter().any(|kind| wrong.contains(kind)), "{patches:?}: {kinds:?}");
    }
    // Another file may insert what this changes.
    let merged = kinds(&filter(&[patch("HTTP_FILTER", "MERGE", "a", FILTER)]));
    assert!(merged.contains(&Kind::UnseenFilter) && !merged.contains(&Kind::MisplacedFilter), "{merged:?}");
}

#[test]
fn a_filter_that_a_patch_takes_out_is_seen() {
    let own = || patch("HTTP_FILTER", "INSERT_BEFORE", ROUTER, FILTER);
    let remove = |name, value| patch("HTTP_FILTER", "REMOVE", name, value);
    for patches in [[own(), remove("a", "")], [remove("a", "name: a"), own()], [own(), remove("a", FILTER)]] {
        let kinds = kinds(&filter(&patches));
        assert!(kinds.contains(&Kind::DisabledFilter), "{patches:?}: {kinds:?}");
    }
    let other = kinds(&filter(&[own(), remove("b", "")]));
    assert!(!other.contains(&Kind::DisabledFilter), "{other:?}");
    let elsewhere = remove("a", "").replace("SIDECAR_INBOUND", "SIDECAR_OUTBOUND");
    let other = kinds(&filter(&[own(), elsewhere]));
    assert!(!other.contains(&Kind::DisabledFilter), "{other:?}");
    // The value of such a patch is no filter.
    let only = filter(&[remove("a", FILTER)]);
    let problems = lint(Path::new("envoy.yaml"), only.as_bytes(), &[]).unwrap_err();
    assert!(problems[0].to_string().contains("there is no filter `ext_authz` here"), "{problems:?}");
}

/// The name under which a route configures it is not known.
#[test]
fn a_filter_without_a_name_may_be_off_on_a_route() {
    let config = "'@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz\n";
    let table = |kind: &str| {
        let off = format!("typed_per_filter_config: {{ b: {{ '@type': x/{kind}, disabled: true }} }}");
        format!(
            "virtual_hosts: [{{ name: v, domains: ['*'], routes: [{{ match: {{ prefix: / }}, {off} }}] }}]\n"
        )
    };
    let of = |kind: &str| kinds(&format!("{config}---\n{}", table(kind)));
    let authorizer = "envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute";
    assert!(of(authorizer).contains(&Kind::DisabledRoute));
    assert!(!of("envoy.extensions.filters.http.lua.v3.LuaPerRoute").contains(&Kind::DisabledRoute));
}

/// A file of which a part was skipped must not get an all-clear.
#[test]
fn an_entry_of_a_config_map_in_another_form_is_an_error() {
    let filter = format!("http_filters: [{{ {FILTER} }}]");
    let map = |entry: &str| format!("kind: ConfigMap\ndata:\n  envoy.yaml: |\n    {filter}\n  {entry}\n");
    assert!(lint(Path::new("cm.yaml"), map("notes: \"see http\"").as_bytes(), &[]).is_ok());
    for entry in [
        format!("lds.yaml: \"{filter}\""),
        format!("lds.yaml: >\n    {filter}"),
        format!("lds.yaml: |2\n    {filter}"),
    ] {
        let problems = lint(Path::new("cm.yaml"), map(&entry).as_bytes(), &[]).unwrap_err();
        let text = problems[0].to_string();
        assert!(
            text.contains("cm.yaml:5:") && text.contains("`lds.yaml` is not written as a block"),
            "{text}"
        );
    }
}

#[test]
fn what_is_not_in_the_file_is_said() {
    let manager = |filters: &str, routes: &str| format!("- http_filters: [{filters}]\n  {routes}\n");
    let to = |cluster: &str| {
        format!(
            "route_config: {{ virtual_hosts: [{{ name: v, domains: ['*'], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: {cluster} }} }}] }}] }}"
        )
    };
    let authorized = manager(&format!("{{ {FILTER} }}"), &to("app"));
    let open = manager("", &to("app-direct"));
    assert!(kinds(&format!("{authorized}{open}")).contains(&Kind::UnseenEndpoints));
    let clusters = "- clusters:
  - { name: app, load_assignment: { cluster_name: app } }
  - { name: app-direct, load_assignment: { cluster_name: app-direct } }
";
    assert!(!kinds(&format!("{authorized}{open}{clusters}")).contains(&Kind::UnseenEndpoints));
    let lds = format!(
        "static_resources: {{ listeners: [{{ http_filters: [{{ {FILTER} }}] }}] }}
dynamic_resources: {{ lds_config: {{ path_config_source: {{ path: l }} }} }}
"
    );
    assert!(kinds(&lds).contains(&Kind::UnseenListeners));
    let listeners =
        "---\nresources: [{ '@type': type.googleapis.com/envoy.config.listener.v3.Listener, name: l }]\n";
    assert!(!kinds(&format!("{lds}{listeners}")).contains(&Kind::UnseenListeners));
    // Which of two tables a scope leads to is not known.
    let scoped = "scoped_routes: { name: s, scoped_rds: { scoped_rds_config_source: { ads: {} } } }";
    let table = format!("- {}\n", to("app").replace("route_config: { ", "{ name: t, "));
    let unseen = kinds(&format!("{}{table}", manager(&format!("{{ {FILTER} }}"), scoped)));
    assert!(unseen.contains(&Kind::UnseenRoutes), "{unseen:?}");
}

#[test]
fn a_composite_cluster_leads_to_its_parts() {
    let to = |cluster: &str| {
        format!(
            "route_config: {{ virtual_hosts: [{{ name: v, domains: ['*'], routes: [{{ match: {{ prefix: / }}, route: {{ cluster: {cluster} }} }}] }}] }}"
        )
    };
    let text = format!(
        "- http_filters: [{{ {FILTER} }}]\n  {}\n- http_filters: []\n  {}\n- clusters:
  - {{ name: app, load_assignment: {{ cluster_name: app }} }}
  - {{ name: all, cluster_type: {{ name: c, typed_config: {{ '@type': x/envoy.extensions.clusters.composite.v3.CompositeCluster, sub_clusters: [{{ name: app }}] }} }} }}
",
        to("app"),
        to("all")
    );
    assert!(kinds(&text).contains(&Kind::BypassListener), "{:?}", kinds(&text));
}
