//! Routes: their targets, and settings that turn off authorization or bodies.

use document::View;
use serde_json::Value;

use crate::filter::type_of;
use crate::{Findings, Kind, client_routing, setting_unless_false};

/// The target of a route.
#[derive(Debug)]
pub(crate) enum Target<'n> {
    /// The name of a cluster.
    Cluster(View<'n>),
    /// A header of the request has the name of the cluster.
    Header(View<'n>),
    /// A plugin chooses the cluster.
    Plugin(View<'n>),
}

/// `applyTo` of the `EnvoyFilter` patches whose value has routes, or settings of routes.
const PATCHED: [&str; 3] = ["HTTP_ROUTE", "ROUTE_CONFIGURATION", "VIRTUAL_HOST"];

/// A route or virtual host outside of a table: a separate document, or the value that an
/// `EnvoyFilter` merges into Istio's routes. Such a value may be any part of a route, such as a
/// `route` without a `match`.
pub(crate) fn lone<'n>(view: &View<'n>) -> Option<View<'n>> {
    if view.text_of("apply_to").is_some_and(|to| PATCHED.contains(&to)) {
        // A value with virtual hosts is a table.
        return view.get("patch/value").filter(|value| value.get("virtual_hosts").is_none());
    }
    let has_match = |route: &View<'_>| route.get("match").is_some();
    // In a `VirtualService` of Istio, `route` is a list.
    let has_action = view.get("route").is_some_and(|action| !action.entries().is_empty());
    let is_lone = view.get("typed_per_filter_config").is_some()
        || (has_match(view) && has_action)
        || view.list("routes").iter().any(has_match);
    is_lone.then(|| view.clone())
}

/// The names of a connection manager's route tables.
pub(crate) fn table_names<'n>(manager: &View<'n>) -> Vec<&'n str> {
    sources(manager).iter().flat_map(names_below).collect()
}

/// A connection manager's settings for routes from elsewhere.
fn sources<'n>(manager: &View<'n>) -> Vec<View<'n>> {
    ["rds", "scoped_routes"].iter().filter_map(|key| manager.get(key)).collect()
}

fn names_below<'n>(source: &View<'n>) -> Vec<&'n str> {
    let names = values_below(source, &["route_config_name", "route_configuration_name"]);
    names.iter().filter_map(View::text).collect()
}

/// The outermost values below `view` under these keys.
fn values_below<'n>(view: &View<'n>, keys: &[&str]) -> Vec<View<'n>> {
    let mut values = Vec::new();
    view.walk(&mut |key, value| {
        let matches = keys.contains(&key);
        values.extend(matches.then(|| value.clone()));
        !matches
    });
    values
}

/// Reports sources of routes whose tables are not in the file.
pub(crate) fn lint_unseen(manager: &View<'_>, tables: &[View<'_>], findings: &mut Findings) {
    let is_table = |name: &&str| tables.iter().any(|table| table.text_of("name") == Some(name));
    let mut unseen = sources(manager);
    unseen.retain(|source| {
        let names = names_below(source);
        // A source without a name may use any table.
        tables.is_empty() || names.is_empty() || !names.iter().all(is_table)
    });
    unseen.extend(manager.get("route_config/vhds"));
    unseen.iter().for_each(|source| findings.add_kind(source, Kind::UnseenRoutes));
}

/// The targets of the routes below this value, including mirrors of requests.
pub(crate) fn targets<'n>(view: &View<'n>) -> Vec<Target<'n>> {
    let mut targets = Vec::new();
    view.walk(&mut |key, value| {
        match key {
            "cluster" if value.text().is_some() => targets.push(Target::Cluster(value.clone())),
            "cluster_header" => targets.push(Target::Header(value.clone())),
            "inline_cluster_specifier_plugin" if client_routing::is_matcher(value) => return true,
            "cluster_specifier_plugin" | "inline_cluster_specifier_plugin" => {
                targets.push(Target::Plugin(value.clone()));
            }
            "weighted_clusters" => {
                let clusters = value.list("clusters");
                let names = clusters.iter().filter_map(|cluster| cluster.get("name"));
                targets.extend(names.map(Target::Cluster));
                return true;
            }
            "http_filters" | "access_log" | "typed_per_filter_config" => {}
            _ => return true,
        }
        false
    });
    targets
}

/// Reports routes on which a header, or the path, decides which cluster or host gets the request.
pub(crate) fn lint_client_routing(view: &View<'_>, findings: &mut Findings) {
    view.walk(&mut |key, value| {
        let items = value.one_or_more();
        match key {
            "cluster_header" | "host_rewrite_header" => {
                client_routing::report_header(value, findings);
            }
            "host_rewrite_path_regex" => client_routing::report("its path", value, findings),
            "inline_cluster_specifier_plugin" => client_routing::lint_plugin(value, findings),
            "cluster_specifier_plugins" => {
                items.iter().for_each(|plugin| client_routing::lint_plugin(plugin, findings));
            }
            "on_request_headers" => {
                items.iter().for_each(|state| client_routing::lint_state(state, findings));
            }
            // A format, such as `%REQ(x-host)%`.
            "host_rewrite" if value.text().is_some_and(|text| text.contains('%')) => {
                client_routing::report_header(value, findings);
            }
            "http_filters" | "access_log" => {}
            _ => return true,
        }
        false
    });
}

/// Whether a route or virtual host says that Envoy sends each body (`context_extensions`).
pub(crate) fn announce_bodies(view: &View<'_>) -> bool {
    let path = "check_settings/context_extensions/request_body";
    view.any(&|view| view.text_of(path) == Some("buffered"))
}

/// Whether a route or virtual host has Envoy send bodies.
pub(crate) fn have_bodies_sent(view: &View<'_>) -> bool {
    view.any(&|view| view.get("check_settings/with_request_body").is_some())
}

