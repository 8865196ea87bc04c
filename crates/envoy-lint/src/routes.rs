//! Routes: where they lead, and where they turn authorization or bodies off.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use document::View;
use serde_json::Value;

use crate::filter::type_of;
use crate::values::{LINT_DUMP, has, inner, unless_off};
use crate::{Findings, Kind, client_routing};

/// Where a route leads.
#[derive(Debug)]
pub(crate) enum Target<'n> {
    /// The name of a cluster.
    Cluster(View<'n>),
    /// A header of the request that has the name.
    Header(View<'n>),
    /// A plugin that finds the name.
    Plugin(View<'n>),
}

/// What a patch of an `EnvoyFilter` changes whose value has routes, or settings of routes.
const PATCHED: [&str; 3] = ["HTTP_ROUTE", "ROUTE_CONFIGURATION", "VIRTUAL_HOST"];

/// A route, a virtual host, or settings of one, outside of a table: a document of its own, or what an `EnvoyFilter` merges into
/// the routes of Istio. Such a patch may have any part of one, such as a `route` without a `match`.
pub(crate) fn lone<'n>(view: &View<'n>) -> Option<View<'n>> {
    if view.text_of("apply_to").is_some_and(|to| PATCHED.contains(&to)) {
        // One with virtual hosts is a table.
        return view.at(&["patch", "value"]).filter(|value| value.get("virtual_hosts").is_none());
    }
    let has_match = |route: &View<'_>| route.get("match").is_some();
    // In a `VirtualService` of Istio, `route` is a list.
    let has_action = view.get("route").is_some_and(|action| !action.entries().is_empty());
    let is_lone = view.get("typed_per_filter_config").is_some()
        || (has_match(view) && has_action)
        || view.list("routes").iter().any(has_match);
    is_lone.then(|| view.clone())
}

/// The names of the tables that a connection manager takes its routes from.
pub(crate) fn table_names<'n>(manager: &View<'n>) -> Vec<&'n str> {
    let mut found = Vec::new();
    elsewhere(manager).iter().for_each(|source| collect_table_names(source, &mut found));
    found
}

/// What says that the routes are not in the connection manager.
fn elsewhere<'n>(manager: &View<'n>) -> Vec<View<'n>> {
    ["rds", "scoped_routes"].iter().filter_map(|key| manager.get(key)).collect()
}

fn collect_table_names<'n>(view: &View<'n>, found: &mut Vec<&'n str>) {
    for (key, value) in view.entries() {
        match &*key {
            "route_config_name" | "route_configuration_name" => found.extend(value.text()),
            _ => collect_table_names(&value, found),
        }
    }
    view.items().iter().for_each(|item| collect_table_names(item, found));
}

/// Reports routes of a connection manager that are in none of these tables.
pub(crate) fn lint_unseen(manager: &View<'_>, tables: &[&View<'_>], findings: &mut Findings) {
    let is_unseen = |source: &View<'_>| {
        let mut names = Vec::new();
        collect_table_names(source, &mut names);
        // Without a name it can be any of them.
        tables.is_empty()
            || names.is_empty()
            || !names.iter().all(|name| tables.iter().any(|table| table.text_of("name") == Some(name)))
    };
    let mut unseen = elsewhere(manager);
    unseen.retain(is_unseen);
    unseen.extend(manager.at(&["route_config", "vhds"]));
    for at in unseen {
        let message = "the routes are not in this file: whether one leads past authorization cannot be seen";
        findings.add(&at, Kind::UnseenRoutes, message, LINT_DUMP);
    }
}

/// Where the routes below this value lead, also copies of requests.
pub(crate) fn targets<'n>(view: &View<'n>) -> Vec<Target<'n>> {
    let mut found = Vec::new();
    for (key, value) in view.entries() {
        match &*key {
            "cluster" if value.text().is_some() => found.push(Target::Cluster(value)),
            "cluster_header" => found.push(Target::Header(value)),
            "inline_cluster_specifier_plugin" if client_routing::is_matcher(&value) => {
                found.extend(targets(&value))
            }
            "cluster_specifier_plugin" | "inline_cluster_specifier_plugin" => {
                found.push(Target::Plugin(value))
            }
            "weighted_clusters" => {
                let names = value.list("clusters").into_iter().filter_map(|one| one.get("name"));
                found.extend(names.map(Target::Cluster));
                found.extend(targets(&value));
            }
            "http_filters" | "access_log" | "typed_per_filter_config" => {}
            _ => found.extend(targets(&value)),
        }
    }
    found.extend(view.items().iter().flat_map(targets));
    found
}

