//! Patches of an `EnvoyFilter` that put the filter where no request passes it, and parts of a
//! configuration that are easily overlooked.

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
    let next =
        if next.is_empty() { String::new() } else { format!("subFilter: {{ name: {next} }}") };
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
    assert!(
        merged.contains(&Kind::UnseenFilter) && !merged.contains(&Kind::MisplacedFilter),
        "{merged:?}"
    );
}

/// The operation that Istio 1.31 has beside `MERGE` changes a filter, too, and inserts none.
#[test]
fn a_filter_that_no_operation_inserts_is_seen() {
    let kinds = |patches: &[String]| kinds(&filter(patches));
    let merge = |next| patch("HTTP_FILTER", "MERGE_AND_REPLACE_LIST", next, FILTER);
    assert!(kinds(&[merge(ROUTER)]).contains(&Kind::MisplacedFilter));
    assert!(kinds(&[merge("a")]).contains(&Kind::UnseenFilter));
    // Such a patch is not the one that inserts what another changes.
    let both = kinds(&[merge("a"), patch("HTTP_FILTER", "MERGE", "a", FILTER)]);
    assert!(both.contains(&Kind::UnseenFilter), "{both:?}");
    let replace = || patch("HTTP_FILTER", "REPLACE", "a", FILTER);
    let alone = kinds(&[replace()]);
    assert!(
        alone.contains(&Kind::UnseenFilter) && !alone.contains(&Kind::MisplacedFilter),
        "{alone:?}"
    );
    let other = patch("HTTP_FILTER", "INSERT_FIRST", "", "name: a, typed_config: { '@type': x/y }");
    assert!(!kinds(&[other, replace()]).contains(&Kind::UnseenFilter));
    for operation in ["INSERT", "insert_before", "''"] {
        let unknown = kinds(&[patch("HTTP_FILTER", operation, ROUTER, FILTER)]);
        assert!(unknown.contains(&Kind::MisplacedFilter), "{operation}: {unknown:?}");
    }
}

#[test]
fn a_filter_that_a_patch_takes_out_is_seen() {
    let own = || patch("HTTP_FILTER", "INSERT_BEFORE", ROUTER, FILTER);
    let remove = |name, value| patch("HTTP_FILTER", "REMOVE", name, value);
    let buffer =
        "name: b, typed_config: { '@type': x/envoy.extensions.filters.http.buffer.v3.Buffer }";
    let replace = |name| patch("HTTP_FILTER", "REPLACE", name, buffer);
    let anywhere = own().replace("SIDECAR_INBOUND", "ANY");
    for patches in [
        vec![own(), remove("a", "")],
        vec![own(), remove("a", FILTER)],
        vec![anywhere, remove("a", "")],
        vec![own(), replace("a")],
        vec![own(), own(), remove("a", "")],
        // Istio changes filters after all that are inserted and removed.
        vec![remove("a", ""), patch("HTTP_FILTER", "MERGE", "a", FILTER)],
    ] {
        let kinds = kinds(&filter(&patches));
        assert!(kinds.contains(&Kind::DisabledFilter), "{patches:?}: {kinds:?}");
    }
    let elsewhere = remove("a", "").replace("SIDECAR_INBOUND", "SIDECAR_OUTBOUND");
    for patches in [
        vec![own(), remove("b", "")],
        vec![own(), remove("", "")],
        vec![own(), elsewhere],
        vec![own(), replace("b")],
        vec![own(), patch("HTTP_FILTER", "REPLACE", "a", FILTER)],
        // Istio applies the patches of an `EnvoyFilter` in their order: this removes another filter
        // of that name.
        vec![remove("a", ""), own()],
        vec![replace("a"), own(), patch("HTTP_FILTER", "MERGE", "a", FILTER)],
    ] {
        let kinds = kinds(&filter(&patches));
        assert!(!kinds.contains(&Kind::DisabledFilter), "{patches:?}: {kinds:?}");
    }
    // The value of such a patch is no filter.
    let only = filter(&[remove("a", FILTER)]);
    let problems = lint(Path::new("envoy.yaml"), only.as_bytes(), &[]).unwrap_err();
    assert!(
        problems[0].to_string().contains("there is neither a filter `ext_authz`"),
        "{problems:?}"
    );
}

