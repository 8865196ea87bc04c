//! Settings that let a client choose the cluster, host or address that gets its request: headers,
//! filter state, and plugins that choose the cluster of a route (cluster specifiers).

use document::View;

use crate::filter::type_of;
use crate::{Findings, Kind, has_text};

/// Envoy's own filter state that affects neither where a request goes nor which peer is accepted.
const HARMLESS: [&str; 3] = [
    "envoy.ratelimit.hits_addend",
    "envoy.tcp_proxy.disable_tunneling",
    "envoy.tcp_proxy.per_connection_idle_timeout_ms",
];

/// The state that a filter `set_filter_state` sets.
pub(crate) fn states<'n>(config: &View<'n>) -> Vec<View<'n>> {
    let lists = config.entries().into_iter().flat_map(|(_, list)| list.one_or_more());
    lists.filter(|state| state.get("object_key").is_some()).collect()
}

/// The value of this state, if the configuration alone decides it.
pub(crate) fn literal<'n>(state: &View<'n>) -> Option<View<'n>> {
    let text = state.get("format_string/text_format_source/inline_string");
    text.filter(|text| text.text().is_some_and(|text| !text.contains('%')))
}

/// Reports filter state that decides where a request goes and has a format, which may use a header
/// of the client.
pub(crate) fn lint_state(state: &View<'_>, findings: &mut Findings) {
    let key = state.text_of("object_key").unwrap_or_default();
    if key.starts_with("envoy.") && !HARMLESS.contains(&key) && literal(state).is_none() {
        report(&format!("a format for `{key}`"), state, findings);
    }
}

/// Reports a setting that takes the cluster or host from a header, or from a format.
pub(crate) fn report_header(value: &View<'_>, findings: &mut Findings) {
    report(&format!("`{}`", value.text().unwrap_or_default()), value, findings);
}

/// Reports a setting that takes the cluster or host from `source`, a part of the request.
pub(crate) fn report(source: &str, value: &View<'_>, findings: &mut Findings) {
    let message = format!(
        "the client chooses the cluster or host that gets the request with {source}, whereas the \
         policy decides by the host in the request"
    );
    let fix = "write `cluster` and `host_rewrite_literal`, or let the policy set or remove the \
               header and accept this";
    findings.add(value, Kind::ClientRouting, message, fix);
}

const CONFIG: &str = "extension/typed_config";
const LUA: &str = "envoy.extensions.router.cluster_specifiers.lua.v3.LuaConfig";
const MATCHER: &str =
    "envoy.extensions.router.cluster_specifiers.matcher.v3.MatcherClusterSpecifier";

/// Whether a plugin chooses one of the clusters in its configuration, as routes do.
pub(crate) fn is_matcher(plugin: &View<'_>) -> bool {
    plugin.get(CONFIG).is_some_and(|config| type_of(&config) == Some(MATCHER))
}

/// Reports a plugin that may let a client choose the cluster.
pub(crate) fn lint_plugin(plugin: &View<'_>, findings: &mut Findings) {
    let config = plugin.get(CONFIG);
    let reads_headers = |config: View<'_>| has_text(&config, &|code| code.contains("headers"));
    match config.as_ref().and_then(type_of) {
        Some(MATCHER) => {}
        Some(LUA) if config.is_some_and(reads_headers) => {
            report("headers that this code reads", plugin, findings);
        }
        Some(_) | None => findings.add_kind(plugin, Kind::PluginRouting),
    }
}