/// Routes on which a header of the request decides which cluster or host gets it.
pub(crate) fn lint_client_routing(view: &View<'_>, findings: &mut Findings) {
    for (key, value) in view.entries() {
        match &*key {
            "cluster_header" | "host_rewrite_header" => client_routing::by_header(&value, findings),
            "host_rewrite_path_regex" => client_routing::by("its path", &value, findings),
            "inline_cluster_specifier_plugin" => client_routing::lint_plugin(&value, findings),
            "cluster_specifier_plugins" => {
                value.one_or_more().iter().for_each(|plugin| client_routing::lint_plugin(plugin, findings));
            }
            "on_request_headers" => {
                value.one_or_more().iter().for_each(|state| client_routing::lint_state(state, findings));
            }
            // A format, such as `%REQ(x-host)%`.
            "host_rewrite" if value.text().is_some_and(|text| text.contains('%')) => {
                client_routing::by_header(&value, findings);
            }
            "http_filters" | "access_log" => {}
            _ => lint_client_routing(&value, findings),
        }
    }
    view.items().iter().for_each(|item| lint_client_routing(item, findings));
}

/// Whether a route or virtual host says what happens to bodies (`context_extensions`).
pub(crate) fn say_that_bodies_are_sent(view: &View<'_>) -> bool {
    let path = ["check_settings", "context_extensions", "request_body"];
    has(view, &|view| view.at(&path).is_some_and(|body| body.text() == Some("buffered")))
}

/// Whether a route or virtual host has bodies sent.
pub(crate) fn have_bodies_sent(view: &View<'_>) -> bool {
    has(view, &|view| view.at(&["check_settings", "with_request_body"]).is_some())
}

/// Routes that turn off the sending of bodies, and do not take back that each is sent, as others say.
pub(crate) fn lint_unsent_bodies(view: &View<'_>, findings: &mut Findings) {
    let off = "disable_request_body_buffering";
    let is_wrong = |settings: &View<'_>| {
        let said = settings.at(&["context_extensions", "request_body"]);
        unless_off(settings, off).is_some() && said.is_none_or(|said| said.text() == Some("buffered"))
    };
    if let Some(settings) = view.get("check_settings").filter(is_wrong) {
        let at = settings.get(off).unwrap_or(settings);
        let message = "bodies are not sent here, but a route or its virtual host says that each is: rolegate decides about \
                       requests to a search cluster as if they had none";
        let fix = "context_extensions: { request_body: streamed }";
        findings.add(&at, Kind::MissingBodies, message, fix);
    }
    inner(view).iter().for_each(|value| lint_unsent_bodies(value, findings));
}

/// Routes, virtual hosts and weighted clusters on which the filters with these names are off.
pub(crate) fn lint_disabled(view: &View<'_>, names: &[&str], findings: &mut Findings) {
    for (name, config) in filter_configs(view, names) {
        if let Some(at) = disabled(&config) {
            let message = format!("`{name}` is off here: requests pass without authorization");
            let fix = "leave this out; where a path is for everyone, allow it to `anyone` in the policy";
            findings.add(&at, Kind::DisabledRoute, message, fix);
        }
    }
}

/// What routes, virtual hosts and weighted clusters say about the checks of the filters with these names.
pub(crate) fn check_settings<'n>(view: &View<'n>, names: &[&str]) -> Vec<View<'n>> {
    let configs = filter_configs(view, names).into_iter().flat_map(|(_, config)| unwrapped(&config));
    configs.filter_map(|config| config.get("check_settings")).collect()
}

/// Whether a route, virtual host or weighted cluster turns this filter on, which is off elsewhere: any configuration does.
pub(crate) fn enable(view: &View<'_>, name: &str) -> bool {
    filter_configs(view, &[name]).iter().any(|(_, config)| !config.is_true("disabled"))
}

/// Whether one of these routes has another configuration of this filter than others: not that of the whole table.
pub(crate) fn differ(view: &View<'_>, name: &str) -> bool {
    let is_table = !hosts(view).is_empty();
    let parts = if is_table { hosts(view) } else { vec![view.clone()] };
    parts.iter().any(|part| !filter_configs(part, &[name]).is_empty())
}