/// Which of two `EnvoyFilter`s Istio applies first, the file does not say.
#[test]
fn a_filter_that_another_resource_may_take_out_is_seen() {
    let of = |labels: &str, patch: String| {
        let selector = format!("spec:\n  workloadSelector: {{ labels: {{ {labels} }} }}\n");
        filter(&[patch]).replace("spec:\n", &selector)
    };
    let own = |labels| of(labels, patch("HTTP_FILTER", "INSERT_BEFORE", ROUTER, FILTER));
    let remove = |labels| of(labels, patch("HTTP_FILTER", "REMOVE", "a", ""));
    let found = |one: String, other: String| {
        let text = format!("{one}---\n{other}");
        let mut found = lint(Path::new("envoy.yaml"), text.as_bytes(), &[]).unwrap();
        found.retain(|finding| finding.kind == Kind::DisabledFilter);
        found.into_iter().map(|finding| finding.message).collect::<Vec<_>>()
    };
    for (one, other) in [
        ("", ""),
        ("app: a", ""),
        ("", "app: b"),
        ("app: a", "app: a, tier: b"),
        ("app: a", "tier: b"),
    ] {
        for messages in [found(own(one), remove(other)), found(remove(other), own(one))] {
            assert!(
                messages.len() == 1 && messages[0].starts_with("this may take"),
                "{one} {other} {messages:?}"
            );
        }
    }
    // No workload has both.
    assert_eq!(found(own("app: a"), remove("app: b")), [""; 0]);
    assert_eq!(found(own("app: a, tier: b"), remove("app: a, tier: c")), [""; 0]);
    // It is merged into a filter that is inserted elsewhere.
    let merged = of("app: b", patch("HTTP_FILTER", "MERGE", "a", FILTER));
    let kinds = kinds(&format!("{}---\n{merged}", own("app: a")));
    assert!(kinds.contains(&Kind::UnseenFilter), "{kinds:?}");
    // What other workloads have first is not early here.
    let lua = "name: l, typed_config: { '@type': x/envoy.extensions.filters.http.lua.v3.Lua }";
    let early = |labels| {
        let text = format!(
            "{}---\n{}",
            own("app: a"),
            of(labels, patch("HTTP_FILTER", "INSERT_FIRST", "", lua))
        );
        self::kinds(&text).contains(&Kind::EarlyFilter)
    };
    assert!(early("app: a") && early("") && !early("app: b"));
}

/// The name under which a route configures it is not known.
#[test]
fn a_filter_without_a_name_may_be_off_on_a_route() {
    let config = "'@type': x/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz\n";
    let table = |kind: &str| {
        let off =
            format!("typed_per_filter_config: {{ b: {{ '@type': x/{kind}, disabled: true }} }}");
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
    let map =
        |entry: &str| format!("kind: ConfigMap\ndata:\n  envoy.yaml: |\n    {filter}\n  {entry}\n");
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
    let manager =
        |filters: &str, routes: &str| format!("- http_filters: [{filters}]\n  {routes}\n");
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
    let listeners = "---\nresources: [{ '@type': type.googleapis.com/envoy.config.listener.v3.Listener, name: l }]\n";
    assert!(!kinds(&format!("{lds}{listeners}")).contains(&Kind::UnseenListeners));
    let proxy = "filter_chains: [{ filters: [{ name: p, typed_config: { '@type': x/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy } }] }]";
    for listeners in [
        format!("{{ name: l, address: {{}}, {proxy} }}\n"),
        format!("- {{ name: l, address: {{}}, {proxy} }}\n"),
        "{ name: l, default_filter_chain: { filters: [] } }\n".to_owned(),
    ] {
        let kinds = kinds(&format!("{lds}---\n{listeners}"));
        assert!(!kinds.contains(&Kind::UnseenListeners), "{listeners} {kinds:?}");
    }
    // Which of two tables a scope leads to is not known.
    let scoped =
        "scoped_routes: { name: s, scoped_rds: { scoped_rds_config_source: { ads: {} } } }";
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

/// Envoy joins the lists of both spellings of a field. If only one were read, what is in the other
/// would not be found.
#[test]
fn a_field_in_two_spellings_is_an_error() {
    let manager = |more: &str| format!("{{ http_filters: [{{ {FILTER} }}], {more} }}");
    let upgrades = "[{ upgrade_type: websocket, filters: [{ name: envoy.filters.http.router }] }]";
    assert!(
        kinds(&manager(&format!("upgradeConfigs: {upgrades}"))).contains(&Kind::UpgradeFilters)
    );
    let twice = manager(&format!("upgrade_configs: [], upgradeConfigs: {upgrades}"));
    let problems = |text: &str| lint(Path::new("envoy.yaml"), text.as_bytes(), &[]).unwrap_err();
    for (text, count) in
        [(twice.clone(), 1), (format!("{}\n---\n[{twice}]\n---\n{twice}", manager("")), 2)]
    {
        let problems = problems(&text);
        assert_eq!(problems.len(), count, "{problems:?}");
        let is_expected = |problem: &document::Problem| {
            problem.to_string().contains("upgradeConfigs`: this field is here in two spellings")
        };
        assert!(problems.iter().all(is_expected), "{problems:?}");
    }
    // Names are no fields, nor is what is in values of any content, such as those that
    // `/config_dump` prints.
    let free = "{ aB: [{ cD: 1, c_d: 2 }], a_b: ~ }";
    for more in [
        format!("metadata: {{ filter_metadata: {free} }}"),
        format!("node: {{ metadata: {free} }}"),
        format!("config: {{ '@type': type.googleapis.com/google.protobuf.Struct, value: {free} }}"),
        "typed_per_filter_config: { aB: {}, a_b: {} }".to_owned(),
    ] {
        kinds(&manager(&more));
    }
}