/// Reports routes that do not send bodies, although a route or its virtual host announces them.
pub(crate) fn lint_unsent_bodies(view: &View<'_>, findings: &mut Findings) {
    view.walk(&mut |key, settings| {
        let announced = settings.get("context_extensions/request_body");
        if key == "check_settings"
            && announced.is_none_or(|announced| announced.text() == Some("buffered"))
        {
            let message = "bodies are not sent here, but a route or its virtual host announces \
                           them: rolegate decides about requests to a search cluster as if they \
                           had none";
            let fix = "context_extensions: { request_body: streamed }";
            let key = "disable_request_body_buffering";
            findings.add_if_on(settings, key, Kind::MissingBodies, message, fix);
        }
        true
    });
}

/// Reports routes, virtual hosts and weighted clusters on which the filters with these names are
/// off.
pub(crate) fn lint_disabled(view: &View<'_>, names: &[&str], findings: &mut Findings) {
    for (name, config) in filter_configs(view, names) {
        if let Some(at) = disabled(&config) {
            let message = format!("`{name}` is off here: requests pass without authorization");
            let fix = "leave this out; if a path is public, allow it to `anyone` in the policy";
            findings.add(&at, Kind::DisabledRoute, message, fix);
        }
    }
}

/// `check_settings` of routes, virtual hosts and weighted clusters for the filters with these
/// names.
pub(crate) fn check_settings<'n>(view: &View<'n>, names: &[&str]) -> Vec<View<'n>> {
    let configs =
        filter_configs(view, names).into_iter().flat_map(|(_, config)| unwrapped(&config));
    configs.filter_map(|config| config.get("check_settings")).collect()
}

/// Whether a route, virtual host or weighted cluster turns on this disabled filter: each
/// configuration of the filter does, unless it is `disabled` itself.
pub(crate) fn enable(view: &View<'_>, name: &str) -> bool {
    filter_configs(view, &[name]).iter().any(|(_, config)| !config.is_true("disabled"))
}

/// Whether routes may have different configurations of this filter: a virtual host or a part of it
/// has such a configuration.
pub(crate) fn differ(view: &View<'_>, name: &str) -> bool {
    let mut parts = values_below(view, &["virtual_hosts"]);
    if parts.is_empty() {
        parts.push(view.clone());
    }
    parts.iter().any(|part| !filter_configs(part, &[name]).is_empty())
}

/// The first CORS policy below this value.
pub(crate) fn cors_policy<'n>(view: &View<'n>) -> Option<View<'n>> {
    let mut policy = None;
    view.walk(&mut |_, value| {
        if policy.is_none() && value.get("allow_origin_string_match").is_some() {
            policy = Some(value.clone());
        }
        policy.is_none()
    });
    policy
}

/// The tables and lone routes that a connection manager may have.
pub(crate) fn of_manager<'a, 'n>(manager: &View<'n>, routes: &[&'a View<'n>]) -> Vec<&'a View<'n>> {
    let names = table_names(manager);
    let mut routes = routes.to_vec();
    routes.retain(|table| {
        table.get("virtual_hosts").is_none()
            || table.text_of("name").is_none_or(|name| names.contains(&name))
    });
    routes
}

/// Name of a filter without a name. Any configuration of its type on a route applies to it.
pub(crate) const UNNAMED: &str = "";

/// The configurations below this value for the filters with these names.
pub(crate) fn filter_configs<'n>(view: &View<'n>, names: &[&str]) -> Vec<(String, View<'n>)> {
    let configs = values_below(view, &["typed_per_filter_config"]);
    let configs = configs.iter().flat_map(View::entries_as_written).filter(|(name, config)| {
        names.contains(&&**name) || (names.contains(&UNNAMED) && is_of_authorizer(config))
    });
    configs.collect()
}

/// Whether this configures `ext_authz` or a dynamic module.
fn is_of_authorizer(config: &View<'_>) -> bool {
    unwrapped(config).iter().filter_map(type_of).any(|kind| {
        kind.ends_with(".ExtAuthzPerRoute") || kind.ends_with(".DynamicModuleFilterPerRoute")
    })
}

/// The setting that turns the filter off, in `ExtAuthzPerRoute`, `FilterConfig` or the
/// configuration of rolegate's library.
fn disabled<'n>(config: &View<'n>) -> Option<View<'n>> {
    unwrapped(config).into_iter().find_map(|view| {
        setting_unless_false(&view, "disabled")
            .or_else(|| view.get("filter_config").filter(turns_module_off))
    })
}

/// The configuration of a filter, and the values nested in it if it is a `FilterConfig`,
/// `TypedStruct` or `Any`.
fn unwrapped<'n>(config: &View<'n>) -> Vec<View<'n>> {
    let inner = ["value", "config", "filter_config"].iter().filter_map(|key| config.get(key));
    let inner = inner.flat_map(|config| unwrapped(&config));
    [config.clone()].into_iter().chain(inner).collect()
}

/// Whether this `filter_config` of a route turns rolegate's module off. A value that cannot be read
/// counts as off, and so does a `Struct` that is a text. Any other `Struct` does not count here,
/// because [`unwrapped`] returns its fields.
fn turns_module_off(filter_config: &View<'_>) -> bool {
    let text = filter_config.text_of("value");
    match type_of(filter_config) {
        Some("google.protobuf.StringValue") => match text.map(serde_json::from_str) {
            Some(Ok(Value::Object(settings))) => {
                settings.get("disabled").is_some_and(|disabled| *disabled != Value::Bool(false))
            }
            _ => true,
        },
        Some("google.protobuf.Struct") => text.is_some(),
        Some(_) => true,
        None => filter_config.text().is_some(),
    }
}