/// The first policy for CORS below this value.
pub(crate) fn cors_policy<'n>(view: &View<'n>) -> Option<View<'n>> {
    if view.get("allow_origin_string_match").is_some() {
        return Some(view.clone());
    }
    inner(view).iter().find_map(cors_policy)
}

/// The lists of virtual hosts below this value.
fn hosts<'n>(view: &View<'n>) -> Vec<View<'n>> {
    let below = view
        .entries()
        .into_iter()
        .flat_map(|(key, value)| if key == "virtual_hosts" { vec![value] } else { hosts(&value) });
    below.chain(view.items().iter().flat_map(hosts)).collect()
}

/// Of these tables and lone routes, those that a connection manager may have.
pub(crate) fn of_manager<'a, 'n>(manager: &View<'n>, all: &[&'a View<'n>]) -> Vec<&'a View<'n>> {
    let names = table_names(manager);
    let is_own = |table: &View<'_>| {
        table.get("virtual_hosts").is_none() || table.text_of("name").is_none_or(|name| names.contains(&name))
    };
    all.iter().copied().filter(|table| is_own(table)).collect()
}

/// The name of a filter that is given without one: any configuration of its type on a route is for it.
pub(crate) const UNNAMED: &str = "";

/// What is configured below this value for the filters with these names.
pub(crate) fn filter_configs<'n>(view: &View<'n>, names: &[&str]) -> Vec<(String, View<'n>)> {
    let mut found = Vec::new();
    for (key, value) in view.entries() {
        if key == "typed_per_filter_config" {
            let is_meant = |(name, config): &(String, View<'_>)| {
                names.contains(&&**name) || (names.contains(&UNNAMED) && is_of_authorizer(config))
            };
            found.extend(value.named_entries().into_iter().filter(is_meant));
        } else {
            found.extend(filter_configs(&value, names));
        }
    }
    found.extend(view.items().iter().flat_map(|item| filter_configs(item, names)));
    found
}

/// Whether the type of this configuration is that of `ext_authz`, or of a library.
fn is_of_authorizer(config: &View<'_>) -> bool {
    unwrapped(config).iter().any(|config| {
        let kind = type_of(config).unwrap_or_default();
        [".ExtAuthzPerRoute", ".DynamicModuleFilterPerRoute"].iter().any(|name| kind.ends_with(name))
    })
}

/// What turns the filter off: of `ExtAuthzPerRoute`, of `FilterConfig`, or of the library's own configuration.
fn disabled<'n>(config: &View<'n>) -> Option<View<'n>> {
    let off = |view: View<'n>| {
        let of_library = || view.get("filter_config").filter(is_off);
        unless_off(&view, "disabled").or_else(of_library)
    };
    unwrapped(config).into_iter().find_map(off)
}

/// The configuration of a filter, and what it may be inside of: a `FilterConfig`, a `TypedStruct`, or an `Any`, which may be inside of
/// each other.
fn unwrapped<'n>(config: &View<'n>) -> Vec<View<'n>> {
    let within = ["value", "config", "filter_config"].iter().filter_map(|key| config.get(key));
    let within = within.flat_map(|config| unwrapped(&config));
    [config.clone()].into_iter().chain(within).collect()
}

/// Like protocol buffers: with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether this `filter_config` of a route turns the library off. What cannot be read counts as off; the fields of a `Struct` are
/// for the caller to look at.
fn is_off(filter_config: &View<'_>) -> bool {
    let text = filter_config.text_of("value");
    match type_of(filter_config) {
        Some("google.protobuf.StringValue") => text.is_none_or(|json| is_off_in(json.as_bytes())),
        Some("google.protobuf.BytesValue") => text.and_then(bytes).is_none_or(|json| is_off_in(&json)),
        Some("google.protobuf.Struct") => text.is_some(),
        Some(_) => true,
        None => filter_config.text().is_some(),
    }
}

fn is_off_in(json: &[u8]) -> bool {
    match serde_json::from_slice(json) {
        Ok(Value::Object(settings)) => {
            settings.get("disabled").is_some_and(|disabled| *disabled != Value::Bool(false))
        }
        _ => true,
    }
}

/// Protocol buffers write bytes in JSON as base64, and read both of its alphabets.
fn bytes(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text.replace('-', "+").replace('_', "/")).ok()
}
